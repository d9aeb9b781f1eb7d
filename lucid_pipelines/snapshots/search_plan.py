"""Which files are searched for secrets: the small ones that can be text, as far as the budget goes.

The choice depends on paths and sizes alone, so that the same tree gives the same snapshot every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_MAX_BYTES = 256 << 10
_CODE_MAX_BYTES = 1 << 20
_CODE_SUFFIXES = (
    ".py", ".ipynb", ".sh", ".bash", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".env", ".js",
    ".ts", ".tf", ".properties", ".xml",
)  # fmt: skip
_BINARY_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ico", ".pdf", ".mp3", ".mp4", ".wav", ".flac",
    ".ogg", ".avi", ".mkv", ".npy", ".npz", ".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".onnx", ".h5", ".hdf5",
    ".pkl", ".parquet", ".arrow", ".feather", ".tfrecord", ".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".so", ".o",
    ".a", ".whl", ".jar", ".woff", ".woff2", ".ttf",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The files to search, and how many small ones the budget did not reach."""

    chosen: frozenset[str]
    skipped_count: int
    skipped_bytes: int


def plan_search(files: Iterable[tuple[str, int]], budget_bytes: int) -> SearchPlan:
    """Choose from ``(path, bytes)``; the smallest files come first."""
    candidates = sorted((size, path) for path, size in files if 0 < size <= _cap(path) and not _is_binary(path))
    chosen: set[str] = set()
    left = budget_bytes
    for position, (size, path) in enumerate(candidates):
        left -= size
        if left < 0:
            rest = candidates[position:]
            return SearchPlan(frozenset(chosen), len(rest), sum(size for size, _ in rest))
        chosen.add(path)
    return SearchPlan(frozenset(chosen), 0, 0)


def _cap(path: str) -> int:
    return _CODE_MAX_BYTES if path.lower().endswith(_CODE_SUFFIXES) else _MAX_BYTES


def _is_binary(path: str) -> bool:
    return path.lower().endswith(_BINARY_SUFFIXES)
