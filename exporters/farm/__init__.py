"""The state of the farm: consoles, outlets, places, USB devices, rail sensors, jobs, disks. One module a source."""
