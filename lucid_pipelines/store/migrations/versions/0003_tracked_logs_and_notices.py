"""Cursors of followed logs, and the outbox of notices to people."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_UNDONE: dict[str, Any] = {f"{dialect}_where": sa.text("done_at IS NULL") for dialect in ("sqlite", "postgresql")}
_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "tracked",
        sa.Column("attempt_id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cursor", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("pulse", sa.JSON(), nullable=True),
        sa.Column("findings", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_tracked")),
    )
    op.create_index("ix_tracked_job_id", "tracked", ["job_id"], unique=False)
    op.create_index("ix_tracked_at", "tracked", ["at"], unique=False)
    op.create_table(
        "notices",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("locked_by", sa.String(), nullable=True),
        sa.Column("lock_token", _ID, nullable=True),
        sa.Column("locked_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lock_tries", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
        sa.UniqueConstraint("key", "channel", name=op.f("uq_notices_key_channel")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notices_open", "notices", ["id"], unique=False, **_UNDONE)
