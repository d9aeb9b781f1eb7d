"""A small text model for what no rule knows: hashed character and word n-grams, multinomial logistic regression.

The weights are plain JSON with their versions, the digest of the training lines and golden rows; loading scores
the golden rows again or refuses (R-40).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures.shipped import shipped_json
from lucid_pipelines.failures.vocabulary import Category, Component

DIMENSION = 4096
FORMAT = 1
_MAX_CHARS = 400
_GOLDEN_TOLERANCE = 1e-4
_PATH = re.compile(r"(?:/[\w.@+-]+){2,}/?")
_HEX = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{12,}\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_WORD = re.compile(r"[a-z_]+|#|[^\sa-z#_]")

LABELS: dict[str, tuple[Category | None, Component | None]] = {
    "framework": (Category.FRAMEWORK, None),
    "gpu": (Category.INFRASTRUCTURE, Component.GPU),
    "harmless": (None, None),
    "network": (Category.INFRASTRUCTURE, Component.NETWORK),
    "node": (Category.INFRASTRUCTURE, Component.NODE),
    "nvlink": (Category.INFRASTRUCTURE, Component.NVLINK),
    "storage": (Category.INFRASTRUCTURE, Component.STORAGE),
    "user_script": (Category.USER_SCRIPT, None),
}
"""What each output of the model means."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the model thinks of a line.

    Attributes:
        probabilities: one per label, summing to 1.
    """

    probabilities: dict[str, float]

    @property
    def label(self) -> str:
        return max(self.probabilities, key=lambda label: self.probabilities[label])

    @property
    def harmless_frac(self) -> float:
        return self.probabilities.get("harmless", 0.0)

    def best_failure(self) -> tuple[str, float]:
        """The likeliest label given that the line is an error, and its probability under that condition."""
        rest = {label: p for label, p in self.probabilities.items() if label != "harmless"}
        total = sum(rest.values()) or 1.0
        label = max(rest, key=lambda name: rest[name])
        return label, rest[label] / total

    def category_frac(self, category: Category) -> float:
        """Probability of a category, given that the line is an error."""
        rest = {label: p for label, p in self.probabilities.items() if label != "harmless"}
        total = sum(rest.values()) or 1.0
        return sum(p for label, p in rest.items() if LABELS[label][0] is category) / total


@dataclass(frozen=True, slots=True)
class TextModel:
    """Trained weights.

    Attributes:
        weights: (labels, DIMENSION) float64.
        bias: (labels,) float64.
        temperature: divides the logits; fitted on families left out of training.
        trained_with: versions of the packages that trained it.
    """

    labels: tuple[str, ...]
    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    temperature: float
    corpus_version: str
    corpus_digest: str
    trained_with: dict[str, str]

    def judge(self, text: str) -> Opinion:
        """Probabilities for one error-like text."""
        logits = (self.weights @ features(text) + self.bias) / self.temperature
        shifted = np.exp(logits - logits.max())
        shares = shifted / shifted.sum()
        return Opinion(dict(zip(self.labels, (float(x) for x in shares), strict=True)))


def features(text: str) -> npt.NDArray[np.float64]:
    """Signed hashed n-gram vector of a text, shape (DIMENSION,), L2-normalised."""
    vector = np.zeros(DIMENSION)
    for gram in _grams(text):
        code = zlib.crc32(gram.encode())
        vector[code % DIMENSION] += 1.0 if code & 0x8000_0000 else -1.0
    vector = np.sign(vector) * np.sqrt(np.abs(vector))
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm else vector


def masked(text: str) -> str:
    """Lower case, with paths, addresses and numbers replaced: what is left is what the message says."""
    text = _PATH.sub(" /path ", text[:_MAX_CHARS].lower())
    return _NUMBER.sub("#", _HEX.sub("#", text))


def model_to_json(model: TextModel, golden: list[str]) -> dict[str, object]:
    """The document that is shipped; ``golden`` are texts whose answers it records."""
    return {
        "format": FORMAT,
        "dimension": DIMENSION,
        "labels": list(model.labels),
        "temperature": model.temperature,
        "corpus_version": model.corpus_version,
        "corpus_digest": model.corpus_digest,
        "trained_with": model.trained_with,
        "weights_digest": _digest(model),
        "bias": [round(float(x), 4) for x in model.bias],
        "weights": [_sparse(row) for row in model.weights],
        "golden": [{"text": text, "probabilities": _rounded(model.judge(text))} for text in golden],
    }


def model_from_json(document: dict[str, object]) -> TextModel:
    """The inverse of ``model_to_json``; scores the golden rows again.

    Raises:
        InputError: the document is damaged, of another format, or does not give its golden answers.
    """
    try:
        if document["format"] != FORMAT or document["dimension"] != DIMENSION:
            raise InputError(
                f"the text model has format {document['format']}/{document['dimension']}; expected {FORMAT}/{DIMENSION}"
            )
        rows = cast("list[dict[str, float]]", document["weights"])
        weights = np.zeros((len(rows), DIMENSION))
        for i, row in enumerate(rows):
            for key, value in row.items():
                weights[i, int(key)] = value
        model = TextModel(
            labels=tuple(cast("list[str]", document["labels"])),
            weights=weights,
            bias=np.asarray(document["bias"], dtype=float),
            temperature=float(cast("float", document["temperature"])),
            corpus_version=str(document["corpus_version"]),
            corpus_digest=str(document["corpus_digest"]),
            trained_with=cast("dict[str, str]", document["trained_with"]),
        )
        golden = cast("list[dict[str, object]]", document["golden"])
        unknown = set(model.labels) - set(LABELS)
        if unknown or len(model.labels) != len(rows) or model.bias.shape != (len(rows),):
            raise InputError(f"the text model has labels or shapes that do not fit: {sorted(unknown)}")
        if document["weights_digest"] != _digest(model):
            raise InputError("the text model's weights are not those that were trained: their digest differs")
        for row in golden:
            _check_golden(model, str(row["text"]), cast("dict[str, float]", row["probabilities"]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"the text model's file is damaged: {error!r}") from error
    if not golden:
        raise InputError("the text model's file has no golden rows; train it again")
    return model


@lru_cache(maxsize=1)
def load_text_model() -> TextModel:
    """The model that is shipped. Raises ``InputError`` when it does not give its golden answers."""
    return model_from_json(shipped_json("textmodel.json"))


def _digest(model: TextModel) -> str:
    rows = [_sparse(row) for row in model.weights] + [{str(i): round(float(x), 4) for i, x in enumerate(model.bias)}]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _grams(text: str) -> list[str]:
    words = _WORD.findall(masked(text))
    grams = [f"w:{word}" for word in words if len(word) > 1]
    grams += [f"b:{a} {b}" for a, b in itertools.pairwise(words)]
    for word in words:
        if len(word) > 3:
            padded = f"<{word}>"
            grams += [f"c:{padded[i : i + 4]}" for i in range(len(padded) - 3)]
    return grams


def _sparse(row: npt.NDArray[np.float64]) -> dict[str, float]:
    return {str(i): round(float(x), 3) for i, x in enumerate(row) if abs(x) >= 0.0005}


def _rounded(opinion: Opinion) -> dict[str, float]:
    return {label: round(p, 6) for label, p in opinion.probabilities.items()}


def _check_golden(model: TextModel, text: str, expected: dict[str, float]) -> None:
    got = model.judge(text).probabilities
    if got.keys() != expected.keys():
        raise InputError(f"the text model's labels differ from its golden rows: {sorted(expected)}")
    worst = max(abs(got[label] - expected[label]) for label in got)
    if worst > _GOLDEN_TOLERANCE:
        raise InputError(f"the text model does not give its golden answer (off by {worst:.4f}) for {text!r}")
