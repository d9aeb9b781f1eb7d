"""Agreement with the published Lucid simulator on one input, and how much faster the replay is.

``python benchmarks/agreement.py [--data DIR] [--artifact DIR] [--repeats 9] [--json]``

Prints a table: for each policy the published average JCT and queue time, ours, the differences, and the share of jobs
that end in the same second. ``--data`` is the shared data folder (default: ``LUCID_DATA``), with
``oracle/lucid_artifact_small`` and ``lucid``. With ``--artifact``, the ``simulation`` folder of a checkout of the
published artifact, its own simulator runs the same input in a copy: then the ratio of processor times is claimed, too.

Both sides are measured twice in turn, first the artifact and then ``--repeats`` replays of ours; the medians are
compared, and the spread is told. Each runs as its users run it: the artifact with Python's collector on, a replay of
ours with it off. Reading files counts on neither side. Both are warm: the artifact is charged without the start of
Python and the libraries, and the first replay, which fills caches that its runs of many seconds do not notice, is not
counted on ours.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, pstdev

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, report
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.simulation import Replay, ReplayOptions, run_replay
from lucid_pipelines.simulation.interference import MeasuredPairs, read_measured_pairs
from lucid_pipelines.simulation.scoring import MeasuredScorer
from lucid_pipelines.simulation.workloads import read_profiles
from lucid_pipelines.traces import LoadedTrace, load
from lucid_pipelines.traces.predictions import read_predictions, read_throughput_forecast

POLICIES = ("fifo", "sjf", "srtf", "qssf", "tiresias", "lucid:artifact")
WINDOW = ("2020-09-01", "2020-09-26 23:59:01")
ORIGIN_S = 1_585_699_200.0
"""2020-04-01 UTC, the artifact's zero."""
MIN_RATIO = 100.0
TURNS = 2
"""How often both sides are measured, in turn."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on both sides. Times in seconds; ``artifact_cpu_s`` is empty when it was not run."""

    policy: str
    theirs_jct_s: float
    jct_s: float
    theirs_queue_s: float
    queue_s: float
    same_second_frac: float
    cpu_s: tuple[float, ...]
    artifact_cpu_s: tuple[float, ...]

    @property
    def jct_error(self) -> float:
        return self.jct_s / self.theirs_jct_s - 1

    @property
    def queue_error(self) -> float:
        return self.queue_s / self.theirs_queue_s - 1

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is, by the medians; ``None`` when the artifact was not run."""
        return median(self.artifact_cpu_s) / median(self.cpu_s) if self.artifact_cpu_s else None

    @property
    def ratio_spread(self) -> float:
        """Standard deviation of the ratio, from those of both sides."""
        return (self.ratio or 0.0) * math.hypot(_relative_spread(self.cpu_s), _relative_spread(self.artifact_cpu_s))


def main() -> int:
    """Run the comparison; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("LUCID_DATA"))
    parser.add_argument("--artifact", type=Path)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.data is None:
        raise SystemExit("name the data folder with --data or LUCID_DATA")
    rows = [row(options.data, name, options.repeats, options.artifact) for name in options.policies.split(",")]
    if not options.json:
        print(table(rows))
        print(f"load average {os.getloadavg()[0]:.1f}")
    return report([claim for found in rows for claim in claims(found)], as_json=options.json)


def row(data: Path, policy: str, repeats: int = 1, artifact: Path | None = None) -> Row:
    """Replay the published input under one policy and compare with the published result of every job."""
    folder, tables = data / "oracle" / "lucid_artifact_small", data / "lucid"
    is_lucid = policy.startswith("lucid")
    trace = load(folder / "cluster_full_log.csv.gz", start=WINDOW[0], end=WINDOW[1])
    forecast = read_throughput_forecast(folder / "Venus_throughput_pred.csv.gz")
    predictions = read_predictions(
        folder / ("Venus_Sept_ebm_weekly_updated.csv.gz" if is_lucid else "Venus_Sept_lgb.csv.gz")
    )
    pairs = read_measured_pairs(tables / "colocate_info.csv") if is_lucid else {}
    profiles = read_profiles(tables / "single_data.csv") if is_lucid else {}
    cluster = _cluster(trace)

    def replayed() -> Replay:
        options = ReplayOptions(
            pair_speeds=MeasuredPairs(pairs, profiles) if is_lucid else None,
            scorer=MeasuredScorer(profiles) if is_lucid else None,
            forecast=Forecast(
                forecast.time_s.tolist(), forecast.predicted_jobs.tolist(), forecast.predicted_gpus.tolist()
            ),
        )
        report = run_replay(trace.jobs, cluster, [policy], predictions=predictions.duration_s, options=options)
        return report.replays[0]

    first = replayed()
    times: list[float] = []
    artifact_times: list[float] = []
    for _ in range(TURNS):
        if artifact is not None:
            artifact_times.append(_artifact_cpu_s(artifact, folder, policy.partition(":")[0]))
        times += [_cpu_s(replayed) for _ in range(repeats)]
    return _compared(policy, first, _published(folder, policy), tuple(times), tuple(artifact_times))


def _cpu_s(work: Callable[[], object]) -> float:
    """Processor time of ``work``; what others have left for the collector counts on neither side."""
    gc.collect()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _compared(
    policy: str,
    replayed: Replay,
    theirs: Mapping[str, pd.Series],
    times: tuple[float, ...],
    artifact_cpu_s: tuple[float, ...],
) -> Row:
    ids = [job.job_id for job in replayed.input.jobs]
    end_s, submit_s, queue_s = (theirs[name].loc[ids].to_numpy(float) for name in ("end_time", "submit_time", "queue"))
    return Row(
        policy=policy,
        theirs_jct_s=float((end_s - submit_s).mean()),
        jct_s=float(replayed.jct_s.mean()),
        theirs_queue_s=float(queue_s.mean()),
        queue_s=float(replayed.queue_s.mean()),
        same_second_frac=float((replayed.end_s - ORIGIN_S == end_s).mean()),
        cpu_s=times,
        artifact_cpu_s=artifact_cpu_s,
    )


def claims(found: Row) -> list[Claim]:
    """Averages within 1 %, Lucid's within 2 %, and the ratio where it was measured."""
    bound = 0.02 if found.policy.startswith("lucid") else 0.01
    made = [
        Claim(f"{found.policy}: average JCT against the published one", abs(found.jct_error), at_most=bound),
        Claim(f"{found.policy}: average queue time against the published one", abs(found.queue_error), at_most=bound),
    ]
    if found.ratio is not None:
        title = f"{found.policy}: times faster than the artifact's loop"
        samples = len(found.cpu_s) + len(found.artifact_cpu_s)
        made.append(Claim(title, found.ratio, at_least=MIN_RATIO, spread=found.ratio_spread, samples=samples))
    return made


def table(rows: list[Row]) -> str:
    """The comparison as Markdown."""
    lines = [
        (
            "| policy | avg JCT, artifact (s) | here (s) | difference | avg queue, artifact (s) "
            "| here (s) | difference | same second | CPU here, median (s) | CPU artifact (s) | ratio |"
        ),
        "|" + "---|" * 11,
    ]
    for found in rows:
        cpu = " and ".join(f"{cpu_s:.1f}" for cpu_s in found.artifact_cpu_s) or "–"
        ratio = "–" if found.ratio is None else f"{found.ratio:.0f} ± {found.ratio_spread:.0f}"
        ours = f"{median(found.cpu_s):.3f} ({min(found.cpu_s):.3f} to {max(found.cpu_s):.3f})"
        lines.append(
            f"| {found.policy} | {found.theirs_jct_s:,.1f} | {found.jct_s:,.1f} | {100 * found.jct_error:+.2f} % "
            f"| {found.theirs_queue_s:,.1f} | {found.queue_s:,.1f} | {100 * found.queue_error:+.2f} % "
            f"| {100 * found.same_second_frac:.0f} % | {ours} | {cpu} | {ratio} |"
        )
    return "\n".join(lines)


def _relative_spread(times: tuple[float, ...]) -> float:
    return pstdev(times) / median(times)


def _cluster(trace: LoadedTrace) -> ClusterSpec:
    if trace.cluster is None:
        raise SystemExit("vc_config.csv is missing beside the trace")
    groups = trace.cluster.virtual_clusters.items()
    return ClusterSpec({vc: tuple(replace(g, gpu_memory_mib=24_576.0) for g in its) for vc, its in groups})


def _published(folder: Path, policy: str) -> dict[str, pd.Series]:
    result = pd.read_csv(folder / f"result_{policy.partition(':')[0]}.csv.gz", dtype={"job_id": str}).set_index(
        "job_id"
    )
    return {name: result[name] for name in ("end_time", "submit_time", "queue")}


def _artifact_cpu_s(simulation: Path, folder: Path, scheduler: str) -> float:
    """Processor time of the artifact's own simulator on this input, less that of starting it and reading."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "simulation"
        shutil.copytree(simulation, copy)
        for name, place in (
            ("cluster_full_log.csv", "data/Venus"),
            ("Venus_Sept_lgb.csv", "estimator/lgb"),
            ("Venus_Sept_ebm_weekly_updated.csv", "estimator/ebm"),
            ("Venus_throughput_pred.csv", "predictor"),
        ):
            (copy / place / name).write_bytes(gzip.decompress((folder / f"{name}.gz").read_bytes()))
        shutil.copy(folder / "vc_config.csv", copy / "data/Venus/vc_config.csv")
        # It imports a dialog box that it never shows; not every Python has one.
        dialogs = Path(scratch) / "dialogs" / "tkinter"
        dialogs.mkdir(parents=True)
        (dialogs / "__init__.py").touch()
        (dialogs / "messagebox.py").write_text("NO = None\n")
        environment = {**os.environ, "PYTHONPATH": str(dialogs.parent), "TZ": "UTC"}
        begin = _children_s()
        _run(("-c", _START_AND_READ), copy, environment)
        starting_s = _children_s() - begin
        begin = _children_s()
        command = ("simulator.py", "-e=Venus_Sept", "-t=./data/Venus", f"--scheduler={scheduler}")
        _run(command, copy, environment)
        return _children_s() - begin - starting_s


_START_AND_READ = """
import glob, pandas, simulator
for name in ("data/Venus", "estimator/lgb", "estimator/ebm", "predictor"):
    for path in glob.glob(name + "/Venus*.csv") + glob.glob(name + "/cluster_full_log.csv"):
        pandas.read_csv(path)
"""


def _run(arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
