"""Environment files: lookup by name, and checks beyond labgrid's."""
