"""Which part of something repeated takes how much: functions wrapped for the while, each without those within it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from statistics import fmean
from typing import Any

from benchmarks.ranges import quantile


class Steps:
    """Processor time by step; ``rounds`` are entered one after the other."""

    def __init__(self) -> None:
        self._rounds: list[dict[str, float]] = []
        self._inner_s: list[float] = []
        self._is_on = False

    @contextmanager
    def wrapped(self, places: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Measure functions: their owner, their name there, and what the step is called."""
        true = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
        for (owner, name, function), (_, _, step) in zip(true, places, strict=True):
            setattr(owner, name, self._measured(function, step))
        try:
            yield
        finally:
            for owner, name, function in reversed(true):
                setattr(owner, name, function)

    @contextmanager
    def round(self) -> Iterator[None]:
        """One repetition."""
        self._rounds.append(defaultdict(float))
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def told(self, total_s: Sequence[float]) -> list[str]:
        """One line a step, the dearest first.

        Args:
            total_s: processor time of each round as a whole.
        """
        lines: list[tuple[float, str]] = []
        for step in {step for one in self._rounds for step in one}:
            values = [1_000 * one.get(step, 0.0) for one in self._rounds]
            share = sum(values) / (1_000 * sum(total_s))
            most = [quantile(values, at) for at in (0.5, 0.99)]
            lines.append(
                (share, f"{step:<20} {fmean(values):6.2f} ms  p50 {most[0]:6.2f}  p99 {most[1]:6.2f}  {share:4.0%}")
            )
        return [text for _, text in sorted(lines, reverse=True)]

    def _measured(self, function: Any, step: str) -> Any:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if not self._is_on:
                return function(*args, **options)
            begin = time.process_time()
            self._inner_s.append(0.0)
            try:
                return function(*args, **options)
            finally:
                took_s = time.process_time() - begin
                self._rounds[-1][step] += took_s - self._inner_s.pop()
                if self._inner_s:
                    self._inner_s[-1] += took_s

        return call
