"""Listing a tree: what is in, what is left out and why. Nothing is read here except ignore files."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.snapshots.errors import UnreadableSourceError
from lucid_pipelines.snapshots.exclusions import ExclusionLog
from lucid_pipelines.snapshots.ignore_rules import Rule, RuleSet, parse_rules
from lucid_pipelines.snapshots.ignoring import NEVER_INCLUDED, IgnoreScope, Verdict
from lucid_pipelines.snapshots.limits import EntryCounter
from lucid_pipelines.snapshots.links import leaves_tree
from lucid_pipelines.snapshots.manifests import DirectoryEntry, LinkEntry
from lucid_pipelines.snapshots.opening import (
    EntryGoneError,
    EntrySwappedError,
    open_directory,
    open_regular,
)
from lucid_pipelines.snapshots.paths import display, to_bytes, to_text
from lucid_pipelines.snapshots.repository import repository_scope
from lucid_pipelines.snapshots.results import ExclusionReason, SecretFinding, SnapshotLimits
from lucid_pipelines.snapshots.secret_names import NameRule, secret_name

_IGNORE_FILE_MAX_BYTES = 1 << 20
_MOST_PATH_BYTES = 3_000
"""The kernel's 4,096 less what the job's own directory may take."""
_UNREADABLE_SHOWN = 10
_KEY_FILE_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file that may go into the snapshot.

    Attributes:
        found: its metadata when it was listed.
        suspect: its name is that of a key; the content decides.
        explicit: the ``.lucidignore`` line that asks for it.
    """

    path: str
    found: os.stat_result
    suspect: NameRule | None
    explicit: Rule | None


@dataclass(slots=True)
class Listing:
    """What a scan found."""

    files: list[FoundFile] = field(default_factory=list)
    directories: list[DirectoryEntry] = field(default_factory=list)
    links: list[LinkEntry] = field(default_factory=list)
    excluded: ExclusionLog = field(default_factory=ExclusionLog)
    secrets: list[SecretFinding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def scan(
    root: int,
    source_dir: Path,
    keep_out: Iterable[Path],
    limits: SnapshotLimits,
    on_file: Callable[[int], None],
) -> Listing:
    """List the tree below the open directory ``root``.

    Args:
        source_dir: where that is, to find the git work tree around it.
        keep_out: directories that are never entered, should they lie inside.
        on_file: told the number of files so far.

    Raises:
        SnapshotTooLargeError: more entries than the cap.
        UnreadableSourceError: directories or files that this user may not read.
        InputError: nested too deep.
    """
    scanner = _Scanner(limits, frozenset(filter(None, map(_identity_of, keep_out))), on_file)
    scope = repository_scope(source_dir, scanner.listing.warnings)
    scanner.enter(root, "", scope, 0)
    scanner.finish()
    return scanner.listing


def secret_finding(path: str, rule: str, line: int | None) -> SecretFinding:
    """A finding with the way to include the file after all."""
    shown = display(path)
    name = shown.rpartition("/")[2]
    return SecretFinding(shown, rule, line, f"pass it in another way, or write '!{name}' in .lucidignore if it is none")


class _Scanner:
    def __init__(
        self, limits: SnapshotLimits, keep_out: frozenset[tuple[int, int]], on_file: Callable[[int], None]
    ) -> None:
        self.listing = Listing()
        self._limits = limits
        self._keep_out = keep_out
        self._on_file = on_file
        self._counter = EntryCounter(limits)
        self._all_links: dict[str, str] = {}

    def enter(self, directory: int, path: str, scope: IgnoreScope, depth: int) -> bool:
        """List one directory; whether anything in it is included."""
        if depth > self._limits.max_depth:
            raise InputError(
                f"directories nested deeper than {self._limits.max_depth}; leave them out in .lucidignore: "
                f"{display(path)[:200]}…"
            )
        if len(to_bytes(path)) > _MOST_PATH_BYTES:
            raise InputError(
                f"a path of more than {_MOST_PATH_BYTES} bytes, which no job could open; leave it out in "
                f".lucidignore: {display(path)[:200]}…"
            )
        with os.scandir(directory) as iterator:
            entries = sorted((os.fsencode(entry.name), entry) for entry in iterator)
        if not scope.inherited.reason:  # an excluded directory has no say
            names = {name for name, _ in entries}
            scope = scope.with_files(
                path,
                self._rules(directory, path, b".gitignore", names),
                self._rules(directory, path, b".lucidignore", names),
            )
        included = False
        for name, entry in entries:
            text = to_text(name)
            included |= self._visit(directory, name, entry, f"{path}/{text}" if path else text, scope, depth)
        return included

    def finish(self) -> None:
        """Decide about links now that all are known, and complain about what could not be read."""
        if self.listing.unreadable:
            shown = "; ".join(self.listing.unreadable[:_UNREADABLE_SHOWN])
            more = len(self.listing.unreadable) - _UNREADABLE_SHOWN
            raise UnreadableSourceError(
                "these cannot be read; change their permissions or leave them out in .lucidignore: "
                f"{shown}{f' and {more} more' if more > 0 else ''}"
            )
        kept: list[LinkEntry] = []
        for link in self.listing.links:
            if link.target.startswith("/"):
                self._exclude(link.path, ExclusionReason.LINK_ABSOLUTE, f"-> {link.target}")
            elif leaves_tree(link.path, self._all_links):
                self._exclude(link.path, ExclusionReason.LINK_LEAVES_TREE, f"-> {link.target}")
            else:
                kept.append(link)
        self.listing.links = kept

    def _visit(
        self, parent: int, name: bytes, entry: os.DirEntry[str], path: str, scope: IgnoreScope, depth: int
    ) -> bool:
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            self._exclude(path, ExclusionReason.VANISHED, "")
            return False
        except OSError as error:
            self.listing.unreadable.append(f"{display(path)} ({error.strerror})")
            return False
        is_directory = stat.S_ISDIR(found.st_mode)
        if to_text(name) in NEVER_INCLUDED or (is_directory and (found.st_dev, found.st_ino) in self._keep_out):
            self._exclude(f"{path}/" if is_directory else path, ExclusionReason.ALWAYS_IGNORED, to_text(name))
            return False
        verdict = scope.judge(path, is_directory=is_directory)
        if is_directory:
            return self._directory(parent, name, path, scope, verdict, depth)
        if verdict.reason:
            self._exclude(path, verdict.reason, verdict.detail)
            return False
        if stat.S_ISLNK(found.st_mode):
            return self._link(parent, name, path)
        if not stat.S_ISREG(found.st_mode):
            self._exclude(path, ExclusionReason.SPECIAL_FILE, _kind(found.st_mode))
            return False
        return self._file(path, found, verdict)

    def _directory(self, parent: int, name: bytes, path: str, scope: IgnoreScope, verdict: Verdict, depth: int) -> bool:
        secret = None if _asked_for(verdict) else secret_name(path, is_directory=True)
        if secret and not verdict.reason:
            self.listing.secrets.append(secret_finding(f"{path}/", secret.label, None))
            verdict = Verdict(ExclusionReason.ALWAYS_IGNORED, secret.label)
        elif verdict.reason:
            self._exclude(f"{path}/", verdict.reason, verdict.detail)
        if verdict.reason and not scope.must_search(path, verdict):
            return False
        try:
            descriptor = open_directory(name, parent)
        except EntryGoneError:
            self._exclude(f"{path}/", ExclusionReason.VANISHED, "")
            return False
        except EntrySwappedError:
            self._exclude(f"{path}/", ExclusionReason.VANISHED, "replaced while it was listed")
            return False
        except OSError as error:
            self.listing.unreadable.append(f"{display(path)}/ ({error.strerror})")
            return False
        try:
            if not (verdict.reason or verdict.explicit) and _is_environment(descriptor):
                verdict = Verdict(ExclusionReason.ALWAYS_IGNORED, "a Python environment")
                self._exclude(f"{path}/", ExclusionReason.ALWAYS_IGNORED, verdict.detail)
                if not scope.must_search(path, verdict):
                    return False
            self.listing.directories.append(DirectoryEntry(path))
            self._counter.count(path)
            included = self.enter(descriptor, path, scope.inside(verdict), depth + 1)
        finally:
            os.close(descriptor)
        if verdict.reason and not included:
            self.listing.directories.pop()  # nothing in it was brought back
            return False
        return True

    def _link(self, parent: int, name: bytes, path: str) -> bool:
        try:
            target = to_text(os.readlink(name, dir_fd=parent))
        except OSError:
            self._exclude(path, ExclusionReason.VANISHED, "")
            return False
        self._counter.count(path)
        self._all_links[path] = target
        self.listing.links.append(LinkEntry(path, target))
        return True

    def _file(self, path: str, found: os.stat_result, verdict: Verdict) -> bool:
        suspect = None if _asked_for(verdict) else secret_name(path, is_directory=False)
        if suspect and (not suspect.may_be_public or found.st_size > _KEY_FILE_MAX_BYTES):
            self.listing.secrets.append(secret_finding(path, suspect.label, None))
            return False
        self._counter.count(path)
        self.listing.files.append(FoundFile(path, found, suspect, verdict.explicit))
        self._on_file(len(self.listing.files))
        return True

    def _rules(self, directory: int, path: str, name: bytes, names: set[bytes]) -> RuleSet | None:
        if name not in names:
            return None
        shown = f"{path}/{name.decode()}" if path else name.decode()
        try:
            descriptor, found = open_regular(name, directory)
        except (EntryGoneError, EntrySwappedError):
            self.listing.warnings.append(f"not a plain file, so its rules are not used: {display(shown)}")
            return None
        except OSError as error:
            self.listing.unreadable.append(f"{display(shown)} ({error.strerror})")
            return None
        with os.fdopen(descriptor, "rb") as stream:
            if found.st_size > _IGNORE_FILE_MAX_BYTES:
                raise InputError(f"an ignore file of more than 1 MiB; shorten it: {display(shown)}")
            rules = parse_rules(stream.read(_IGNORE_FILE_MAX_BYTES), shown)
        self.listing.warnings.extend(display(problem) for problem in rules.problems)
        return rules

    def _exclude(self, path: str, reason: ExclusionReason, detail: str) -> None:
        self.listing.excluded.add(path, reason, detail)


def _asked_for(verdict: Verdict) -> bool:
    """Whether the user named this kind of file: then its name alone does not keep it out."""
    return verdict.explicit is not None and verdict.explicit.names_a_kind


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_environment(directory: int) -> bool:
    try:
        os.stat(b"pyvenv.cfg", dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "FIFO"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "special file"
