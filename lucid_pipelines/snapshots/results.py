"""What goes into a seal and what comes out of it: frozen, printable, free of secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from lucid_pipelines.domain.errors import InputError

_MOST_DEPTH = 250
"""A descriptor stays open per level; more would meet the usual limit of 1,024."""


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Caps on what a submission may weigh. A value equal to the cap is allowed.

    Attributes:
        max_file_bytes: apparent size of one file; a sparse file counts in full.
        max_total_bytes: apparent size of all files together.
        max_entries: files, links and directories together.
        max_searched_bytes: how much text is searched for secrets, the smallest files first.
        max_depth: nested directories below the root, at most 250.

    Raises:
        InputError: a cap is not a positive number.
    """

    max_file_bytes: int = 1 << 30
    max_total_bytes: int = 2 << 30
    max_entries: int = 100_000
    max_depth: int = 100
    max_searched_bytes: int = 96 << 20

    def __post_init__(self) -> None:
        for name in ("max_file_bytes", "max_total_bytes", "max_entries", "max_depth", "max_searched_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"a snapshot limit is a positive number; got {name}={getattr(self, name)}")
        if self.max_depth > _MOST_DEPTH:
            raise InputError(f"max_depth can be {_MOST_DEPTH} at most; got {self.max_depth}")


class ExclusionReason(StrEnum):
    """Why something in the tree is not in the snapshot. Secrets are reported apart."""

    ALWAYS_IGNORED = "always_ignored"
    GITIGNORE = "gitignore"
    LUCIDIGNORE = "lucidignore"
    LINK_ABSOLUTE = "link_absolute"
    LINK_LEAVES_TREE = "link_leaves_tree"
    SPECIAL_FILE = "special_file"
    VANISHED = "vanished"
    """It was listed and gone when its turn came."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Something that was left out.

    Attributes:
        path: printable path relative to the source; a directory ends in ``/``. Where ``count`` is above 1,
            the directory in which so many entries were left out by the same rule.
        detail: the rule, link target or kind of file.
    """

    path: str
    reason: ExclusionReason
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A file kept out because of what it holds. The secret itself is never repeated.

    Attributes:
        rule: what was recognised, e.g. ``private key``.
        line: 1-based line of the first finding; ``None`` when the name alone decided.
        advice: how to include the file after all.
    """

    path: str
    rule: str
    line: int | None
    advice: str


@dataclass(frozen=True, slots=True)
class SealedSnapshot:
    """A tree under its content address.

    Attributes:
        digest: ``sha256:…`` of the manifest: same content, same digest, whatever the machine, order or time.
        total_bytes: sum of the file sizes in the snapshot.
        new_bytes: content that the store did not hold before.
        rehashed_count: files that had to be read; the rest were known from their metadata.
        warnings: things to tell the user that changed nothing in the result, or that a fall-back covered.
    """

    digest: str
    file_count: int
    total_bytes: int
    new_bytes: int
    excluded: tuple[Exclusion, ...] = ()
    secrets: tuple[SecretFinding, ...] = ()
    warnings: tuple[str, ...] = ()
    rehashed_count: int = 0


@dataclass(frozen=True, slots=True)
class SealProgress:
    """How far a seal has come; totals are ``None`` while the tree is still being listed."""

    files_done: int
    files_total: int | None
    bytes_done: int
    bytes_total: int | None


ProgressCallback = Callable[[SealProgress], None]


@dataclass(frozen=True, slots=True)
class Materialised:
    """A snapshot as files again; ``already`` when an earlier call had finished the work."""

    digest: str
    target_dir: Path
    file_count: int
    total_bytes: int
    already: bool


@dataclass(frozen=True, slots=True)
class CollectedGarbage:
    """What a collection removed.

    Attributes:
        missing: digests that were to be kept and are not in the store.
        corrupt: manifests whose content no longer matches their name; set aside, not deleted.
    """

    manifests_removed: int
    blobs_removed: int
    bytes_freed: int
    manifests_kept: int
    missing: tuple[str, ...] = field(default=())
    corrupt: tuple[str, ...] = field(default=())
