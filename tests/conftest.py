"""Fixtures that every room shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

_SLOW = ("slow", "service", "long")

# A busy machine is no fault of the code: an example may take as long as it takes.
settings.register_profile("lucid", deadline=None)
settings.load_profile("lucid")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public traces, profiles and labelled logs; skips where it is absent."""
    root = Path(os.environ.get("LUCID_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"public data not found; set LUCID_DATA to its folder (looked in {root})")
    return root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first. Slow ones get a slow limit: it is there to end what hangs, not to measure a busy machine."""
    slow = {item.nodeid for item in items if any(item.get_closest_marker(name) for name in _SLOW)}
    items.sort(key=lambda item: item.nodeid in slow)
    for item in items:
        if item.nodeid in slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
