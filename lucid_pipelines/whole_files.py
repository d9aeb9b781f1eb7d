"""Write a file whole or not at all, whoever else writes it and whenever this process dies."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

_LEFT = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")
_LEFT_AFTER_S = 86_400.0
"""What nobody has written to for so long belongs to a writer that was killed."""


@contextlib.contextmanager
def whole_file(path: Path, *, is_durable: bool = False) -> Iterator[Path]:
    """A path beside ``path`` to write to, which takes its place when the block ends without an error.

    Its folder is made when it is missing. Of two writers the later one wins; neither sees the other's half. What
    writers that were killed more than a day ago have left in the folder is removed.

    Args:
        is_durable: wait until the content is on the disk, so that a power cut leaves the old file or the new one.

    Raises:
        OSError: the file cannot be written; nothing is left of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if is_durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong first is what is told
            temporary.unlink(missing_ok=True)
        raise
    _sweep(path.parent)


def write_whole(path: Path, text: str) -> None:
    """Write text as UTF-8 by ``whole_file``. Lone surrogates become question marks."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")


def _sweep(folder: Path) -> None:
    """Remove what killed writers have left. That it cannot be done is no fault of the file that was just written."""
    before_s = time.time() - _LEFT_AFTER_S
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        left = [entry for entry in entries if _LEFT.fullmatch(entry.name)]
        for entry in left:
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False) and entry.stat().st_mtime < before_s:
                    Path(entry.path).unlink()
