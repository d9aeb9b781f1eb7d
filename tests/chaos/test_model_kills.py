"""`lucid models train --promote` and `lucid tune` killed at any moment: nothing half-made is ever in service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lucid_pipelines.models.artefacts import ModelKind, Registry
from lucid_pipelines.models.duration import DurationModel
from lucid_pipelines.traces.conversion import convert
from lucid_pipelines.traces.generator import generate
from tests.support_processes import ended, start

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

_LUCID = "import sys\nfrom lucid_pipelines.cli.start import main\nsys.argv[0] = 'lucid'\nmain()\n"


def started(home: Path, *words: str) -> subprocess.Popen[str]:
    env = {"LUCID_HOME": str(home / "home"), "LUCID__CLUSTER__GPUS": "virtual"}
    return start(_LUCID, *words, cwd=home, env=env, own_group=True)


def finished(home: Path, *words: str) -> str:
    return ended(started(home, *words), timeout_s=300)


def killed(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_training_and_promoting(tmp_path: Path) -> None:
    convert(generate(3, jobs=400, days=6, vcs=1), tmp_path / "trace.csv")
    words = ("models", "train", "duration", "--trace", "trace.csv", "--promote")
    registry = Registry(tmp_path / "home" / "artefacts" / "models")
    folder = registry.root / "duration"
    for moment in ("importing", "keeping", "promoting"):
        process = started(tmp_path, *words)
        if moment == "importing":
            time.sleep(1.0)
        while moment != "importing" and process.poll() is None:
            # A look at every moment at which a file can have come into being.
            if any(folder.glob("*.json" if moment == "promoting" else ".*.tmp")):
                break
        if process.poll() is None:
            killed(process)
        for entry in registry.entries(ModelKind.DURATION):
            assert entry.fault is None, moment
        version = registry.in_service(ModelKind.DURATION)
        if version is not None:
            DurationModel.from_document(registry.read(ModelKind.DURATION, version))
        process.communicate()
    assert json.loads(finished(tmp_path, *words, "--json"))["rows"] > 0
    version = registry.in_service(ModelKind.DURATION)
    assert version is not None
    rows = finished(tmp_path, "models", "list").splitlines()
    assert [row.split()[2] for row in rows if row.split()[1:2] == [version]] == ["yes"], "others may name it as rival"


def test_tuning(tmp_path: Path) -> None:
    convert(generate(3, jobs=240, days=4, vcs=1), tmp_path / "trace.csv")
    words = ["tune", "trace.csv", "--trials", "4", "--search", "capacity,profile_window_s", "--strategy", "random"]
    words += ["--seeds", "1", "--pieces", "1", "--processes", "1", "--json", "--out"]
    whole = json.loads(finished(tmp_path, *words, "whole"))
    journal = tmp_path / "cut" / "replays.jsonl"
    for lines in (1, 3, 5):
        process = started(tmp_path, *words, "cut")
        while process.poll() is None and (not journal.exists() or len(journal.read_bytes().splitlines()) < lines):
            time.sleep(0.002)
        killed(process)
        assert not (tmp_path / "cut" / "tuned_settings.json").exists(), "no report of half a sweep"
    again = json.loads(finished(tmp_path, *words, "cut"))
    assert again["replays"]["resumed"] >= 4

    def outcome(report: dict) -> list:
        return [(t["values"], {k: v["avg_jct_s"] for k, v in t["measures"].items()}) for t in report["trials"]]

    assert outcome(again) == outcome(whole)
    assert again["recommended"] == whole["recommended"]
