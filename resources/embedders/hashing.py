"""Fingerprints to vectors by signed hashing: no weights, no state, the same on every machine.

A text is a set of lines ``name: value``. Each line becomes a unit vector of its own: words by their
character n-grams, numbers by where they lie on a logarithmic scale, so that 90 and 100 are near and 90 and
900 are not. Lines are weighted by what they mean for a run time. The cosine of two texts is then, up to
collisions, the weighted mean of how alike their lines are, and can be explained line by line.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lucid_pipelines.advisor.fingerprint import FIELD_WEIGHTS
from lucid_pipelines.domain.errors import InputError

NGRAM_LENGTHS = (3, 4)
OCTAVE_STEPS = 2
"""Bins of the number scale in each doubling."""
NUMBER_REACH = 2
"""Bins over which a number's weight falls to nothing: a factor of two between two numbers leaves little."""
OTHER_WEIGHT = 0.01
MAX_LINES = 200
MAX_VALUE_CHARS = 400
_NUMBER = re.compile(r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$")


class HashEmbedder:
    """The default embedder.

    Args:
        dimension: length of the vectors.
        weights: weight of a line by its name; others weigh ``OTHER_WEIGHT``.
    """

    name = "hash-ngram-1"
    default_threshold = 0.85

    def __init__(self, dimension: int = 1024, weights: Mapping[str, float] = FIELD_WEIGHTS) -> None:
        if not 16 <= dimension <= 65_536:
            raise InputError(f"a dimension between 16 and 65,536 is wanted: {dimension}")
        self._dimension = dimension
        self._weights = dict(weights)

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One unit vector per text, as an array; a text without any line is a fixed one of its own."""
        return [cast("Sequence[float]", self._vector(text)) for text in texts]

    def _vector(self, text: str) -> NDArray[np.float32]:
        total = np.zeros(self._dimension, dtype=np.float64)
        for line in [line for line in text.splitlines() if line.strip()][:MAX_LINES] or ["empty:"]:
            key, _, value = line.partition(":")
            weight = math.sqrt(self._weights.get(key.strip(), OTHER_WEIGHT))
            buckets, amounts = _line(key.strip(), value.strip()[:MAX_VALUE_CHARS], self._dimension)
            total[buckets] += amounts * weight
        length = float(np.linalg.norm(total))
        if length == 0:
            total[_slot("cancelled", self._dimension)[0]] = length = 1.0
        return (total / length).astype(np.float32)


@lru_cache(maxsize=16_384)
def _line(key: str, value: str, dimension: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A line as a sparse unit vector: places and amounts. Most lines of a new job have been seen before."""
    found: dict[int, float] = defaultdict(float)
    for feature, amount in _features(key, value):
        bucket, sign = _slot(feature, dimension)
        found[bucket] += sign * amount
    amounts = np.fromiter(found.values(), dtype=np.float64, count=len(found))
    length = float(np.linalg.norm(amounts))
    return np.fromiter(found, dtype=np.int64, count=len(found)), amounts / length if length else amounts


def _features(key: str, value: str) -> Iterator[tuple[str, float]]:
    words = value.lower().replace(",", " ").split() or [""]
    if len(words) == 2 and _NUMBER.match(words[0]):
        # A number and its unit: 90 epochs and 90 steps have nothing in common.
        key, words = f"{key}|{words[1]}", words[:1]
    for word in words:
        parts = _number_features(float(word)) if _NUMBER.match(word) else _word_features(word)
        for name, amount in _unit(parts):
            yield f"{key}|{name}", amount


def _word_features(word: str) -> dict[str, float]:
    """The whole word as heavy as all of its pieces: names that share a stem are alike by less than a half."""
    pieces: dict[str, float] = defaultdict(float)
    padded = f"^{word}$"
    for length in NGRAM_LENGTHS:
        for start in range(len(padded) - length + 1):
            pieces[padded[start : start + length]] += 1.0
    for part in re.split(r"[-./]", word):
        pieces[f"<{part}>"] += 2.0
    norm = math.sqrt(sum(amount * amount for amount in pieces.values()))
    return {**{name: amount / norm for name, amount in pieces.items()}, f"={word}": 1.0}


def _number_features(value: float) -> dict[str, float]:
    exact = {f"={value:.6g}": 0.5}
    if value == 0 or not math.isfinite(value):
        return exact
    place = math.log2(abs(value)) * OCTAVE_STEPS
    near: dict[str, float] = {}
    for step in range(math.ceil(place - NUMBER_REACH), math.floor(place + NUMBER_REACH) + 1):
        near[f"~{'-' if value < 0 else ''}{step}"] = 1 - abs(place - step) / NUMBER_REACH
    norm = math.sqrt(sum(amount * amount for amount in near.values()))
    return {**{name: amount / norm for name, amount in near.items()}, **exact}


def _unit(features: Mapping[str, float]) -> Iterable[tuple[str, float]]:
    norm = math.sqrt(sum(amount * amount for amount in features.values())) or 1.0
    return ((name, amount / norm) for name, amount in features.items())


def _slot(feature: str, dimension: int) -> tuple[int, float]:
    """Where a feature is counted and with which sign: the signs make collisions cancel on average."""
    raw = int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return (raw >> 1) % dimension, 1.0 if raw & 1 else -1.0
