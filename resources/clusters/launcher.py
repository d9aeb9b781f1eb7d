"""Starts the wrapper, detached, without leaving a zombie in the caller."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.clusters import wrapper

WRAPPER_MARKER = "LUCID_WRAPPER_FOR"
"""Names the attempt in a wrapper's own environment, so that ``fence`` finds it before it has written a word."""


def wrapper_source() -> Path:
    """The one file that runs attempts, here and on other machines."""
    return Path(wrapper.__file__)


def wrapper_digest() -> str:
    """Version of the wrapper: ``sha256`` of its source, in hexadecimal."""
    return hashlib.sha256(wrapper_source().read_bytes()).hexdigest()


def install_wrapper(folder: Path) -> Path:
    """Compile the wrapper once into ``folder``, named by hash, so that starts need not and upgrades cannot mix."""
    source = wrapper_source()
    target = folder / f"{wrapper_digest()[:16]}.{sys.implementation.cache_tag}.pyc"
    if not target.exists():
        code = compile(source.read_bytes(), "wrapper.py", "exec", dont_inherit=True)
        header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)  # hash-based, unchecked
        temporary = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        temporary.write_bytes(header + marshal.dumps(code))
        temporary.replace(target)
    return target


def start_wrapper(program: Path, spec_path: Path, attempt_id: str, env: Mapping[str, str], timeout_s: float) -> str:
    """Run the wrapper's foreground part; its supervisor outlives it. Returns the state that it reports.

    Raises:
        ExternalError: nothing was started, or it did not answer in time (then ``poll`` tells).
    """
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(program), str(spec_path)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**env, WRAPPER_MARKER: attempt_id},
            start_new_session=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ExternalError(
            f"the wrapper did not answer within {timeout_s:g} s (a slow disk?); launch it again: {attempt_id!r}"
        ) from error
    except OSError as error:
        raise ExternalError(f"the wrapper cannot be started: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-1000:] or f"exit status {done.returncode}"
        raise ExternalError(f"the wrapper of attempt {attempt_id!r} started nothing; launch it again: {said}")
    return str(json.loads(done.stdout)["state"])
