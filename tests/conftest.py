"""What all tests of boardlab's own code share."""

from __future__ import annotations

import os
import signal

# A shell starts background jobs with SIGINT ignored, and programs inherit that. Tests that press Ctrl-C must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests read whole rows of tables; those of narrow screens say how narrow.
os.environ["COLUMNS"] = "200"
