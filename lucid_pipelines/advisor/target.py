"""Which folder is the snapshot, and where the command starts, when a person names a file or folder of a checkout."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.near_files import near_file

MAX_LEVELS = 8
MAX_WORDS = 200
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE")
_PATH_LIKE = re.compile(r"^[\w.\-+@ ]+(?:/[\w.\-+@ ]+)*/?$")


@dataclass(frozen=True, slots=True)
class Target:
    """What to read.

    Attributes:
        root: the snapshot's folder.
        workdir: the folder inside it in which the command starts; empty = the root.
        entry: the file that was named, relative to the root; ``None`` for a folder.
    """

    root: Path
    workdir: str = ""
    entry: str | None = None


def find_target(path: Path, command: Sequence[str] = ()) -> Target:
    """The checkout that a path lies in: a folder above it that looks like the top of a project.

    Of several such folders the nearest from which files of the launch line can be seen, else the nearest; a
    folder that is in no checkout is the snapshot itself. The command starts in the folder between the two
    from which most of those files can be seen, the named one first.

    Raises:
        NotFoundError: there is nothing at ``path``.
        InputError: there is a pipe, a socket or a device.
    """
    if not path.exists():
        raise NotFoundError(f"give a folder or file that exists{near_file(path)}: {path}")
    found = path.resolve()
    if not found.is_dir() and not found.is_file():
        raise InputError(f"give a folder or a file; this is neither: {path}")
    folder = found if found.is_dir() else found.parent
    words = list(_paths(command))
    best: tuple[int, Path, Path] | None = None
    for root in _tops(folder) or [folder]:
        seen, workdir = _workdir(root, folder, words)
        if best is None or seen > best[0]:
            best = (seen, root, workdir)
    assert best is not None
    _, root, workdir = best
    return Target(root, _relative(workdir, root), None if found.is_dir() else _relative(found, root))


def _tops(folder: Path) -> list[Path]:
    """Folders that look like the top of a project, the nearest first, up to the top of the checkout."""
    home = Path.home()
    tops: list[Path] = []
    for above in (folder, *folder.parents)[: MAX_LEVELS + 1]:
        if above in (home, above.parent):
            break
        if any((above / mark).exists() for mark in _MARKS):
            tops.append(above)
        if (above / ".git").exists():
            break
    return tops


def _workdir(root: Path, folder: Path, words: Sequence[str]) -> tuple[int, Path]:
    """How many of the launch line's files are seen from which folder; ties go to the one that was named."""
    folders = [folder, *(above for above in folder.parents if above.is_relative_to(root))]
    counts = [sum((each / word).exists() for word in words) for each in folders]
    most = max(counts)
    return most, folders[counts.index(most)]


def _paths(command: Sequence[str]) -> Iterator[str]:
    """Words that may be files, and modules as the files that they are."""
    words = _split(command[0]) if len(command) == 1 else command
    for before, word in zip(("", *words), words[:MAX_WORDS], strict=False):
        value = word.rpartition("=")[2]
        if before == "-m":
            module = value.replace(".", "/")
            yield from (f"{module}.py", module)
        elif _PATH_LIKE.match(value) and ("/" in value or PurePosixPath(value).suffix):
            yield value


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _relative(folder: Path, root: Path) -> str:
    inside = folder.relative_to(root).as_posix()
    return "" if inside == "." else inside
