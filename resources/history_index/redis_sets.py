"""The history index on Redis 8 vector sets (SEMANTIC_STACK, "Redis").

Each combination of hard filters has a vector set of its own, so that filtering costs nothing and never
thins out the neighbours; within a set the search is exact (``TRUTH``). Vectors are kept unquantised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from lucid_pipelines.advisor.past_job_json import past_job_from_json, past_job_to_json
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.similarity import (
    HistoryFilter,
    IndexEntry,
    PastJob,
    SimilarJob,
    SimilarJobs,
    VectorSpace,
    why_fewer,
)
from lucid_pipelines.resources.history_index.partitions import Facets, Hit, admits, best_hits, facets_of
from lucid_pipelines.resources.history_index.vectors import checked_question, checked_vector

MIN_SERVER = "8.0"
MAX_TIED = 4_096
"""Equally similar jobs that are looked at to find the newest of them."""
EVERYTHING = 1_000_000_000
"""Vectors that a filter may be tried on: all."""
_BATCH = 200
_FACETS = ("task_type", "gpu_family", "gpu_count_class")
_MICRO = 1_000_000
# The search is exact, so the graph is never walked: the fewest links make adding cheap.
_GRAPH = ("EF", 1, "M", 4)


_Named: TypeAlias = tuple[str, Hit]


class RedisIndex:
    """Past jobs of one vector space in a Redis server with vector sets.

    Args:
        client: a client that does not decode responses.
        prefix: begins every key.

    Raises:
        ExternalError: the server does not answer, or has no vector sets.
    """

    def __init__(self, client: Redis, space: VectorSpace, prefix: str = "lucid:history") -> None:
        self._client: Any = client
        self._space = space
        # The braces keep all keys of a space in one slot of a Redis cluster.
        self._base = f"{prefix}:{{{space.key}}}"
        self._jobs = f"{self._base}:jobs"
        self._parts = f"{self._base}:parts"
        _require_vector_sets(self._client, f"{self._base}:probe")

    @property
    def space(self) -> VectorSpace:
        return self._space

    def add(self, entries: Sequence[IndexEntry]) -> int:
        """Store past jobs; one that is there already is replaced. Returns how many were new."""
        latest = {entry.job.job_id: entry for entry in entries}
        checked = {
            job_id: checked_vector(entry.vector, self._space.dimension).astype("<f4").tobytes()
            for job_id, entry in latest.items()
        }
        new = 0
        for chunk in _chunks(list(latest)):
            try:
                new += self._add_chunk([latest[job_id].job for job_id in chunk], checked)
            except RedisError as error:
                raise _outage(error) from error
        return new

    def _add_chunk(self, past: Sequence[PastJob], checked: Mapping[str, bytes]) -> int:
        there = self._where([job.job_id for job in past])
        pipe = self._client.pipeline(transaction=True)
        for job in past:
            if job.job_id in there:
                self._drop(pipe, job.job_id, there[job.job_id])
            facets = facets_of(job)
            part = _part_id(facets)
            ended = _micros(job.ended_at)
            pipe.hset(self._parts, part, json.dumps(facets))
            attributes = json.dumps({"ended": ended})
            words = ("FP32", checked[job.job_id], job.job_id, "NOQUANT", *_GRAPH, "SETATTR", attributes)
            pipe.execute_command("VADD", self._set(part), *words)
            pipe.zadd(self._ended(part), {job.job_id: ended})
            pipe.hset(self._jobs, job.job_id, json.dumps({"part": part, "job": past_job_to_json(job)}))
        pipe.execute()
        return len(past) - len(there)

    def search(
        self, vector: Sequence[float], k: int, as_of: datetime, where: HistoryFilter, threshold: float
    ) -> SimilarJobs:
        """The ``k`` most similar jobs of those that had ended at ``as_of`` and pass ``where``: exact."""
        question = checked_question(vector, self._space.dimension, k, as_of).astype("<f4").tobytes()
        try:
            total = int(self._client.hlen(self._jobs))
            eligible, hits = 0, list[_Named]()
            for part in self._admitted(where):
                count, found = self._search_part(part, question, k + 1, _micros(as_of), where.exclude_job_ids)
                eligible += count
                hits += found
            ranked = _ranked(hits, k + 1)
            kept = [hit for hit in ranked if hit[1].similarity >= threshold][:k]
            rejected = next((hit.similarity for _, hit in ranked if hit.similarity < threshold), None)
            matches = self._records(kept)
        except RedisError as error:
            raise _outage(error) from error
        reason = None if len(matches) == k else why_fewer(len(matches), k, total, eligible, rejected, threshold)
        return SimilarJobs(matches, k, as_of, threshold, total, eligible, rejected, reason)

    def remove(self, job_ids: Sequence[str]) -> int:
        """Forget past jobs. Returns how many were there."""
        gone = 0
        for chunk in _chunks(list(dict.fromkeys(job_ids))):
            try:
                there = self._where(chunk)
                pipe = self._client.pipeline(transaction=True)
                for job_id, part in there.items():
                    self._drop(pipe, job_id, part)
                pipe.execute()
            except RedisError as error:
                raise _outage(error) from error
            gone += len(there)
        return gone

    def count(self) -> int:
        try:
            return int(self._client.hlen(self._jobs))
        except RedisError as error:
            raise _outage(error) from error

    def jobs(self) -> Iterator[PastJob]:
        """Every past job, by job id."""
        try:
            for chunk in _chunks(sorted(key.decode() for key in self._client.hkeys(self._jobs))):
                for raw in self._client.hmget(self._jobs, list(chunk)):
                    if raw is not None:
                        yield past_job_from_json(json.loads(raw)["job"])
        except RedisError as error:
            raise _outage(error) from error

    # ------------------------------------------------------------------ one partition

    def _search_part(
        self, part: str, question: bytes, k: int, as_of: int, exclude: frozenset[str]
    ) -> tuple[int, list[_Named]]:
        """How many of a set's jobs are eligible, and at least the ``k`` best of them."""
        ended = self._ended(part)
        eligible = int(self._client.zcount(ended, "-inf", as_of))
        hidden = {job_id for job_id in exclude if (self._client.zscore(ended, job_id) or as_of + 1) <= as_of}
        if eligible == len(hidden):
            return 0, []
        wanted = k + len(hidden)
        while True:
            found = self._nearest(part, question, wanted, as_of)
            ties_are_cut = len(found) == wanted and found[-1][1] >= found[k - 1][1]
            if not ties_are_cut or wanted >= min(eligible, MAX_TIED):
                break
            wanted = min(wanted * 4, MAX_TIED)
        names = [name for name, _ in found if name not in hidden]
        times = self._client.zmscore(ended, names) if names else []
        scores = dict(found)
        hits = [
            # Redis maps a cosine of -1..1 to a score of 0..1.
            (name, Hit(2.0 * scores[name] - 1.0, float(at), 0))
            for name, at in zip(names, times, strict=True)
            if at is not None
        ]
        return eligible - len(hidden), hits

    def _nearest(self, part: str, question: bytes, count: int, as_of: int) -> list[tuple[str, float]]:
        words = ("FP32", question, "WITHSCORES", "COUNT", count, "FILTER", f".ended <= {as_of}")
        return _pairs(self._client.execute_command("VSIM", self._set(part), *words, "FILTER-EF", EVERYTHING, "TRUTH"))

    def _admitted(self, where: HistoryFilter) -> list[str]:
        if len(where.facets) == len(_FACETS):
            # All is said: the only set that can match needs no look at the others.
            return [_part_id((where.task_type, where.gpu_family, where.gpu_count_class))]
        found: list[str] = []
        for part, raw in self._client.hgetall(self._parts).items():
            task, family, count_class = json.loads(raw)
            if admits(where, (task, family, count_class)):
                found.append(part.decode())
        return sorted(found)

    def _records(self, hits: Sequence[_Named]) -> tuple[SimilarJob, ...]:
        if not hits:
            return ()
        raws = self._client.hmget(self._jobs, [name for name, _ in hits])
        return tuple(
            SimilarJob(past_job_from_json(json.loads(raw)["job"]), min(1.0, hit.similarity))
            for (_, hit), raw in zip(hits, raws, strict=True)
            if raw is not None
        )

    def _where(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Partition of each of these jobs that is there."""
        if not job_ids:
            return {}
        raws = self._client.hmget(self._jobs, list(job_ids))
        return {
            job_id: str(json.loads(raw)["part"]) for job_id, raw in zip(job_ids, raws, strict=True) if raw is not None
        }

    def _drop(self, pipe: Any, job_id: str, part: str) -> None:
        pipe.execute_command("VREM", self._set(part), job_id)
        pipe.zrem(self._ended(part), job_id)
        pipe.hdel(self._jobs, job_id)

    def _set(self, part: str) -> str:
        return f"{self._base}:vectors:{part}"

    def _ended(self, part: str) -> str:
        return f"{self._base}:ended:{part}"


def _ranked(hits: Sequence[_Named], k: int) -> list[_Named]:
    # Scores come back in single precision: equal vectors may differ in the last digits.
    rounded = [Hit(round(hit.similarity, 6), hit.ended_at_s, place) for place, (_, hit) in enumerate(hits)]
    return [(hits[hit.number][0], hit) for hit in best_hits(rounded, k)]


def _pairs(answer: Any) -> list[tuple[str, float]]:
    """Members and scores, of a server that speaks RESP2 (a flat list) or RESP3 (a map); best first."""
    pairs = answer.items() if isinstance(answer, Mapping) else zip(answer[::2], answer[1::2], strict=True)
    return [(name.decode(), float(score)) for name, score in pairs]


def _part_id(facets: Facets) -> str:
    return hashlib.sha256(json.dumps(facets).encode()).hexdigest()[:16]


def _micros(moment: datetime) -> int:
    """Microseconds since 1970: whole numbers that a double holds exactly until the year 2255."""
    return round(moment.timestamp() * _MICRO)


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _BATCH] for start in range(0, len(values), _BATCH))


def _require_vector_sets(client: Any, key: str) -> None:
    try:
        client.execute_command("VCARD", key)
    except ResponseError as error:
        if "unknown command" not in str(error).lower():
            raise _outage(error) from error
        raise ExternalError(
            f"the history index needs Redis {MIN_SERVER} or newer, which has vector sets; use such a server, or "
            f"the embedded index of the state database. This server is {_version(client)}"
        ) from error
    except RedisError as error:
        raise _outage(error) from error


def _version(client: Any) -> str:
    try:
        return f"Redis {client.info('server')['redis_version']}"
    except (RedisError, KeyError, TypeError):
        return "one that does not tell its version"


def _outage(error: RedisError) -> ExternalError:
    return ExternalError(f"the Redis server of the history index did not answer as it should: {error}")
