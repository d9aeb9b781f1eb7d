"""How often the handler takes one class for another: measured, for simulations that must not assume an oracle."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.failures.shipped import shipped_json
from lucid_pipelines.failures.vocabulary import Category

UNKNOWN = "unknown"
CLASSES = (*(category.value for category in Category), UNKNOWN)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the handler would say of one failure.

    Attributes:
        category: ``None`` = unknown, or nobody to blame.
        is_restarted: whether it would advise a restart without a person.
    """

    category: Category | None
    is_restarted: bool


@dataclass(frozen=True, slots=True)
class ConfusionMatrix:
    """Counts of answers by true class.

    Attributes:
        setting: ``left_out`` = measured with the rules and training lines of each failure's own family taken
            away: what to expect of failures nobody wrote a rule for; ``known`` = with everything.
        counts: true class -> (answered class, restart advised) -> how many.
    """

    setting: str
    counts: dict[str, dict[tuple[str, bool], int]]
    source: str

    def share(self, true: Category, answered: Category | None) -> float:
        """How often a failure of class ``true`` is answered so."""
        row = self.counts[true.value]
        name = answered.value if answered is not None else UNKNOWN
        total = sum(row.values())
        return sum(n for (answer, _), n in row.items() if answer == name) / total if total else 0.0

    def draw(self, true: Category, rng: random.Random) -> Verdict:
        """One answer, drawn with the measured frequencies."""
        row = self.counts[true.value]
        answers = sorted(row)
        name, restarted = rng.choices(answers, [row[answer] for answer in answers])[0]
        return Verdict(None if name == UNKNOWN else Category(name), restarted)


@lru_cache(maxsize=2)
def load_confusion(setting: str = "left_out") -> ConfusionMatrix:
    """The matrix that is shipped, as ``benchmarks/failures.py`` measured it.

    Raises:
        InputError: an unknown setting, or the file is damaged.
    """
    try:
        document = cast("dict[str, dict[str, dict[str, dict[str, int]]]]", shipped_json("confusion.json"))
        matrices = document["matrices"]
        if setting not in matrices:
            raise InputError(f"no confusion matrix {setting!r}{did_you_mean(setting, matrices)}")
        counts = {true: {_answer(key): int(n) for key, n in row.items()} for true, row in matrices[setting].items()}
        return ConfusionMatrix(setting, counts, str(document["source"]))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"the confusion matrices are damaged: {error!r}") from error


def answer_key(category: Category | None, *, is_restarted: bool) -> str:
    """How an answer is written in the file."""
    return f"{category.value if category is not None else UNKNOWN}/{'restart' if is_restarted else 'hold'}"


def _answer(key: str) -> tuple[str, bool]:
    name, _, verb = key.partition("/")
    if name not in CLASSES or verb not in ("restart", "hold"):
        raise ValueError(f"no such answer: {key!r}")
    return name, verb == "restart"
