"""The page for people, and the chain that leads to it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.states import Mode
from lucid_pipelines.failures.evidence import weigh
from lucid_pipelines.failures.handler import conclude, examine
from lucid_pipelines.failures.policy import IsolationVerb, RestartVerb
from lucid_pipelines.failures.recovery import RecoverySettings, RecoveryState
from lucid_pipelines.failures.report import headline, report_page
from lucid_pipelines.failures.vocabulary import Ending
from lucid_pipelines.failures.xid import load_xids
from lucid_pipelines.ports import CheckResult
from tests.support_failures.reading import diagnosed, progress, tools
from tests.support_failures.situations import LOGS, NOW, checkpoint, facts, finding

STATE = RecoveryState(NOW, node_gpus={f"n{i}": 8 for i in range(1, 21)}, node_vc={f"n{i}": "v" for i in range(1, 21)})
LIVE = RecoverySettings(restart_mode=Mode.LIVE, isolate_mode=Mode.LIVE)


def ecc_log(folder: Path) -> Path:
    path = folder / "job.log"
    body = "".join(f"[rank2]: {line}\n" for line in LOGS["ecc"].splitlines())
    path.write_text("".join(f"loading {c}\n" for c in "abcdef") + progress(1, 40) + body)
    return path


def test_the_whole_chain_from_a_log_to_a_page(tmp_path: Path) -> None:
    known = facts(logs=[ecc_log(tmp_path)], checkpoints=[checkpoint()])
    examination = examine(known, tools(), idle_nodes=["n2"])
    assert {check.test.name for check in examination.plan.checks} == {"nvidia-smi", "gpu-clean", "dcgmi-diag-2"}
    results = [CheckResult("n2", "dcgmi-diag-2", False, "GPU 0: uncorrectable errors", NOW)]
    conclusion = conclude(examination, STATE, LIVE, results)
    assert conclusion.decision.restart.is_to_be_done
    assert [i.verb for i in conclusion.decision.isolations] == [IsolationVerb.ISOLATE]
    page = conclusion.page
    for expected in (
        "# train (job-1, attempt 1, ann): failed, infrastructure, gpu",
        "## What\n",
        "line 50, rank 2",
        "## Evidence",
        "uncorrectable ECC error encountered",
        "## Tests",
        "failed: dcgmi-diag-2 on n2",
        "## What was done",
        "job: restart, will be done",
        "/out/step\\_900",
        "n2 GPU 0: isolate, will be done",
        "## What to do",
    ):
        assert expected in page, expected


def test_stages_can_be_run_alone_again_and_give_the_same(tmp_path: Path) -> None:
    known = facts(logs=[ecc_log(tmp_path)], checkpoints=[checkpoint()])
    first, second = examine(known, tools()), examine(known, tools())
    assert first.finding == second.finding
    assert conclude(first, STATE, LIVE).decision == conclude(second, STATE, LIVE).decision


def test_an_attempt_without_a_log_is_unknown_and_a_person_is_asked() -> None:
    conclusion = conclude(examine(facts(), tools()), STATE, LIVE)
    assert conclusion.examination.finding.ending is Ending.UNKNOWN
    assert conclusion.decision.restart.verb is RestartVerb.ASK
    assert "There is no log" in conclusion.page


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (Mode.APPROVE, "waits for a person to approve"),
        (Mode.SHADOW, "recorded only (shadow)"),
        (Mode.OFF, "switched off"),
    ],
)
def test_the_page_says_how_far_each_automation_went(mode: Mode, words: str, tmp_path: Path) -> None:
    known = facts(logs=[ecc_log(tmp_path)], checkpoints=[checkpoint()])
    limits = replace(LIVE, restart_mode=mode)
    page = conclude(examine(known, tools()), STATE, limits).page
    assert words.replace("(", "(") in page.replace("\\", "")
    assert ("lucid actions" in page) == (mode is Mode.APPROVE)


def test_the_page_says_what_else_was_seen(tmp_path: Path) -> None:
    noise = "RuntimeError: Connection reset by peer\n"
    found = weigh(diagnosed(progress(1, 40) + LOGS["user"] + noise * 3, tmp_path), facts(), load_xids())
    page = report_page(facts(), found)
    assert "why it is not the cause" in page and "Connection reset by peer" in page


def test_log_lines_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = "KeyError: `x` | <script>alert(1)</script> [click](http://e.example) # head token=hf_abcdefghijklmnop\n"
    body = LOGS["user"].replace("KeyError: 'labels'\n", evil)
    page = report_page(facts(), weigh(diagnosed(progress(1, 40) + body, tmp_path), facts(), load_xids()))
    outside = "".join(part for i, part in enumerate(page.split("`")) if i % 2 == 0)
    assert "<script>" not in outside.replace("\\<", "")
    assert "[click](" not in outside.replace("\\[", "")
    assert "hf_abcdefghijklmnop" not in page


def test_the_headline_is_one_line(tmp_path: Path) -> None:
    assert headline(facts(), finding("user", tmp_path)) == (
        "train (job-1, attempt 1, ann): failed, user script: an error in the program's own code"
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=200))
def test_any_text_gives_a_page(text: str, tmp_path: Path) -> None:
    path = tmp_path / "any.log"
    path.write_text(progress(1, 20) + "ERROR " + text, encoding="utf-8", errors="surrogatepass")
    page = conclude(examine(facts(logs=[path]), tools()), STATE, LIVE).page
    assert page.startswith("# ") and page.endswith("\n")
