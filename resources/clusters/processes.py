"""Which attempt a process belongs to."""

from __future__ import annotations

from pathlib import Path

from lucid_pipelines.resources.clusters import wrapper


def attempt_of(pid: int) -> str | None:
    """The attempt that a process's environment names; ``None`` when it names none or cannot be read."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = f"{wrapper.MARKER}=".encode()
    named = next((part for part in environ.split(b"\0") if part.startswith(prefix)), None)
    return None if named is None else named[len(prefix) :].decode("utf-8", "replace")
