"""The text model: trained on our own lines, shipped as JSON, refused when it does not give its golden answers."""

import copy
import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures.corpus import build_corpus
from lucid_pipelines.failures.textmodel import (
    LABELS,
    features,
    load_text_model,
    masked,
    model_from_json,
)
from lucid_pipelines.failures.train import train


def shipped() -> dict[str, object]:
    return json.loads((files("lucid_pipelines.failures") / "textmodel.json").read_text())


def test_the_shipped_model_gives_its_golden_answers_and_names_its_origin() -> None:
    model = load_text_model()
    assert set(model.labels) == set(LABELS)
    assert model.trained_with.keys() == {"numpy", "scikit-learn"}
    assert model.corpus_digest == build_corpus(variants=1).digest


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(format=99),
        lambda d: d.pop("weights"),
        lambda d: d["bias"].__setitem__(0, 5.0),
        lambda d: d["weights"][0].update({"17": 3.0, "18": 3.0, "900": -4.0}),
        lambda d: d.update(golden=[]),
        lambda d: d["labels"].__setitem__(0, "goblin"),
        lambda d: d.update(temperature="hot"),
        lambda d: d["weights"][0].update({"999999": 1.0}),
    ],
)
def test_a_damaged_model_is_refused(damage: object) -> None:
    document = copy.deepcopy(shipped())
    assert callable(damage)
    damage(document)
    with pytest.raises(InputError):
        model_from_json(document)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("accelerator 3: uncorrectable memory error, device taken offline", "gpu"),
        ("port of the fabric switch between GPUs is down, NVLink 4 failed", "nvlink"),
        ("could not reach host worker-7: no route", "network"),
        ("node gpu12 stopped responding and was marked dead", "node"),
        ("cannot write to /scratch/out: stale file handle", "storage"),
        ("shared object was built against another version, undefined symbol", "framework"),
        ("KeyError: 'image_id'", "user_script"),
    ],
)
def test_unseen_wordings_are_read(text: str, label: str) -> None:
    assert load_text_model().judge(text).best_failure()[0] == label


@given(st.text(max_size=500))
def test_probabilities_are_probabilities(text: str) -> None:
    opinion = load_text_model().judge(text)
    values = np.array(list(opinion.probabilities.values()))
    assert (values >= 0).all() and abs(values.sum() - 1) < 1e-9
    label, share = opinion.best_failure()
    assert label != "harmless" and 0 <= share <= 1


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_do_not_matter(a: int, b: int) -> None:
    one, two = f"rank {a} lost its peer at 0x{a:x} in /data/{a}/x", f"rank {b} lost its peer at 0x{b:x} in /data/{b}/x"
    assert masked(one) == masked(two)
    assert np.array_equal(features(one), features(two))


def test_training_is_reproducible_and_left_out_families_are_not_learned() -> None:
    corpus = build_corpus(variants=1)
    few = replace(corpus, lines=corpus.lines[::3])
    first, again = train(few), train(few)
    assert np.array_equal(first.weights, again.weights)
    smaller = train(few, without=["gpu-ecc", "gpu-bus"])
    assert not np.array_equal(first.weights, smaller.weights)


def test_the_corpus_is_ours_and_balanced_enough() -> None:
    corpus = build_corpus(variants=1)
    labels = [line.label for line in corpus.lines]
    assert set(labels) == set(LABELS)
    assert min(labels.count(label) for label in LABELS) >= 15
    assert build_corpus(seed=1, variants=1).lines != build_corpus(seed=2, variants=1).lines
    assert build_corpus(seed=1, variants=1).lines == build_corpus(seed=1, variants=1).lines


def test_a_damaged_template_file_is_refused() -> None:
    with pytest.raises(InputError, match="corpus"):
        build_corpus(document="version = 1")
    with pytest.raises(InputError, match="goblin"):
        build_corpus(document='version="1"\n[[family]]\nname="a"\nlabel="gpu"\nlines=["x {goblin}"]')
