"""Writers of media, one module per way or its parts."""
