"""The old name of `lab.strategies`, for environments that say `imports: - strategies`. The next release has it no more.

A user's own folder `strategies` hides it; see `lab.env.envfile`.
"""

import warnings

from lab.strategies import BoardStrategy, Status

__all__ = ["BoardStrategy", "Status"]

warnings.warn(  # a FutureWarning, since Python shows no DeprecationWarning to those who run a program
    "`strategies` is now called `lab.strategies`; write `- lab.strategies` under `imports:` of your environment",
    FutureWarning,
    stacklevel=1,
)
