"""Where the state database is: a path or a URL becomes one checked SQLAlchemy URL."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from lucid_pipelines.domain.errors import InputError, did_you_mean

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg2")
_KNOWN = ("sqlite", *_POSTGRES)


def database_url(where: str | Path) -> URL:
    """Return the URL of the state database; a SQLite file by its absolute path.

    Args:
        where: a file path (SQLite), ``sqlite:///path`` or ``postgresql://user@host/name``. PostgreSQL is
            always driven by psycopg2.

    Raises:
        InputError: another database, a URL that cannot be read, or SQLite without a file.
    """
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(Path(where).expanduser().absolute()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise InputError("the state database is a path or a URL like postgresql://user@host/lucid") from None
    if url.drivername in _POSTGRES:
        return url.set(drivername="postgresql+psycopg2")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or url.database == ":memory:":
            raise InputError("the state database needs a file, e.g. sqlite:///lucid.db; several processes share it")
        return url.set(drivername="sqlite", database=str(Path(url.database).absolute()))
    hint = did_you_mean(url.drivername, _KNOWN)
    raise InputError(f"the state database is sqlite:// or postgresql://{hint}; got {url.drivername}://")


def shown(url: URL) -> str:
    """The URL as it may be printed: without its password."""
    return url.render_as_string(hide_password=True)
