"""Where a local cluster keeps what it knows, so that an attempt is found again by its id alone.

Below the cluster's root::

    attempts/ID    link to the attempt's folder (JOB_DIR/attempts/NUMBER); a real folder when the attempt was
                   stopped or fenced before it was ever launched
    live/ID        launched and not yet seen to have ended; the disk that its folder is on, and
                   since when and until when looks missed that folder
    isolation/     reasons against nodes, one file a node
    wrapper/       the wrapper, compiled, named by its hash

The attempt's own folder is described in ``wrapper.py``.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import InputError, StateError
from lucid_pipelines.resources.clusters import wrapper

REMOVED_AFTER_S, MISSED_WITHIN_S = 600.0, 120.0
_ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
SPEC_BYTES = 8 * 1024 * 1024


class Layout:
    """The folders of one local cluster. Methods raise ``OSError`` when the disk does."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()  # links between its folders are relative
        self.attempts = self.root / "attempts"
        self.live = self.root / "live"
        self.isolation = self.root / "isolation"
        self.wrapper = self.root / "wrapper"
        self.removed_after_s = REMOVED_AFTER_S

    def create(self) -> None:
        for folder in (self.attempts, self.live, self.isolation, self.wrapper):
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, attempt_id: str) -> Path | None:
        """The attempt's folder, which may be gone; ``None`` when the id was never used here."""
        entry = self.attempts / checked_id(attempt_id)
        try:
            return Path(os.path.normpath(self.attempts / entry.readlink()))
        except FileNotFoundError:
            self.attempts.stat()  # a root that has gone away is no evidence that nothing was launched
            return None
        except OSError:
            if entry.is_dir():
                return entry
            raise

    def place(self, attempt_id: str, job_dir: Path, spec: Mapping[str, Any]) -> Path:
        """Give the attempt its folder, its spec and its entry; the first caller's spec stands.

        Raises:
            StateError: the folder is another attempt's.
        """
        known = self.find(attempt_id)
        if known is not None:
            known.stat()  # gone: nobody can tell any more whether it was started
            write_once(known / wrapper.SPEC, {**spec, "attempt_dir": str(known)})
            return known
        folder = Path(spec["attempt_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        owner = write_once(folder / wrapper.SPEC, spec)["attempt_id"]
        if owner != attempt_id:
            raise StateError(f"attempt {attempt_id!r} needs a number of its own; the folder is {owner!r}'s: {folder}")
        target = folder.resolve()
        if target.is_relative_to(self.root.parent):  # both move together when the home folder is moved
            target = Path(os.path.relpath(target, self.attempts))
        with suppress(FileExistsError):
            (self.attempts / attempt_id).symlink_to(target)
        return self.find(attempt_id) or folder

    def bury(self, attempt_id: str) -> Path:
        """A folder for an attempt that was never launched; its existing folder when it was after all."""
        with suppress(FileExistsError):
            (self.attempts / checked_id(attempt_id)).mkdir()
        return self.find(attempt_id) or self.attempts / attempt_id

    def mark_live(self, attempt_id: str, folder: Path) -> None:
        (self.live / attempt_id).write_text(str(folder.stat().st_dev))

    def was_removed(self, attempt_id: str) -> bool:
        """Positive evidence that the folder of a launched attempt was removed for good.

        The disk that it was on is there (where one is not mounted, the nearest ancestor is on another), and look
        after look has missed the folder for ``removed_after_s``: a name that comes back is only out of sight.
        """
        folder = self.find(attempt_id)
        if folder is None or os.path.lexists(folder):
            return False
        marker = self.live / attempt_id
        try:
            device, *missed = marker.read_text().split()
        except (FileNotFoundError, ValueError):
            return False
        ancestor = next(parent for parent in folder.parents if parent.exists())
        if device != str(ancestor.stat().st_dev):
            return False
        now = time.time()
        since, last = (float(missed[0]), float(missed[1])) if len(missed) == 2 else (now, now)
        if not 0.0 <= now - last <= MISSED_WITHIN_S:
            since = now
        marker.write_text(f"{device} {since} {now}")
        return now - since >= self.removed_after_s

    def unmark_live(self, attempt_id: str) -> None:
        with suppress(OSError):  # it only costs the next look at it
            (self.live / attempt_id).unlink(missing_ok=True)

    def live_ids(self) -> list[str]:
        return sorted(entry.name for entry in self.live.iterdir())


def checked_id(attempt_id: str) -> str:
    """The id itself, when it is fit to be a file's name; ``InputError`` otherwise."""
    if _ATTEMPT_ID.fullmatch(attempt_id) is None:
        raise InputError(
            "an attempt id has 1 to 200 letters, digits, dots, dashes and underscores and begins with a letter "
            f"or digit; got {attempt_id!r}"
        )
    return attempt_id


def write_once(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write a JSON file unless it exists; return what it holds now. It is never seen half-written."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # its environment may hold secrets
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)  # Python 3.9 knows no Path.hardlink_to
    finally:
        temporary.unlink()
    return wrapper.read_json(str(path), SPEC_BYTES)


def replace_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file, or put it in the place of the old one, whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
