"""Which of a job's checkpoints are whole (R-33): markers, indices, numbered shards, the files' own ends.

A job that was killed while it wrote leaves a file that no longer changes and is still not whole, so that age alone
proves nothing. What neither says that it is whole nor can be checked is compared with the checkpoint before it; where
there is none, it is unknown, and a restart does not use it by itself.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.failures.facts import Checkpoint
from lucid_pipelines.failures.recovery import step_in_name

SETTLES = timedelta(seconds=2)
MARKERS = frozenset({"COMPLETE", "_COMPLETE", ".complete", "_SUCCESS", "commit_success.txt", "DONE", ".done"})
"""Files that a writer puts down last; those that are named so say nothing but that."""
_WRITTEN_LAST = frozenset({".metadata", "_CHECKPOINT_METADATA"})
"""Files of a known format that its writer puts down last: torch.distributed.checkpoint, Orbax."""
_UNFINISHED = re.compile(
    r"(?i)(?:^\.|\.(?:tmp|temp|part|partial|incomplete|writing|lock)$|orbax-checkpoint-tmp|^tmp[-_.])"
)
_POINTERS = frozenset({"latest", "last", "best", "latest_checkpointed_iteration.txt", "checkpoint", "latest.txt"})
"""Names of one checkpoint among others, or of a file that only says which one is newest."""
_SHARD = re.compile(r"^(?P<stem>.*?)[-_.](?P<number>\d{1,6})[-_]of[-_](?P<count>\d{1,6})(?P<rest>\D.*)?$")
_DIGITS = re.compile(r"\d+")
_MAX_FILES, _MAX_DEPTH = 20_000, 6
_INDEX_BYTES = 64 << 20
_LEAST_SIZE_FRAC = 0.5
"""A file of less than this share of its predecessor's size was cut off, as far as anybody can tell."""


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a checkpoint; ``name`` is relative to it."""

    name: str
    path: Path
    size: int
    modified_at: datetime


def find_checkpoints(folder: Path, now: datetime) -> list[Checkpoint]:
    """What lies in a job's checkpoint folder, oldest first.

    ``is_complete`` is ``True`` where that is certain, ``False`` where something is missing or cut off, ``None`` where
    nothing tells.

    Raises:
        ExternalError: the folder is there and cannot be read.
    """
    if not folder.is_dir():
        return []
    try:
        with os.scandir(folder) as listed:
            entries = sorted((entry for entry in listed if not entry.is_symlink()), key=lambda entry: entry.name)
    except OSError as error:
        raise ExternalError(f"the checkpoints cannot be read: {error}: {folder}") from error
    seen: list[tuple[datetime, Path, list[_File]]] = []
    for entry in entries:
        if _UNFINISHED.search(entry.name) or entry.name in _POINTERS or entry.name in MARKERS:
            continue
        files = _files(Path(entry.path), now)
        if files:
            seen.append((max(file.modified_at for file in files), Path(entry.path), files))
    found: list[Checkpoint] = []
    previous: list[_File] | None = None
    for written_at, path, files in sorted(seen, key=lambda item: (item[0], item[1].name)):
        is_complete = _is_complete(path, files, previous, now)
        found.append(Checkpoint(str(path), step_in_name(path.stem), is_complete, written_at))
        if is_complete:
            previous = files
    return found


def _is_complete(path: Path, files: Sequence[_File], previous: Sequence[_File] | None, now: datetime) -> bool | None:
    if any(now - file.modified_at <= SETTLES for file in files):
        return None  # it may still be written to
    names = {file.name for file in files}
    if any(_UNFINISHED.search(part) for name in names for part in _parts_of(name)):
        return False
    if any(not file.size for file in files if _is_data(file)):
        return False
    by_shards, by_index = _shards_are_all_there(names), _indices_hold(files)
    if by_shards is False or by_index is False:
        return False
    by_ends = [verdict for file in files if (verdict := _is_whole(file)) is not None]
    if False in by_ends:
        return False
    if _marker_disagrees(files):
        return False
    if _is_marked(path, names):
        return True
    if previous is not None and not _resembles(files, previous):
        return False
    unchecked = [file for file in files if _is_data(file) and _is_whole(file) is None]
    if by_shards or by_index:
        return True
    if not unchecked:
        return True if by_ends else None
    return True if previous is not None else None


def _parts_of(name: str) -> tuple[str, ...]:
    """Parts of a relative name that may say that it is unfinished; files written last may begin with a dot."""
    return tuple(part for part in name.split("/") if part not in MARKERS and part not in _WRITTEN_LAST)


def _is_marked(path: Path, names: set[str]) -> bool:
    """A marker inside, or beside a single file (``step_100.npz`` and ``step_100.npz.complete`` or ``.done``)."""
    if any(name.rsplit("/", 1)[-1] in MARKERS | _WRITTEN_LAST for name in names):
        return True
    beside = (path.with_name(f"{path.name}.{word}") for word in ("complete", "COMPLETE", "done", "DONE"))
    return any(marker.is_file() for marker in beside)


def _marker_disagrees(files: Sequence[_File]) -> bool:
    """Whether a marker that lists the files with their sizes (``{"files": {name: bytes}}``) tells of others."""
    sizes = {file.name: file.size for file in files}
    for file in files:
        folder, _, base = file.name.rpartition("/")
        if base not in MARKERS or not 0 < file.size <= _INDEX_BYTES:
            continue
        try:
            listed: Any = json.loads(file.path.read_text("utf-8"))
            wanted = {str(name): int(size) for name, size in listed["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # a marker may say anything: that it is there counts
        if any(sizes.get(f"{folder}/{name}" if folder else name) != size for name, size in wanted.items()):
            return True
    return False


def _shards_are_all_there(names: set[str]) -> bool | None:
    """Whether every ``i of n`` has all its ``n`` files; ``None`` when no name counts so."""
    sets: dict[tuple[str, int, str], set[int]] = {}
    for name in names:
        folder, _, base = name.rpartition("/")
        match = _SHARD.match(base)
        if match is not None:
            key = (f"{folder}/{match['stem']}", int(match["count"]), match["rest"] or "")
            sets.setdefault(key, set()).add(int(match["number"]))
    if not sets:
        return None
    return all(
        len(numbers) == count and max(numbers) - min(numbers) == count - 1 for (_, count, _), numbers in sets.items()
    )


def _indices_hold(files: Sequence[_File]) -> bool | None:
    """Whether every file that an index (``*.index.json`` with a ``weight_map``) names is there."""
    names = {file.name for file in files}
    verdicts: list[bool] = []
    for file in files:
        if not file.name.endswith(".index.json") or file.size > _INDEX_BYTES:
            continue
        try:
            index: Any = json.loads(file.path.read_text("utf-8"))
            listed = set(cast("dict[str, str]", index["weight_map"]).values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            verdicts.append(False)
            continue
        folder = file.name.rpartition("/")[0]
        verdicts.append(all((f"{folder}/{name}" if folder else name) in names for name in listed))
    return all(verdicts) if verdicts else None


def _is_whole(file: _File) -> bool | None:
    """Whether a file's own format says that it is all there; ``None`` for formats that do not tell."""
    suffix = Path(file.name).suffix.lower()
    try:
        if suffix in (".pt", ".pth", ".ckpt", ".bin", ".npz", ".zip", ".keras", ".distcp", ".tar"):
            return _ends_as_zip(file)
        if suffix == ".safetensors":
            return _holds_its_tensors(file)
        if suffix == ".json" and file.size <= _INDEX_BYTES:
            json.loads(file.path.read_text("utf-8"))
            return True
    except (ValueError, UnicodeDecodeError):
        return False
    except OSError:
        return None
    return None


def _ends_as_zip(file: _File) -> bool | None:
    """A zip (``torch.save`` since 1.6, ``np.savez``) ends in its directory; an old pickle ends in a dot."""
    with file.path.open("rb") as stream:
        start = stream.read(4)
        stream.seek(max(0, file.size - 65_557))
        end = stream.read()
    if start == b"PK\x03\x04":
        return b"PK\x05\x06" in end
    if start[:1] == b"\x80":
        return end.endswith(b".") or None  # legacy torch.save appends raw storages
    return None


def _holds_its_tensors(file: _File) -> bool:
    """The header of safetensors says how long the file is."""
    with file.path.open("rb") as stream:
        length = struct.unpack("<Q", stream.read(8).ljust(8, b"\0"))[0]
        if not 0 < length <= min(file.size - 8, _INDEX_BYTES):
            return False
        header: Any = json.loads(stream.read(length))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return file.size == 8 + length + max(ends, default=0)


def _resembles(files: Sequence[_File], previous: Sequence[_File]) -> bool:
    """Whether a checkpoint has the files of the one before, none of them much smaller; numbers in names may differ."""
    now, before = _sizes(files), _sizes(previous)
    return all(
        len(now.get(name, ())) >= len(sizes) and min(now[name]) >= _LEAST_SIZE_FRAC * min(sizes)
        for name, sizes in before.items()
    )


def _sizes(files: Sequence[_File]) -> dict[str, list[int]]:
    sizes: dict[str, list[int]] = {}
    single = len(files) == 1
    for file in files:
        if _is_data(file):
            name = Path(file.name).suffix if single else _DIGITS.sub("#", file.name)
            sizes.setdefault(name, []).append(file.size)
    return sizes


def _is_data(file: _File) -> bool:
    base = file.name.rsplit("/", 1)[-1]
    return base not in MARKERS and base not in _POINTERS


def _files(path: Path, now: datetime) -> list[_File]:
    """All files of a checkpoint, links left out. What vanishes meanwhile is not there; too much of it is unknown."""
    found: list[_File] = []
    for file, name in _walk(path, "", 0):
        try:
            status = file.lstat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            modified = datetime.fromtimestamp(status.st_mtime, tz=now.tzinfo)
            found.append(_File(name or path.name, file, status.st_size, modified))
        if len(found) >= _MAX_FILES:
            return []
    return found


def _walk(path: Path, name: str, depth: int) -> Iterator[tuple[Path, str]]:
    if path.is_symlink() or depth > _MAX_DEPTH:
        return
    if not path.is_dir():
        yield path, name
        return
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    for entry in entries:
        yield from _walk(entry, f"{name}/{entry.name}" if name else entry.name, depth + 1)
