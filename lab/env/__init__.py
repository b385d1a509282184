"""Environment files: found by a bare name, and checked for what labgrid itself lets pass."""
