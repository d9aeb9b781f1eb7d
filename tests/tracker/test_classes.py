from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.tracker import line_model
from lucid_pipelines.tracker.classes import LineClass, LineClassifier, newest_activity
from lucid_pipelines.tracker.line_model import CLASSES, MODEL_PATH, load_line_model, train, training_lines

CLASSIFIER = LineClassifier()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step 5 loss 2.5 lr 0.1", LineClass.PROGRESS),
        (" 34%|███▍      | 880/2548 [5:19:36<10:05:54, 21.80s/it]", LineClass.PROGRESS),
        ("[1,  2000] loss: 2.213", LineClass.PROGRESS),
        ("Test: [ 10/98] loss 2.5 acc 3.5", LineClass.EVALUATION),
        ("val_loss: 1.5 val_acc: 0.5", LineClass.EVALUATION),
        ("Saving model checkpoint to out/checkpoint-500", LineClass.CHECKPOINT),
        ("Loading checkpoint shards:  50%|█████     | 2/4 [00:03<00:03,  1.84s/it]", LineClass.DATA),
        ("UserWarning: lr_scheduler.step() before optimizer.step()", LineClass.WARNING),
        ("No module named 'apex', falling back to native implementation", LineClass.WARNING),
        ("Traceback (most recent call last):", LineClass.ERROR),
        ("ValueError: cannot reshape", LineClass.ERROR),
        ("Segmentation fault (core dumped)", LineClass.ERROR),
        ("building model with 24 layers", LineClass.INIT),
        ("Compiling the step function, this may take minutes", LineClass.BUILD),
    ],
)
def test_classes(text: str, expected: LineClass) -> None:
    assert CLASSIFIER.classify(text) is expected


def test_a_chunk_is_counted_as_its_lines_are() -> None:
    lines = [b"step %d loss 2.5 lr 0.1" % i for i in range(50)] + [b"Traceback (most recent call last):", b"", b"  "]
    counts = LineClassifier().count(b"\n".join(lines))
    assert counts == {LineClass.PROGRESS: 50, LineClass.ERROR: 1}


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_remembering_forms_changes_no_count(lines: list[bytes]) -> None:
    chunk = b"\n".join(lines)
    cold, warm = LineClassifier(), LineClassifier()
    warm.count(chunk)
    assert warm.count(chunk) == cold.count(chunk)


@given(st.text(max_size=120))
def test_every_text_has_a_class(text: str) -> None:
    assert CLASSIFIER.classify(text) in LineClass


def test_what_the_newest_lines_tell_of() -> None:
    log = b"step 5 loss 2.5 lr 0.1\nnoise\nSaving model checkpoint to out/x\n\n"
    assert newest_activity(log, CLASSIFIER) is LineClass.CHECKPOINT
    assert newest_activity(b"step 5 loss 2.5 lr 0.1\nnoise", CLASSIFIER) is LineClass.PROGRESS
    assert newest_activity(b"", CLASSIFIER) is LineClass.INFO


def test_the_shipped_table_carries_versions_scores_and_golden_rows() -> None:
    table = json.loads(MODEL_PATH.read_text(encoding="utf-8"))
    assert table["classes"] == list(CLASSES)
    assert set(table["versions"]) == {"scikit-learn", "numpy"}
    assert min(table["scores"].values()) > 0.5
    assert len(table["golden"]) == len(line_model.GOLDEN)
    assert len(table["training_lines_sha256"]) == 64


def test_a_table_that_does_not_give_its_golden_answers_is_refused(tmp_path: Path) -> None:
    table = json.loads(MODEL_PATH.read_text(encoding="utf-8"))
    table["bias"][0] += 1.0
    changed = tmp_path / "model.json"
    changed.write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(StateError, match="golden"):
        load_line_model(changed)


@pytest.mark.slow
def test_training_again_gives_the_shipped_table(tmp_path: Path) -> None:
    again = train(tmp_path / "model.json", folds=0)
    shipped = load_line_model()
    assert training_lines() == training_lines()
    if dict(again.versions) == dict(shipped.versions):
        assert again.weights == shipped.weights
        assert again.bias == shipped.bias
    for row in line_model.GOLDEN:
        ours, theirs = again.probabilities(row), shipped.probabilities(row)
        assert max(ours, key=lambda k: ours[k]) == max(theirs, key=lambda k: theirs[k])
