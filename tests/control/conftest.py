"""A control plane per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lucid_pipelines.client import Client
from tests.support_control.worlds import make_client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with make_client(tmp_path / "home") as opened:
        yield opened
        left = [item.attempt.attempt_id for item in opened.system.store.queue.view().active]
        for attempt_id in left:
            opened.system.cluster.fence(attempt_id)
    marker = str(tmp_path)
    behind = [
        p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if marker in " ".join(p.info["cmdline"] or [])
    ]
    assert not behind, "no process may be left behind"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small source tree."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder
