"""The tables of the state database (ARCHITECTURE section 8). The migrations build exactly these.

States and other labels are plain text, checked by the enums of ``domain``: a new label needs no migration.
Rows that only grow (events, samples, metrics, intents) are pruned by ``retention``.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
    text,
)

from lucid_pipelines.store.types import CleanText, Finite, IdText, JsonDocument, KeyText, RowId, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _lock_columns() -> list[Column[object]]:
    """What a worker's claim on a row consists of; ``lock_tries`` counts the claims ever made."""
    return [
        Column("locked_by", CleanText),
        Column("lock_token", IdText),
        Column("locked_until", UtcTime),
        Column("lock_tries", Integer, nullable=False, server_default="0"),
    ]


changes = Table(
    "changes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single_row"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", IdText, primary_key=True),
    Column("user", KeyText, nullable=False),
    Column("vc", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("idempotency_key", KeyText),
    Column("spec", JsonDocument, nullable=False),
    Column("snapshot_digest", CleanText),
    Column("state", KeyText, nullable=False),
    Column("state_at", UtcTime, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("submitted_at", UtcTime, nullable=False),
    Column("queued_at", UtcTime),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("outcome", CleanText),
    Column("cause", CleanText),
    Column("exit_code", Integer),
    Column("detail", CleanText),
    Column("estimate", JsonDocument),
    Column("profile", JsonDocument),
    Column("attempt_count", Integer, nullable=False, server_default="0"),
    Column("restart_count", Integer, nullable=False, server_default="0"),
    Column("ran_s", Finite, nullable=False, server_default="0"),
    Column("never_pack", Boolean, nullable=False, server_default=text("false")),
    Column("avoid_nodes", JsonDocument),
    Column("labels", JsonDocument),
    Column("cancel_requested_at", UtcTime),
    *_lock_columns(),
    UniqueConstraint("user", "idempotency_key"),
    Index("ix_jobs_state_submitted_at_job_id", "state", "submitted_at", "job_id"),
    Index("ix_jobs_submitted_at_job_id", "submitted_at", "job_id"),
    Index("ix_jobs_user_submitted_at", "user", "submitted_at"),
    Index("ix_jobs_vc_submitted_at", "vc", "submitted_at"),
    Index("ix_jobs_name_submitted_at", "name", "submitted_at"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("attempt_id", IdText, primary_key=True),
    Column("job_id", IdText, ForeignKey("jobs.job_id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", KeyText, nullable=False),
    Column("placement", JsonDocument, nullable=False),
    Column("profiling", Boolean, nullable=False, server_default=text("false")),
    Column("placed_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("outcome", CleanText),
    Column("cause", CleanText),
    Column("exit_record", JsonDocument),
    Column("partner_job_id", IdText),
    Column("log_path", CleanText),
    Column("stop_requested_at", UtcTime),
    Column("stop_reason", CleanText),
    Column("stop_requeue", Boolean),
    Column("stop_never_pack", Boolean, nullable=False, server_default=text("false")),
    Column("gpu_sharing", CleanText),
    UniqueConstraint("job_id", "number"),
    Index("ix_attempts_state", "state"),
    Index("ix_attempts_ended_at", "ended_at"),
)

gpu_slots = Table(
    "gpu_slots",
    metadata,
    Column("node", KeyText, primary_key=True),
    Column("gpu_index", Integer, primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("attempt_id", IdText, ForeignKey("attempts.attempt_id"), nullable=False),
    CheckConstraint("slot IN (0, 1)", name="two_slots"),
    Index("ix_gpu_slots_attempt_id", "attempt_id"),
)

events = Table(
    "events",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("job_id", IdText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("as_of", UtcTime),
    Column("kind", CleanText, nullable=False),
    Column("from_state", CleanText),
    Column("to_state", CleanText, nullable=False),
    Column("who", CleanText, nullable=False),
    Column("why", CleanText, nullable=False),
    Column("evidence", JsonDocument),
    Index("ix_events_job_id_id", "job_id", "id"),
    Index("ix_events_at", "at"),
    sqlite_autoincrement=True,  # a pruned number is never given again, so that cursors stay true
)

intents = Table(
    "intents",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("key", KeyText, nullable=False),
    Column("kind", CleanText, nullable=False),
    Column("job_id", IdText),
    Column("attempt_id", IdText),
    Column("payload", JsonDocument, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("available_at", UtcTime, nullable=False),
    Column("done_at", UtcTime),
    Column("failed", Boolean, nullable=False, server_default=text("false")),
    Column("result", JsonDocument),
    Column("last_error", CleanText),
    *_lock_columns(),
    UniqueConstraint("key"),
    Index("ix_intents_open", "id", sqlite_where=text("done_at IS NULL"), postgresql_where=text("done_at IS NULL")),
    Index("ix_intents_attempt_id", "attempt_id"),
    Index("ix_intents_done_at", "done_at"),
    sqlite_autoincrement=True,
)

exits = Table(
    "exits",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("attempt_id", IdText, ForeignKey("attempts.attempt_id"), nullable=False),
    Column("job_id", IdText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("outcome", CleanText, nullable=False),
    Column("cause", CleanText),
    Column("abnormal", Boolean, nullable=False),
    Column("available_at", UtcTime, nullable=False),
    Column("handled_at", UtcTime),
    Column("result", JsonDocument),
    Column("last_error", CleanText),
    *_lock_columns(),
    UniqueConstraint("attempt_id"),
    Index(
        "ix_exits_open",
        "abnormal",
        "id",
        sqlite_where=text("handled_at IS NULL"),
        postgresql_where=text("handled_at IS NULL"),
    ),
    sqlite_autoincrement=True,
)

notices = Table(
    "notices",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("key", KeyText, nullable=False),
    Column("channel", KeyText, nullable=False),
    Column("kind", CleanText, nullable=False),
    Column("payload", JsonDocument, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("available_at", UtcTime, nullable=False),
    Column("done_at", UtcTime),
    Column("failed", Boolean, nullable=False, server_default=text("false")),
    Column("last_error", CleanText),
    *_lock_columns(),
    UniqueConstraint("key", "channel"),
    Index("ix_notices_open", "id", sqlite_where=text("done_at IS NULL"), postgresql_where=text("done_at IS NULL")),
    sqlite_autoincrement=True,
)

leases = Table(
    "leases",
    metadata,
    Column("name", KeyText, primary_key=True),
    Column("holder", KeyText, nullable=False),
    Column("token", IdText),
    Column("expires_at", UtcTime, nullable=False),
)

estimates = Table(
    "estimates",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("job_id", IdText, nullable=False),
    Column("made_at", UtcTime, nullable=False),
    Column("basis", CleanText, nullable=False),
    Column("duration_s", Finite),
    Column("low_s", Finite),
    Column("high_s", Finite),
    Column("coverage_frac", Finite),
    Column("sample_count", Integer, nullable=False),
    Column("evidence_job_ids", JsonDocument),
    Column("model_version", CleanText),
    Column("scored_at", UtcTime),
    Column("actual_s", Finite),
    Column("within", Boolean),
    Index("ix_estimates_job_id", "job_id"),
    Index("ix_estimates_scored_at", "scored_at"),
)

_UNLEARNED = text("learned_at IS NULL")

advice = Table(
    "advice",
    metadata,
    Column("job_id", IdText, primary_key=True),
    Column("made_at", UtcTime, nullable=False),
    Column("mode", CleanText, nullable=False),
    Column("basis", CleanText, nullable=False),
    Column("detail", CleanText, nullable=False),
    Column("reading_key", IdText),
    Column("mark", JsonDocument),
    Column("estimate", JsonDocument),
    Column("profile", JsonDocument),
    Column("similar", JsonDocument),
    Column("cpu_s", Finite, nullable=False),
    Column("gpu_s", Finite, nullable=False),
    Column("wall_s", Finite, nullable=False),
    Column("skip_mode", CleanText),
    Column("saved_gpu_s", Finite),
    Column("verdict", CleanText),
    Column("actual_s", Finite),
    Column("relative_error", Finite),
    Column("residual", Finite),
    Column("within", Boolean),
    Column("learned_at", UtcTime),
    Index("ix_advice_reading_key", "reading_key", "made_at"),
    Index("ix_advice_made_at", "made_at"),
    Index("ix_advice_learned_at", "learned_at"),
    Index("ix_advice_unlearned", "job_id", sqlite_where=_UNLEARNED, postgresql_where=_UNLEARNED),
)

gpu_samples = Table(
    "gpu_samples",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("attempt_id", IdText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("sample", JsonDocument, nullable=False),
    Index("ix_gpu_samples_attempt_id_id", "attempt_id", "id"),
    Index("ix_gpu_samples_at", "at"),
)

gpu_latest = Table(
    "gpu_latest",
    metadata,
    Column("node", KeyText, primary_key=True),
    Column("gpu_index", Integer, primary_key=True, autoincrement=False),
    Column("at", UtcTime, nullable=False),
    Column("sample", JsonDocument, nullable=False),
)

metrics = Table(
    "metrics",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("attempt_id", IdText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("step", BigInteger),
    Column("value", Finite),
    Column("non_finite", CleanText),
    Index("ix_metrics_attempt_id_name_id", "attempt_id", "name", "id"),
    Index("ix_metrics_at", "at"),
)

tracked = Table(
    "tracked",
    metadata,
    Column("attempt_id", IdText, primary_key=True),
    Column("job_id", IdText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("cursor", JsonDocument, nullable=False),
    Column("progress", JsonDocument, nullable=False),
    Column("pulse", JsonDocument),
    Column("findings", JsonDocument),
    Index("ix_tracked_job_id", "job_id"),
    Index("ix_tracked_at", "at"),
)

_TEACHES = text("outcome = 'completed'")

history = Table(
    "history",
    metadata,
    Column("attempt_id", IdText, primary_key=True),
    Column("job_id", IdText, nullable=False),
    Column("number", Integer, nullable=False),
    Column("user", KeyText, nullable=False),
    Column("vc", KeyText, nullable=False),
    Column("name", KeyText, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("submitted_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime, nullable=False),
    Column("duration_s", Finite),
    Column("outcome", CleanText, nullable=False),
    Column("cause", CleanText),
    Column("profile", JsonDocument),
    Column("placement", JsonDocument),
    Column("packed", Boolean, nullable=False),
    Column("profiling", Boolean, nullable=False),
    Index("ix_history_ended_at", "ended_at"),
    Index("ix_history_taught", "ended_at", sqlite_where=_TEACHES, postgresql_where=_TEACHES),
    Index("ix_history_taught_gpus", "gpus", "ended_at", sqlite_where=_TEACHES, postgresql_where=_TEACHES),
    Index("ix_history_taught_user", "user", "ended_at", sqlite_where=_TEACHES, postgresql_where=_TEACHES),
    Index("ix_history_taught_user_gpus", "user", "gpus", "ended_at", sqlite_where=_TEACHES, postgresql_where=_TEACHES),
)

counters = Table(
    "counters",
    metadata,
    Column("name", KeyText, primary_key=True),
    Column("value", BigInteger, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
)

_IN_FORCE = text("lifted_at IS NULL")

node_conditions = Table(
    "node_conditions",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("node", KeyText, nullable=False),
    Column("gpu_index", Integer),
    Column("scope", KeyText, nullable=False),
    Column("owner", KeyText, nullable=False),
    Column("reason", CleanText, nullable=False),
    Column("evidence", JsonDocument),
    Column("since", UtcTime, nullable=False),
    Column("deadline", UtcTime),
    Column("lifted_at", UtcTime),
    Column("lifted_by", CleanText),
    Index(
        "uq_node_conditions_in_force",
        "node",
        "scope",
        "owner",
        unique=True,
        sqlite_where=_IN_FORCE,
        postgresql_where=_IN_FORCE,
    ),
)

actions = Table(
    "actions",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("key", KeyText),
    Column("kind", CleanText, nullable=False),
    Column("target", CleanText, nullable=False),
    Column("mode", CleanText, nullable=False),
    Column("state", KeyText, nullable=False),
    Column("why", CleanText, nullable=False),
    Column("payload", JsonDocument, nullable=False),
    Column("proposed_at", UtcTime, nullable=False),
    Column("decided_at", UtcTime),
    Column("person", CleanText),
    Column("executed_at", UtcTime),
    Column("result", JsonDocument),
    Column("scored_at", UtcTime),
    Column("score", JsonDocument),
    UniqueConstraint("key"),
    Index("ix_actions_state", "state"),
)

_TOGETHER = text("ended_at IS NULL")

pairs = Table(
    "pairs",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("first_attempt_id", IdText, ForeignKey("attempts.attempt_id"), nullable=False),
    Column("later_attempt_id", IdText, ForeignKey("attempts.attempt_id"), nullable=False),
    Column("placement", JsonDocument, nullable=False),
    Column("formed_at", UtcTime, nullable=False),
    Column("planned", JsonDocument),
    Column("measured", JsonDocument),
    Column("verdict", CleanText, nullable=False),
    Column("verdict_at", UtcTime),
    Column("why", CleanText),
    Column("ended_at", UtcTime),
    UniqueConstraint("later_attempt_id"),
    Index("ix_pairs_first_attempt_id", "first_attempt_id"),
    Index("ix_pairs_open", "id", sqlite_where=_TOGETHER, postgresql_where=_TOGETHER),
    Index("ix_pairs_formed_at", "formed_at"),
)

_OUT = text("returned_at IS NULL")

node_loans = Table(
    "node_loans",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("node", KeyText, nullable=False),
    Column("from_vc", KeyText, nullable=False),
    Column("to_vc", KeyText, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("reasons", JsonDocument),
    Column("returned_at", UtcTime),
    Column("return_reasons", JsonDocument),
    Index("uq_node_loans_out", "node", unique=True, sqlite_where=_OUT, postgresql_where=_OUT),
)

meta = Table(
    "meta",
    metadata,
    Column("key", KeyText, primary_key=True),
    Column("value", JsonDocument),
    Column("updated_at", UtcTime, nullable=False),
)
