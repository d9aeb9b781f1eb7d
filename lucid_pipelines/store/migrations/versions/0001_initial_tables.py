"""Initial tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_JSON = sa.JSON()
_TIME = sa.DateTime(timezone=True)
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TAUGHT: dict[str, Any] = {f"{dialect}_where": sa.text("outcome = 'completed'") for dialect in ("sqlite", "postgresql")}
_UNDONE: dict[str, Any] = {f"{dialect}_where": sa.text("done_at IS NULL") for dialect in ("sqlite", "postgresql")}
_IN_FORCE: dict[str, Any] = {f"{dialect}_where": sa.text("lifted_at IS NULL") for dialect in ("sqlite", "postgresql")}
_UNHANDLED: dict[str, Any] = {f"{dialect}_where": sa.text("handled_at IS NULL") for dialect in ("sqlite", "postgresql")}


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("payload", _JSON, nullable=False),
        sa.Column("proposed_at", _TIME, nullable=False),
        sa.Column("decided_at", _TIME, nullable=True),
        sa.Column("person", sa.String(), nullable=True),
        sa.Column("executed_at", _TIME, nullable=True),
        sa.Column("result", _JSON, nullable=True),
        sa.Column("scored_at", _TIME, nullable=True),
        sa.Column("score", _JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
        sa.UniqueConstraint("key", name=op.f("uq_actions_key")),
    )
    op.create_index("ix_actions_state", "actions", ["state"], unique=False)
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_changes_single_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_changes")),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "estimates",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("made_at", _TIME, nullable=False),
        sa.Column("basis", sa.String(), nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=True),
        sa.Column("low_s", sa.Double(), nullable=True),
        sa.Column("high_s", sa.Double(), nullable=True),
        sa.Column("coverage_frac", sa.Double(), nullable=True),
        sa.Column("sample_count", sa.Integer(), nullable=False),
        sa.Column("evidence_job_ids", _JSON, nullable=True),
        sa.Column("model_version", sa.String(), nullable=True),
        sa.Column("scored_at", _TIME, nullable=True),
        sa.Column("actual_s", sa.Double(), nullable=True),
        sa.Column("within", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_estimates")),
    )
    op.create_index("ix_estimates_job_id", "estimates", ["job_id"], unique=False)
    op.create_index("ix_estimates_scored_at", "estimates", ["scored_at"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("as_of", _TIME, nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("from_state", sa.String(), nullable=True),
        sa.Column("to_state", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("evidence", _JSON, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_at", "events", ["at"], unique=False)
    op.create_index("ix_events_job_id_id", "events", ["job_id", "id"], unique=False)
    op.create_table(
        "gpu_latest",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("sample", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("node", "gpu_index", name=op.f("pk_gpu_latest")),
    )
    op.create_table(
        "gpu_samples",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("attempt_id", _ID, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("sample", _JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpu_samples")),
    )
    op.create_index("ix_gpu_samples_at", "gpu_samples", ["at"], unique=False)
    op.create_index("ix_gpu_samples_attempt_id_id", "gpu_samples", ["attempt_id", "id"], unique=False)
    op.create_table(
        "history",
        sa.Column("attempt_id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("vc", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("submitted_at", _TIME, nullable=False),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("ended_at", _TIME, nullable=False),
        sa.Column("duration_s", sa.Double(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("profile", _JSON, nullable=True),
        sa.Column("placement", _JSON, nullable=True),
        sa.Column("packed", sa.Boolean(), nullable=False),
        sa.Column("profiling", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_history")),
    )
    op.create_index("ix_history_ended_at", "history", ["ended_at"], unique=False)
    op.create_index("ix_history_taught", "history", ["ended_at"], unique=False, **_TAUGHT)
    op.create_index("ix_history_taught_gpus", "history", ["gpus", "ended_at"], unique=False, **_TAUGHT)
    op.create_index("ix_history_taught_user", "history", ["user", "ended_at"], unique=False, **_TAUGHT)
    op.create_index("ix_history_taught_user_gpus", "history", ["user", "gpus", "ended_at"], unique=False, **_TAUGHT)
    op.create_table(
        "intents",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("job_id", _ID, nullable=True),
        sa.Column("attempt_id", _ID, nullable=True),
        sa.Column("payload", _JSON, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("available_at", _TIME, nullable=False),
        sa.Column("done_at", _TIME, nullable=True),
        sa.Column("failed", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("result", _JSON, nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("locked_by", sa.String(), nullable=True),
        sa.Column("lock_token", _ID, nullable=True),
        sa.Column("locked_until", _TIME, nullable=True),
        sa.Column("lock_tries", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intents")),
        sa.UniqueConstraint("key", name=op.f("uq_intents_key")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_intents_attempt_id", "intents", ["attempt_id"], unique=False)
    op.create_index("ix_intents_done_at", "intents", ["done_at"], unique=False)
    op.create_index("ix_intents_open", "intents", ["id"], unique=False, **_UNDONE)
    op.create_table(
        "jobs",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("vc", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("spec", _JSON, nullable=False),
        sa.Column("snapshot_digest", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_at", _TIME, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at", _TIME, nullable=False),
        sa.Column("queued_at", _TIME, nullable=True),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("detail", sa.String(), nullable=True),
        sa.Column("estimate", _JSON, nullable=True),
        sa.Column("profile", _JSON, nullable=True),
        sa.Column("attempt_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("restart_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ran_s", sa.Double(), server_default="0", nullable=False),
        sa.Column("never_pack", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("avoid_nodes", _JSON, nullable=True),
        sa.Column("labels", _JSON, nullable=True),
        sa.Column("cancel_requested_at", _TIME, nullable=True),
        sa.Column("locked_by", sa.String(), nullable=True),
        sa.Column("lock_token", _ID, nullable=True),
        sa.Column("locked_until", _TIME, nullable=True),
        sa.Column("lock_tries", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("user", "idempotency_key", name=op.f("uq_jobs_user_idempotency_key")),
    )
    op.create_index("ix_jobs_name_submitted_at", "jobs", ["name", "submitted_at"], unique=False)
    op.create_index("ix_jobs_state_submitted_at_job_id", "jobs", ["state", "submitted_at", "job_id"], unique=False)
    op.create_index("ix_jobs_submitted_at_job_id", "jobs", ["submitted_at", "job_id"], unique=False)
    op.create_index("ix_jobs_user_submitted_at", "jobs", ["user", "submitted_at"], unique=False)
    op.create_index("ix_jobs_vc_submitted_at", "jobs", ["vc", "submitted_at"], unique=False)
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("token", _ID, nullable=True),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", _JSON, nullable=True),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "metrics",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("attempt_id", _ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("non_finite", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metrics")),
    )
    op.create_index("ix_metrics_at", "metrics", ["at"], unique=False)
    op.create_index("ix_metrics_attempt_id_name_id", "metrics", ["attempt_id", "name", "id"], unique=False)
    op.create_table(
        "node_conditions",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_index", sa.Integer(), nullable=True),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("evidence", _JSON, nullable=True),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("deadline", _TIME, nullable=True),
        sa.Column("lifted_at", _TIME, nullable=True),
        sa.Column("lifted_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_conditions")),
    )
    op.create_index(
        "uq_node_conditions_in_force", "node_conditions", ["node", "scope", "owner"], unique=True, **_IN_FORCE
    )
    op.create_table(
        "attempts",
        sa.Column("attempt_id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("placement", _JSON, nullable=False),
        sa.Column("profiling", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("placed_at", _TIME, nullable=False),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("exit_record", _JSON, nullable=True),
        sa.Column("partner_job_id", _ID, nullable=True),
        sa.Column("log_path", sa.String(), nullable=True),
        sa.Column("stop_requested_at", _TIME, nullable=True),
        sa.Column("stop_reason", sa.String(), nullable=True),
        sa.Column("stop_requeue", sa.Boolean(), nullable=True),
        sa.Column("stop_never_pack", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_attempts_job_id")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("job_id", "number", name=op.f("uq_attempts_job_id_number")),
    )
    op.create_index("ix_attempts_ended_at", "attempts", ["ended_at"], unique=False)
    op.create_index("ix_attempts_state", "attempts", ["state"], unique=False)
    op.create_table(
        "exits",
        sa.Column("id", _ROW, autoincrement=True, nullable=False),
        sa.Column("attempt_id", _ID, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=True),
        sa.Column("abnormal", sa.Boolean(), nullable=False),
        sa.Column("available_at", _TIME, nullable=False),
        sa.Column("handled_at", _TIME, nullable=True),
        sa.Column("result", _JSON, nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("locked_by", sa.String(), nullable=True),
        sa.Column("lock_token", _ID, nullable=True),
        sa.Column("locked_until", _TIME, nullable=True),
        sa.Column("lock_tries", sa.Integer(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.attempt_id"], name=op.f("fk_exits_attempt_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exits")),
        sa.UniqueConstraint("attempt_id", name=op.f("uq_exits_attempt_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_exits_open", "exits", ["abnormal", "id"], unique=False, **_UNHANDLED)
    op.create_table(
        "gpu_slots",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt_id", _ID, nullable=False),
        sa.CheckConstraint("slot IN (0, 1)", name=op.f("ck_gpu_slots_two_slots")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.attempt_id"], name=op.f("fk_gpu_slots_attempt_id")),
        sa.PrimaryKeyConstraint("node", "gpu_index", "slot", name=op.f("pk_gpu_slots")),
    )
    op.create_index("ix_gpu_slots_attempt_id", "gpu_slots", ["attempt_id"], unique=False)
    op.execute("INSERT INTO changes (id, value) VALUES (1, 0)")
