"""Caps with errors that name who is to blame and both ways out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lucid_pipelines.snapshots.errors import SnapshotTooLargeError
from lucid_pipelines.snapshots.paths import display
from lucid_pipelines.snapshots.results import SnapshotLimits

_SHOWN = 5
_GROUP_DEPTH = 3
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class EntryCounter:
    """Counts entries while a tree is listed and stops it at the cap."""

    def __init__(self, limits: SnapshotLimits) -> None:
        self._left = limits.max_entries
        self._cap = limits.max_entries
        self._by_directory: Counter[str] = Counter()

    def count(self, path: str) -> None:
        """Note one entry.

        Raises:
            SnapshotTooLargeError: the cap is passed.
        """
        self._by_directory[_group(path)] += 1
        self._left -= 1
        if self._left < 0:
            worst = ", ".join(f"{display(name)} ({n:,})" for name, n in self._by_directory.most_common(_SHOWN))
            raise SnapshotTooLargeError(
                f"more than {self._cap:,} files and directories; most of those seen so far lie in {worst}. "
                f"Leave them out in .lucidignore, or raise the snapshot's entry limit (max_entries={self._cap})"
            )


def check_sizes(sizes: Iterable[tuple[str, int]], limits: SnapshotLimits) -> int:
    """The total of the files' sizes.

    Args:
        sizes: path and bytes of each file.

    Raises:
        SnapshotTooLargeError: a file or the total is above its cap.
    """
    by_size = sorted(sizes, key=lambda item: (-item[1], item[0]))
    too_large = [item for item in by_size if item[1] > limits.max_file_bytes]
    if too_large:
        raise SnapshotTooLargeError(
            f"{_plural(len(too_large))} larger than {human_bytes(limits.max_file_bytes)}: "
            f"{_list(too_large)}. {_ways_out(too_large)}, or raise the snapshot's file limit "
            f"(max_file_bytes={limits.max_file_bytes})"
        )
    total = sum(size for _, size in by_size)
    if total > limits.max_total_bytes:
        raise SnapshotTooLargeError(
            f"{human_bytes(total)} in all, more than {human_bytes(limits.max_total_bytes)}; the largest: "
            f"{_list(by_size)}; by directory: {_list(_directories(by_size))}. {_ways_out(by_size)}, or raise "
            f"the snapshot's total limit (max_total_bytes={limits.max_total_bytes})"
        )
    return total


def human_bytes(size: int) -> str:
    """Such as ``1.5 GiB``."""
    power = min((max(size, 1).bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{size} B" if power == 0 else f"{size / 1024**power:.1f} {_UNITS[power]}"


def _group(path: str) -> str:
    steps = path.split("/")[:-1][:_GROUP_DEPTH]
    return "/".join(steps) + "/" if steps else "./"


def _directories(by_size: list[tuple[str, int]]) -> list[tuple[str, int]]:
    totals: Counter[str] = Counter()
    for path, size in by_size:
        totals[_group(path)] += size
    return totals.most_common(_SHOWN)


def _list(items: list[tuple[str, int]]) -> str:
    return ", ".join(f"{display(path)} ({human_bytes(size)})" for path, size in items[:_SHOWN])


def _ways_out(items: list[tuple[str, int]]) -> str:
    return f"Leave them out with a line such as '/{display(items[0][0])}' in .lucidignore"


def _plural(count: int) -> str:
    return "1 file is" if count == 1 else f"{count:,} files are"
