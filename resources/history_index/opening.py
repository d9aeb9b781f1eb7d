"""Open a history index by its URL."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.similarity import VectorSpace
from lucid_pipelines.ports import HistoryIndex
from lucid_pipelines.resources.history_index.embedded import EmbeddedIndex

_REDIS_SCHEMES = ("redis", "rediss", "unix")
_TIMEOUT_S = 10.0
BUSY_TIMEOUT_S = 30.0
"""How long a SQLite writer waits for another one."""


def open_index(url: str, space: VectorSpace) -> HistoryIndex:
    """The index behind a URL: ``redis://…``, ``rediss://…`` or ``unix://…`` a Redis server, else a database.

    Raises:
        InputError: no such kind of URL is known.
        ExternalError: the server does not answer, has no vector sets, or its client is not installed.
    """
    if url.partition("://")[0] in _REDIS_SCHEMES:
        return _open_redis(url, space)
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg2")
        waiting = {"timeout": BUSY_TIMEOUT_S} if parsed.get_backend_name() == "sqlite" else {}
        engine = create_engine(parsed, pool_pre_ping=True, connect_args=waiting)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(f"give a redis:// URL or a database URL such as sqlite:///history.db: {url!r}") from error
    return EmbeddedIndex(engine, space)


def _open_redis(url: str, space: VectorSpace) -> HistoryIndex:
    try:
        from redis import Redis
    except ImportError as error:
        raise ExternalError("install the extra 'redis' to keep the history index in a Redis server") from error
    from lucid_pipelines.resources.history_index.redis_sets import RedisIndex

    client = Redis.from_url(
        url, protocol=3, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, decode_responses=False
    )
    return RedisIndex(client, space)
