"""Read-only, bounded access to a job's snapshot (R-43).

Paths are resolved before they are compared with the root; links that lead out, devices, pipes, secrets,
binary and oversized files are refused, and every refusal is counted.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lucid_pipelines.domain.errors import NotFoundError

SECRET_NAMES = re.compile(
    r"(^|/)(\.env(\..*)?|\.netrc|\.npmrc|\.pypirc|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)(\.pub)?"
    r"|credentials(\.json|\.ya?ml|\.toml)?|secrets?\.(json|ya?ml|toml|txt|env)|\.?htpasswd"
    r"|.*\.(pem|key|p12|pfx|kdbx|keystore|jks))$",
    re.IGNORECASE,
)
SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".tox",
        ".ipynb_checkpoints",
        "wandb",
        "site-packages",
    }
)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds on what one reading of a snapshot may touch."""

    file_bytes: int = 2 * 1024 * 1024
    notebook_bytes: int = 8 * 1024 * 1024
    total_bytes: int = 48 * 1024 * 1024
    files: int = 3_000
    listed_entries: int = 40_000
    folder_entries: int = 5_000


class SourceTree:
    """The files below one root. Nothing outside it is ever opened.

    Attributes:
        skipped: how many files were refused, by reason.

    Raises:
        NotFoundError: from the constructor when ``root`` is no folder.
    """

    def __init__(self, root: Path, limits: ReadLimits | None = None) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise NotFoundError(f"the snapshot to read must be a folder; got {str(root)!r}")
        self.limits = limits or ReadLimits()
        self.skipped: Counter[str] = Counter()
        self.files_read = 0
        self.bytes_read = 0
        self._texts: dict[str, str | None] = {}
        self._kinds: dict[str, str | None] = {}
        self._listings: dict[str, dict[str, str] | None] = {}
        self._listed = 0
        self._folders: dict[str, tuple[list[str], list[str]]] = {}

    def is_file(self, path: str) -> bool:
        """Whether ``path`` (relative to the root) is a regular file inside the root."""
        return self._kind(path) == "file"

    def is_dir(self, path: str) -> bool:
        """Whether ``path`` (relative to the root) is a folder inside the root."""
        return self._kind(path) == "folder"

    def relative(self, path: str, base: str = "") -> str | None:
        """Normalise ``path`` against the folder ``base``; ``None`` when it leaves the root.

        An absolute path is accepted when it lies below the root.
        """
        if "\0" in path or len(path) > 1024:
            return None
        if path.startswith("/"):
            try:
                parts = list(PurePosixPath(path).relative_to(str(self.root)).parts)
            except ValueError:
                return None
        else:
            parts = [*PurePosixPath(base).parts, *PurePosixPath(path).parts]
        kept: list[str] = []
        for part in parts:
            if part == ".":
                continue
            if part == "..":
                if not kept:
                    return None
                kept.pop()
            else:
                kept.append(part)
        return "/".join(kept)

    def read_text(self, path: str) -> str | None:
        """The text of a file, decoded with replacement, or ``None`` when it may not or cannot be read."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def children(self, folder: str) -> tuple[list[str], list[str]]:
        """Names of the sub-folders and of the files of one folder, sorted, bounded."""
        if folder not in self._folders:
            self._folders[folder] = self._scan(folder)
        return self._folders[folder]

    def walk(self, folder: str = "", max_depth: int = 12) -> Iterator[str]:
        """Paths of regular files below ``folder``, breadth first, bounded by ``limits.listed_entries``."""
        level = [folder]
        for _ in range(max_depth):
            below: list[str] = []
            for name in level:
                folders, files = self.children(name)
                prefix = f"{name}/" if name else ""
                yield from (prefix + file for file in files)
                below += [prefix + child for child in folders if child not in SKIPPED_FOLDERS]
            if not below:
                return
            level = below

    def _kind(self, path: str) -> str | None:
        if path not in self._kinds:
            self._kinds[path] = self._look(path)
        return self._kinds[path]

    def _look(self, path: str) -> str | None:
        """``file``, ``folder`` or ``None``; listings are kept, so that a search of many names is cheap."""
        normal = self.relative(path)
        if normal is None:
            return None
        if not normal:
            return "folder"
        parent, _, name = normal.rpartition("/")
        if self._kind(parent) != "folder":
            return None
        entries = self._entries(parent)
        if entries is not None:
            kind = entries.get(name)
            if kind != "link":
                return kind
        return self._stat(normal)

    def _entries(self, folder: str) -> dict[str, str] | None:
        """Kinds of the entries of a folder; ``None`` when there are too many to keep."""
        if folder not in self._listings:
            self._listings[folder] = self._list(folder)
        return self._listings[folder]

    def _list(self, folder: str) -> dict[str, str] | None:
        real = self._inside(folder)
        found: dict[str, str] = {}
        if real is None:
            return found
        try:
            with os.scandir(real) as entries:
                for count, entry in enumerate(entries):
                    if count >= self.limits.folder_entries:
                        return None
                    if entry.is_symlink():
                        found[entry.name] = "link"
                    elif entry.is_dir(follow_symlinks=False):
                        found[entry.name] = "folder"
                    elif entry.is_file(follow_symlinks=False):
                        found[entry.name] = "file"
        except OSError:
            self.skipped["folder cannot be listed"] += 1
        return found

    def _stat(self, path: str) -> str | None:
        inside = self._inside(path)
        if inside is None:
            return None
        try:
            mode = inside.stat().st_mode
        except (OSError, ValueError):
            return None
        if stat.S_ISREG(mode):
            return "file"
        return "folder" if stat.S_ISDIR(mode) else None

    def _inside(self, path: str) -> Path | None:
        """The real path, or ``None`` when a link or a step upward leads out of the root."""
        normal = self.relative(path)
        if normal is None:
            return None
        try:
            real = Path(os.path.realpath(self.root / normal))
        except (OSError, ValueError):
            return None
        if real != self.root and self.root not in real.parents:
            self.skipped["leads outside the snapshot"] += 1
            return None
        return real

    def _read(self, path: str) -> str | None:
        real = self._inside(path)
        if real is None:
            return None
        inner = real.relative_to(self.root).as_posix()
        if SECRET_NAMES.search(path) or SECRET_NAMES.search(inner) or inner.startswith(".git/"):
            self.skipped["secret or internal name"] += 1
            return None
        if self.files_read >= self.limits.files or self.bytes_read >= self.limits.total_bytes:
            self.skipped["budget for reading spent"] += 1
            return None
        limit = self.limits.notebook_bytes if path.endswith(".ipynb") else self.limits.file_bytes
        try:
            # O_NONBLOCK: opening a pipe must not wait; O_NOFOLLOW: the name was resolved just now.
            handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            reason = "became a link" if error.errno == errno.ELOOP else "cannot be opened"
            self.skipped[reason] += error.errno != errno.ENOENT
            return None
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                self.skipped["not a regular file"] += 1
                return None
            if found.st_size > limit:
                self.skipped["too large"] += 1
                return None
            data = _read_all(handle, limit)
        finally:
            os.close(handle)
        self.files_read += 1
        self.bytes_read += len(data)
        if b"\0" in data[:8192]:
            self.skipped["binary"] += 1
            return None
        return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")

    def _scan(self, folder: str) -> tuple[list[str], list[str]]:
        real = self._inside(folder)
        folders: list[str] = []
        files: list[str] = []
        if real is None:
            return folders, files
        try:
            with os.scandir(real) as entries:
                for count, entry in enumerate(entries):
                    if count >= self.limits.folder_entries or self._listed >= self.limits.listed_entries:
                        self.skipped["folder listing cut"] += 1
                        break
                    self._listed += 1
                    # Linked folders are not walked: a loop of links would never end.
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif _leads_to_file(entry):
                        files.append(entry.name)
        except OSError:
            self.skipped["folder cannot be listed"] += 1
        return sorted(folders), sorted(files)


def _leads_to_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=True)
    except OSError:
        return False


def _read_all(handle: int, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= limit:
        part = os.read(handle, min(1 << 20, limit + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)[:limit]
