"""A small text model for lines that no rule decides: logistic regression over words, kept as a JSON table.

The table is made by ``python -m lucid_pipelines.tracker.line_model`` from our own sentences (``phrases``), never
from logs of others. It carries the versions of what trained it, a digest of its training lines, its own scores and
golden rows; loading it re-scores the golden rows or refuses (R-40).
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from lucid_pipelines.domain.errors import StateError
from lucid_pipelines.tracker import phrases

MODEL_PATH = Path(__file__).with_name("line_model.json")
CLASSES = ("init", "info", "warning", "error")
COPIES = 2
SEED = 20_250_311
GOLDEN = (
    "building model with 24 layers",
    "Saving checkpoint to /ckpt/step_100",
    "FutureWarning: the default will change",
    "RuntimeError: CUDA error: device-side assert triggered",
    "connected all rings",
    "retrying request, attempt 2 of 5",
    "validation complete",
    "Segmentation fault (core dumped)",
)
TOLERANCE = 1e-6
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[\u4e00-\u9fff]")
_FILL = {
    "n": ("0", "3", "8", "16", "512", "4096", "131072"),
    "f": ("0.5", "2.41", "0.0003", "12.8", "78.9"),
    "path": ("/data/corpus", "out/run1", "/ckpt/step_100", "model.bin", "configs/base.yaml"),
    "host": ("node7", "gpu-12", "10.1.2.3", "storage.local"),
    "mod": ("fused_adam", "flash_attn", "use_cache", "lr_scheduler", "transformer", "num_workers", "apex"),
}


@dataclass(frozen=True, slots=True)
class LineModel:
    """Weights of words for each class.

    Attributes:
        bias: one number a class, in the order of ``CLASSES``.
        weights: word → one number a class.
        scores: accuracy on held-out sentences, by fold.
        versions: of the packages that trained it.
    """

    bias: tuple[float, ...]
    weights: Mapping[str, tuple[float, ...]]
    scores: Mapping[str, float]
    versions: Mapping[str, str]

    def probabilities(self, text: str) -> dict[str, float]:
        """How likely each class is for a line."""
        tokens = words_of(text)
        known = [self.weights[token] for token in tokens if token in self.weights]
        scale = 1.0 / math.sqrt(len(tokens)) if tokens else 0.0
        raw = [b + scale * sum(w[i] for w in known) for i, b in enumerate(self.bias)]
        top = max(raw)
        powers = [math.exp(value - top) for value in raw]
        return {name: power / sum(powers) for name, power in zip(CLASSES, powers, strict=True)}


def words_of(text: str) -> tuple[str, ...]:
    """The distinct words of a line and its neighbouring pairs, in order; numbers and punctuation are left out."""
    found = [word.lower() for word in _WORD.findall(text[:400]) if len(word) > 1 or word > "\u2fff"]
    pairs = [f"{a} {b}" for a, b in pairwise(found)]
    return tuple(dict.fromkeys([*found, *pairs]))


@lru_cache(maxsize=1)
def load_line_model(path: Path = MODEL_PATH) -> LineModel:
    """Read the table and check it against its golden rows.

    Raises:
        StateError: the table is not what was trained.
    """
    table = json.loads(path.read_text(encoding="utf-8"))
    model = LineModel(
        tuple(table["bias"]),
        {word: tuple(w) for word, w in table["weights"].items()},
        table["scores"],
        table["versions"],
    )
    for row in table["golden"]:
        got = model.probabilities(row["text"])
        if any(abs(got[name] - row["probabilities"][name]) > TOLERANCE for name in CLASSES):
            raise StateError(f"the line model does not give its golden answers; train it again: {row['text']!r}")
    return model


def training_lines(seed: int = SEED) -> list[tuple[str, str, int]]:
    """Generated lines: text, class, and the number of the sentence that it came from."""
    rng = random.Random(seed)
    found: list[tuple[str, str, int]] = []
    sentences = [
        *((text, "init") for text in phrases.INIT),
        *((text, "info") for text in phrases.INFO),
        *((text, "warning") for text in phrases.WARNING),
        *((text, "error") for text in phrases.ERROR),
    ]
    for number, (text, label) in enumerate(sentences):
        for _ in range(COPIES):
            filled = re.sub(r"\{(\w+)\}", lambda m: rng.choice(_FILL[m[1]]), text)
            found.append((filled, label, number))
    return found


def train(path: Path = MODEL_PATH, seed: int = SEED, folds: int = 5) -> LineModel:
    """Train the table anew and write it; the same seed and versions give the same file.

    Args:
        path: where the table goes.
        seed: of the generated lines.
        folds: of the cross-validation that leaves sentences out; 0 = none.
    """
    import numpy as np
    from scipy.sparse import lil_matrix
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold

    lines = training_lines(seed)
    vocabulary = sorted({token for text, _, _ in lines for token in words_of(text)})
    place = {token: i for i, token in enumerate(vocabulary)}
    features = lil_matrix((len(lines), len(vocabulary)))
    for row, (text, _, _) in enumerate(lines):
        tokens = words_of(text)
        for token in tokens:
            features[row, place[token]] = 1.0 / math.sqrt(len(tokens))
    features = features.tocsr()
    labels = np.array([CLASSES.index(label) for _, label, _ in lines])
    groups = np.array([number for _, _, number in lines])
    scores: dict[str, float] = {}
    splits = GroupKFold(folds).split(features, labels, groups) if folds else ()
    for fold, (fit, held) in enumerate(splits):
        part = LogisticRegression(C=8.0, max_iter=500).fit(features[fit], labels[fit])
        scores[f"fold_{fold}"] = round(float(part.score(features[held], labels[held])), 4)
    whole = LogisticRegression(C=8.0, max_iter=500).fit(features, labels)
    weights = {
        token: tuple(round(float(w), 2) for w in whole.coef_[:, place[token]])
        for token in vocabulary
        if float(np.abs(whole.coef_[:, place[token]]).max()) >= 0.15
    }
    versions = {name: version(name) for name in ("scikit-learn", "numpy")}
    model = LineModel(tuple(round(float(b), 3) for b in whole.intercept_), weights, scores, versions)
    _write(path, model, lines)
    load_line_model.cache_clear()
    return model


def _write(path: Path, model: LineModel, lines: Sequence[tuple[str, str, int]]) -> None:
    digest = hashlib.sha256("\n".join(f"{label}\t{text}" for text, label, _ in lines).encode()).hexdigest()
    table = {
        "classes": list(CLASSES),
        "versions": dict(model.versions),
        "training_lines_sha256": digest,
        "scores": dict(model.scores),
        "golden": [{"text": text, "probabilities": model.probabilities(text)} for text in GOLDEN],
        "bias": list(model.bias),
        "weights": {word: list(w) for word, w in model.weights.items()},
    }
    path.write_text(json.dumps(table, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    trained = train()
    print(f"wrote {MODEL_PATH.name}: {len(trained.weights)} words, held-out accuracy {dict(trained.scores)}")
