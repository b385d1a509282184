"""Performance guides of the vendor's SDK releases: read, check, compare and write."""
