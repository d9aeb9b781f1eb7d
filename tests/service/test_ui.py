"""The Dagster UI in a real browser: sensors, runs, the asset graph."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.client import Client
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.service.control import bring_up
from lucid_pipelines.settings import Settings
from tests.support_service import throw_away_service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.ui,
    pytest.mark.timeout(600),
    pytest.mark.service,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("ui")
    with throw_away_service(folder / "home") as chosen:
        bring_up(chosen)
        with Client(settings=chosen) as client:
            source = folder / "source"
            source.mkdir()
            job = client.submit([sys.executable, "-c", "print(1)"], source_dir=source, vc="nlp", name="seen").job
            assert client.wait([job.job_id], timeout_s=120)[0].state is JobState.COMPLETED
        yield chosen


def page(settings: Settings, path: str, folder: Path) -> str:
    """The text of a page once its scripts have run; a screenshot stays in ``folder``."""
    assert CHROMIUM is not None
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--window-size=1500,1000", "--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}",
    ]  # fmt: skip
    url = f"http://{settings.dagster.host}:{settings.dagster.port}{path}"
    name = path.strip("/").replace("/", "-") or "home"
    shot = Path(os.environ.get("LUCID_SCREENSHOTS") or folder) / f"{name}.png"
    subprocess.run([CHROMIUM, *options, f"--screenshot={shot}", url], check=True, capture_output=True, timeout=120)
    assert shot.stat().st_size > 10_000
    done = subprocess.run(
        [CHROMIUM, *options, "--dump-dom", url], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout


def test_the_runs_page_shows_what_ran(settings: Settings, tmp_path: Path) -> None:
    text = page(settings, "/runs", tmp_path)
    assert "submission_job" in text and "scheduling_job" in text
    assert "Welcome to Dagster" not in text, "no dialog covers the page"


def test_the_automation_page_shows_every_sensor_and_schedule(settings: Settings, tmp_path: Path) -> None:
    text = page(settings, "/automation", tmp_path)
    for name in ("submission_sensor", "scheduling_sensor", "exit_sensor", "metrics_sensor", "maintenance_job_schedule"):
        assert name in text


def test_the_asset_graph_shows_the_groups(settings: Settings, tmp_path: Path) -> None:
    text = page(settings, "/asset-groups", tmp_path)
    assert all(f">{group}<" in text for group in ("history", "live", "models", "tuner"))


def test_an_asset_page_shows_its_description(settings: Settings, tmp_path: Path) -> None:
    text = page(settings, "/assets/training_metrics", tmp_path)
    assert "training_metrics" in text


def test_the_launchpad_offers_the_submission_of_a_job(settings: Settings, tmp_path: Path) -> None:
    text = page(settings, "/locations/lucid/jobs/submit_training_job/playground", tmp_path)
    assert "Launch Run" in text or "Launchpad" in text
