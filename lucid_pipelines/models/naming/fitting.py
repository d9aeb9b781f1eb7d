"""Cluster the names of a history; serving needs the exemplars only, so scikit-learn is imported here and not there."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning

from lucid_pipelines.models.naming.buckets import BucketSettings, NameBuckets, edit_shares
from lucid_pipelines.models.naming.distance import Texts
from lucid_pipelines.models.naming.stems import stem


def fit_buckets(names: Iterable[str | None], settings: BucketSettings | None = None) -> NameBuckets:
    """Cluster the commonest stems and put every other name beside its nearest exemplar.

    Names come in order of time; equal counts keep that order, so that the result does not depend on anything else.
    """
    settings = settings or BucketSettings()
    counts = Counter(text for name in names if (text := stem(name or "")))
    landmarks = [text for text, _ in counts.most_common(settings.max_landmarks)]
    buckets = NameBuckets(_exemplars(landmarks, settings), settings)
    buckets.bucket_many(counts)
    return buckets


def _exemplars(landmarks: Sequence[str], settings: BucketSettings) -> list[str]:
    """Exemplars by affinity propagation; where it does not settle, the commonest name of each neighbourhood."""
    if len(landmarks) < 3:
        return _leaders(landmarks, settings)
    texts = Texts(landmarks)
    lengths = np.array([len(text) for text in landmarks], dtype=np.intp)
    similarity = -(np.stack([edit_shares(texts, text, lengths) for text in landmarks]) ** 2)
    cluster = AffinityPropagation(
        affinity="precomputed", preference=-10.0 * settings.joins_frac**2, damping=0.8, max_iter=400, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        cluster.fit(similarity)
    centres = cluster.cluster_centers_indices_
    if centres is None or not len(centres) or cluster.n_iter_ >= cluster.max_iter:
        return _leaders(landmarks, settings)
    return [landmarks[int(centre)] for centre in centres]


def _leaders(landmarks: Sequence[str], settings: BucketSettings) -> list[str]:
    """The commonest stem, then the commonest that is not near to it, and so on."""
    buckets = NameBuckets([], settings)
    buckets.bucket_many(landmarks)
    return list(buckets.exemplars)
