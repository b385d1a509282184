"""BoardStrategy for tests, from the module that labgrid makes of its file: `boardstrategy`."""

import sys

from lab import package_data

sys.path.append(str(package_data.folder(package_data.STRATEGIES)))

from boardstrategy import BoardStrategy

__all__ = ["BoardStrategy"]
