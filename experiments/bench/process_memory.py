"""Peak memory of a process: everything it holds, not torch's tensors alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def peak_of_process(module: str, *arguments: str) -> int:
    """Run `python -m module arguments`, which prints its own peak in bytes.

    Raises RuntimeError with the end of its standard error where it fails.
    """
    child = subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False
    )
    if child.returncode:
        raise RuntimeError(f"the process that measures memory failed: {child.stderr[-500:]}")
    return int(child.stdout)


def peak_of_this_process() -> int:
    """The most memory that this process has held so far, in bytes."""
    # Not getrusage: its figure outlives exec, and so holds what the parent used.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
