"""What Alembic loads to run migrations: always on a connection that the program has opened."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from lucid_pipelines.store.migrations import VERSION_TABLE
from lucid_pipelines.store.tables import metadata
from lucid_pipelines.store.types import CleanText, Finite, IdText, JsonDocument, UtcTime


def render_item(kind: str, item: Any, _autogen: AutogenContext) -> str | Literal[False]:
    """Write our column types as plain ones, so that an old migration does not change with them."""
    if kind != "type":
        return False
    if isinstance(item, IdText):
        return 'sa.String().with_variant(sa.String(collation="C"), "postgresql")'
    if isinstance(item, JsonDocument):
        return "sa.JSON()"
    plain = ((CleanText, "sa.String()"), (UtcTime, "sa.DateTime(timezone=True)"), (Finite, "sa.Double()"))
    for ours, text in plain:
        if isinstance(item, ours):
            return text
    return False


connection = context.config.attributes["connection"]
if connection is None:
    raise RuntimeError("migrations run through lucid_pipelines.store.migrations.runner, not the alembic command")
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_item=render_item,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
