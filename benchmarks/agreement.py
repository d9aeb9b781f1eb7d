"""Agreement with the published Lucid simulator on one input, and how much faster the replay is.

``python benchmarks/agreement.py [--data DIR] [--artifact DIR] [--repeats 3] [--json]``

Prints a table: for each policy the published average JCT and queue time, ours, the differences, and the share of jobs
that end in the same second. ``--data`` is the shared data folder (default: ``LUCID_DATA``), with
``oracle/lucid_artifact_small`` and ``lucid``. With ``--artifact``, the ``simulation`` folder of a checkout of the
published artifact, its own simulator runs the same input in a copy, policy by policy, just before ours does: then
the ratio of processor times is claimed, too. Reading files counts on neither side.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, report
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.domain.view import Forecast
from lucid_pipelines.simulation import Replay, run_replay
from lucid_pipelines.traces import LoadedTrace, load
from lucid_pipelines.traces.predictions import read_predictions, read_throughput_forecast

POLICIES = ("fifo", "sjf", "srtf", "qssf", "tiresias", "lucid:artifact")
WINDOW = ("2020-09-01", "2020-09-26 23:59:01")
ORIGIN_S = 1_585_699_200.0
"""2020-04-01 UTC, the artifact's zero."""
MIN_RATIO = 100.0


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on both sides. Times in seconds; ``artifact_cpu_s`` is ``None`` when it was not run."""

    policy: str
    theirs_jct_s: float
    jct_s: float
    theirs_queue_s: float
    queue_s: float
    same_second_frac: float
    cpu_s: tuple[float, ...]
    artifact_cpu_s: float | None

    @property
    def jct_error(self) -> float:
        return self.jct_s / self.theirs_jct_s - 1

    @property
    def queue_error(self) -> float:
        return self.queue_s / self.theirs_queue_s - 1

    @property
    def ratio(self) -> float | None:
        return None if self.artifact_cpu_s is None else self.artifact_cpu_s / fmean(self.cpu_s)


def main() -> int:
    """Run the comparison; exit status 1 when a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("LUCID_DATA"))
    parser.add_argument("--artifact", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
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
    artifact_cpu_s = None if artifact is None else _artifact_cpu_s(artifact, folder, policy.partition(":")[0])
    times: list[float] = []
    replayed: Replay | None = None
    gc.collect()  # what reading the files has left behind counts on neither side
    for _ in range(repeats):
        begin = time.process_time()
        replayed = run_replay(
            trace.jobs,
            _cluster(trace),
            [policy],
            predictions=predictions.duration_s,
            forecast=Forecast(
                forecast.time_s.tolist(), forecast.predicted_jobs.tolist(), forecast.predicted_gpus.tolist()
            ),
            pair_table=tables / "colocate_info.csv" if is_lucid else None,
            profile_table=tables / "single_data.csv" if is_lucid else None,
        ).replays[0]
        times.append(time.process_time() - begin)
    assert replayed is not None
    return _compared(policy, replayed, _published(folder, policy), tuple(times), artifact_cpu_s)


def _compared(
    policy: str,
    replayed: Replay,
    theirs: Mapping[str, pd.Series],
    times: tuple[float, ...],
    artifact_cpu_s: float | None,
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
        spread = float(np.std(found.cpu_s) / fmean(found.cpu_s) * found.ratio)
        title = f"{found.policy}: times faster than the artifact's loop"
        made.append(Claim(title, found.ratio, at_least=MIN_RATIO, spread=spread, samples=len(found.cpu_s)))
    return made


def table(rows: list[Row]) -> str:
    """The comparison as Markdown."""
    lines = [
        (
            "| policy | avg JCT, artifact (s) | here (s) | difference | avg queue, artifact (s) "
            "| here (s) | difference | same second | CPU here (s) | CPU artifact (s) | ratio |"
        ),
        "|" + "---|" * 11,
    ]
    for found in rows:
        cpu = "–" if found.artifact_cpu_s is None else f"{found.artifact_cpu_s:.1f}"
        ratio = "–" if found.ratio is None else f"{found.ratio:.0f}"
        lines.append(
            f"| {found.policy} | {found.theirs_jct_s:,.1f} | {found.jct_s:,.1f} | {100 * found.jct_error:+.2f} % "
            f"| {found.theirs_queue_s:,.1f} | {found.queue_s:,.1f} | {100 * found.queue_error:+.2f} % "
            f"| {100 * found.same_second_frac:.0f} % | {fmean(found.cpu_s):.3f} | {cpu} | {ratio} |"
        )
    return "\n".join(lines)


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
        begin = _children_s()
        subprocess.run([sys.executable, "-c", "import pandas, numpy"], cwd=copy, check=True)
        starting_s = _children_s() - begin
        command = [sys.executable, "simulator.py", "-e=Venus_Sept", "-t=./data/Venus", f"--scheduler={scheduler}"]
        begin = _children_s()
        subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(dialogs.parent), "TZ": "UTC"},
            check=True,
            capture_output=True,
        )
        return _children_s() - begin - starting_s


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
