"""Fixtures around the throw-away server. Import them in a room's conftest:

``from tests.support_pg.fixtures import pg_server, pg_url  # noqa: F401``
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import psycopg2
import pytest
from sqlalchemy.engine import make_url

from lucid_pipelines.store import Store
from lucid_pipelines.store.migrations import revisions
from lucid_pipelines.store.tables import metadata
from tests.support_pg.server import PostgresMissingError, PostgresServer, server


@pytest.fixture(scope="session")
def pg_server() -> PostgresServer:
    """The PostgreSQL server of this session; skips where none can be had."""
    return server_or_skip()


@pytest.fixture
def pg_url(pg_server: PostgresServer) -> Iterator[str]:
    """The URL of a migrated database without rows, for one test."""
    with migrated_database() as url:
        yield url


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


_free: list[str] = []
_CLEAN = """
DO $$
DECLARE item record;
BEGIN
    FOR item IN SELECT relname, relkind FROM pg_class WHERE relnamespace = 'lucid'::regnamespace LOOP
        IF item.relkind = 'S' AND item.relname NOT LIKE 'events%' THEN
            EXECUTE format('ALTER SEQUENCE lucid.%I RESTART', item.relname);
        END IF;
    END LOOP;
    {deletes}
    UPDATE lucid.changes SET value = value + 1; -- an open store looks again
END $$
"""


@contextmanager
def migrated_database() -> Iterator[str]:
    """A migrated database without rows; emptied and lent again afterwards, which is much faster than a new one."""
    url = _free.pop() if _free else server().create_database(template=_template())
    yield url
    try:
        empty_postgres(url)
    except psycopg2.Error:  # the test broke or dropped it
        server().drop_database(url)
    else:
        _free.append(url)


def empty_postgres(url: str) -> None:
    """Delete every row and count from 1 again, but for what only ever grows: the change counter, numbers of events.

    Raises:
        psycopg2.Error: the database is not usable any more.
    """
    kept = {"changes"}
    children_first = [table.name for table in reversed(metadata.sorted_tables) if table.name not in kept]
    deletes = " ".join(f"DELETE FROM lucid.{name};" for name in children_first)
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT version_num FROM lucid.lucid_schema")
            if cursor.fetchone() != (revisions()[-1],):
                raise psycopg2.DataError("a test changed the revision")
            cursor.execute(_CLEAN.format(deletes=deletes))
    finally:
        connection.close()


@cache
def _template() -> str:
    """Name of a database with the current tables, made once, to copy from."""
    url = server().create_database()
    Store.open(url).close()
    name = make_url(url).database
    assert name is not None
    return name
