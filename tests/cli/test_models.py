"""`lucid models` as a newcomer meets it: a trace, a model, what it says of itself, and clear refusals."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.main import app
from lucid_pipelines.domain.errors import InputError, LucidError
from lucid_pipelines.models.artefacts import Registry, with_evaluation
from lucid_pipelines.traces.conversion import convert
from lucid_pipelines.traces.generator import generate


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUCID_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LUCID__CLUSTER__GPUS", "virtual")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    convert(generate(3, jobs=600, days=6, vcs=1), path)
    return path


def lucid(*words: str) -> str:
    result = CliRunner().invoke(app, ["models", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words: str) -> str:
    with pytest.raises(LucidError) as error:
        CliRunner().invoke(app, ["models", *words], catch_exceptions=False)
    return str(error.value)


def test_a_model_from_a_trace(home: Path, trace: Path) -> None:
    told = json.loads(lucid("train", "duration", "--trace", str(trace), "--promote", "--json"))
    evaluation = told["evaluation"]
    assert told["rows"] + sum(told["left_out"].values()) == 600
    assert evaluation["until"].startswith("2024-01-06"), "as of the end of the trace, not of today"
    assert evaluation["rows"] >= 30
    assert told["promoted"] and evaluation["candidate"]["spearman"] > max(
        numbers["spearman"] for numbers in evaluation["baselines"].values()
    )
    shown = " ".join(lucid("show", "duration").split())
    assert "in service yes" in shown
    assert f"judged on {evaluation['rows']} unseen rows" in shown
    assert "spearman (higher is better)" in shown and "no model: ladder_mean" in shown
    assert "promote by" in shown
    assert told["version"] in lucid("list")
    assert "done_user_mean" in lucid("explain")

    nothing = json.loads(lucid("train", "duration", "--trace", str(trace), "--as-of", "2030-01-01", "--json"))
    assert nothing["evaluation"]["rows"] == 0
    assert nothing["reason"] == "kept: the unseen window holds 0 rows; 30 are needed"
    assert "did not let" in refused("promote", "duration", nothing["version"])
    lucid("promote", "duration", nothing["version"], "--force", "--why", "to see")
    assert told["version"] in lucid("rollback", "duration")

    document = json.loads((home / "home" / "artefacts" / "models" / "duration" / f"{told['version']}.json").read_text())
    document["goldens"]["outputs"][0] += 0.5
    other = Registry(home / "home" / "artefacts" / "models").keep(with_evaluation(signed(document), {"promote": True}))
    assert "no longer gives its golden answers" in refused("promote", "duration", other, "--force")


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the digest of what it holds now."""
    body = {key: value for key, value in document.items() if key not in ("version", "digest")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return {**document, "digest": hashlib.sha256(text.encode()).hexdigest()}


def test_without_a_model_it_says_what_answers(home: Path) -> None:
    assert "no state folder yet" in refused("list")
    (home / "home").mkdir()
    told = lucid("list")
    assert "no model is kept yet" in told
    assert "packing: none is in service; the shipped model answers until one is promoted" in told
    assert "duration: none is in service" in told and "duration" not in lucid("list", "packing")
    shown = " ".join(lucid("show", "packing").split())
    assert "in service yes" in shown and "RTX" in shown
    assert "no duration model is in service yet" in refused("show", "duration")


def test_a_throughput_model_of_a_quiet_cluster_stays_sane(home: Path, trace: Path) -> None:
    told = json.loads(lucid("train", "throughput", "--trace", str(trace), "--json"))
    worst = max(numbers["mae_jobs"] for numbers in told["evaluation"]["baselines"].values())
    assert told["evaluation"]["candidate"]["mae_jobs"] < 1.5 * worst
    assert told["evaluation"]["until"].startswith("2024-01-06")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the trace file is empty"),
        (bytes(range(128, 256)) * 40, "is no text: its first line is '\\\\ufffd"),
        (gzip.compress(b"job_id,user\n" * 10_000, mtime=0)[:100], "trace"),
    ],
    ids=["empty", "binary", "torn gzip"],
)
def test_a_file_that_is_no_trace(home: Path, content: bytes, message: str) -> None:
    path = home / ("trace.csv.gz" if content[:2] == b"\x1f\x8b" else "trace.csv")
    path.write_bytes(content)
    told = refused("train", "duration", "--trace", str(path))
    assert message in told.replace("\\ufffd", "\\\\ufffd")
    assert told.isprintable()


def test_a_few_rows_are_refused_with_the_reasons(home: Path, trace: Path) -> None:
    lines = trace.read_text().splitlines(keepends=True)
    (home / "ten.csv").write_text("".join(lines[:13]) + '"cut off",\n')
    told = refused("train", "duration", "--trace", "ten.csv")
    assert "at least 20 usable runs before" in told
    assert "1 trace: malformed_row" in told and "after_as_of" in told and "--window-days" in told


def test_what_cannot_be_learned_from_is_refused_before_training_is_imported(home: Path, trace: Path) -> None:
    (home / "ten.csv").write_text("".join(trace.read_text().splitlines(keepends=True)[:12]))
    program = (
        "import sys\n"
        "from lucid_pipelines.cli.lazy import load\n"
        "from lucid_pipelines.domain.errors import LucidError\n"
        "try:\n"
        "    load('models')(args=['train', 'duration', '--trace', 'ten.csv'])\n"
        "except LucidError as error:\n"
        "    print(error)\n"
        "print([name for name in ('interpret', 'sklearn', 'scipy') if name in sys.modules])\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=home, env=dict(os.environ), capture_output=True, text=True, timeout=100)
    assert "at least 20 usable runs" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "torn.csv.gz",
            gzip.compress(b"time,submit_gpu_job,submit_gpu_num\n" + b"2020-01-01,1,1\n" * 5_000, mtime=0)[:60],
        ),
        ("short.csv", b"time,submit_gpu_job,submit_gpu_num\n2020-01-01 00:00:00,1\n"),
        ("binary.csv", b"\xff\xfe\x00time"),
        ("infinite.csv", b"time,submit_gpu_job,submit_gpu_num\n2020-01-01 00:00:00,inf,1\n"),
    ],
)
def test_tables_of_submissions_that_cannot_be_read(home: Path, name: str, content: bytes) -> None:
    (home / name).write_bytes(content)
    assert name in refused("train", "throughput", "--table", name)


def test_pair_tables_that_cannot_be_read(home: Path) -> None:
    solo = "model,dataset,batchsize,amp,gpu_util,gmem_util,gmem\n"
    cases = [("a,b,1,0,50,50\n", "line 2"), ("a,b,1,0,nan,50,50\n", "finite"), ("a,b,1,0,-1,5,5\n", "finite")]
    for rows, message in cases:
        (home / "solo.csv").write_text(solo + rows)
        (home / "pairs.csv").write_text("model1\n")
        with pytest.raises(InputError, match=message):
            CliRunner().invoke(
                app,
                ["models", "train", "packing", "--pairs", "pairs.csv", "--profiles", "solo.csv"],
                catch_exceptions=False,
            )
