"""Folders as archives on a node: code that was sent once a content hash, checkpoints that move between nodes.

Sent to nodes (see ``agent_bundle.py``): standard library only, Python 3.9.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lucid_pipelines.domain.errors import ExternalError


class Body:
    """A stream of which so many bytes may be read and no more; ``left`` says how many are still to come."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self.left = size

    def read(self, size: int) -> bytes:
        data = self._source.read(min(size, self.left))
        self.left -= len(data)
        return data


KEPT_S = 14 * 86400.0
"""Archives that nobody used for so long are removed when another one arrives."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOCK = 1 << 20
_AS_PACKED: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
"""Newer Pythons want to be told; what may be in an archive is checked by ``_extract`` itself."""


def unpack_code(root: Path, digest: str, target: Path) -> bool:
    """Give a job its code; an existing copy stays. ``False`` when the archive is not here."""
    if target.is_dir():
        return True
    path = _archive(root, digest)
    try:
        os.utime(path)  # in use: not to be removed for a while
        with path.open("rb") as file:
            _extract(file, target, mode="r:gz")
    except FileNotFoundError:
        return False
    return True


def store(root: Path, digest: str, body: Body) -> None:
    """Keep an archive that arrives on a stream. Raises ``ExternalError`` when it is not what its name says."""
    path = _archive(root, digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_unused(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            hasher = hashlib.sha256()
            for block in _blocks(body):
                hasher.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if hasher.hexdigest() != digest:
            raise ExternalError(f"the archive was damaged on its way; launch again: {digest}")
        temporary.replace(path)
    finally:
        if temporary.exists():
            temporary.unlink()


def pack(folder: Path, max_bytes: int) -> bytes | None:
    """A folder as a compressed archive: empty when there is no such folder, ``None`` when it would be too large."""
    if not folder.is_dir():
        return b""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            if buffer.tell() + path.lstat().st_size > 4 * max_bytes:
                return None  # even well compressed
            archive.add(str(path), str(path.relative_to(folder)), recursive=False)
            if buffer.tell() > max_bytes:
                return None
    return buffer.getvalue()


def unpack(body: Body, target: Path) -> None:
    """Put an archive that arrives on a stream in the place of a folder, whole."""
    data = io.BytesIO(b"".join(_blocks(body)))
    aside = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.old")
    if target.exists():
        target.rename(aside)
    try:
        _extract(data, target, mode="r:gz")
    except BaseException:
        if aside.exists() and not target.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _extract(file: BinaryIO, target: Path, mode: str) -> None:
    """Unpack beside the target and rename; whoever comes second finds it done."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    temporary.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=file, mode=mode) as archive:  # pyright: ignore[reportCallIssue, reportArgumentType]
            for member in archive:
                parts = Path(member.name).parts
                known = member.isreg() or member.isdir() or member.issym()
                if not known or member.name.startswith("/") or ".." in parts:
                    raise ExternalError(f"the archive holds what it must not hold: {member.name!r}")
                if any((temporary / Path(*parts[:depth])).is_symlink() for depth in range(1, len(parts))):
                    raise ExternalError(f"the archive writes through a link: {member.name!r}")
                archive.extract(member, str(temporary), **_AS_PACKED)
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _archive(root: Path, digest: str) -> Path:
    if _DIGEST.fullmatch(digest) is None:
        raise ExternalError(f"an archive is named by its SHA-256; got {digest!r}")
    return root / "archives" / f"{digest}.tar.gz"


def _blocks(body: Body) -> Iterator[bytes]:
    while body.left:
        block = body.read(_BLOCK)
        if not block:
            raise ExternalError(f"the connection ended {body.left} bytes too early")
        yield block


def _drop_unused(folder: Path) -> None:
    for path in folder.iterdir():
        try:
            if time.time() - path.stat().st_mtime > KEPT_S:
                path.unlink()
        except OSError:
            continue
