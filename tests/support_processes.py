"""Runs a snippet in a process of its own, so that a test can kill, limit or demote it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def start(
    code: str, *arguments: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None, own_group: bool = False
) -> subprocess.Popen[str]:
    """Start ``code``; its ``sys.argv[1:]`` are the arguments, and ``env`` comes on top of our environment.

    Args:
        own_group: let it lead a process group, so that it can be killed with its children.
    """
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=own_group,
    )


def ended(process: subprocess.Popen[str], timeout_s: float = 60.0) -> str:
    """Wait until a process has ended well and return what it printed."""
    out, err = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, err
    return out


def run(code: str, *arguments: object) -> str:
    """Run ``code`` to its end and return what it printed."""
    return ended(start(code, *arguments))
