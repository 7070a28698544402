"""The most memory that a child process has held, printed by itself."""

from __future__ import annotations

PEAK = """
import pathlib, resource, sys

def peak():
    # what getrusage says is at least what the parent held when it made this process
    try:
        status = pathlib.Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
"""
