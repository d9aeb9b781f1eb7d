"""Bad telemetry in the running loop, through the driver's library: nothing is packed on it, and everybody is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support_clusters.nvml_double import NvmlDouble

pytestmark = pytest.mark.slow
WELL = {"policy_failures", "decisions_broken", "observations_failed"}


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> NvmlDouble:
    return NvmlDouble(tmp_path_factory.mktemp("nvml"))


def day(double: NvmlDouble, home: Path, kind: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.support_control.driver_days", str(home), kind]
    environment = {**os.environ, **double.environment, "COLUMNS": "200", "FAKE_NVML_STATE": str(home.parent / "state")}
    done = subprocess.run(
        words, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["long"] == "running", "what runs is left alone"
    assert not WELL & found["counters"].keys(), found["counters"]
    return found


def test_a_driver_that_is_well_lets_two_jobs_share(tmp_path: Path, double: NvmlDouble) -> None:
    found = day(double, tmp_path / "home", "late: nothing")
    assert (found["short"], found["pairs"]) == ("running", [found["expected_pair"]])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("early: over 100 %", "not known"),
        ("early: negative", "not known"),
        ("early: frozen", "not known"),
        ("early: lost", "not known"),
        ("early: no driver", "not known"),
        ("late: more memory than there is", "how much of its memory is in use is not known"),
        ("late: lost", "GPU is lost"),
        ("late: no driver", "NVML cannot be used"),
    ],
)
def test_nothing_is_packed_on_what_the_driver_cannot_tell(
    tmp_path: Path, double: NvmlDouble, kind: str, told: str
) -> None:
    found = day(double, tmp_path / "home", kind)
    assert (found["short"], found["pairs"]) == ("queued", [])
    assert found["known"] == kind.startswith("late")
    shown = found["nodes"] + found["explain"]
    assert told in shown, shown
    assert "Error" not in shown + found["top"] and "exit status" not in shown + found["top"], shown
    if kind.endswith("lost"):
        assert "GPU is lost" in found["nodes"]
    if kind.endswith("no driver"):
        assert "unobserved" in found["nodes"]


@pytest.mark.parametrize("kind", ["swapped", "moved up"])
def test_gpus_that_the_driver_counts_otherwise_keep_their_numbers(
    tmp_path: Path, double: NvmlDouble, kind: str
) -> None:
    """Two change places, or one is lost and the one behind it moves up: the newcomer joins the light job's GPU."""
    found = day(double, tmp_path / "home", kind)
    assert found["pairs"] == [found["expected_pair"]]
    assert found["placed"].endswith("[1]") and found["visible"] == "GPU-b"
    if kind == "moved up":
        assert "no longer listed" in found["nodes"]
