"""Pairs of jobs on one GPU, lent nodes, and how an attempt shares its GPUs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_JSON = sa.JSON()
_TIME = sa.DateTime(timezone=True)
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TOGETHER: dict[str, Any] = {f"{dialect}_where": sa.text("ended_at IS NULL") for dialect in ("sqlite", "postgresql")}
_OUT: dict[str, Any] = {f"{dialect}_where": sa.text("returned_at IS NULL") for dialect in ("sqlite", "postgresql")}


def upgrade() -> None:
    op.create_table(
        "pairs",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("first_attempt_id", _ID, nullable=False),
        sa.Column("later_attempt_id", _ID, nullable=False),
        sa.Column("placement", _JSON, nullable=False),
        sa.Column("formed_at", _TIME, nullable=False),
        sa.Column("planned", _JSON, nullable=True),
        sa.Column("measured", _JSON, nullable=True),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("verdict_at", _TIME, nullable=True),
        sa.Column("why", sa.String(), nullable=True),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(["first_attempt_id"], ["attempts.attempt_id"], name=op.f("fk_pairs_first_attempt_id")),
        sa.ForeignKeyConstraint(["later_attempt_id"], ["attempts.attempt_id"], name=op.f("fk_pairs_later_attempt_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pairs")),
        sa.UniqueConstraint("later_attempt_id", name=op.f("uq_pairs_later_attempt_id")),
    )
    op.create_index("ix_pairs_first_attempt_id", "pairs", ["first_attempt_id"], unique=False)
    op.create_index("ix_pairs_open", "pairs", ["id"], unique=False, **_TOGETHER)
    op.create_index("ix_pairs_formed_at", "pairs", ["formed_at"], unique=False)
    op.create_table(
        "node_loans",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("from_vc", sa.String(), nullable=False),
        sa.Column("to_vc", sa.String(), nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("reasons", _JSON, nullable=True),
        sa.Column("returned_at", _TIME, nullable=True),
        sa.Column("return_reasons", _JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_loans")),
    )
    op.create_index("uq_node_loans_out", "node_loans", ["node"], unique=True, **_OUT)
    op.add_column("attempts", sa.Column("gpu_sharing", sa.String(), nullable=True))
