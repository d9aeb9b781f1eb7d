"""A state store on each database. Import what you need in a room's conftest:

``from tests.support_store.fixtures import store, store_url  # noqa: F401``
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from lucid_pipelines.store import Store
from lucid_pipelines.store.tables import metadata
from tests.support_pg.fixtures import empty_postgres, migrated_database, server_or_skip

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


@pytest.fixture(params=DATABASES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An open store without rows: once on SQLite, once on PostgreSQL.

    It is the same store for all tests of a session, emptied in between: opening one costs more than most tests.
    """
    shared = _shared_sqlite() if request.param == "sqlite" else _shared_postgres()
    yield shared.store
    shared.empty(shared.url)


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


@dataclass(frozen=True)
class _Shared:
    store: Store
    url: str
    empty: Callable[[str], None]


@cache
def _shared_sqlite() -> _Shared:
    folder = Path(tempfile.mkdtemp(prefix="lucid-shared-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    url = sqlite_url(folder)
    return _Shared(Store.open(url, durable=False), url, _empty_sqlite)


@cache
def _shared_postgres() -> _Shared:
    server_or_skip()
    url = migrated_database().__enter__()  # lent for the whole session
    return _Shared(Store.open(url), url, empty_postgres)


def _empty_sqlite(url: str) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
    try:
        with connection:
            for table in reversed(metadata.sorted_tables):
                if table.name != "changes":  # which only ever grows
                    connection.execute(f"DELETE FROM {table.name}")
            # Numbers of events only ever grow, too: an open store follows them.
            connection.execute("UPDATE changes SET value = value + 1")  # an open store looks again
            connection.execute("DELETE FROM sqlite_sequence WHERE name <> 'events'")
    finally:
        connection.close()
