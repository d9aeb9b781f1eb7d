"""The store's tests run on SQLite and on PostgreSQL alike."""

from tests.support_pg.fixtures import pg_server, pg_url
from tests.support_store.fixtures import empty_url, sqlite_store, store, store_url

__all__ = ["empty_url", "pg_server", "pg_url", "sqlite_store", "store", "store_url"]
