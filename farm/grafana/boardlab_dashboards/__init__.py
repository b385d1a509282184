"""boardlab's Grafana dashboards as code; `python farm/grafana/build.py` writes them as JSON."""

import warnings

# The SDK's builders say so when they are imported. The older schema is the one that files are provisioned in.
warnings.filterwarnings("ignore", "Prefer using", DeprecationWarning)
