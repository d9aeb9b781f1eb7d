"""Replay a trace under several policies and write the report: what ``lucid replay`` and the asset call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lucid_pipelines import policies
from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.domain.trace import ClusterSpec, TraceJob
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.simulation.artifact import replay_artifact
from lucid_pipelines.simulation.engine import replay, without_garbage_collection
from lucid_pipelines.simulation.estimators import GivenPredictions, HistoryEstimator
from lucid_pipelines.simulation.forecasting import forecast_from_past
from lucid_pipelines.simulation.inputs import ReplayInput, prepare
from lucid_pipelines.simulation.interference import FittedPairs, MeasuredPairs, read_measured_pairs
from lucid_pipelines.simulation.options import PairSpeeds, ReplayEstimator, ReplayOptions, Scorer
from lucid_pipelines.simulation.page import html_page
from lucid_pipelines.simulation.record import Replay
from lucid_pipelines.simulation.scoring import FittedScorer, MeasuredScorer
from lucid_pipelines.simulation.sia_scaling import SiaScaling
from lucid_pipelines.simulation.summary import Summary, summarise
from lucid_pipelines.simulation.tables import write_json, write_parquet
from lucid_pipelines.simulation.workloads import read_profiles
from lucid_pipelines.whole_files import whole_file, write_whole

ARTIFACT = "lucid:artifact"
EstimatorMaker = Callable[[str, Sequence[TraceJob], Sequence[TraceJob]], ReplayEstimator]
"""Policy, jobs of the replay, jobs that ended before it."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Summaries in the order of the policies, and where the files are (empty without an output folder)."""

    summaries: tuple[Summary, ...]
    replays: tuple[Replay, ...]
    files: Mapping[str, Path]


def run_replay(
    trace_jobs: Iterable[TraceJob],
    cluster: ClusterSpec,
    policy_names: Sequence[str],
    out_dir: Path | None = None,
    *,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    predictions: Mapping[str, float] | None = None,
    history: Iterable[TraceJob] = (),
    estimator_of: EstimatorMaker | None = None,
    forecast: Forecast | None = None,
    pair_table: Path | None = None,
    profile_table: Path | None = None,
    scaling: Path | None = None,
    options: ReplayOptions = ReplayOptions(),
    title: str = "Replay",
) -> ReplayReport:
    """Replay a trace under each policy, on the same input.

    Args:
        settings: settings by policy name, as ``policies.get`` takes them.
        predictions: duration by job id, for every policy that predicts; without them each learns from the jobs
            that have ended (and from ``history``).
        estimator_of: makes the estimator of a policy's replay, in place of the one that learns from what has ended.
        forecast: predicted submissions; without it one is made of the past of each moment.
        pair_table, profile_table: measured pair speeds and profiles (columns as in ``read_measured_pairs`` and
            ``read_profiles``); without them the fitted models answer.
        scaling: measured speeds on other numbers of GPUs (``SiaScaling.read``), for policies that resize jobs;
            a job without is rigid, and counted.
        options: further assumptions; the fields that the arguments above give are filled in where empty.
        out_dir: where ``summary.jsonl``, ``jobs.parquet``, ``attempts.parquet`` and ``report.html`` go.

    Raises:
        NotFoundError, InputError: an unknown policy or setting, a wrong table, or no job to replay.
        ExternalError: ``out_dir`` cannot be written to.
    """
    if out_dir is not None:
        _make_folder(out_dir)  # before hours of work are done for it
    given_settings = settings or {}
    for name in policy_names:
        policies.get(name, **given_settings.get(name, {}))
    for name in given_settings:
        if name not in policy_names:
            policies.get(name)
    with without_garbage_collection():
        given = prepare(trace_jobs, cluster)
    if scaling is not None and not options.curves:
        options = replace(options, curves=SiaScaling.read(scaling).curves(given.jobs))
    past = tuple(history)
    replays: list[Replay] = []
    summaries: list[Summary] = []
    for name in policy_names:
        with without_garbage_collection():
            filled = _filled(name, options, given, predictions, past, estimator_of, forecast, pair_table, profile_table)
            replays.append(_replay_one(name, given_settings.get(name, {}), given, filled))
            summaries.append(summarise(replays[-1]))
    files = _write(replays, summaries, out_dir, title) if out_dir is not None else {}
    return ReplayReport(tuple(summaries), tuple(replays), files)


def _replay_one(name: str, settings: Mapping[str, object], given: ReplayInput, options: ReplayOptions) -> Replay:
    if options.curves and "curves" in policies.settings_of(name):
        settings = {"curves": options.curves, **settings}
    replayed = (
        replay_artifact(given, options) if name == ARTIFACT else replay(given, policies.get(name, **settings), options)
    )
    counts = dict(replayed.fallbacks)
    for source in (options.pair_speeds, options.scorer, options.estimator):
        if source is not None:
            for kind, count in getattr(source, "fallbacks", {}).items():
                counts[kind] = counts.get(kind, 0) + count
    return replace(replayed, fallbacks=counts)


def _filled(
    name: str,
    options: ReplayOptions,
    given: ReplayInput,
    predictions: Mapping[str, float] | None,
    history: Sequence[TraceJob],
    estimator_of: EstimatorMaker | None,
    forecast: Forecast | None,
    pair_table: Path | None,
    profile_table: Path | None,
) -> ReplayOptions:
    """New estimators, models and counters for every policy: none may learn from another's replay."""
    estimator: ReplayEstimator = HistoryEstimator(history)
    if predictions is not None:
        estimator = GivenPredictions(predictions)
    elif estimator_of is not None:
        estimator = estimator_of(name, given.jobs, history)
    profiles = read_profiles(profile_table) if profile_table is not None else {}
    pairs: PairSpeeds = FittedPairs()
    if pair_table is not None:
        pairs = MeasuredPairs(read_measured_pairs(pair_table), profiles)
    scorer: Scorer = MeasuredScorer(profiles) if profiles else FittedScorer()
    return replace(
        options,
        pair_speeds=options.pair_speeds or pairs,
        estimator=options.estimator or estimator,
        scorer=options.scorer or scorer,
        forecast=options.forecast or forecast or forecast_from_past(given.jobs),
    )


def _make_folder(out_dir: Path) -> None:
    if out_dir.exists() and not out_dir.is_dir():
        raise ExternalError(f"the output folder cannot be written to, it is a file: {out_dir}")
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        with whole_file(out_dir / ".writable") as probe:
            probe.touch()
        (out_dir / ".writable").unlink()
    except OSError as error:
        raise ExternalError(f"the output folder cannot be written to ({error.strerror or error}): {out_dir}") from error


def _write(replays: Sequence[Replay], summaries: Sequence[Summary], out_dir: Path, title: str) -> dict[str, Path]:
    """Every file whole or not at all: who stops a replay, or runs two into one folder, finds no half of one."""
    summary_path, page_path = out_dir / "summary.jsonl", out_dir / "report.html"
    try:
        jobs_path, attempts_path = write_parquet(replays, out_dir)
        write_json(summaries, summary_path)
        write_whole(page_path, html_page(replays, summaries, title))
    except OSError as error:
        raise ExternalError(f"the report cannot be written ({error.strerror or error}): {out_dir}") from error
    return {"summary": summary_path, "jobs": jobs_path, "attempts": attempts_path, "report": page_path}
