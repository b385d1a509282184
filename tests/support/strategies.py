"""BoardStrategy for tests, from the module that labgrid makes of its file: `boardstrategy`."""

import sys

from lab import shipped

sys.path.append(str(shipped.folder(shipped.STRATEGIES)))

from boardstrategy import BoardStrategy

__all__ = ["BoardStrategy"]
