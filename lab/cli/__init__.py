"""The `lab` command."""

from lab.cli.main import main

__all__ = ["main"]
