"""Fixtures around the throw-away server. Import them in a room's conftest:

``from tests.support_pg.fixtures import pg_server, pg_url  # noqa: F401``
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from sqlalchemy.engine import make_url

from lucid_pipelines.store import Store
from tests.support_pg.server import PostgresMissingError, PostgresServer, server


@pytest.fixture(scope="session")
def pg_server() -> PostgresServer:
    """The PostgreSQL server of this session; skips where none can be had."""
    return server_or_skip()


@pytest.fixture
def pg_url(pg_server: PostgresServer) -> Iterator[str]:
    """The URL of a fresh, migrated database for one test."""
    url = pg_server.create_database(template=migrated_template())
    yield url
    pg_server.drop_database(url)


@pytest.fixture
def pg_empty_url(pg_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database for one test."""
    url = pg_server.create_database()
    yield url
    pg_server.drop_database(url)


def server_or_skip() -> PostgresServer:
    try:
        return server()
    except PostgresMissingError as exc:
        pytest.skip(str(exc))


@cache
def migrated_template() -> str:
    """Name of a database with the current tables, made once, to copy from."""
    url = server().create_database()
    Store.open(url).close()
    name = make_url(url).database
    assert name is not None
    return name
