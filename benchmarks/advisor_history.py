"""Replay a history: what the advisor would have said of each job when it was submitted, and how right it was.

    python benchmarks/advisor_history.py generated [--jobs 6000] [--drift 0 0.1 0.3] [--visible 1 0.5] [--seeds 3]
    python benchmarks/advisor_history.py FILE

Generated jobs have code fingerprints. Their metadata is model, dataset, batch, precision and GPUs of the trace,
and a number of iterations that stands for the code version: ``--visible`` is the share of code changes that
shows in it; the others move the run time without a trace in the metadata (concept drift). A recorded trace
without code has user, GPUs and CPUs only, and the advisor's fingerprint is made of those.

Nothing later than a job's submission is looked at. A duration is right within 100 % relative error. The same
jobs are also predicted by the mean of the user's completed jobs, and by the last of them.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lucid_pipelines.advisor.advising import vector_space
from lucid_pipelines.advisor.estimates import AdvisedEstimate, EstimateRules, estimate, paper_estimate
from lucid_pipelines.advisor.replaying import PLAIN_WEIGHTS, past_job_of, trace_fingerprint
from lucid_pipelines.advisor.scoring import AdviceScore, Verdict, score, scoreboard
from lucid_pipelines.domain.job import Estimate
from lucid_pipelines.domain.similarity import HistoryFilter, IndexEntry, PastJob
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.domain.trace import TraceJob, TraceState
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from lucid_pipelines.resources.history_index import open_index
from lucid_pipelines.traces import generate, load

K = 20
NAMES = ("advisor", "advisor_paper", "user_mean", "last_duration", "advisor_else_user_mean")


def main() -> int:
    """Run the replays and print one JSON object a line."""
    options = _options()
    if options.trace != "generated":
        jobs = [job for job in load(options.trace).jobs if job.gpus >= 1][: options.jobs]
        _print({"trace": Path(options.trace).name}, [_replay(jobs, _plain_texts(jobs), PLAIN_WEIGHTS)])
        return 0
    for drift in options.drift:
        for visible in options.visible:
            reports = []
            for seed in range(options.seeds):
                jobs = generate(seed, jobs=options.jobs, drift=drift).jobs
                reports.append(_replay(jobs, _code_texts(jobs, visible, seed), None))
            _print({"trace": "generated", "drift": drift, "visible": visible}, reports)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="'generated', or a trace file")
    parser.add_argument("--jobs", type=int, default=6_000)
    parser.add_argument("--drift", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    parser.add_argument("--visible", type=float, nargs="+", default=[1.0, 0.5])
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


# ---------------------------------------------------------------------- what the metadata would say


def _code_texts(jobs: Sequence[TraceJob], visible: float, seed: int) -> list[str]:
    """Fingerprints of generated jobs."""
    shown: dict[str, str] = {}
    last: dict[tuple[object, ...], str] = {}
    texts: list[str] = []
    for job in jobs:
        code = job.code_fingerprint or job.job_id
        program = (job.user, job.name, job.model, job.dataset, job.batch_size, job.gpus)
        if code not in shown:
            stays = program in last and random.Random(f"{seed}/{code}").random() >= visible
            shown[code] = shown[last[program]] if stays else code
        last[program] = code
        texts.append(trace_fingerprint(job, shown[code]).text)
    return texts


def _plain_texts(jobs: Sequence[TraceJob]) -> list[str]:
    """What a trace without code knows."""
    return [trace_fingerprint(replace(job, code_fingerprint=None)).text for job in jobs]


# ---------------------------------------------------------------------- one replay


def _replay(jobs: Sequence[TraceJob], texts: Sequence[str], weights: Mapping[str, float] | None) -> dict[str, Any]:
    embedder = HashEmbedder() if weights is None else HashEmbedder(weights=weights)
    scores: dict[str, list[AdviceScore]] = defaultdict(list)
    answered: list[int] = []
    residuals: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        index = open_index(f"sqlite:///{Path(folder) / 'history.db'}", vector_space(embedder))
        vectors = embedder.embed(list(texts))
        past = [_past_job(job, text) for job, text in zip(jobs, texts, strict=True)]
        for start in range(0, len(past), 1_000):
            some = slice(start, start + 1_000)
            index.add([IndexEntry(job, vector) for job, vector in zip(past[some], vectors[some], strict=True)])
        took_s: list[float] = []
        for place, (job, baseline) in enumerate(zip(jobs, _baselines(jobs), strict=True)):
            as_of = datetime.fromtimestamp(job.submit_s, UTC)
            where = HistoryFilter(None, past[place].gpu_family, past[place].gpu_count_class)
            started = time.perf_counter()
            similar = index.search(vectors[place], K, as_of, where, embedder.default_threshold)
            known = [error for at, error in residuals if at <= job.submit_s]
            advised = estimate(similar, EstimateRules(), known)
            took_s.append(time.perf_counter() - started)
            said: dict[str, AdvisedEstimate | Estimate | None] = {
                "advisor": advised,
                "advisor_paper": paper_estimate(similar),
                **baseline,
                "advisor_else_user_mean": advised.estimate or baseline["user_mean"],
            }
            if job.state is not TraceState.COMPLETED:
                continue
            for name, each in said.items():
                made = each.estimate if isinstance(each, AdvisedEstimate) else each
                why = each.fallback if isinstance(each, AdvisedEstimate) else None
                scores[name].append(score(made, why, Outcome.COMPLETED, job.duration_s))
            if advised.estimate is not None:
                answered.append(len(scores["advisor"]) - 1)
                error = scores["advisor"][-1].residual
                if error is not None:
                    residuals.append((job.submit_s + job.duration_s, error))
    return _report(scores, answered, took_s)


def _past_job(job: TraceJob, text: str) -> PastJob:
    end_s = job.end_s if job.end_s is not None else job.submit_s + job.duration_s
    return replace(past_job_of(job, end_s), fingerprint=text)


def _baselines(jobs: Sequence[TraceJob]) -> Iterator[dict[str, Estimate | None]]:
    """Mean and last of the user's completed jobs that had ended when each job was submitted."""
    ends = sorted(
        (job.end_s if job.end_s is not None else job.submit_s + job.duration_s, job.user, job.duration_s)
        for job in jobs
        if job.state is TraceState.COMPLETED
    )
    sums: dict[str, tuple[float, int]] = {}
    last: dict[str, float] = {}
    place = 0
    for job in jobs:
        while place < len(ends) and ends[place][0] <= job.submit_s:
            _, user, duration_s = ends[place]
            total, count = sums.get(user, (0.0, 0))
            sums[user] = (total + duration_s, count + 1)
            last[user] = duration_s
            place += 1
        mean = sums.get(job.user)
        yield {
            "user_mean": None if mean is None else Estimate(mean[0] / mean[1], "user_mean"),
            "last_duration": None if job.user not in last else Estimate(last[job.user], "last_duration"),
        }


# ---------------------------------------------------------------------- reports


def _report(
    scores: Mapping[str, list[AdviceScore]], answered: Sequence[int], took_s: Sequence[float]
) -> dict[str, Any]:
    report: dict[str, Any] = {"completed_jobs": len(scores["advisor"])}
    for name in NAMES:
        rows = scores[name]
        board = scoreboard(rows)
        same = scoreboard([rows[place] for place in answered])
        report[name] = {
            "answered": board.answered_frac,
            "right": board.right_frac,
            "right_where_advisor_answers": same.right_frac,
            "median_error": board.median_error,
            "mean_abs_log": _mean_abs_log(rows),
            "mean_abs_log_where_advisor_answers": _mean_abs_log([rows[place] for place in answered]),
        }
    verdicts: Counter[str] = Counter(row.verdict.value for row in scores["advisor"])
    report["confusion"] = {verdict.value: verdicts[verdict.value] for verdict in Verdict}
    report["fallbacks"] = {why.value: count for why, count in scoreboard(scores["advisor"]).fallbacks.items()}
    report["interval_coverage"] = scoreboard(scores["advisor"]).coverage_frac
    report["advise_ms_p50"] = 1e3 * statistics.median(took_s)
    return report


def _mean_abs_log(rows: Sequence[AdviceScore]) -> float | None:
    """Mean of |ln(actual / predicted)|: unlike relative error it does not favour short predictions."""
    values = [abs(row.residual) for row in rows if row.residual is not None]
    return sum(values) / len(values) if values else None


def _print(head: Mapping[str, Any], reports: Sequence[dict[str, Any]]) -> None:
    print(json.dumps({**head, "runs": len(reports), **_merged(reports)}))
    sys.stdout.flush()


def _merged(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, with the spread where there are several."""
    merged: dict[str, Any] = {}
    for name in sorted({key for report in reports for key in report}):
        values = [report[name] for report in reports if report.get(name) is not None]
        if values and isinstance(values[0], dict):
            merged[name] = _merged(values)
        elif values:
            mean = statistics.mean(values)
            spread = statistics.stdev(values) if len(values) > 1 else None
            merged[name] = _rounded(mean) if spread is None else f"{_rounded(mean)} ± {_rounded(spread)}"
    return merged


def _rounded(value: float) -> float:
    return float(f"{value:.3g}") if math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
