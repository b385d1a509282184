"""Access to the exporter and the site: TLS, passwords, connection limits."""
