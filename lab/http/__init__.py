"""Access to what listens: TLS, passwords, limits of connections; for `lab exporter` and `lab web`."""
