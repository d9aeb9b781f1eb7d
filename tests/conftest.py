"""Fixtures that every room shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public traces, profiles and labelled logs; skips where it is absent."""
    root = Path(os.environ.get("LUCID_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"public data not found; set LUCID_DATA to its folder (looked in {root})")
    return root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests get a slow limit: it is there to end what hangs, not to measure a busy machine."""
    for item in items:
        is_slow = any(item.get_closest_marker(name) for name in ("slow", "service", "long"))
        if is_slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
