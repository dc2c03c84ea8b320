"""Whose a process is."""

from collections.abc import Collection

import psutil

GENERATIONS_MAX = 20
"""How far up we look; an engine's workers are its children or theirs."""


def descends_from(pid: int, ancestors: Collection[int]) -> bool:
    """Whether a process is one of these or was started by one. One that has ended is nobody's."""
    try:
        for _ in range(GENERATIONS_MAX):
            if pid in ancestors:
                return True
            if pid <= 1:
                return False
            pid = psutil.Process(pid).ppid()
    except psutil.Error:
        return False
    return False
