"""Train the text model from our own lines: ``python -m lucid_pipelines.failures.train [--out FILE]``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from lucid_pipelines.failures.corpus import Corpus, CorpusLine, build_corpus
from lucid_pipelines.failures.textmodel import (
    DIMENSION,
    LABELS,
    TextModel,
    features,
    model_from_json,
    model_to_json,
)
from lucid_pipelines.whole_files import write_whole

_C = 30.0
_GOLDEN_EVERY = 61
_UNSEEN_BIAS = -20.0
"""Of a label that no training line has: its probability is practically nothing."""
_TEMPERATURES = (0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Score on the lines of families that training did not see.

    Attributes:
        accuracy: over all eight labels.
        category_accuracy: over infrastructure, framework, user script, harmless.
        by_family: accuracy of each family.
    """

    accuracy: float
    category_accuracy: float
    temperature: float
    by_family: dict[str, float]


def train(corpus: Corpus, *, without: Sequence[str] = (), temperature: float = 1.0) -> TextModel:
    """Fit the model, optionally without some families of the corpus."""
    lines = [line for line in corpus.lines if line.family not in without]
    labels = tuple(sorted(LABELS))
    matrix = csr_matrix(np.stack([features(line.text) for line in lines]))
    target = np.asarray([labels.index(line.label) for line in lines])
    fitted = LogisticRegression(C=_C, max_iter=500)
    with threadpool_limits(1):  # the matrix is small: more threads only get in one another's way
        fitted.fit(matrix, target)
    weights = np.zeros((len(labels), DIMENSION))
    bias = np.full(len(labels), _UNSEEN_BIAS)
    seen = np.asarray(fitted.classes_, dtype=int)
    weights[seen] = np.round(np.asarray(fitted.coef_), 3)
    bias[seen] = np.round(np.asarray(fitted.intercept_), 4)
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn")}
    return TextModel(labels, weights, bias, temperature, corpus.version, corpus.digest, versions)


def leave_template_groups_out(corpus: Corpus, folds: int = 5) -> LeftOut:
    """Train without a fifth of the templates of every family, score on them; fit the temperature there.

    Whole families cannot be left out of a model that must name them by what it learned from others only where
    another family has the same label; templates can always be.
    """
    logits: list[np.ndarray] = []
    lines: list[CorpusLine] = []
    for fold in range(folds):
        held = {i for i, line in enumerate(corpus.lines) if line.template % folds == fold}
        kept = tuple(line for i, line in enumerate(corpus.lines) if i not in held)
        model = train(replace(corpus, lines=kept))
        for i in sorted(held):
            lines.append(corpus.lines[i])
            logits.append(model.weights @ features(corpus.lines[i].text) + model.bias)
    scores = np.stack(logits)
    labels = tuple(sorted(LABELS))
    target = np.asarray([labels.index(line.label) for line in lines])
    temperature = min(_TEMPERATURES, key=lambda t: _nll(scores / t, target))
    guess = scores.argmax(axis=1)
    category = [LABELS[labels[g]][0] == LABELS[labels[t]][0] for g, t in zip(guess, target, strict=True)]
    families = sorted({line.family for line in lines})
    by_family = {
        name: float(np.mean([guess[i] == target[i] for i, line in enumerate(lines) if line.family == name]))
        for name in families
    }
    return LeftOut(float(np.mean(guess == target)), float(np.mean(category)), temperature, by_family)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, check and write the model; prints the scores on left-out templates as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("textmodel.json"))
    options = parser.parse_args(arguments)
    corpus = build_corpus()
    left_out = leave_template_groups_out(corpus)
    model = train(corpus, temperature=left_out.temperature)
    golden = [line.text for line in corpus.lines[::_GOLDEN_EVERY]]
    document = model_to_json(model, golden)
    model_from_json(json.loads(json.dumps(document)))
    write_whole(options.out, json.dumps(document, separators=(",", ":")) + "\n")
    print(
        json.dumps(
            {
                "lines": len(corpus.lines),
                "left_out_accuracy": round(left_out.accuracy, 4),
                "left_out_category_accuracy": round(left_out.category_accuracy, 4),
                "temperature": left_out.temperature,
                "by_family": {name: round(value, 3) for name, value in left_out.by_family.items()},
            }
        )
    )
    return 0


def _nll(logits: np.ndarray, target: np.ndarray) -> float:
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log_p[np.arange(len(target)), target].mean())


if __name__ == "__main__":
    raise SystemExit(main())
