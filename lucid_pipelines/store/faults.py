"""What the database reports, turned into the project's own errors that say what to do."""

from __future__ import annotations

from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError, StateError
from lucid_pipelines.store.url import shown

_SQLITE_ADVICE = {
    "is locked": "another process kept its write lock too long; try again, and look for a stuck writer",
    "is full": "its disk is full; free some space and try again",
    "disk i/o error": "its disk failed or is full; check free space and the kernel log",
    "readonly": "it cannot be written; check the owner and the mount of its folder",
    "unable to open": "it cannot be opened; check that its folder exists and may be written",
    "malformed": "it is damaged; restore a backup or start with a fresh file",
    "not a database": "the file is something else; name another path",
}
_POSTGRES_ADVICE = {
    "53100": "its disk is full; free some space and try again",
    "53300": "it has no free connection; raise max_connections or stop some clients",
    "55P03": "another process kept a lock too long; try again, and look for a stuck writer",
    "28P01": "it refuses the password; check the URL",
    "28000": "it refuses the user; check the URL and pg_hba.conf",
    "3D000": "the server has no such database; create it with createdb",
    "25006": "it is read-only (a standby?); name the primary",
    "42501": "the user lacks the right; grant it, or let the owner of the database run the migration",
}
_RETRIED = {"40001", "40P01"}


def is_retried(error: SQLAlchemyError) -> bool:
    """Whether the database rolled back for a reason that a second try usually cures (deadlock)."""
    return isinstance(error, DBAPIError) and getattr(error.orig, "pgcode", None) in _RETRIED


def translated(error: SQLAlchemyError, url: URL) -> LucidError:
    """Return the project's error for one of SQLAlchemy's."""
    if isinstance(error, StatementError) and isinstance(error.orig, LucidError):
        return error.orig
    if isinstance(error, DataError):
        return InputError(f"a value does not fit the state database; {_first_line(error)}")
    if isinstance(error, IntegrityError):
        return StateError(f"the state database refused a contradiction; {_first_line(error)}")
    if isinstance(error, PoolTimeoutError):
        return ExternalError(f"all connections to the state database are in use; use fewer threads: {shown(url)}")
    return ExternalError(f"the state database cannot be used: {_advice(error)}: {shown(url)}")


def _advice(error: SQLAlchemyError) -> str:
    code = getattr(getattr(error, "orig", None), "pgcode", None)
    if code in _POSTGRES_ADVICE:
        return _POSTGRES_ADVICE[code]
    line = _first_line(error)
    for sign, advice in (_SQLITE_ADVICE | {"password authentication": _POSTGRES_ADVICE["28P01"]}).items():
        if sign in line.lower():
            return advice
    if "does not exist" in line and "database" in line:
        return _POSTGRES_ADVICE["3D000"]
    if getattr(error, "connection_invalidated", False) or "connect" in line:
        return f"it cannot be reached; check that the server runs and the URL is right ({line})"
    return line


def _first_line(error: SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__
