"""Range specs: what is measured, the bound it must keep, and why the bound stands there."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from lucid_pipelines.domain import quantiles


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim and its measured value. ``spread`` is the standard deviation, ``None`` for a single figure."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None
    spread: float | None = None
    samples: int = 1
    why: str = ""

    @property
    def holds(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of unordered values; ``share`` in 0 to 1."""
    return quantiles.quantile(sorted(values), share)


def mean_of(name: str, values: Sequence[float], **bounds: float | str | None) -> Claim:
    """A claim about a mean, with its spread."""
    return Claim(name, fmean(values), spread=pstdev(values), samples=len(values), **bounds)  # pyright: ignore[reportArgumentType]


def report(claims: Sequence[Claim], *, as_json: bool) -> int:
    """Print every claim; the exit status says whether all hold."""
    if as_json:
        rows = [
            {
                "name": claim.name,
                "value": claim.value,
                "spread": claim.spread,
                "samples": claim.samples,
                "at_least": claim.at_least,
                "at_most": claim.at_most,
                "holds": claim.holds,
            }
            for claim in claims
        ]
        json.dump(rows, sys.stdout)
        print()
    else:
        for claim in claims:
            spread = f" ± {claim.spread:.3g}" if claim.spread is not None else ""
            bounds = " ".join(
                f"{sign} {bound:g}"
                for sign, bound in ((">=", claim.at_least), ("<=", claim.at_most))
                if bound is not None
            )
            verdict = "ok  " if claim.holds else "FAIL"
            print(f"{verdict} {claim.name}: {claim.value:.4g}{spread} (n={claim.samples}) {bounds} {claim.why}")
    return 0 if all(claim.holds for claim in claims) else 1
