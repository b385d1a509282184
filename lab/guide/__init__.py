"""Performance guides of the vendor's SDK releases: read them, find what is wrong in them, compare and write them."""
