"""A control plane per test, on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lucid_pipelines.client import Client
from tests.support_control.worlds import make_client
from tests.support_pg.fixtures import migrated_database, server_or_skip
from tests.support_store.fixtures import DATABASES


@pytest.fixture(params=DATABASES)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    if request.param == "sqlite":
        yield from _opened(tmp_path)
        return
    server_or_skip()
    with migrated_database() as url:
        yield from _opened(tmp_path, state={"url": url})


def _opened(folder: Path, **sections: object) -> Iterator[Client]:
    with make_client(folder / "home", **sections) as opened:
        yield opened
        for item in opened.system.store.queue.view().active:
            opened.system.cluster.fence(item.attempt.attempt_id)
    marker = str(folder)
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    behind = [command for command in commands if marker in command]
    assert not behind, "no process may be left behind"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small source tree."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder
