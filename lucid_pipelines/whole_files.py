"""Write a file whole or not at all, whoever else writes it and whenever this process dies."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path, *, is_durable: bool = False) -> Iterator[Path]:
    """A path beside ``path`` to write to, which takes its place when the block ends without an error.

    Its folder is made when it is missing. Of two writers the later one wins; neither sees the other's half.

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


def write_whole(path: Path, text: str) -> None:
    """Write text as UTF-8 by ``whole_file``. Lone surrogates become question marks."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
