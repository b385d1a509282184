"""boardlab's Grafana dashboards as code; `python farm/grafana/build.py` writes them as JSON."""
