"""A lab host: its configuration (farm.yaml), its services, the exporter's process, and runs on a timer."""
