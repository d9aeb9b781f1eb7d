"""Alembic migrations of the state database, numbered ``0001``, ``0002``, … in one line.

They only go up, and by expanding first: a column is added and filled by one release and the old one dropped by
a later one, so that two releases can share a database during an upgrade. After a change of ``store.tables``
write the next one with ``python -m lucid_pipelines.store.migrations "what it does"`` and read it.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
VERSION_TABLE = "lucid_schema"


def revisions() -> list[str]:
    """Every revision that this program knows, first to last, told from the file names alone."""
    return sorted(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*_*.py"))
