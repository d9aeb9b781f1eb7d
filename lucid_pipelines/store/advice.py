"""Advice: one row per job, written before it runs and scored after it ended (R-30)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.states import TERMINAL_STATES
from lucid_pipelines.store import tables
from lucid_pipelines.store.codec import (
    estimate_from_json,
    estimate_to_json,
    history_from_row,
    job_from_row,
    profile_from_json,
    profile_to_json,
)
from lucid_pipelines.store.database import Database, Transaction
from lucid_pipelines.store.records import AdviceRow, AdviceVerdict, EndedAdvice, Json

_ADVICE = tables.advice
_JOBS = tables.jobs
_HISTORY = tables.history
_SIMILAR_KEPT = 20
_DETAIL_CHARS = 500


class AdviceRows:
    """What the advisor said of each job, and how it fared."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, row: AdviceRow) -> bool:
        """Keep the advice of a job. A job that has some keeps it: a batch that died may ask a second time.

        Returns:
            Whether it was new.
        """
        values = {
            "job_id": row.job_id,
            "made_at": row.made_at,
            "mode": row.mode,
            "basis": row.basis,
            "detail": row.detail[:_DETAIL_CHARS],
            "reading_key": row.reading_key,
            "mark": None if row.mark is None else dict(row.mark),
            "estimate": None if row.estimate is None else estimate_to_json(row.estimate),
            "profile": profile_to_json(row.profile),
            "similar": [dict(each) for each in row.similar[:_SIMILAR_KEPT]],
            "cpu_s": row.cpu_s,
            "gpu_s": row.gpu_s,
            "wall_s": row.wall_s,
        }
        return self._database.write(lambda tx: bool(tx.insert_new(_ADVICE, [values])))

    def note_skip(self, job_id: str, mode: str, saved_gpu_s: float | None) -> None:
        """Keep that the job did without its profiling run, or (in shadow mode) would have."""
        values = {"skip_mode": mode, "saved_gpu_s": saved_gpu_s}
        self._write(lambda tx: tx.execute(update(_ADVICE).where(_ADVICE.c.job_id == job_id).values(values)))

    def of_job(self, job_id: str) -> AdviceRow | None:
        query = select(_ADVICE).where(_ADVICE.c.job_id == job_id)
        found = self._database.read(lambda c: c.execute(query).mappings().first())
        return None if found is None else _row(found)

    def mark_of_reading(self, reading_key: str) -> Json | None:
        """What reading the same code with the same command gave the last time; ``None`` when it never did."""
        query = (
            select(_ADVICE.c.mark)
            .where(_ADVICE.c.reading_key == reading_key)
            .order_by(_ADVICE.c.made_at.desc())
            .limit(1)
        )
        return self._database.read(lambda c: c.execute(query).scalar())

    def ended_unlearned(self, limit: int) -> list[EndedAdvice]:
        """Jobs that have ended since they were advised and are not in the history index yet, oldest first."""
        ended = [state.value for state in TERMINAL_STATES]
        query = (
            select(_ADVICE.c.job_id)
            .join(_JOBS, _JOBS.c.job_id == _ADVICE.c.job_id)
            .where(_ADVICE.c.learned_at.is_(None), _JOBS.c.state.in_(ended))
            .order_by(_ADVICE.c.job_id)
            .limit(limit)
        )
        return self._ended(query)

    def learned(self, after: str = "", limit: int = 500) -> list[EndedAdvice]:
        """Ended jobs that are in the index, by job id: to build it anew."""
        query = (
            select(_ADVICE.c.job_id)
            .where(_ADVICE.c.learned_at.is_not(None), _ADVICE.c.mark.is_not(None), _ADVICE.c.job_id > after)
            .order_by(_ADVICE.c.job_id)
            .limit(limit)
        )
        return self._ended(query)

    def _ended(self, query: Any) -> list[EndedAdvice]:
        def work(connection: Any) -> list[EndedAdvice]:
            ids = list(connection.execute(query).scalars())
            if not ids:
                return []
            advice = {
                row["job_id"]: _row(row)
                for row in connection.execute(select(_ADVICE).where(_ADVICE.c.job_id.in_(ids))).mappings()
            }
            jobs = {
                row["job_id"]: job_from_row(row)
                for row in connection.execute(select(_JOBS).where(_JOBS.c.job_id.in_(ids))).mappings()
            }
            last: dict[str, HistoryRow] = {}
            main_runs: Counter[str] = Counter()
            runs = select(_HISTORY).where(_HISTORY.c.job_id.in_(ids)).order_by(_HISTORY.c.number)
            for row in connection.execute(runs).mappings():
                last[row["job_id"]] = history_from_row(row)
                main_runs[row["job_id"]] += row["duration_s"] is not None and not row["profiling"]
            return [
                EndedAdvice(advice[each], jobs[each], last.get(each), main_runs[each]) for each in ids if each in jobs
            ]

        return self._database.read(work)

    def settle(self, verdicts: Sequence[AdviceVerdict], *, now: datetime) -> None:
        """Keep how advice fared; its job is in the history index from now on. Doing it twice changes nothing."""

        def work(tx: Transaction) -> None:
            for each in verdicts:
                values = {
                    "verdict": each.verdict,
                    "actual_s": each.actual_s,
                    "relative_error": each.relative_error,
                    "residual": each.residual,
                    "within": each.within,
                    "learned_at": now,
                }
                mine = (_ADVICE.c.job_id == each.job_id) & _ADVICE.c.learned_at.is_(None)
                tx.execute(update(_ADVICE).where(mine).values(values))

        self._write(work)

    def residuals(self, limit: int) -> list[float]:
        """ln(actual / predicted) of the newest scored predictions, newest last."""
        query = (
            select(_ADVICE.c.residual)
            .where(_ADVICE.c.residual.is_not(None))
            .order_by(_ADVICE.c.learned_at.desc())
            .limit(limit)
        )
        return self._database.read(lambda c: [float(value) for value in c.execute(query).scalars()])[::-1]

    def made(self, *, since: datetime, until: datetime) -> list[AdviceRow]:
        """Advice that was given in ``[since, until)``, oldest first."""
        query = select(_ADVICE).where(_ADVICE.c.made_at >= since, _ADVICE.c.made_at < until).order_by(_ADVICE.c.made_at)
        return self._database.read(lambda c: [_row(row) for row in c.execute(query).mappings()])

    def scored(self, *, since: datetime, until: datetime) -> list[AdviceRow]:
        """Advice whose job's end was learned of in ``[since, until)``."""
        between = (_ADVICE.c.learned_at >= since) & (_ADVICE.c.learned_at < until)
        query = select(_ADVICE).where(between).order_by(_ADVICE.c.learned_at, _ADVICE.c.job_id)
        return self._database.read(lambda c: [_row(row) for row in c.execute(query).mappings()])

    def count(self) -> int:
        return self._database.read(lambda c: int(c.execute(select(func.count()).select_from(_ADVICE)).scalar_one()))

    def _write(self, work: Any) -> None:
        self._database.write(work)


def _row(row: Any) -> AdviceRow:
    return AdviceRow(
        job_id=row["job_id"],
        made_at=row["made_at"],
        mode=row["mode"],
        basis=row["basis"],
        detail=row["detail"],
        reading_key=row["reading_key"],
        mark=row["mark"],
        estimate=estimate_from_json(row["estimate"]),
        profile=profile_from_json(row["profile"]),
        similar=tuple(row["similar"] or ()),
        cpu_s=row["cpu_s"],
        gpu_s=row["gpu_s"],
        wall_s=row["wall_s"],
        skip_mode=row["skip_mode"],
        saved_gpu_s=row["saved_gpu_s"],
        verdict=row["verdict"],
        actual_s=row["actual_s"],
        relative_error=row["relative_error"],
        within=row["within"],
        learned_at=row["learned_at"],
    )
