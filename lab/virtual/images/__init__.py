"""Small, deterministic images without root, mounts or network beyond one download.

The same inputs give the same bytes: every time stamp is EPOCH, every owner is root, every identifier is fixed.
"""

EPOCH = 1_700_000_000  # the time stamp of everything inside an image, in seconds since 1970
