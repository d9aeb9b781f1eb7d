"""How good and how fast the three models are, every claim beside what doing without a model achieves.

Run: ``python benchmarks/models.py [packing|gavel|throughput|duration|names|inference|million ...]
[--data FOLDER] [--json]``

``--data`` is the folder of public data (default ``LUCID_DATA``). Without names everything but ``million`` runs.
Quality is measured on what the model never saw; a bound stands beside each claim, and the exit code is 1 when one
does not hold.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from lucid_pipelines.domain.history import HistoryRow
from lucid_pipelines.domain.job import Profile
from lucid_pipelines.domain.states import Outcome
from lucid_pipelines.models.additive.fitting import FitProgress
from lucid_pipelines.models.additive.monotone import Direction
from lucid_pipelines.models.duration import DurationModel, Teaching
from lucid_pipelines.models.duration.features import build_lessons
from lucid_pipelines.models.duration.from_trace import history_from_trace
from lucid_pipelines.models.duration.selecting import select_rows
from lucid_pipelines.models.duration.training import DurationSettings, fit_duration, prepare_lessons, train_duration
from lucid_pipelines.models.naming.fitting import fit_buckets
from lucid_pipelines.models.packing import PairTable, default_packing_model, read_pair_table
from lucid_pipelines.models.packing.pairs import Configuration, MeasuredPair
from lucid_pipelines.models.packing.training import PackingSettings, PairQuality, judge_packing
from lucid_pipelines.models.throughput import ThroughputModel, read_series
from lucid_pipelines.models.throughput.training import judge_throughput, train_throughput
from lucid_pipelines.models.updating import judge_duration
from lucid_pipelines.traces.loading import load

_QUEUE = 2048
_SEPTEMBER = (datetime(2020, 9, 1, tzinfo=UTC), datetime(2020, 9, 29, tzinfo=UTC))
_VENUS_SPLIT = datetime(2020, 6, 8, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """One number of a table.

    Attributes:
        value, spread: the number and, where there is one, its spread.
        bound, at_least: what it must keep; ``None`` = printed for comparison.
    """

    section: str
    name: str
    value: float | None
    spread: float | None = None
    bound: float | None = None
    at_least: bool = True
    note: str = ""

    @property
    def holds(self) -> bool:
        if self.bound is None:
            return True
        if self.value is None:
            return False
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass
class Context:
    """Where the public data lies, and models that several sections use."""

    data: Path
    throughput: ThroughputModel | None = None
    duration: dict[str, DurationModel] = field(default_factory=dict)
    rows: list[HistoryRow] = field(default_factory=list)
    made_up_rows: int = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help="default: all but million")
    parser.add_argument("--data", type=Path, default=os.environ.get("LUCID_DATA"))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the section million; others extrapolate")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.data is None or not Path(options.data).is_dir():
        parser.error("give the folder of public data with --data or LUCID_DATA")
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"sections are {', '.join(SECTIONS)}; not {', '.join(unknown)}")
    context = Context(Path(options.data), made_up_rows=options.rows)
    lines: list[Line] = []
    for name in options.sections or [s for s in SECTIONS if s != "million"]:
        began = time.perf_counter()
        for line in SECTIONS[name](context):
            lines.append(line)
            if not options.json:
                _print(line)
        if not options.json:
            sys.stdout.write(f"{'':12} ({name}: {time.perf_counter() - began:.0f} s)\n")
    if options.json:
        sys.stdout.write(json.dumps([{**asdict(line), "holds": line.holds} for line in lines], indent=1) + "\n")
    return 0 if all(line.holds for line in lines) else 1


def packing(context: Context) -> Iterator[Line]:
    table = _lucid_pairs(context)
    report = judge_packing(table)
    goals = {"held_out": (0.981, 0.870), "both_held_out": (0.93, 0.80)}
    for name in ("held_out", "both_held_out", "speed_and_scores_held_out", "scores_held_out", "plain_rule"):
        quality = report[name]
        stay, used = goals.get(name, (None, None))
        by_workload = [q for q in report["held_out_by_workload"].values() if q["stay_frac"] is not None]
        spread = name == "held_out"
        yield Line(
            "packing",
            f"{name}: allowed pairs that stay >= 0.85",
            quality["stay_frac"],
            statistics.stdev(q["stay_frac"] for q in by_workload) if spread else None,
            stay,
        )
        yield Line(
            "packing",
            f"{name}: opportunity used",
            quality["used_frac"],
            statistics.stdev(q["used_frac"] for q in by_workload) if spread else None,
            used,
        )
        yield Line("packing", f"{name}: allowed pairs in which both stay", quality["both_stay_frac"])
    hand = _published_labels(context, table)
    yield Line("packing", "published labels, same table: stay", hand.stay_frac, note="labels made from these pairs")
    yield Line("packing", "published labels, same table: used", hand.used_frac, note="labels made from these pairs")


def gavel(context: Context) -> Iterator[Line]:
    """An independent table: other GPUs, other workloads, no profiles."""
    for gpu in ("v100", "p100", "k80"):
        table, solo = _gavel_pairs(context, gpu)
        speeds = table.arrays().speeds
        good = float((speeds.mean(axis=1) >= 0.85).mean())
        yield Line("gavel", f"{gpu}: pairs that stay >= 0.85", good, note=f"{len(table.pairs)} pairs")
        own = _scores_without_partner(table)
        quality = PairQuality.of(own <= 2, speeds)
        yield Line("gavel", f"{gpu}: rule with scores measured on it: stay", quality.stay_frac)
        yield Line("gavel", f"{gpu}: rule with scores measured on it: used", quality.used_frac)
        yield Line("gavel", f"{gpu}: rule with scores measured on it: allowed", quality.allowed_frac)
        found = _default_model_on(table, _lucid_profiles_for(context, solo))
        if found is not None:
            yield Line(
                "gavel",
                f"{gpu}: default model on same networks: stay",
                found.stay_frac,
                note=f"{found.pairs} pairs; profiles from another GPU",
            )
            yield Line("gavel", f"{gpu}: default model on same networks: allowed", found.allowed_frac)


def throughput(context: Context) -> Iterator[Line]:
    series = read_series(context.data / "lucid" / "cluster_throughput.csv.gz")
    context.throughput = ThroughputModel.from_document(train_throughput(series, _SEPTEMBER[0]))
    for horizon in (6, 3, 1):
        report = judge_throughput(context.throughput, series, *_SEPTEMBER, horizon=horizon)
        for target in ("jobs", "gpus"):
            item = report[target]
            bound = 4.05 if target == "jobs" and horizon == 6 else None
            label = f"{target}, {10 * horizon} min ahead"
            spread = item["mae_day_sd"] / np.sqrt(28)
            yield Line("throughput", f"{label}: MAE", item["mae"], spread, bound, at_least=False)
            yield Line("throughput", f"{label}: coverage at 0.8", item["coverage_80"])
            for name, value in item["baselines"].items():
                yield Line("throughput", f"{label}: MAE of {name}", value)
    authors = _authors_forecast(context)
    yield Line("throughput", "jobs: MAE of the published predictions", authors["jobs"])
    yield Line("throughput", "gpus: MAE of the published predictions", authors["gpus"])


def duration(context: Context) -> Iterator[Line]:
    rows = _venus(context)
    for teaching in Teaching:
        settings = DurationSettings(teaching=teaching)
        context.duration[teaching.value] = DurationModel.from_document(train_duration(rows, _VENUS_SPLIT, settings))
    constrained = DurationSettings(monotone={"gpus": Direction.INCREASING})
    models = {**context.duration, "held_monotone": _duration(rows, constrained)}
    until = max(row.ended_at for row in rows)
    for population in (Teaching.HELD, Teaching.COMPLETED):
        judged = judge_duration(models, rows, _VENUS_SPLIT, until, teaching=population)
        label = "all jobs" if population is Teaching.HELD else "completed jobs"
        last = judged.numbers["last_of_user_and_gpus"]["spearman"]
        for name, numbers in judged.numbers.items():
            must = max(0.49, last) if name == population.value else None
            yield Line("duration", f"{label} ({judged.rows}): Spearman of {name}", numbers["spearman"], None, must)
            yield Line("duration", f"{label}: R2 of log duration, {name}", numbers["r2_log"])
            yield Line("duration", f"{label}: R2 of seconds, {name}", numbers["r2_s"])
            yield Line("duration", f"{label}: MAE of log duration, {name}", numbers["mae_log"])
            if "coverage_80" in numbers:
                yield Line("duration", f"{label}: coverage at 0.8, {name}", numbers["coverage_80"])
                factor = numbers["interval_factor_median"]
                yield Line("duration", f"{label}: median interval, upper over lower end, {name}", factor)


def names(context: Context) -> Iterator[Line]:
    del context
    source = random.Random(0)
    words = [["train", "eval", "debug", "sweep"], ["resnet50", "bert-base", "gpt2", "vit-l", "unet3d", "clip"]]
    letters = "abcdefghijklmnopqrstuvwxyz"
    many = [
        f"{source.choice(words[0])}_{source.choice(words[1])}_{''.join(source.choices(letters, k=5))}_{i}"
        for i in range(100_000)
    ]
    began = time.perf_counter()
    buckets = fit_buckets(many)
    yield Line("names", "100,000 distinct names into buckets (s)", time.perf_counter() - began, None, 300.0, False)
    yield Line("names", "buckets", float(len(buckets.exemplars)))


def inference(context: Context) -> Iterator[Line]:
    """2,048 rows through all three models; the best of many rounds, because others use the machine too."""
    if context.throughput is None:
        series = read_series(context.data / "lucid" / "cluster_throughput.csv.gz")
        context.throughput = ThroughputModel.from_document(train_throughput(series, _SEPTEMBER[0]))
    rows = _venus(context)
    model = context.duration.get("held") or _duration(rows, DurationSettings())
    forecaster, packer = context.throughput, default_packing_model()
    usable = select_rows(rows, _VENUS_SPLIT).rows
    lessons, _ = build_lessons(usable, model.buckets.copy().bucket, model.teaching)
    matrix = model.with_codes(lessons.matrix, [row.user for row in lessons.rows], lessons.buckets)[:_QUEUE]
    source = np.random.default_rng(0)
    slots = np.abs(source.normal(5.0, 4.0, (_QUEUE, len(forecaster.targets["jobs"].model.features))))
    profiles = np.column_stack(
        [source.uniform(0, 100, (_QUEUE, 2)), source.uniform(1e3, 2e4, _QUEUE), source.integers(0, 2, _QUEUE)]
    )
    parts: dict[str, Callable[[], object]] = {
        "duration": lambda: model.served_log(matrix),
        "throughput (jobs)": lambda: forecaster.predict(slots, "jobs"),
        "packing": lambda: packer.scores(profiles),
    }
    total = _best_ms(lambda: [part() for part in parts.values()])
    for name, part in parts.items():
        best, middle = _best_ms(part)
        yield Line("inference", f"{name}, 2,048 rows (ms, best)", best, None, note=f"median {middle:.2f}")
    note = f"median {total[1]:.2f}; load average {os.getloadavg()[0]:.1f}"
    yield Line("inference", "all three, 2,048 rows (ms, best)", total[0], None, 3.0, False, note)


def million(context: Context) -> Iterator[Line]:
    """A duration model from a million runs, features and training together; with fewer rows also what that means."""
    count = context.made_up_rows
    rows = list(_made_up_history(count))
    until = max(row.ended_at for row in rows)
    began, cpu = time.perf_counter(), time.process_time()
    lessons = prepare_lessons(rows, until, DurationSettings())
    features_s, features_cpu_s = time.perf_counter() - began, time.process_time() - cpu
    fit_duration(lessons, progress=_tell)
    took, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    load = f"load {os.getloadavg()[0]:.1f}"
    yield Line("million", f"features of {count:,} runs (s)", features_s, note=f"{features_cpu_s:.0f} CPU-s; {load}")
    bound = 300.0 if count == 1_000_000 else None
    note = f"{len(lessons):,} rows; {cpu_s:.0f} CPU-s; {load}"
    yield Line("million", f"duration model from {count:,} runs (s)", took, None, bound, False, note)
    if count != 1_000_000:
        # Features grow with the rows; training does too, but takes fewer bags beyond 100,000 and 400,000 rows.
        million_cpu_s = cpu_s * 1_000_000 / count
        yield Line("million", "extrapolated linearly to 1,000,000 runs (CPU-s)", million_cpu_s, note="no measurement")


SECTIONS: dict[str, Callable[[Context], Iterator[Line]]] = {
    "packing": packing,
    "gavel": gavel,
    "throughput": throughput,
    "duration": duration,
    "names": names,
    "inference": inference,
    "million": million,
}


def _tell(progress: FitProgress) -> None:
    sys.stderr.write(f"\rbag {progress.bag + 1} of {progress.bags}, {progress.steps} steps   ")


def _print(line: Line) -> None:
    value = "–" if line.value is None else f"{line.value:.4g}"
    spread = "" if line.spread is None else f" ± {line.spread:.2g}"
    bound = "" if line.bound is None else f"  [{'>=' if line.at_least else '<='} {line.bound:g}]"
    mark = "" if line.bound is None else ("  holds" if line.holds else "  DOES NOT HOLD")
    note = f"  ({line.note})" if line.note else ""
    sys.stdout.write(f"{line.section:12}{line.name:72}{value:>10}{spread}{bound}{mark}{note}\n")
    sys.stdout.flush()


def _lucid_pairs(context: Context) -> PairTable:
    folder = context.data / "lucid"
    return read_pair_table(folder / "colocate_info.csv", folder / "single_data.csv")


def _published_labels(context: Context, table: PairTable) -> PairQuality:
    """The labels that were published with the pairs, under the paper's rule."""
    with (context.data / "lucid" / "single_data.csv").open(encoding="utf-8") as file:
        labels = [int(row["label"]) for row in csv.DictReader(file)]
    arrays = table.arrays()
    scores = np.array(labels)
    return PairQuality.of(scores[arrays.first] + scores[arrays.second] <= 2, arrays.speeds)


def _gavel_pairs(context: Context, gpu: str) -> tuple[PairTable, list[str]]:
    alone: dict[str, float] = {}
    together: list[tuple[str, str, float, float]] = []
    with gzip.open(context.data / "gavel" / "throughputs_flat.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["gpu_type"] != gpu or row["gpus1"] != "1":
                continue
            if row["job2"]:
                pair = (float(row["steps_per_s_1"]), float(row["steps_per_s_2"]))
                together.append((row["job1"], row["job2"], *pair))
            else:
                alone[row["job1"]] = float(row["steps_per_s_1"])
    configurations = [Configuration(name, name.split(" (")[0], Profile()) for name in sorted(alone)]
    # A pair stands in the table in both orders; a speed of 0 means that it did not fit or did not run.
    pairs = [MeasuredPair(a, b, max(x / alone[a], 1e-6), max(y / alone[b], 1e-6)) for a, b, x, y in together if a <= b]
    return PairTable.of(configurations, pairs), sorted(alone)


def _scores_without_partner(table: PairTable) -> Any:
    """Sum of both scores of each pair, each measured beside all workloads but the partner's."""
    arrays = table.arrays()
    thresholds = PackingSettings().thresholds()
    speed = arrays.mean_speed
    sums = np.zeros(len(speed))
    for row in range(len(speed)):
        for own, other in ((arrays.first, arrays.second_workload), (arrays.second, arrays.first_workload)):
            beside = np.where(arrays.first == own[row], arrays.second_workload, arrays.first_workload)
            use = ((arrays.first == own[row]) | (arrays.second == own[row])) & (beside != other[row])
            sums[row] += thresholds.scores(np.array([speed[use].mean()]))[0]
    return sums


_SAME_NETWORK = {"ResNet-18": "ResNet18", "ResNet-50": "ResNet50", "Transformer": "Transformer"}


def _lucid_profiles_for(context: Context, names: Sequence[str]) -> dict[str, Configuration]:
    """Profiles of the same network and batch size, measured on another GPU."""
    known = {(c.workload, c.name.split("/")[2]): c for c in _lucid_pairs(context).configurations if c.amp is False}
    found: dict[str, Configuration] = {}
    for name in names:
        network, _, rest = name.partition(" (batch size ")
        match = known.get((_SAME_NETWORK.get(network, ""), rest.rstrip(")")))
        if match is not None:
            found[name] = match
    return found


def _default_model_on(table: PairTable, profiles: dict[str, Configuration]) -> PairQuality | None:
    model = default_packing_model()
    allowed, speeds = [], []
    for pair in table.pairs:
        one, two = profiles.get(pair.first), profiles.get(pair.second)
        if one is None or two is None or one.profile.gpu_util_pct is None or two.profile.gpu_util_pct is None:
            continue
        law = float(model.speeds.law((one.profile.gpu_util_pct + two.profile.gpu_util_pct) / 100.0))
        allowed.append(law >= model.bound_frac)
        speeds.append((pair.first_speed_frac, pair.second_speed_frac))
    return PairQuality.of(np.array(allowed), np.array(speeds)) if allowed else None


def _authors_forecast(context: Context) -> dict[str, float]:
    with gzip.open(context.data / "lucid" / "Venus_throughput_pred.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        "jobs": statistics.fmean(abs(float(r["submit_gpu_job"]) - float(r["pred_gpu_job"])) for r in rows),
        "gpus": statistics.fmean(abs(float(r["submit_gpu_num"]) - float(r["pred_gpu_num"])) for r in rows),
    }


def _venus(context: Context) -> list[HistoryRow]:
    if not context.rows:
        trace = load(context.data / "helios_venus_users" / "venus_jobs_2020-05-28_2020-06-10.csv.gz")
        context.rows = history_from_trace(trace.jobs)
    return context.rows


def _duration(rows: Sequence[HistoryRow], settings: DurationSettings) -> DurationModel:
    return DurationModel.from_document(train_duration(rows, _VENUS_SPLIT, settings))


def _best_ms(action: Callable[[], object], rounds: int = 200) -> tuple[float, float]:
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        action()
        times.append(1e3 * (time.perf_counter() - began))
    return min(times), statistics.median(times)


def _made_up_history(count: int) -> Iterator[HistoryRow]:
    """Users with habits: every user has a few kinds of jobs, each with a typical duration."""
    source = random.Random(1)
    kinds = [
        (
            f"user{u}",
            f"{source.choice(['train', 'eval', 'debug'])}_{k}_model{u % 97}",
            source.choice([1, 1, 1, 2, 4, 8]),
            source.gauss(6, 2),
        )
        for u in range(800)
        for k in range(6)
    ]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for i in range(count):
        at += timedelta(seconds=source.expovariate(1 / 15))
        user, name, gpus, level = source.choice(kinds)
        run_s = float(np.exp(min(source.gauss(level, 0.8), 13)))
        started = at + timedelta(seconds=source.expovariate(1 / 300))
        outcome = source.choices([Outcome.COMPLETED, Outcome.CANCELLED, Outcome.FAILED_USER], [6, 2, 2])[0]
        ended = started + timedelta(seconds=run_s)
        yield HistoryRow(
            attempt_id=f"a{i}",
            job_id=f"j{i}",
            number=1,
            user=user,
            vc="vc",
            name=f"{name}_{i}",
            gpus=gpus,
            submitted_at=at,
            started_at=started,
            ended_at=ended,
            duration_s=run_s,
            outcome=outcome,
            cause=None,
            profile=None,
            placement=None,
            packed=False,
            profiling=False,
        )


if __name__ == "__main__":
    sys.exit(main())
