"""Processes that a test starts and waits for."""

from __future__ import annotations

import subprocess


def said(child: subprocess.Popen[str], timeout_s: float) -> str:
    """What a child says until it ends; one that does not end in time is killed first.

    Raises:
        AssertionError: it did not end in time.
    """
    try:
        words, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        words, _ = child.communicate()
        raise AssertionError(f"it did not end within {timeout_s:g} s:\n{words}") from None
    except BaseException:
        child.kill()
        child.wait()
        raise
    return words
