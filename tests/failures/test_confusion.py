"""The shipped confusion matrices: what simulations draw instead of an oracle's answer."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures import shipped
from lucid_pipelines.failures.confusion import CLASSES, ConfusionMatrix, Verdict, answer_key, load_confusion
from lucid_pipelines.failures.vocabulary import Category

MATRIX = ConfusionMatrix(
    "left_out",
    {
        "infrastructure": {("infrastructure", True): 6, ("infrastructure", False): 2, ("unknown", False): 2},
        "framework": {},
        "user_script": {("user_script", False): 5},
    },
    "a test",
)


@pytest.mark.parametrize("setting", ["known", "left_out"])
def test_shipped_matrices_cover_every_class(setting: str) -> None:
    matrix = load_confusion(setting)
    assert matrix.setting == setting
    for true in Category:
        assert sum(matrix.counts[true.value].values()) >= 40
        shares = [matrix.share(true, None if name == "unknown" else Category(name)) for name in CLASSES]
        assert sum(shares) == pytest.approx(1.0)


def test_known_failures_are_answered_better_than_left_out_ones() -> None:
    known, left_out = load_confusion("known"), load_confusion("left_out")
    for true in Category:
        assert known.share(true, true) > left_out.share(true, true)


def test_no_user_fault_is_restarted_when_its_rule_is_known() -> None:
    assert ("infrastructure", True) not in load_confusion("known").counts["user_script"]


def test_share_counts_both_verbs_and_a_class_without_rows_is_zero() -> None:
    assert MATRIX.share(Category.INFRASTRUCTURE, Category.INFRASTRUCTURE) == pytest.approx(0.8)
    assert MATRIX.share(Category.INFRASTRUCTURE, None) == pytest.approx(0.2)
    assert MATRIX.share(Category.FRAMEWORK, Category.FRAMEWORK) == 0.0


def test_draws_follow_the_counts_and_the_seed() -> None:
    def drawn(seed: int) -> list[Verdict]:
        rng = random.Random(seed)
        return [MATRIX.draw(Category.INFRASTRUCTURE, rng) for _ in range(2000)]

    answers = drawn(1)
    assert answers == drawn(1)
    assert answers.count(Verdict(Category.INFRASTRUCTURE, True)) == pytest.approx(1200, abs=90)
    assert answers.count(Verdict(None, False)) == pytest.approx(400, abs=70)


def test_an_unknown_setting_names_the_near_one() -> None:
    with pytest.raises(InputError, match="left_out"):
        load_confusion("left-out")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        json.dumps({"source": "x"}),
        json.dumps({"source": "x", "matrices": {"left_out": {"framework": {"framework/maybe": 1}}}}),
        json.dumps({"source": "x", "matrices": {"left_out": {"framework": {"cosmic/hold": 1}}}}),
        json.dumps({"source": "x", "matrices": {"left_out": {"framework": {"framework/hold": "many"}}}}),
    ],
)
def test_a_damaged_file_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "confusion.json").write_text(text)
    monkeypatch.setattr(shipped, "files", lambda _package: tmp_path)
    load_confusion.cache_clear()
    try:
        with pytest.raises(InputError, match="damaged"):
            load_confusion("left_out")
    finally:
        load_confusion.cache_clear()


def test_answer_key_names_unknown() -> None:
    assert answer_key(None, is_restarted=False) == "unknown/hold"
    assert answer_key(Category.FRAMEWORK, is_restarted=True) == "framework/restart"
