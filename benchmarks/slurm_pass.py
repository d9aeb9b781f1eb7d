"""What a scheduling pass asks of Slurm and what reading its answers costs, at the size of a large site.

    python benchmarks/slurm_pass.py [--jobs 1000] [--nodes 128] [--passes 5] [--json]
    python benchmarks/slurm_pass.py --live 16 [--jobs 64] [--passes 20] [--json]

The attempts lie on this machine's disk as running ones do. Slurm's commands are programs that print recorded
answers of that size in the shapes of 22.05 and of 24.11, so that what is measured is our side. With ``--live`` a real
Slurm of so many nodes is started on this machine (root, and Slurm's programs, see ``.ci/run``), real jobs run on it,
and the passes include what its controller needs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ranges import Claim, mean_of, report
from lucid_pipelines.domain.cluster import Placement
from lucid_pipelines.ports import LaunchRequest, Sight
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.layout import replace_json
from lucid_pipelines.resources.clusters.request import WrapperOptions
from lucid_pipelines.resources.clusters.slurm import SlurmCluster, SlurmOptions
from lucid_pipelines.resources.clusters.slurm_commands import SlurmCommands
from lucid_pipelines.resources.clusters.slurm_submissions import TAG, Submission
from tests.support_slurm import shapes

GPUS_A_NODE = 8
ROW_BYTES = 3600
STARTED = {"wrapper": {"pid": 1, "start_ticks": 1}, "main": {"pid": 2, "start_ticks": 1}, "boot_id": "b"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, help="Default: 1000, live 64.")
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--live", type=int, metavar="NODES", help="Start a real Slurm of so many nodes.")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.live is not None:
        return report(measure_live(arguments.live, arguments.jobs or 64, arguments.passes), as_json=arguments.json)
    return report(measure_recorded(arguments.jobs or 1000, arguments.nodes, arguments.passes), as_json=arguments.json)


def measure_recorded(job_count: int, node_count: int, passes: int) -> list[Claim]:
    """Measure passes over so many running jobs, with answers in the shapes of both versions."""
    claims: list[Claim] = []
    for version, jobs_of, nodes_of in (
        ("22.05.8", shapes.old_jobs, shapes.old_nodes),
        ("24.11.3", shapes.new_jobs, shapes.new_nodes),
    ):
        with tempfile.TemporaryDirectory() as folder:
            claims += _measure(Path(folder), version, jobs_of, nodes_of, (job_count, node_count, passes))
    return claims


def _measure(
    root: Path, version: str, jobs_of: Callable[..., str], nodes_of: Callable[..., str], size: tuple[int, int, int]
) -> list[Claim]:
    job_count, node_count, passes = size
    ids = [f"j-{number:05d}-a1" for number in range(job_count)]
    jobs = []
    for number, attempt_id in enumerate(ids):
        gpu = number // node_count % GPUS_A_NODE
        held, node = [f"gpu:g{gpu}:1(IDX:{gpu})"], f"n{number % node_count + 1}"
        jobs.append(shapes.job(number + 1, comment=f"{TAG}{attempt_id}", nodes=node, gres_detail=held))
    nodes = [shapes.node(f"n{number + 1}") for number in range(node_count)]
    programs = _programs(root / "bin", version, _as_long_as_real(jobs_of(jobs)), nodes_of(nodes))
    cluster = SlurmCluster(root / "cluster", SlurmCommands(folder=programs, env={"PATH": "/usr/bin:/bin"}))
    _attempts(root, ids)
    walls: list[float] = []
    cluster.commands.version()
    before = sum(cluster.commands.counts.values())
    for _ in range(passes):
        begin = time.perf_counter()
        seen = cluster.poll(ids)
        inventory = cluster.inventory()
        walls.append(time.perf_counter() - begin)
        assert all(one.sight is Sight.RUNNING for one in seen.values()), next(iter(seen.values()))
        assert len(inventory.nodes) == node_count
    asked = (sum(cluster.commands.counts.values()) - before) / passes
    named = f"{job_count} jobs, {node_count} nodes, Slurm {version}"
    return [
        mean_of(f"a pass over {named} (s)", walls, at_most=2.0, why="a pass is made every second or two"),
        Claim(f"Slurm's commands a pass, {named}", asked, at_most=3.0, why="slurmctld serves everybody"),
    ]


def measure_live(node_count: int, job_count: int, passes: int) -> list[Claim]:
    """Start a Slurm of our own, run jobs on it and measure passes; it is stopped again."""
    from tests.support_slurm.slurm_cluster import SlurmTestbed, short_folder

    folder = short_folder()
    begin = time.perf_counter()
    testbed = SlurmTestbed(folder / "slurm", nodes=node_count)
    started_s = time.perf_counter() - begin
    try:
        commands = SlurmCommands(testbed.conf, env={"PATH": "/usr/bin:/bin"})
        options = WrapperOptions(sample_interval_s=30.0, base_env={"PATH": "/usr/bin:/bin"})
        slurm = SlurmOptions(python=sys.executable)
        cluster = SlurmCluster(folder / "cluster", commands, slurm=slurm, options=options, gpus="virtual")
        ids = [_launch(cluster, folder, node_count, number) for number in range(job_count)]
        deadline = time.monotonic() + 300.0
        while any(one.sight is not Sight.RUNNING for one in cluster.poll(ids).values()):
            assert time.monotonic() < deadline, "not every job was started"
            time.sleep(0.5)
        running_s = time.perf_counter() - begin - started_s
        before, walls = sum(commands.counts.values()), []
        for _ in range(passes):
            again = time.perf_counter()
            seen, inventory = cluster.poll(ids), cluster.inventory()
            walls.append(time.perf_counter() - again)
            assert all(one.sight is Sight.RUNNING for one in seen.values())
            assert len(inventory.nodes) == node_count
        asked = (sum(commands.counts.values()) - before) / passes
    finally:
        testbed.close()
        shutil.rmtree(folder, ignore_errors=True)
    size = f"{job_count} running jobs, {node_count} live nodes, Slurm {'.'.join(map(str, commands.version()))}"
    return [
        Claim(f"the test bed of {node_count} nodes is up (s)", started_s),
        Claim(f"{job_count} jobs submitted one by one until all run (s)", running_s),
        mean_of(f"a pass over {size} (s)", walls, at_most=2.0, why="a pass is made every second or two"),
        Claim(f"Slurm's commands a pass, {size}", asked, at_most=3.0, why="slurmctld serves everybody"),
    ]


def _launch(cluster: SlurmCluster, folder: Path, node_count: int, number: int) -> str:
    attempt_id, job_dir = f"j-{number:05d}-a1", folder / "jobs" / str(number)
    code = job_dir / "code"
    code.mkdir(parents=True)
    place = Placement.of({f"n{number % node_count + 1}": [number // node_count % GPUS_A_NODE]})
    command = ("sleep", "600")
    cluster.launch(LaunchRequest(attempt_id, f"j-{number:05d}", 1, command, {}, place, job_dir, code, ".", 1.0))
    return attempt_id


def _programs(folder: Path, version: str, jobs: str, nodes: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "jobs.json").write_text(jobs)
    (folder / "nodes.json").write_text(nodes)
    squeue = f'#!/bin/sh\n[ "$1" = --version ] && echo "slurm {version}" || exec cat {folder}/jobs.json\n'
    for name, text in (
        ("squeue", squeue),
        ("sinfo", f"#!/bin/sh\nexec cat {folder}/nodes.json\n"),
        ("scontrol", f"#!/bin/sh\nexec cat {folder}/nodes.json\n"),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def _as_long_as_real(text: str) -> str:
    """A live Slurm writes about 3.6 kB a job, most of it fields that nobody reads here."""
    content = json.loads(text)
    for row in content["jobs"]:
        row["fields_that_are_not_read"] = {f"field_{number}": number for number in range(110)}
        row["system_comment"] = "x" * max(0, ROW_BYTES - len(json.dumps(row)))
    return json.dumps(content)


def _attempts(root: Path, ids: list[str]) -> None:
    for number, attempt_id in enumerate(ids, start=1):
        folder = root / "jobs" / attempt_id / "attempts" / "1"
        folder.mkdir(parents=True)
        replace_json(folder / wrapper.SPEC, {"attempt_id": attempt_id})
        replace_json(folder / wrapper.STARTED, {**STARTED, "started_at": wrapper.iso(time.time())})
        Submission(number, uid=os.geteuid()).note(folder)
        (root / "cluster" / "attempts" / attempt_id).symlink_to(folder)


if __name__ == "__main__":
    sys.exit(main())
