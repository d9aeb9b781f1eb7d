"""Run Alembic on an open connection, without its command line or configuration file."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from lucid_pipelines.store.migrations import FOLDER


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's settings for this project; ``env.py`` uses the connection."""
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    config.attributes["connection"] = connection
    return config


def upgrade_to_head(connection: Connection) -> None:
    """Run the missing migrations within the connection's transaction."""
    command.upgrade(alembic_config(connection), "head")


def head() -> str | None:
    """The newest revision as Alembic sees it. Raises if the revisions branch."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()
