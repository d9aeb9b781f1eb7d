"""A synthetic trace with the statistics of published ones: anyone can replay a month without a download.

What is made, in this order (one seeded random stream, arrays only):

1. Users with unequal activity, each at home in one virtual cluster; each has **templates**, programs that are
   run again and again. Popularity of users and of their templates falls as a power of rank.
2. **Sessions**: a user submits one template once or several times in a row (sweeps, retries). Sessions begin by
   the hour and the day of the week.
3. **Code versions**: before each run of a template the code changes with probability ``drift``. A change moves
   the run time by a factor (median 1, two thirds within 2.7 times) and gives a new code fingerprint. Equal
   fingerprints are equal code.
4. **Names** follow templates, but not always: some templates are renamed half way, some number their runs, and
   some share their name with another template of the user.
5. **Final states** by each template's own reliability; failed runs end early.
6. **Run times** have exactly the published law; who gets which follows from template, version, state and chance.
7. **GPUs** belong to a template; larger ones run longer.
8. **Workloads** come from a profile table by template (see ``workloads``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces import published
from lucid_pipelines.traces.arrivals import sample_sessions
from lucid_pipelines.traces.clusters import fit_cluster
from lucid_pipelines.traces.collector import typed_frame
from lucid_pipelines.traces.frames import Floats
from lucid_pipelines.traces.loaded import LoadedTrace
from lucid_pipelines.traces.names import template_names
from lucid_pipelines.traces.profiles import ProfileTable, generated_profiles
from lucid_pipelines.traces.workloads import WORKLOAD_COLUMNS, assign_workloads

Ints = npt.NDArray[np.int64]

JOBS_LIMIT = 20_000_000
DEFAULT_START = datetime(2024, 1, 1, tzinfo=UTC)
"""A Monday."""
CPUS_PER_GPU = 6
GPU_TYPE = "synthetic-24GB"
GPU_MEMORY_MIB = 24_576.0
CLOCK = "seconds since 1970-01-01 UTC; the calendar is invented"
_RUNS_PER_TEMPLATE = 15
_TEMPLATE_SIGMA = 1.5
_VERSION_SIGMA = 1.0
_RUN_SIGMA = 1.2
_EARLY_END = 0.65
"""Failed runs end earlier: mean of the exponential cut of their score."""
_LONG_CANCEL = 0.26
_SHORT_FAIL = -0.02
"""How much long templates lean to cancelled runs, short ones to failed runs."""
_GPU_PULL = 0.55
"""How much larger templates run longer, in standard deviations of the template level per unit of rank."""


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """What ``generate`` was asked for; written into the trace's header."""

    seed: int
    jobs: int
    days: float
    vcs: tuple[str, ...]
    users: int
    load_frac: float
    drift: float
    start_at: datetime
    profiles: str


def generate(
    seed: int,
    *,
    jobs: int = 25_000,
    days: float = 30.0,
    vcs: int | Sequence[str] = 6,
    users: int | None = None,
    load_frac: float = 0.7,
    drift: float = 0.1,
    start_at: datetime = DEFAULT_START,
    profiles: ProfileTable | None = None,
) -> LoadedTrace:
    """Make a synthetic trace and a cluster that fits it.

    Args:
        vcs: how many virtual clusters, or their names; earlier ones get more users.
        users: how many users; by default the square root of the number of jobs.
        load_frac: share of the fitted cluster's GPUs that the jobs would occupy on average.
        drift: probability that the code changed since the template's last run, 0 to 1.
        start_at: first moment; without a zone it is UTC.
        profiles: workloads to draw from; by default the generated table.

    Returns:
        A trace of format ``canonical`` whose metadata says that it is synthetic; equal arguments give equal
        traces.

    Raises:
        InputError: an argument is out of its range.
    """
    table = profiles or generated_profiles()
    settings = _checked(seed, jobs, days, vcs, users, load_frac, drift, start_at, table)
    rng = np.random.default_rng(settings.seed)
    templates = _templates(settings, rng)
    runs = _runs(settings, templates, rng)
    frame = _frame(settings, templates, runs, table)
    return LoadedTrace(
        format="canonical",
        source=f"generated with seed {seed}",
        frame=frame,
        quarantine=pd.DataFrame({"row_number": [], "reason": [], "raw": []}).astype(
            {"row_number": np.int64, "reason": "str", "raw": "str"}
        ),
        rows_read=len(frame),
        clock=CLOCK,
        cluster=_cluster(frame, settings),
        metadata=_metadata(settings),
    )


@dataclass(frozen=True, slots=True)
class _Templates:
    """Programs that users run; arrays by template.

    Attributes:
        share: probability that a session is of this template.
        level: standard normal; where its run times lie.
        fails, cancels: standard normal; how prone its runs are.
    """

    user: Ints
    vc: Ints
    share: Floats
    level: Floats
    fails: Floats
    cancels: Floats


@dataclass(frozen=True, slots=True)
class _Runs:
    """Submissions in order of time; arrays by job."""

    template: Ints
    submit_s: Floats
    number: Ints
    version: Ints
    state: npt.NDArray[np.int8]
    duration_s: Floats
    gpus: Floats


_STATES = ("completed", "cancelled", "failed")


def _checked(
    seed: int,
    jobs: int,
    days: float,
    vcs: int | Sequence[str],
    users: int | None,
    load_frac: float,
    drift: float,
    start_at: datetime,
    table: ProfileTable,
) -> GeneratorSettings:
    names = tuple(f"vc{i + 1:02d}" for i in range(vcs)) if isinstance(vcs, int) else tuple(vcs)
    count = max(3, round(math.sqrt(jobs))) if users is None and jobs > 0 else users or 0
    for ok, message in (
        (seed >= 0, f"seed must be at least 0; got {seed}"),
        (1 <= jobs <= JOBS_LIMIT, f"jobs must be 1 to {JOBS_LIMIT:,}; got {jobs}"),
        (0 < days <= 3660, f"days must be above 0 and at most 3,660; got {days}"),
        (
            bool(names) and len(set(names)) == len(names),
            f"virtual clusters need different names, at least one; got {vcs!r}",
        ),
        (count >= 1, f"users must be at least 1; got {users}"),
        (0 < load_frac <= 1, f"load_frac must be above 0 and at most 1; got {load_frac}"),
        (0 <= drift <= 1, f"drift must be 0 to 1; got {drift}"),
    ):
        if not ok:
            raise InputError(message)
    start = start_at if start_at.tzinfo else start_at.replace(tzinfo=UTC)
    return GeneratorSettings(seed, jobs, float(days), names, count, load_frac, drift, start, table.source)


def _templates(settings: GeneratorSettings, rng: np.random.Generator) -> _Templates:
    users = settings.users
    activity = np.arange(1, users + 1) ** -0.9 * rng.lognormal(0.0, 0.5, users)
    activity /= activity.sum()
    home = _homes(activity, len(settings.vcs), rng)
    wanted = settings.jobs / _RUNS_PER_TEMPLATE
    count = np.maximum(2, rng.poisson(wanted * activity**0.7 / (activity**0.7).sum()))
    user = np.repeat(np.arange(users), count)
    rank = np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count) + 1.0
    popularity = rank**-0.6 * rng.lognormal(0.0, 0.6, len(user))
    within = popularity / np.bincount(user, popularity)[user]
    share = activity[user] * within
    return _Templates(
        user=user,
        vc=home[user],
        share=share / share.sum(),
        level=rng.standard_normal(len(user)),
        fails=rng.standard_normal(len(user)),
        cancels=rng.standard_normal(len(user)),
    )


def _homes(activity: Floats, vcs: int, rng: np.random.Generator) -> Ints:
    """The virtual cluster of each user, so that the clusters' shares of activity fall as a power of rank."""
    weight = np.cumsum(_vc_weights(vcs))
    order = rng.permutation(len(activity))
    middle = np.empty(len(activity))
    middle[order] = np.cumsum(activity[order]) - activity[order] / 2
    return np.minimum(np.searchsorted(weight, middle, side="right"), vcs - 1)


def _vc_weights(vcs: int) -> Floats:
    weight = np.arange(1, vcs + 1) ** -0.7
    return weight / weight.sum()


def _runs(settings: GeneratorSettings, templates: _Templates, rng: np.random.Generator) -> _Runs:
    n = settings.jobs
    session, submit = sample_sessions(n, settings.days * 86_400.0, settings.start_at.timestamp(), rng)
    chosen = rng.choice(len(templates.share), size=int(session.max()) + 1, p=templates.share)
    template = chosen[session]
    number = _count_within(template)
    changed = (rng.random(n) < settings.drift) & (number > 0)
    version = _cumulate_within(template, changed)
    gpus = _gpus(settings, templates, template, rng)
    state = _states(templates, template, rng)
    duration = _durations(templates, template, version, state, rng)
    return _Runs(template, submit, number, version, state, duration, gpus)


def _count_within(group: Ints) -> Ints:
    """How many earlier rows are of the same group."""
    return pd.Series(group).groupby(group).cumcount().to_numpy(np.int64)


def _cumulate_within(group: Ints, flags: npt.NDArray[np.bool_]) -> Ints:
    return pd.Series(flags.astype(np.int64)).groupby(group).cumsum().to_numpy(np.int64)


def _gpus(settings: GeneratorSettings, templates: _Templates, template: Ints, rng: np.random.Generator) -> Floats:
    """GPUs by job, constant in a template; the shares of jobs are the published ones.

    Templates stand in a random order that leans towards their level, and get the counts of the published law by
    the share of jobs that they have. A virtual cluster does not get jobs that are larger than itself.
    """
    runs = np.bincount(template, minlength=len(templates.share)).astype(np.float64)
    order = np.argsort(_GPU_PULL * templates.level + rng.standard_normal(len(runs)), kind="stable")
    middle = np.empty(len(runs))
    middle[order] = (np.cumsum(runs[order]) - runs[order] / 2) / runs.sum()
    counts = np.array(list(published.GPU_SHARES), dtype=np.float64)
    law = np.cumsum(list(published.GPU_SHARES.values()))
    wanted = counts[np.minimum(np.searchsorted(law / law[-1], middle, side="right"), len(counts) - 1)]
    return np.minimum(wanted, _largest_job(settings)[templates.vc])[template]


def _largest_job(settings: GeneratorSettings) -> Floats:
    """GPUs of the largest job in each virtual cluster: at most about the cluster's own expected size."""
    busy = settings.jobs * published.MEAN_DURATION_S * published.MEAN_GPUS / (settings.days * 86_400.0)
    size = busy / settings.load_frac * _vc_weights(len(settings.vcs))
    return np.clip(2.0 ** np.floor(np.log2(np.maximum(size, 1.0))), 8.0, max(published.GPU_SHARES))


def _states(templates: _Templates, template: Ints, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """0 completed, 1 cancelled, 2 failed, in exactly the published shares."""
    n = len(template)
    fails = 0.8 * templates.fails[template] - _SHORT_FAIL * templates.level[template] + rng.standard_normal(n)
    cancels = 0.8 * templates.cancels[template] + _LONG_CANCEL * templates.level[template] + rng.standard_normal(n)
    state = np.zeros(n, dtype=np.int8)
    failed = round(n * published.STATE_SHARES["failed"])
    cancelled = round(n * published.STATE_SHARES["cancelled"])
    if failed:
        state[np.argsort(-fails, kind="stable")[:failed]] = 2
    cancels[state == 2] = -np.inf
    if cancelled:
        state[np.argsort(-cancels, kind="stable")[:cancelled]] = 1
    return state


def _durations(
    templates: _Templates, template: Ints, version: Ints, state: npt.NDArray[np.int8], rng: np.random.Generator
) -> Floats:
    """Whole seconds. The order follows a score, the values follow the published law."""
    n = len(template)
    code = pd.factorize(template * (int(version.max()) + 1) + version)[0]
    shift = rng.normal(0.0, _VERSION_SIGMA, int(code.max()) + 1)
    shift[np.unique(code[version == 0])] = 0.0
    early = np.where(state == 2, rng.exponential(_EARLY_END, n), 0.0)
    score = _TEMPLATE_SIGMA * templates.level[template] + shift[code] - early + rng.normal(0.0, _RUN_SIGMA, n)
    values = np.sort(rng.standard_normal(n))
    normal = np.empty(n)
    normal[np.argsort(score, kind="stable")] = values
    seconds = published.MEDIAN_DURATION_S * np.exp(published.DURATION_LOG_SIGMA * normal)
    return np.rint(np.clip(seconds, 1.0, published.MAX_DURATION_S))


def _frame(settings: GeneratorSettings, templates: _Templates, runs: _Runs, table: ProfileTable) -> pd.DataFrame:
    n = settings.jobs
    users = np.array([f"user{i + 1:04d}" for i in range(settings.users)], dtype=object)
    columns: dict[str, Any] = {
        "job_id": np.array([f"syn-{i:07d}" for i in range(1, n + 1)], dtype=object),
        "user": pd.Categorical.from_codes(templates.user[runs.template], categories=users.tolist()),
        "vc": pd.Categorical.from_codes(templates.vc[runs.template], categories=list(settings.vcs)),
        "name": template_names(templates.user, runs.template, runs.number, runs.version, settings.seed),
        "state": pd.Categorical.from_codes(runs.state, categories=list(_STATES)),
        "gpus": runs.gpus,
        "cpus": runs.gpus * CPUS_PER_GPU,
        "submit_s": runs.submit_s,
        "duration_s": runs.duration_s,
        "code_fingerprint": _fingerprints(settings.seed, runs),
    }
    workloads = _workloads(settings, runs, table)
    for name in WORKLOAD_COLUMNS:
        columns[name] = workloads[name].to_numpy()[runs.template]
    columns["workload_source"] = pd.Categorical.from_codes(np.zeros(n, dtype=np.int8), categories=["generated"])
    return _tidy(typed_frame(columns, n))


def _workloads(settings: GeneratorSettings, runs: _Runs, table: ProfileTable) -> pd.DataFrame:
    """One workload per template, drawn by the median size of its runs."""
    by_template = pd.DataFrame({"gpus": runs.gpus, "duration_s": runs.duration_s}).groupby(runs.template).median()
    count = int(runs.template.max()) + 1
    filled = by_template.reindex(range(count), fill_value=1.0)
    ids = np.array([f"template-{i}" for i in range(count)], dtype=object)
    columns = {"job_id": ids, "name": ids, "submit_s": np.zeros(count)}
    for name in ("gpus", "duration_s"):
        columns[name] = filled[name].to_numpy(np.float64)
    return assign_workloads(typed_frame(columns, count), table, settings.seed, source="generated")


def _fingerprints(seed: int, runs: _Runs) -> npt.NDArray[np.object_]:
    key = runs.template * (int(runs.version.max()) + 1) + runs.version
    codes, values = pd.factorize(key)
    texts = np.array([f"synthetic:{seed}:{value:x}" for value in values.tolist()], dtype=object)
    return texts[codes]


def _tidy(frame: pd.DataFrame) -> pd.DataFrame:
    for name in ("user", "vc", "name", "state"):
        frame[name] = frame[name].cat.remove_unused_categories()
    return frame


def _cluster(frame: pd.DataFrame, settings: GeneratorSettings) -> ClusterSpec:
    return fit_cluster(
        frame, settings.load_frac, gpu_type=GPU_TYPE, gpu_memory_mib=GPU_MEMORY_MIB, span_s=settings.days * 86_400.0
    )


def _metadata(settings: GeneratorSettings) -> dict[str, Any]:
    parameters = asdict(settings) | {"vcs": list(settings.vcs), "start_at": settings.start_at.isoformat()}
    return {
        "synthetic": True,
        "format": "generated",
        "source": f"generated with seed {settings.seed}",
        "parameters": parameters,
        "calibrated_to": "Helios (SC'21), PAI (NSDI'22), Lucid (ASPLOS'23); see traces/published.py",
    }
