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
