"""The search: points in batches over scenarios, hopeless ones dropped early, on all cores, and resumable.

A batch has a fixed size, so that the order of events, and with it a guided search, does not depend on how many
processes work. Within a batch all points that are still in the race meet one scenario, then the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from statistics import fmean, stdev
from typing import Any

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.tuning.journal import Journal, key_of
from lucid_pipelines.tuning.measuring import Measures, measure, measure_in_worker, prepare_worker
from lucid_pipelines.tuning.proposing import Proposer
from lucid_pipelines.tuning.scenarios import Scenario
from lucid_pipelines.tuning.space import Values

BATCH = 4
CLEARLY_WORSE = 0.10
"""Log ratio of the mean JCT to the best's above which one scenario is enough to drop a point."""
SURELY_WORSE = 0.01
"""The same over several scenarios, beyond twice its standard error."""

Progress = Callable[[int, int], None]
"""Called with replays done and points dropped."""
Submit = Callable[[Scenario, Values], "Future[dict[str, float | None]]"]
"""Has one replay made, somewhere."""


@dataclass
class Trial:
    """One point and what it did.

    Attributes:
        measures: by scenario, in the order of the scenarios.
        dropped: it was hopeless, and has not met every scenario.
    """

    number: int
    values: Values
    measures: dict[str, Measures] = field(default_factory=dict)
    dropped: bool = False


@dataclass(frozen=True)
class Sweep:
    """All trials; the first is the default point.

    Attributes:
        replayed, resumed: replays made now, and taken from the journal.
    """

    trials: tuple[Trial, ...]
    scenarios: tuple[str, ...]
    replayed: int
    resumed: int

    @property
    def default(self) -> Trial:
        return self.trials[0]

    @property
    def complete(self) -> list[Trial]:
        """Trials that met every scenario."""
        return [trial for trial in self.trials if not trial.dropped]


def log_ratios(trial: Trial, other: Trial, name: str) -> list[float]:
    """ln(measure ÷ the other's) for every scenario that both met; a measure of 0 counts as one second."""
    found: list[float] = []
    for scenario, measures in trial.measures.items():
        beside = other.measures.get(scenario)
        mine, theirs = measures.get(name), None if beside is None else beside.get(name)
        if mine is not None and theirs is not None:
            found.append(math.log(max(mine, 1.0) / max(theirs, 1.0)))
    return found


def mean_ratio(trial: Trial, other: Trial, name: str) -> float | None:
    """Geometric mean of measure ÷ the other's; ``None`` when they share no scenario."""
    logs = log_ratios(trial, other, name)
    return math.exp(fmean(logs)) if logs else None


def run_sweep(
    scenarios: Sequence[Scenario],
    default: Values,
    proposer: Proposer,
    *,
    trials: int,
    journal: Journal,
    submit: Submit,
    progress: Progress | None = None,
    drop: bool = True,
) -> Sweep:
    """Try up to ``trials`` points besides the default one.

    Args:
        submit: from ``workers``, which must know the scenarios.
        drop: stop the replays of hopeless points early.

    Raises:
        InputError: no scenario, or a number that is not positive.
        ExternalError: a worker process died; what was measured is in the journal.
    """
    if not scenarios or trials < 1:
        raise InputError(f"a sweep needs a scenario and a trial; got {len(scenarios)} and {trials}")
    race = _Race(tuple(scenarios), journal, progress, drop)
    race.run([Trial(0, dict(default))], submit)
    while len(race.trials) <= trials:
        points = proposer.ask(min(BATCH, trials + 1 - len(race.trials)))
        if not points:
            break
        known = {key_of(trial.values): trial for trial in race.trials}
        fresh = [point for point in points if key_of(point) not in known]
        batch = [Trial(len(race.trials) + i, point) for i, point in enumerate(fresh)]
        race.run(batch, submit)
        for trial in (*batch, *(known[key_of(p)] for p in points if key_of(p) in known)):
            proposer.tell(trial.values, race.score(trial))
    return Sweep(tuple(race.trials), tuple(s.name for s in scenarios), race.replayed, journal.resumed)


class _Race:
    """Runs batches and remembers who leads."""

    def __init__(
        self, scenarios: tuple[Scenario, ...], journal: Journal, progress: Progress | None, drop: bool
    ) -> None:
        self.trials: list[Trial] = []
        self._drop = drop
        self.replayed = 0
        self._scenarios = scenarios
        self._journal = journal
        self._progress = progress
        self._best: Trial | None = None

    def run(self, batch: Sequence[Trial], submit: Submit) -> None:
        """Race the batch through the scenarios."""
        self.trials += batch
        alive = list(batch)
        for scenario in self._scenarios:
            waiting: dict[Future[dict[str, float | None]], Trial] = {}
            for trial in alive:
                known = self._journal.get(scenario.name, trial.values)
                if known is not None:
                    trial.measures[scenario.name] = known
                    continue
                future = submit(scenario, trial.values)
                if future.done():
                    self._note(trial, scenario, future)
                else:
                    waiting[future] = trial
            for future in as_completed(waiting):
                self._note(waiting[future], scenario, future)
            for trial in alive:
                trial.dropped = self._drop and self._is_hopeless(trial)
            alive = [trial for trial in alive if not trial.dropped]
        for trial in sorted(alive, key=lambda item: item.number):
            if self._best is None or self.score(trial) < self.score(self._best):
                self._best = trial
        self._tell()

    def score(self, trial: Trial) -> float:
        """Mean log ratio of the mean JCT to the default's; infinitely bad where jobs never ended."""
        if _unended(trial) > _unended(self.trials[0]):
            return 10.0
        logs = log_ratios(trial, self.trials[0], "avg_jct_s")
        return fmean(logs) if logs else 0.0

    def _note(self, trial: Trial, scenario: Scenario, future: Future[dict[str, float | None]]) -> None:
        measures = _result(future)
        self._journal.add(scenario.name, trial.values, measures)
        trial.measures[scenario.name] = measures
        self.replayed += 1
        self._tell()

    def _is_hopeless(self, trial: Trial) -> bool:
        if self._best is None:
            return False
        if _unended(trial) > _unended(self._best):
            return True
        logs = log_ratios(trial, self._best, "avg_jct_s")
        if len(logs) == len(self._scenarios) or not logs:
            return False
        if len(logs) == 1:
            return logs[0] > CLEARLY_WORSE
        mean, spread = fmean(logs), stdev(logs) / math.sqrt(len(logs))
        return mean > SURELY_WORSE and mean - 2.0 * spread > 0.0

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.replayed, sum(trial.dropped for trial in self.trials))


def _unended(trial: Trial) -> float:
    return sum(measures.get("unended_jobs") or 0.0 for measures in trial.measures.values())


def _result(future: Future[dict[str, float | None]]) -> Mapping[str, float | None]:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise ExternalError(
            "a worker process died (out of memory?); the same command goes on where it was, "
            "with fewer processes (--processes) it needs less"
        ) from error


@contextmanager
def workers(scenarios: Sequence[Scenario], processes: int) -> Iterator[Submit]:
    """Processes that hold the scenarios; one process is this one.

    Raises:
        InputError: fewer than one process.
    """
    if processes < 1:
        raise InputError(f"replays need at least one process; got {processes}")
    if processes == 1:
        yield _here
        return
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=prepare_worker, initargs=(tuple(scenarios),)
    )
    try:
        yield lambda scenario, values: pool.submit(measure_in_worker, scenario.name, dict(values))
    finally:
        pool.shutdown(cancel_futures=True)


def _here(scenario: Scenario, values: Values) -> Future[dict[str, float | None]]:
    future: Future[Any] = Future()
    try:
        future.set_result(measure(scenario, values))
    except Exception as error:  # noqa: BLE001  raised again where the result is asked for
        future.set_exception(error)
    return future
