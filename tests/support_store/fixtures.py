"""A state store on each database. Import what you need in a room's conftest:

``from tests.support_store.fixtures import store, store_url  # noqa: F401``
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lucid_pipelines.store import Store
from tests.support_pg.fixtures import migrated_database, server_or_skip

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, migrated database: once on SQLite, once on PostgreSQL."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path)
        return
    server_or_skip()
    with migrated_database() as url:
        yield url


@pytest.fixture(params=DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database: once on SQLite, once on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
        return
    server = server_or_skip()
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An open store on a fresh database."""
    with Store.open(store_url, durable=False) as opened:
        yield opened


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """An open store on a fresh SQLite file, for rooms whose subject is not the database."""
    with Store.open(sqlite_url(tmp_path), durable=False) as opened:
        yield opened


def sqlite_url(folder: Path) -> str:
    """Copy a migrated SQLite file into ``folder`` and return its URL."""
    target = folder / "state.db"
    shutil.copyfile(_sqlite_template(), target)
    return f"sqlite:///{target}"


@cache
def _sqlite_template() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lucid-template-"))
    path = folder / "state.db"
    Store.open(path, durable=False).close()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return path
