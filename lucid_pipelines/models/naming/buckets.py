"""Buckets of job names: affinity propagation on the commonest stems, the nearest bucket for every other name.

Source: Lucid paper, section 10 (Levenshtein distance, affinity propagation). Affinity propagation compares every
name with every other, so it runs on at most ``max_landmarks`` stems; all others are compared with its exemplars only.
A name that is near to none founds a bucket of its own, at training time and afterwards. So a hundred thousand
distinct names cost one bounded clustering and one sweep per bucket, and a new name costs one sweep.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.models.naming.distance import Texts
from lucid_pipelines.models.naming.stems import stem

_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """How names are put into buckets.

    Attributes:
        max_landmarks: stems that are clustered; the commonest ones.
        max_buckets: new names found no further buckets beyond; they stay without one.
        near_frac: edits per character up to which a name belongs to an exemplar.
        joins_frac: edits per character that affinity propagation is told to find worth a bucket: an exemplar
            costs as much as ten names at this distance.
    """

    max_landmarks: int = 600
    max_buckets: int = 500
    near_frac: float = 0.35
    joins_frac: float = 0.2


class NameBuckets:
    """Assigns names to buckets; a bucket is named after its exemplar's stem.

    New names may found buckets, in the order in which they come: keep one object for one history.
    """

    def __init__(self, exemplars: Sequence[str], settings: BucketSettings | None = None) -> None:
        self.settings = settings or BucketSettings()
        self._exemplars = list(exemplars)
        self._texts = Texts(self._exemplars)
        self._known: OrderedDict[str, str | None] = OrderedDict((text, text) for text in self._exemplars)

    @property
    def exemplars(self) -> tuple[str, ...]:
        return tuple(self._exemplars)

    def bucket(self, name: str | None) -> str | None:
        """The bucket of a name; ``None`` for no name, or a strange one once there are ``max_buckets``."""
        text = stem(name or "")
        if not text:
            return None
        if text in self._known:
            return self._known[text]
        nearest = self._nearest(text)
        if nearest is None and len(self._exemplars) < self.settings.max_buckets:
            self._exemplars.append(text)
            self._texts = Texts(self._exemplars)
            nearest = text
        self._remember(text, nearest)
        return nearest

    def bucket_many(self, names: Iterable[str | None]) -> list[str | None]:
        """Buckets of many names, in order; new ones are founded as by single calls, but in sweeps."""
        stems = [stem(name or "") for name in names]
        unknown = list(dict.fromkeys(text for text in stems if text and text not in self._known))
        found = self._place(unknown)
        result = [None if not text else found[text] if text in found else self._known[text] for text in stems]
        for text, bucket in found.items():
            self._remember(text, bucket)
        return result

    def to_json(self) -> dict[str, Any]:
        return {"exemplars": list(self._exemplars), "settings": asdict(self.settings)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> NameBuckets:
        try:
            return cls([str(text) for text in document["exemplars"]], BucketSettings(**document["settings"]))
        except (KeyError, TypeError) as error:
            raise InputError(f"these are no name buckets; train again: {error!r}") from error

    def copy(self) -> NameBuckets:
        """The same buckets, to grow on their own."""
        return NameBuckets(self._exemplars, self.settings)

    def _nearest(self, text: str) -> str | None:
        if not self._exemplars:
            return None
        share = edit_shares(self._texts, text, self._lengths())
        best = int(share.argmin())
        return self._exemplars[best] if share[best] <= self.settings.near_frac else None

    def _lengths(self) -> npt.NDArray[np.intp]:
        return np.array([len(text) for text in self._exemplars], dtype=np.intp)

    def _place(self, unknown: Sequence[str]) -> dict[str, str | None]:
        """Buckets of distinct unknown stems: each exemplar sweeps over all that have no nearer one."""
        best = np.full(len(unknown), np.inf)
        bucket: list[str | None] = [None] * len(unknown)
        if not len(unknown):
            return {}
        texts = Texts(unknown)
        lengths = np.array([len(text) for text in unknown], dtype=np.intp)

        def sweep(exemplar: str, start: int) -> None:
            longer = np.maximum(np.maximum(lengths, len(exemplar)), 1)
            # A little more, so that no distance is lost to rounding; what is close is compared as a share below.
            most = np.minimum(best, self.settings.near_frac) * longer + 1e-9
            most[:start] = -1.0
            rows, edits = texts.near(exemplar, most)
            share = edits / longer[rows]
            closer = (share < best[rows]) & (share <= self.settings.near_frac)
            best[rows[closer]] = share[closer]
            for row in rows[closer].tolist():
                bucket[row] = exemplar

        for exemplar in self._exemplars:
            sweep(exemplar, 0)
        founded = False
        for row, text in enumerate(unknown):
            if bucket[row] is None and len(self._exemplars) < self.settings.max_buckets:
                self._exemplars.append(text)
                founded = True
                sweep(text, row)
        if founded:
            self._texts = Texts(self._exemplars)
        return dict(zip(unknown, bucket, strict=True))

    def _remember(self, text: str, bucket: str | None) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.popitem(last=False)
        self._known[text] = bucket


def edit_shares(texts: Texts, pattern: str, lengths: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Edits per character of the longer text."""
    return texts.distances(pattern) / np.maximum(np.maximum(lengths, len(pattern)), 1)
