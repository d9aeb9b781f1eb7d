"""Which points of the space to try next: grid, random, or guided by what was seen (TPE of Optuna)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from math import prod
from typing import Protocol

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.tuning.journal import key_of
from lucid_pipelines.tuning.space import Setting, Values

MAX_GRID = 2_000
_START_UP = 10
"""Random points before the guided search has anything to go by."""


class Strategy(StrEnum):
    """How points are chosen."""

    GRID = "grid"
    RANDOM = "random"
    GUIDED = "guided"


class Proposer(Protocol):
    """Gives points to try and is told how they fared. Repeatable: the same answers give the same points."""

    def ask(self, count: int) -> list[dict[str, float]]:
        """Up to ``count`` points that were not given before; fewer or none when the space is exhausted."""
        ...

    def tell(self, values: Values, score: float) -> None:
        """How a point fared; lower is better."""
        ...


def proposer_of(strategy: Strategy, space: Sequence[Setting], seed: int) -> Proposer:
    """Raises ``InputError`` when there is nothing to search, or a grid has too many points."""
    if not space:
        raise InputError("name at least one setting to search; got none")
    if strategy is Strategy.GRID:
        return _Grid(space)
    return _Random(space, seed) if strategy is Strategy.RANDOM else _Guided(space, seed)


class _Grid:
    """Every combination, one after the other."""

    def __init__(self, space: Sequence[Setting]) -> None:
        count = prod(len(setting.values) for setting in space)
        if count > MAX_GRID:
            raise InputError(
                f"a grid over {len(space)} settings has {count:,} points, {MAX_GRID:,} are allowed: "
                "search fewer settings (--search), or guided"
            )
        names = [setting.name for setting in space]
        self._points: Iterator[dict[str, float]] = (
            dict(zip(names, point, strict=True)) for point in itertools.product(*(s.values for s in space))
        )

    def ask(self, count: int) -> list[dict[str, float]]:
        return list(itertools.islice(self._points, count))

    def tell(self, values: Values, score: float) -> None:
        """A grid does not learn."""


class _Random:
    """Points drawn alike from all, none twice."""

    def __init__(self, space: Sequence[Setting], seed: int) -> None:
        self._space = space
        self._random = random.Random(seed)
        self._given: set[str] = set()
        self._size = prod(len(setting.values) for setting in space)

    def ask(self, count: int) -> list[dict[str, float]]:
        found: list[dict[str, float]] = []
        while len(found) < count and len(self._given) < self._size:
            point = {setting.name: self._random.choice(setting.values) for setting in self._space}
            if key_of(point) not in self._given:
                self._given.add(key_of(point))
                found.append(point)
        return found

    def tell(self, values: Values, score: float) -> None:
        """Random search does not learn."""


class _Guided:
    """A tree-structured Parzen estimator over the positions of the values in their order."""

    def __init__(self, space: Sequence[Setting], seed: int) -> None:
        # Optuna takes a second to import, and only a guided search needs it.
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._size = prod(len(setting.values) for setting in space)
        self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
            setting.name: optuna.distributions.IntDistribution(0, len(setting.values) - 1) for setting in space
        }
        sampler = optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=_START_UP,
            multivariate=True,
            constant_liar=True,
        )
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._open: dict[str, optuna.Trial] = {}
        self._scores: dict[str, float] = {}
        self._given: set[str] = set()

    def ask(self, count: int) -> list[dict[str, float]]:
        found: list[dict[str, float]] = []
        misses = 0
        while len(found) < count and len(self._given) < self._size and misses < 50 * count:
            trial = self._study.ask(self._distributions)
            point = {s.name: s.values[int(trial.params[s.name])] for s in self._space}
            key = key_of(point)
            if key in self._given:
                # Told again what is known, so that it looks elsewhere.
                misses += 1
                self._study.tell(trial, self._scores.get(key, max(self._scores.values(), default=0.0)))
                continue
            self._given.add(key)
            self._open[key] = trial
            found.append(point)
        return found

    def tell(self, values: Values, score: float) -> None:
        key = key_of(values)
        self._scores[key] = score
        trial = self._open.pop(key, None)
        if trial is not None:
            self._study.tell(trial, score)
