"""A job's code as one archive, named by its content: made once, sent once to each node."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError

KEPT_ARCHIVES = 64


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """A compressed archive on the control plane's disk; ``digest`` is its SHA-256, in hexadecimal."""

    digest: str
    path: Path


class CodeArchives:
    """Keeps the newest archives in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, code_dir: Path) -> CodeArchive:
        """Pack a folder; the same bytes for the same tree (names, contents, modes, links).

        Raises:
            ExternalError: it cannot be read, or the archive cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = self._folder / f".{os.getpid()}.{os.urandom(4).hex()}.tmp"
            try:
                with temporary.open("xb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed:
                    _write(code_dir, packed)
                digest = _digest(temporary)
                path = self._folder / f"{digest}.tar.gz"
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            self._drop_old(path)
        except OSError as error:
            raise ExternalError(f"the code cannot be packed: {error}: {code_dir}") from error
        return CodeArchive(digest, path)

    def _drop_old(self, fresh: Path) -> None:
        """The newest stay: an archive is only needed until the last of its nodes has it."""
        found = sorted(self._folder.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
        for path in found[:-KEPT_ARCHIVES]:
            if path != fresh:
                path.unlink(missing_ok=True)


def _write(code_dir: Path, packed: gzip.GzipFile) -> None:
    with tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        for path in sorted(code_dir.rglob("*")):
            if not (path.is_symlink() or path.is_file() or path.is_dir()):
                continue  # a socket or pipe that a job left in its folder
            header = archive.gettarinfo(str(path), str(path.relative_to(code_dir)))
            header.mtime, header.uid, header.gid, header.uname, header.gname = 0, 0, 0, "", ""
            if header.islnk():  # a second name of a file: sent as a file
                header.type, header.size = tarfile.REGTYPE, path.stat().st_size
            if header.isreg():
                with path.open("rb") as file:
                    archive.addfile(header, file)
            else:
                archive.addfile(header)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
