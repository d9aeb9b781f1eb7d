"""Advice: what similar past jobs said of each new one, and how it fared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_UNLEARNED = sa.text("learned_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "advice",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("basis", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("reading_key", _ID, nullable=True),
        sa.Column("mark", sa.JSON(), nullable=True),
        sa.Column("estimate", sa.JSON(), nullable=True),
        sa.Column("profile", sa.JSON(), nullable=True),
        sa.Column("similar", sa.JSON(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("gpu_s", sa.Double(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=False),
        sa.Column("skip_mode", sa.String(), nullable=True),
        sa.Column("saved_gpu_s", sa.Double(), nullable=True),
        sa.Column("verdict", sa.String(), nullable=True),
        sa.Column("actual_s", sa.Double(), nullable=True),
        sa.Column("relative_error", sa.Double(), nullable=True),
        sa.Column("residual", sa.Double(), nullable=True),
        sa.Column("within", sa.Boolean(), nullable=True),
        sa.Column("learned_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_advice")),
    )
    op.create_index("ix_advice_reading_key", "advice", ["reading_key", "made_at"], unique=False)
    op.create_index("ix_advice_made_at", "advice", ["made_at"], unique=False)
    op.create_index("ix_advice_learned_at", "advice", ["learned_at"], unique=False)
    op.create_index(
        "ix_advice_unlearned",
        "advice",
        ["job_id"],
        unique=False,
        sqlite_where=_UNLEARNED,
        postgresql_where=_UNLEARNED,
    )
