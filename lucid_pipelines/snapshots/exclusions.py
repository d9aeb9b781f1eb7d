"""A bounded account of what was left out: a million ignored images are one line, not a million."""

from __future__ import annotations

from lucid_pipelines.snapshots.paths import display
from lucid_pipelines.snapshots.results import Exclusion, ExclusionReason

_SPELLED_OUT = 3
_MAX_GROUPS = 2_000


class ExclusionLog:
    """Collects exclusions; many of one directory by one rule are reported together."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ExclusionReason, str], list[str]] = {}
        self._counts: dict[tuple[str, ExclusionReason, str], int] = {}
        self._overflow: dict[ExclusionReason, int] = {}

    def add(self, path: str, reason: ExclusionReason, detail: str) -> None:
        """Note one entry; a directory's path ends in ``/``."""
        key = (path.rstrip("/").rpartition("/")[0], reason, detail)
        if key not in self._counts and len(self._counts) >= _MAX_GROUPS:
            self._overflow[reason] = self._overflow.get(reason, 0) + 1
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        names = self._groups.setdefault(key, [])
        if len(names) <= _SPELLED_OUT:
            names.append(path)

    def report(self) -> tuple[Exclusion, ...]:
        """Everything noted, sorted by path."""
        rows: list[Exclusion] = []
        for key, names in self._groups.items():
            directory, reason, detail = key
            if self._counts[key] <= _SPELLED_OUT:
                rows.extend(Exclusion(display(name), reason, display(detail)) for name in names)
            else:
                place = f"{display(directory)}/" if directory else "./"
                rows.append(Exclusion(place, reason, display(detail), self._counts[key]))
        rows.extend(
            Exclusion("./", reason, "further entries in other directories", count)
            for reason, count in self._overflow.items()
        )
        return tuple(sorted(rows, key=lambda row: (row.path, row.reason, row.detail)))
