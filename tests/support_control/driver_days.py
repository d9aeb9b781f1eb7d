"""The control loop on real GPUs, as far as it can tell: beside the stand-in for NVML, whose state lives and breaks.

``python -m tests.support_control.driver_days HOME KIND``, with the stand-in in the environment, prints one JSON object:
what the rows and the commands say after the driver began to tell nonsense of the given kind.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lucid_pipelines.cli.main import app
from lucid_pipelines.client import Client
from lucid_pipelines.control.sampling import is_known
from lucid_pipelines.domain.job import Attempt, Job, Profile
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.settings import load_settings
from tests.support_clusters.nvml_double import gpu_line
from tests.support_control.killed_loop import step

PATIENCE_S = 60.0
LIGHT = Profile(30.0, 15.0, 4_000.0, 60.0, 30, "test")
HEAVY = Profile(95.0, 80.0, 135_000.0, 60.0, 30, "test")


@dataclass
class FakeGpu:
    """What the driver says of one GPU."""

    util: int = 0
    used_mib: int = 10
    lost: bool = False


@dataclass
class Driver(threading.Thread):
    """Writes the stand-in's state again and again; readings of a live GPU move a little."""

    path: Path
    gpus: dict[str, FakeGpu]
    order: list[str] = field(default_factory=list)
    generation: int = 1
    is_frozen: bool = False

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.order = self.order or list(self.gpus)
        self.write()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while True:
            if not self.is_frozen:
                self.write()
            time.sleep(0.05)

    def write(self) -> None:
        text = f"driver {self.generation}\n"
        for uuid in list(self.order):
            gpu = self.gpus[uuid]
            util = gpu.util + random.choice((-1, 0, 1)) if 0 < gpu.util < 100 else gpu.util
            text += gpu_line(uuid, util=util, mem_util=util // 2, used_mib=gpu.used_mib, lost=gpu.lost)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.path)


class Day:
    """One site with real GPUs and its loop."""

    def __init__(self, home: Path, gpus: int) -> None:
        self.home = home
        state = Path(os.environ["FAKE_NVML_STATE"])
        self.driver = Driver(state, {f"GPU-{'abcd'[i]}": FakeGpu() for i in range(gpus)})
        self.driver.start()
        seen = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")}
        site = {
            "cluster": {"gpus": "real", "warmup_s": 0.2, "sample_interval_s": 0.2, "job_env": seen},
            "modes": {"pack": "live", "unpack": "live"},
            "packing": {"min_remaining_s": 0.5, "watch_after_s": 600.0},
        }
        home.mkdir(parents=True, exist_ok=True)
        (home / "lucid.yaml").write_text(yaml.safe_dump(site))
        self.client = Client(settings=load_settings(home))

    def anew(self) -> None:
        """Another process takes over: what this one remembers of the driver is gone."""
        self.client.system.store.close()
        self.client = Client(settings=load_settings(self.home))

    def submit(self, name: str, profile: Profile | None = None) -> str:
        words = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        job = self.client.submit(words, source_dir=self.home / "source", name=name, user="ada").job
        if profile is not None:
            store, now = self.client.system.store, self.client.system.clock.now()
            store.jobs.annotate(job.job_id, who="test", why="told", now=now, profile=profile)
        return job.job_id

    def job(self, job_id: str) -> Job:
        return self.client.job(job_id)

    def attempt(self, job_id: str) -> Attempt:
        return self.client.attempts(job_id)[-1]

    def until(self, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_done():
            assert time.monotonic() < deadline, what
            step(self.client.system)
            time.sleep(0.05)

    def go_on(self, rounds: int) -> None:
        for _ in range(rounds):
            step(self.client.system)
            time.sleep(0.1)

    def runs(
        self, name: str, uuid: str, profile: Profile | None = None, *, util: int = 30, used_mib: int = 4_000
    ) -> str:
        """A job that runs and uses the GPU of this name."""
        job_id = self.submit(name, profile)
        self.until(
            lambda: self.job(job_id).state is JobState.RUNNING and self.attempt(job_id).started_at is not None,
            f"{name} starts",
        )
        self.driver.gpus[uuid].util, self.driver.gpus[uuid].used_mib = util, used_mib
        return job_id

    def told(self, *words: str) -> str:
        """What a command prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                app([*words, "--home", str(self.home)], standalone_mode=False)
            except SystemExit as ended:
                out.write(f"exit status {ended.code}")
            except Exception as error:  # noqa: BLE001 what a person would be told
                out.write(f"{type(error).__name__}: {error}")
        return out.getvalue()


def spoil(driver: Driver, kind: str) -> None:
    """Let the driver tell nonsense from now on."""
    first = driver.gpus[driver.order[0]]
    match kind:
        case "over 100 %":
            first.util = 250
        case "negative":
            first.util = -5
        case "more memory than there is":
            first.used_mib = 999_999
        case "frozen":
            driver.is_frozen = True
        case "lost":
            first.lost = True
        case "no driver":
            driver.generation = 0
    driver.write()


def one_gpu(day: Day, kind: str, *, early: bool) -> dict[str, Any]:
    """A job runs alone on the only GPU; another one of a known profile waits."""
    long = day.submit("long")
    day.until(lambda: day.job(long).state is JobState.RUNNING and day.attempt(long).started_at is not None, "it starts")
    if early:
        spoil(day.driver, kind)
    first = day.driver.gpus["GPU-a"]
    first.used_mib = first.used_mib if first.used_mib > 10_000 else 4_000
    first.util = first.util if early and kind in ("over 100 %", "negative") else 30
    if early and kind == "frozen":
        day.driver.write()
    if early:
        day.go_on(40)
    else:
        day.until(lambda: is_known(day.job(long).profile), "the profile of the first job")
        spoil(day.driver, kind)
        day.anew()
    short = day.submit("short", LIGHT)
    if kind == "nothing":
        day.until(lambda: bool(day.client.system.store.pairs.open()), "the pair is formed")
    day.go_on(25)
    return answer(day, long, short)


def two_gpus(day: Day, kind: str) -> dict[str, Any]:
    """A heavy job and a light one run alone; then the driver counts otherwise, and another process takes over."""
    heavy = day.runs("heavy", "GPU-a", HEAVY, util=95, used_mib=135_000)
    long = day.runs("long", "GPU-b")
    assert day.attempt(heavy).placement.shares[0].gpu_indices == (0,)
    day.until(lambda: is_known(day.job(long).profile), "the profile of the first job")
    day.driver.order = ["GPU-b", "GPU-a"] if kind == "swapped" else ["GPU-b"]
    day.driver.generation = 2
    day.driver.write()
    day.anew()
    short = day.submit("short", LIGHT)
    day.until(lambda: day.job(short).state is JobState.RUNNING, "it joins its partner")
    found = answer(day, long, short)
    spec = json.loads((day.client.settings.jobs / short / "attempts" / "1" / "spec.json").read_text())
    return found | {"visible": spec["cuda_visible_devices"], "placed": str(day.attempt(short).placement)}


def answer(day: Day, long: str, short: str) -> dict[str, Any]:
    store = day.client.system.store
    profile = day.job(long).profile
    return {
        "long": day.job(long).state.value,
        "short": day.job(short).state.value,
        "known": is_known(profile),
        "pairs": [[pair.first_attempt_id[:-3], pair.later_attempt_id[:-3]] for pair in store.pairs.find()],
        "expected_pair": [long, short],
        "actions": [[action.state.value, str(action.result)] for action in store.actions.find(kind="pack")],
        "counters": dict(store.counters.all()),
        "nodes": day.told("nodes"),
        "explain": day.told("explain", short),
        "top": day.told("top", "--once"),
    }


def main(home: str, kind: str) -> None:
    folder = Path(home)
    (folder / "source").mkdir(parents=True)
    day = Day(folder, 2 if kind in ("swapped", "moved up") else 1)
    try:
        when, _, what = kind.partition(": ")
        found = two_gpus(day, kind) if not what else one_gpu(day, what, early=when == "early")
    finally:
        for item in day.client.system.store.queue.view().active:
            day.client.system.cluster.fence(item.attempt.attempt_id)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
