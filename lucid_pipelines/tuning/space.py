"""What can be tuned: each setting with the values that are tried, in order.

Source: Lucid paper, sections 12 and 15 (Tprof, Nprof, Cprof, thresholds of the sharing score, switching of the sharing
capacity, period of retraining).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.placement import ModeRules, PairingRules, default_pool_nodes
from lucid_pipelines.policies import ProfilingRules
from lucid_pipelines.simulation.scoring import FittedScorer

Values = Mapping[str, float]
"""Setting → value: one point of the space."""

RETRAIN = "retrain_every_days"
NEVER = 0.0
"""As a period of retraining: the model of the first day serves for ever."""
_SCORER = ("tiny_above", "medium_above")
_WHOLE = ("profile_max_gpus", "profiler_nodes", "capacity")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: as the policy (or the sharing score) calls it.
        symbol: as the paper calls it.
        values: ascending.
        default: among the values.
        unit: of the values; empty for a plain number.
    """

    name: str
    symbol: str
    values: tuple[float, ...]
    default: float
    unit: str
    meaning: str


def space_for(
    cluster: ClusterSpec, names: Sequence[str] | None = None, *, retraining: bool = False
) -> tuple[Setting, ...]:
    """The settings that can be searched on a cluster.

    Args:
        names: only these; default all but the period of retraining, which needs trained predictions.
        retraining: whether those are there.

    Raises:
        InputError: an unknown name; the nearest is given.
    """
    settings = {setting.name: setting for setting in _all(cluster)}
    if names is None:
        return tuple(s for s in settings.values() if s.name != RETRAIN or retraining)
    for name in names:
        if name not in settings:
            raise InputError(
                f"settings that can be searched are {', '.join(settings)}{did_you_mean(name, settings)}; not {name!r}"
            )
    if RETRAIN in names and not retraining:
        raise InputError(f"{RETRAIN} needs a trace with a calendar and enough jobs before its first day of search")
    return tuple(settings[name] for name in dict.fromkeys(names))


def defaults_of(space: Sequence[Setting]) -> dict[str, float]:
    """The point that every other is compared with."""
    return {setting.name: setting.default for setting in space}


def policy_values(values: Values) -> dict[str, object]:
    """What of a point is the policy's own, in the form that it takes."""
    found: dict[str, object] = {
        name: int(value) if name in _WHOLE else float(value)
        for name, value in values.items()
        if name not in (*_SCORER, RETRAIN)
    }
    if "profile_window_s" in values:
        # A busy profiler must not look longer than an idle one.
        found["busy_window_s"] = min(ProfilingRules().busy_window_s, float(values["profile_window_s"]))
    return found


def scorer_values(values: Values) -> dict[str, float]:
    """What of a point are thresholds of the sharing score; medium never lies above tiny."""
    found = {name: float(values[name]) for name in _SCORER if name in values}
    tiny = found.get("tiny_above", FittedScorer().tiny_above)
    if "medium_above" in found:
        found["medium_above"] = min(found["medium_above"], tiny)
    return found


def applicable(values: Values) -> dict[str, object]:
    """A point as ``lucid tuner apply`` takes it. Never retraining is left to the schedules."""
    found: dict[str, object] = {**policy_values(values), **scorer_values(values)}
    if values.get(RETRAIN, NEVER) > 0:
        found[RETRAIN] = float(values[RETRAIN])
    return found


def _all(cluster: ClusterSpec) -> tuple[Setting, ...]:
    profiling, modes, pairing, scorer = ProfilingRules(), ModeRules(), PairingRules(), FittedScorer()
    default_pool, nodes = float(default_pool_nodes(cluster.nodes())), len(cluster.nodes())
    few = max(1.0, default_pool)
    pool = sorted({default_pool, 1.0, few, 2 * few, 4 * few, 8 * few})
    pool = [n for n in pool if n == default_pool or n <= nodes // 4]
    return (
        Setting(
            "profile_window_s", "Tprof", (60.0, 100.0, 200.0, 300.0, 600.0), profiling.profile_window_s, "s",
            "longest run in the profiler",
        ),
        Setting(
            "profile_max_gpus", "Nprof", (1.0, 2.0, 4.0, 8.0, 16.0), float(profiling.profile_max_gpus), "GPUs",
            "jobs with more GPUs are sampled while they run",
        ),
        Setting("profiler_nodes", "Cprof", tuple(pool), default_pool, "nodes", "nodes that the profiler owns"),
        Setting(
            "tiny_above", "Tiny", (0.90, 0.93, 0.95, 0.97), scorer.tiny_above, "",
            "mean speed beside others above which a job is Tiny",
        ),
        Setting(
            "medium_above", "Medium", (0.75, 0.80, 0.85, 0.90), scorer.medium_above, "",
            "mean speed beside others above which a job is Medium",
        ),
        Setting("capacity", "GSS", (0.0, 1.0, 2.0), float(pairing.capacity), "", "sum of sharing scores on a GPU"),
        Setting(
            "off_below_jobs", "sharing off", (0.0, 1.0, 2.0, 4.0, 8.0), modes.off_below_jobs, "jobs/slot",
            "with at most so many predicted submissions nothing shares",
        ),
        Setting(
            "apathetic_below_jobs", "apathetic", (2.0, 4.0, 8.0, 16.0), modes.apathetic_below_jobs, "jobs/slot",
            "with at most so many the capacity is 1",
        ),
        Setting(RETRAIN, "retraining", (NEVER, 1.0, 7.0), 7.0, "days", "days between two trainings; 0 = never again"),
    )  # fmt: skip
