"""The whole path: snapshot → metadata → fingerprint → similar past jobs → evidence → estimate or fallback.

One object serves the submission job (with the code in hand), the policies and the simulator (with a
fingerprint and an ``as_of``). It never raises for what others do: whatever is away, hostile or slow becomes a
counted fallback, and the plain estimator answers.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from lucid_pipelines.advisor.agent.loop import AgentLimits, AgentReport, complete_with_model
from lucid_pipelines.advisor.box import START_ALLOWANCE_S, BoxLimits, extract_boxed
from lucid_pipelines.advisor.cost import AdviceCost
from lucid_pipelines.advisor.description import LaunchDescription
from lucid_pipelines.advisor.estimates import (
    AdvisedEstimate,
    EstimateRules,
    Fallback,
    estimate,
    paper_estimate,
)
from lucid_pipelines.advisor.fingerprint import SCHEMA_VERSION, Fingerprint, Surroundings, fingerprint
from lucid_pipelines.advisor.intervals import MAX_RESIDUALS
from lucid_pipelines.advisor.metadata import JobMetadata
from lucid_pipelines.advisor.scoring import AdviceScore, score
from lucid_pipelines.domain.errors import ExternalError, InputError, LucidError
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.similarity import IndexEntry, PastJob, SimilarJobs, VectorSpace
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.ports import Embedder, HistoryIndex, LanguageModel

Reader = Callable[[Path, LaunchDescription, BoxLimits], JobMetadata]
LEAST_READING_S = 1.0


@dataclass(frozen=True, slots=True)
class AdvisorSettings:
    """How the advisor decides.

    Attributes:
        threshold: ``T_score`` of the embedder.
        k: similar jobs that are asked for.
        time_box_s: for reading, model, embedding and search together.
        use_paper_rule: the plain mean of the best three, for the standalone policy.
    """

    threshold: float
    k: int = 20
    time_box_s: float = 20.0
    use_paper_rule: bool = False
    rules: EstimateRules = field(default_factory=EstimateRules)
    agent: AgentLimits = field(default_factory=AgentLimits)
    memory_mib: int = 1_536

    def __post_init__(self) -> None:
        if not -1 <= self.threshold <= 1 or not math.isfinite(self.threshold):
            raise InputError(f"a threshold is a cosine, from -1 to 1: {self.threshold}")
        if self.k < 1 or self.time_box_s <= 0:
            raise InputError("k is at least 1 and the time box above 0 seconds")


@dataclass(frozen=True, slots=True)
class Advice:
    """What came of one job.

    Attributes:
        metadata, fingerprint, similar: as far as the path went.
        agent: what the language model did; ``None`` when none was asked.
        cost: what this advice cost.
    """

    advised: AdvisedEstimate
    cost: AdviceCost
    wall_s: float
    metadata: JobMetadata | None = None
    fingerprint: Fingerprint | None = None
    similar: SimilarJobs | None = None
    agent: AgentReport | None = None

    @property
    def estimate(self) -> Estimate | None:
        return self.advised.estimate

    @property
    def basis(self) -> str:
        """The estimate's basis, or the reason why there is none: a counter's name."""
        if self.advised.estimate is not None:
            return self.advised.estimate.basis
        return "no_evidence" if self.advised.fallback is None else self.advised.fallback.value


class Advisor:
    """Advice from code and history.

    Args:
        embedder: makes the vectors; its space must be that of ``index``.
        index: past jobs.
        model: asked for what reading leaves open; ``None`` = never.
        read: reads a job's metadata; by default in a process of its own.
        residuals: ln(actual / predicted) of earlier predictions, newest last.

    Raises:
        InputError: the index holds vectors of another embedder, dimension or fingerprint schema.
    """

    def __init__(
        self,
        embedder: Embedder,
        index: HistoryIndex,
        settings: AdvisorSettings,
        *,
        model: LanguageModel | None = None,
        read: Reader = extract_boxed,
        clock: Callable[[], float] = time.monotonic,
        residuals: Sequence[float] = (),
    ) -> None:
        space = vector_space(embedder)
        if index.space != space:
            raise InputError(f"the index holds vectors of {index.space.key}, the embedder makes {space.key}")
        self._embedder = embedder
        self._index = index
        self._settings = settings
        self._model = model
        self._read = read
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._residuals: deque[float] = deque(residuals, maxlen=MAX_RESIDUALS)

    @property
    def index(self) -> HistoryIndex:
        """The past jobs that are asked."""
        return self._index

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each basis or fallback answered, since this object was made."""
        return MappingProxyType(dict(self._counts))

    def advise(
        self,
        root: Path,
        launch: LaunchDescription,
        as_of: datetime,
        surroundings: Surroundings | None = None,
        exclude_job_ids: frozenset[str] = frozenset(),
        time_box_s: float | None = None,
    ) -> Advice:
        """Advice for a job whose code lies at ``root``; within the time box, and without raising.

        Args:
            time_box_s: another time box than that of the settings.
        """
        started, cpu = self._clock(), time.process_time()
        until = started + (self._settings.time_box_s if time_box_s is None else time_box_s)
        agent: AgentReport | None = None
        try:
            metadata, agent = self._metadata(root, launch, until)
        except LucidError as error:
            return self._done(AdvisedEstimate(None, Fallback.CODE_NOT_READ, str(error)), started, cpu)
        mark = fingerprint(metadata, surroundings)
        advised, similar = self._look(mark, as_of, exclude_job_ids)
        return self._done(advised, started, cpu, metadata, mark, similar, agent)

    def look_up(
        self, mark: Fingerprint, as_of: datetime, exclude_job_ids: frozenset[str] = frozenset()
    ) -> tuple[AdvisedEstimate, SimilarJobs | None]:
        """What history said at ``as_of`` of a job whose fingerprint is known: for policies and replays."""
        advised, similar = self._look(mark, as_of, exclude_job_ids)
        self._count(advised)
        return advised, similar

    def learn(self, jobs: Sequence[PastJob]) -> int:
        """Add ended jobs to the history. Returns how many were new.

        Raises:
            ExternalError: the embedder or the index did not answer; the same call may be repeated.
        """
        vectors = self._embedder.embed([job.fingerprint for job in jobs])
        return self._index.add([IndexEntry(job, vector) for job, vector in zip(jobs, vectors, strict=True)])

    def note_outcome(self, advised: AdvisedEstimate, outcome: Outcome, duration_s: float | None) -> AdviceScore:
        """Hold advice against what happened; the error widens or narrows the next intervals."""
        found = score(advised.estimate, advised.fallback, outcome, duration_s)
        if found.residual is not None:
            self._residuals.append(found.residual)
        return found

    # ------------------------------------------------------------------ the path

    def _metadata(self, root: Path, launch: LaunchDescription, until: float) -> tuple[JobMetadata, AgentReport | None]:
        # The box may take a little longer than its reading, to start and to be ended.
        reading_s = max(LEAST_READING_S, self._left_s(until) - START_ALLOWANCE_S)
        limits = BoxLimits(reading_s, self._settings.memory_mib)
        metadata = self._read(root, launch, limits)
        left_s = self._left_s(until)
        if self._model is None or left_s <= LEAST_READING_S:
            return metadata, None
        bounds = self._settings.agent
        bounded = replace(bounds, wall_s=min(bounds.wall_s, left_s))
        return complete_with_model(root, launch.command, metadata, self._model, bounded, self._clock)

    def _left_s(self, until: float) -> float:
        return max(LEAST_READING_S, until - self._clock())

    def _look(
        self, mark: Fingerprint, as_of: datetime, exclude: frozenset[str]
    ) -> tuple[AdvisedEstimate, SimilarJobs | None]:
        if not mark.is_telling:
            detail = f"only {mark.known_frac:.0%} of what tells jobs apart was determined"
            return AdvisedEstimate(None, Fallback.TOO_LITTLE_READ, detail), None
        try:
            similar = self._search(mark, as_of, exclude)
        except ExternalError as error:
            return AdvisedEstimate(None, Fallback.HISTORY_AWAY, str(error)), None
        version = self._index.space.key
        if self._settings.use_paper_rule:
            return paper_estimate(similar, model_version=version), similar
        return estimate(similar, self._settings.rules, tuple(self._residuals), version), similar

    def _search(self, mark: Fingerprint, as_of: datetime, exclude: frozenset[str]) -> SimilarJobs:
        vector = self._embedder.embed([mark.text])[0]
        where = replace(mark.hard_filter, exclude_job_ids=exclude)
        return self._index.search(vector, self._settings.k, as_of, where, self._settings.threshold)

    def _done(
        self,
        advised: AdvisedEstimate,
        started: float,
        cpu: float,
        metadata: JobMetadata | None = None,
        mark: Fingerprint | None = None,
        similar: SimilarJobs | None = None,
        agent: AgentReport | None = None,
    ) -> Advice:
        self._count(advised)
        # The boxed reader's own time is what it reported: the child is not this process.
        reading_s = 0.0 if metadata is None else metadata.report.wall_s
        # A server's GPU is taken for busy while it is asked: an upper bound, and all that can be seen from here.
        gpu_s = 0.0 if agent is None or agent.turns == 0 else agent.wall_s
        cost = AdviceCost(cpu_s=time.process_time() - cpu + reading_s, gpu_s=gpu_s)
        return Advice(advised, cost, self._clock() - started, metadata, mark, similar, agent)

    def _count(self, advised: AdvisedEstimate) -> None:
        if advised.estimate is not None:
            self._counts[advised.estimate.basis] += 1
        elif advised.fallback is not None:
            self._counts[advised.fallback.value] += 1


def vector_space(embedder: Embedder) -> VectorSpace:
    """The space of an embedder's fingerprint vectors."""
    return VectorSpace(embedder.name, embedder.dimension, SCHEMA_VERSION)
