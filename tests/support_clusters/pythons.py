"""Other Pythons of this machine, to run what is sent to nodes with: nodes have theirs, not ours."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_SAY = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)"
OLDEST = "3.9"
NEWER = ("3.14", "3.13", "3.12", "3.11")
"""Of these the newest that is here stands for what nodes will have one day."""


@functools.cache
def find_python(version: str) -> Path | None:
    """The program of that version, e.g. ``3.9``; ``None`` when there is none.

    Looked for in ``LUCID_TEST_PYTHON_3_9``, on the PATH, and among the versions that pyenv keeps, whose programs on
    the PATH only say that they are not chosen.
    """
    for candidate in _candidates(version):
        try:
            done = subprocess.run([candidate, "-c", _SAY], capture_output=True, text=True, timeout=30, check=False)
        except OSError:
            continue
        found, _, program = done.stdout.strip().partition("\n")
        if done.returncode == 0 and found == version:
            return Path(program)
    return None


def require_python(version: str) -> Path:
    """The same; skips the test where there is none."""
    found = find_python(version)
    if found is None:
        pytest.skip(f"needs Python {version}: put python{version} on the PATH or name it in {_variable(version)}")
    return found


def newest_python() -> Path:
    """The newest that is here."""
    return next(found for found in (*map(find_python, NEWER),) if found is not None)


def _variable(version: str) -> str:
    return f"LUCID_TEST_PYTHON_{version.replace('.', '_')}"


def _candidates(version: str) -> Iterator[str]:
    named = os.environ.get(_variable(version))
    if named:
        yield named
    name = f"python{version}"
    if shutil.which(name) is not None:
        yield name
    if shutil.which("pyenv") is None:
        return
    for kept in _pyenv("whence", name).split():
        yield _pyenv("which", name, PYENV_VERSION=kept).strip()


def _pyenv(*words: str, **env: str) -> str:
    done = subprocess.run(
        ["pyenv", *words], capture_output=True, text=True, timeout=30, check=False, env={**os.environ, **env}
    )
    return done.stdout
