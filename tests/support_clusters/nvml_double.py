"""Builds the stand-in for the NVIDIA driver's library and runs Python beside it.

In a process of its own, because a library that was loaded once stays: the tests of a machine without a GPU must
not meet it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
PRELUDE = """
import json, os, sys
from pathlib import Path
def state(text):
    target = Path(os.environ["FAKE_NVML_STATE"])
    target.with_suffix(".new").write_text(text)
    target.with_suffix(".new").replace(target)
def answer(value):
    print(json.dumps(value, default=str))
"""


class NvmlDouble:
    """A folder with ``libnvidia-ml.so.1`` and the file that says what it answers."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            pytest.skip("the stand-in for NVML needs a C compiler; install gcc")
        self.folder = folder
        self.state_file = folder / "state"
        library = folder / "libnvidia-ml.so.1"
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
        subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)

    def state(self, text: str) -> None:
        fresh = self.state_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.state_file)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML_STATE": str(self.state_file)}

    def run(self, script: str) -> list[Any]:
        """Run a script that calls ``state(text)`` and ``answer(value)``; return its answers."""
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + script],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


def gpu_line(
    uuid: str,
    *,
    name: str = "H200",
    util: int = 40,
    mem_util: int = 20,
    used_mib: int = 4_000,
    total_mib: int = 143_771,
    ecc: int = 0,
    lost: bool = False,
    pids: tuple[int, ...] = (),
) -> str:
    """One GPU in the stand-in's state."""
    processes = ",".join(map(str, pids)) or "-"
    return f"gpu {uuid} {name} {util} {mem_util} {used_mib} {total_mib} {ecc} 40 {int(lost)} {processes}\n"
