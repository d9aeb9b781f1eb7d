"""How sure answers are: the shipped table, and how it is made."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.failure_calibration import Row, applied, certain, cross_fitted, fit, guessed, reliability
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures import shipped
from lucid_pipelines.failures.calibration import (
    Ground,
    calibration_from_json,
    calibration_to_json,
    load_calibration,
)
from lucid_pipelines.failures.classify import Thresholds, classify
from lucid_pipelines.failures.vocabulary import Ending
from tests.support_failures.reading import diagnosed, located, progress, tools

HEAD = progress(1, 40)
OWN = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in main\n    run()\n'


def rows(ground: Ground, right: int, wrong: int, support: float | None = None, name: str = "f") -> list[Row]:
    marks = [True] * right + [False] * wrong
    return [Row(f"{name}{i}", ground, support, 1.0, ok) for i, ok in enumerate(marks)]


def test_the_shipped_table_covers_every_ground_and_says_where_it_is_from() -> None:
    table = load_calibration()
    assert table.date and table.version and "calibrate" in table.source
    for ground in Ground:
        curve = table.curves[ground]
        assert sum(curve.answers) > 0, ground
        assert sum(curve.right) <= sum(curve.answers)
        for support in (None, 0.0, 0.5, 0.8, 1.0):
            assert 0.0 < table.confidence(ground, support) < 1.0


def test_hardware_is_surer_than_words_that_are_used_for_many_things(tmp_path: Path) -> None:
    ecc = diagnosed(HEAD + OWN + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n", tmp_path)
    missing = diagnosed(HEAD + OWN + "FileNotFoundError: [Errno 2] No such file or directory: '/a'\n", tmp_path)
    assert (ecc.classified.ground, missing.classified.ground) == (Ground.HARDWARE, Ground.GENERAL)
    assert ecc.classified.confidence > 0.75 > missing.classified.confidence


def test_more_support_never_makes_an_answer_less_sure() -> None:
    low, high = rows(Ground.SPECIFIC, 9, 1, 0.2, "a"), rows(Ground.SPECIFIC, 5, 5, 0.9, "b")
    table = fit([*low, *high], version="1", date="2026-01-01", source="a test")
    assert table.confidence(Ground.SPECIFIC, 0.2) == table.confidence(Ground.SPECIFIC, 0.9)
    table = fit([*low, *rows(Ground.SPECIFIC, 40, 0, 0.9, "b")], version="1", date="", source="")
    assert table.confidence(Ground.SPECIFIC, 0.2) < table.confidence(Ground.SPECIFIC, 0.9)


def test_few_failures_are_drawn_to_the_mean_and_answers_of_one_family_count_once() -> None:
    others = rows(Ground.WORDS, 20, 20, 0.8, "w")

    def said(mine: list[Row]) -> float:
        return fit([*mine, *others], version="", date="", source="").confidence(Ground.ECHO)

    one, many = said(rows(Ground.ECHO, 1, 0)), said(rows(Ground.ECHO, 60, 0))
    again = said(rows(Ground.ECHO, 1, 0) * 60)
    assert one == again < many <= 0.97


def test_cross_fitting_never_looks_at_an_answers_own_family() -> None:
    alone = [Row("odd", Ground.WORDS, 0.6, 1.0, is_right=False) for _ in range(30)]
    others = rows(Ground.WORDS, 5, 0, 0.6)
    said = cross_fitted([*alone, *others])
    together = applied(fit([*alone, *others], version="", date="", source=""))
    # Its own thirty errors are not known to the table that judges it.
    assert said(alone[0]) > 0.9 > together(alone[0])


def test_answers_with_all_rules_count_less() -> None:
    unseen = rows(Ground.GENERAL, 10, 10, 0.9)
    known = [replace(row, family=f"k{i}", is_right=True, is_known=True) for i, row in enumerate(unseen)]
    wrong = [replace(row, is_right=False) for row in known]
    half, better, worse = (
        fit(more, version="", date="", source="").confidence(Ground.GENERAL, 0.9)
        for more in (unseen, [*unseen, *known], [*unseen, *wrong])
    )
    assert half == pytest.approx(0.5)
    assert 0.5 < better < 0.75 and 0.25 < worse < 0.5


def test_reliability_tells_over_confidence() -> None:
    found = reliability(rows(Ground.GENERAL, 5, 5, 0.9), guessed)
    assert found["ece"] == pytest.approx(0.42)
    assert found["bins"] == [{"from": 0.85, "to": 0.95, "answers": 10, "said": 0.92, "right": 0.5}]


def test_an_answer_that_is_hardly_ever_right_is_unknown() -> None:
    where = located(HEAD + OWN + "FileNotFoundError: [Errno 2] No such file or directory: '/a'\n")
    poor = fit(rows(Ground.GENERAL, 1, 40, 0.9), version="", date="", source="")
    answer = classify(where, tools().rules, tools().model, Thresholds(), calibration=poor)
    assert where.ending is Ending.FAILED
    assert answer.category is None and not answer.restart.is_automatic
    assert "a person should look" in answer.reasons[-1]
    sure = classify(where, tools().rules, tools().model, Thresholds(), calibration=certain())
    assert sure.category is not None and sure.confidence == 1.0


def test_what_is_written_is_read_again() -> None:
    table = fit(rows(Ground.SYMPTOM, 5, 2, 0.6), version="3", date="2026-01-01", source="a test")
    assert calibration_from_json(json.loads(json.dumps(calibration_to_json(table)))) == table


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(format=9),
        lambda d: d["grounds"].pop("words"),
        lambda d: d["grounds"]["words"].update(confidences=[0.5]),
        lambda d: d["grounds"]["specific"].update(confidences=[0.9, 0.8, 0.7]),
        lambda d: d["grounds"]["echo"].update(without_support=1.5),
        lambda d: d["grounds"]["echo"].update(without_support="high"),
    ],
)
def test_a_damaged_table_is_refused(damage: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = calibration_to_json(load_calibration())
    assert callable(damage)
    damage(document)
    (tmp_path / "calibration.json").write_text(json.dumps(document))
    monkeypatch.setattr(shipped, "files", lambda _package: tmp_path)
    load_calibration.cache_clear()
    try:
        with pytest.raises(InputError, match="calibration"):
            load_calibration()
    finally:
        load_calibration.cache_clear()
