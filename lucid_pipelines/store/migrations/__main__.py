"""Write the next migration: ``python -m lucid_pipelines.store.migrations "Add a column for …"``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from alembic import command

from lucid_pipelines.store.database import Database
from lucid_pipelines.store.engine import make_engine
from lucid_pipelines.store.migrating import upgrade
from lucid_pipelines.store.migrations import revisions
from lucid_pipelines.store.migrations.runner import alembic_config
from lucid_pipelines.store.url import database_url


def main() -> None:
    """Compare the tables with what the migrations build and write the difference as a numbered file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("message", help="what the migration does")
    message = parser.parse_args().message
    number = f"{int(revisions()[-1]) + 1:04d}" if revisions() else "0001"
    with tempfile.TemporaryDirectory() as folder:
        url = database_url(Path(folder) / "scratch.db")
        engine = make_engine(url, busy_timeout_s=5, durable=False, pool_size=1)
        if revisions():
            upgrade(Database(engine, url), migrate=True)
        with engine.connect() as connection:
            command.revision(alembic_config(connection), message, autogenerate=True, rev_id=number)
        engine.dispose()


if __name__ == "__main__":
    main()
