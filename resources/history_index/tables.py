"""Rows of the embedded history index. A vector is stored once per content and space (R-41)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

spaces = Table(
    "history_index_spaces",
    metadata,
    Column("space", String(200), primary_key=True),
    # The writers' lock and clock: rows of a space get ascending numbers in the order of their commits.
    Column("next_number", BigInteger, nullable=False),
    Column("removals", BigInteger, nullable=False),
)

vectors = Table(
    "history_index_vectors",
    metadata,
    Column("space", String(200), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("space", "digest"),
)

jobs = Table(
    "history_index_jobs",
    metadata,
    Column("space", String(200), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("job_id", String(200), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("task_type", String(200)),
    Column("gpu_family", String(100)),
    Column("gpu_count_class", Integer),
    Column("ended_at_s", Float(53), nullable=False),
    Column("record", Text, nullable=False),
    PrimaryKeyConstraint("space", "number"),
    UniqueConstraint("space", "job_id"),
    Index("ix_history_index_jobs_digest", "space", "digest"),
    Index("ix_history_index_jobs_facets", "space", "task_type", "gpu_family", "gpu_count_class", "number"),
)
