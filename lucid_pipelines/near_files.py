"""For a file that is not there: which one was meant."""

from __future__ import annotations

import itertools
from pathlib import Path

from lucid_pipelines.domain.errors import did_you_mean

_MOST_NAMES = 10_000
"""Of a folder; a hint is not worth more."""


def near_file(path: Path) -> str:
    """`` (did you mean 'x'?)`` for the nearest name in the folder of ``path``, or an empty string."""
    try:
        names = [other.name for other in itertools.islice(path.parent.iterdir(), _MOST_NAMES)]
    except (OSError, ValueError):
        return ""
    return did_you_mean(path.name, names)
