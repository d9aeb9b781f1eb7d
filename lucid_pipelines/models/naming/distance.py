"""Levenshtein distance of one text to many at once (Myers' bit-parallel algorithm, one machine word per text).

Source: G. Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic programming",
JACM 46(3), 1999, with Hyyrö's form for the distance between whole texts. A column of the dynamic-programming table
is two words of bits (where it rises and where it falls); numpy carries the columns of all texts side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MAX_LENGTH = 64
_CLASSES = 32
_Word = npt.NDArray[np.uint64]


class Texts:
    """Texts packed for comparison; longer ones are cut at ``MAX_LENGTH`` characters."""

    def __init__(self, texts: Sequence[str]) -> None:
        cut = [text[:MAX_LENGTH] for text in texts]
        lengths = np.array([len(text) for text in cut], dtype=np.intp)
        # Longest first, so that the texts that are not over yet are always the first rows.
        self._order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self._order]
        width = int(lengths.max(initial=0))
        joined = "".join(cut[i].ljust(width, "\0") for i in self._order)
        self._symbols = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).reshape(
            len(cut), width
        )
        self._active = np.array([(self.lengths > column).sum() for column in range(width)], dtype=np.intp)

        self._bags: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def distances(self, pattern: str) -> npt.NDArray[np.int64]:
        """Levenshtein distance of ``pattern`` (cut in the same way) to every text, in their given order."""
        pattern = pattern[:MAX_LENGTH]
        result = np.empty(len(self), dtype=np.int64)
        result[self._order] = self.lengths if not pattern else self._distances(pattern, self._symbols, self._active)
        return result

    def near(self, pattern: str, most: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        """Texts at a distance of at most ``most`` (one bound per text), and how far they are.

        A text that has too few symbols in common with the pattern is not compared: every edit brings one more at best.
        """
        pattern = pattern[:MAX_LENGTH]
        if self._bags is None:
            self._bags = _bags(self._symbols)
        bounds = most[self._order]
        one = _bags(np.array([[ord(symbol) for symbol in pattern]], dtype=np.uint32))[0]
        missing = np.maximum(self._bags, one).sum(axis=1, dtype=np.int64)
        least = missing - np.minimum(self.lengths, len(pattern))
        rows = np.flatnonzero(least <= bounds)
        if not len(rows):
            return rows, np.zeros(0, dtype=np.int64)
        if pattern:
            symbols, lengths = self._symbols[rows], self.lengths[rows]
            width = int(lengths.max(initial=0))
            active = np.array([(lengths > column).sum() for column in range(width)], dtype=np.intp)
            found = self._distances(pattern, symbols, active)
        else:
            found = self.lengths[rows].astype(np.int64)
        close = found <= bounds[rows]
        return self._order[rows[close]], found[close]

    @staticmethod
    def _distances(pattern: str, texts: npt.NDArray[np.uint32], actives: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        symbols, masks = _masks(pattern)
        one, top = np.uint64(1), np.uint64(len(pattern) - 1)
        rises = np.full(len(texts), np.iinfo(np.uint64).max, dtype=np.uint64)
        falls = np.zeros(len(texts), dtype=np.uint64)
        score = np.full(len(texts), len(pattern), dtype=np.int64)
        for column, active in enumerate(actives.tolist()):
            equal = _lookup(texts[:active, column], symbols, masks)
            up, down = rises[:active], falls[:active]
            vertical = equal | down
            with np.errstate(over="ignore"):
                diagonal = (((equal & up) + up) ^ up) | equal
            right_up = down | ~(diagonal | up)
            right_down = up & diagonal
            score[:active] += ((right_up >> top) & one).astype(np.int64)
            score[:active] -= ((right_down >> top) & one).astype(np.int64)
            right_up = (right_up << one) | one
            right_down = right_down << one
            rises[:active] = right_down | ~(vertical | right_up)
            falls[:active] = right_up & vertical
        return score


def levenshtein(first: str, second: str) -> int:
    """Distance of two texts, cut at ``MAX_LENGTH`` characters."""
    return int(Texts([second]).distances(first)[0])


def _bags(symbols: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """How often each symbol class (code modulo ``_CLASSES``) stands in each text; padding is not counted."""
    counts = np.zeros((len(symbols), _CLASSES), dtype=np.uint8)
    rows = np.arange(len(symbols))
    for column in range(symbols.shape[1]):
        there = symbols[:, column] != 0
        # One column at a time: each row then adds to one cell only, so that no addition is lost.
        counts[rows[there], symbols[there, column] % _CLASSES] += 1
    return counts


def _masks(pattern: str) -> tuple[npt.NDArray[np.uint32], _Word]:
    """The symbols of a pattern, ascending, and where each stands as bits."""
    found: dict[int, int] = {}
    for place, symbol in enumerate(pattern):
        found[ord(symbol)] = found.get(ord(symbol), 0) | (1 << place)
    symbols = np.array(sorted(found), dtype=np.uint32)
    # One entry more for every symbol that the pattern does not have.
    return symbols, np.array([*(found[int(s)] for s in symbols), 0], dtype=np.uint64)


def _lookup(column: npt.NDArray[np.uint32], symbols: npt.NDArray[np.uint32], masks: _Word) -> _Word:
    if len(column) and int(column.max()) < 256:
        table = np.full(256, len(symbols), dtype=np.intp)
        narrow = symbols[symbols < 256]
        table[narrow] = np.arange(len(narrow))
        return masks[table[column]]
    place = np.searchsorted(symbols, column)
    known = place < len(symbols)
    known[known] = symbols[place[known]] == column[known]
    return masks[np.where(known, place, len(symbols))]
