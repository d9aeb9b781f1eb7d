"""Runs a snippet in a process of its own, so that a test can kill, limit or demote it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start ``code``; its ``sys.argv[1:]`` are the arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, *arguments: object) -> str:
    """Run ``code`` to its end and return what it printed."""
    process = start(code, *arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out
