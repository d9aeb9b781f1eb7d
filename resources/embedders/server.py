"""Embeddings of any server that speaks the OpenAI protocol: vLLM (``--runner pooling``), TEI, others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lucid_pipelines.domain.errors import ExternalError, InputError

BATCH = 64
TRIES = 2


class ServerEmbedder:
    """Vectors from ``POST /v1/embeddings``.

    Args:
        base_url: up to and with ``/v1``.
        model: the name under which the server serves it; also the embedder's name.
        dimension: length of its vectors, checked on every answer.
        default_threshold: the ``T_score`` to begin with, until one was calibrated on the site's history.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        dimension: int,
        *,
        api_key: str = "none",
        timeout_s: float = 20.0,
        default_threshold: float = 0.85,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise ExternalError("install the extra 'llm' to use an embeddings server") from error
        if dimension < 1:
            raise InputError(f"the dimension of an embedder is at least 1: {dimension}")
        self._errors = openai.OpenAIError
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=timeout_s, max_retries=0)
        self._model = model
        self._dimension = dimension
        self.default_threshold = default_threshold

    @property
    def name(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One unit vector per text.

        Raises:
            ExternalError: the server failed twice, or what it sent are not vectors of the right length.
        """
        found: list[Sequence[float]] = []
        for start in range(0, len(texts), BATCH):
            found += self._batch(list(texts[start : start + BATCH]))
        return found

    def _batch(self, texts: list[str]) -> list[Sequence[float]]:
        for last in [False] * (TRIES - 1) + [True]:
            try:
                answer: Any = self._client.embeddings.create(input=texts, model=self._model, encoding_format="float")
                return unit_vectors([item.embedding for item in _in_order(answer.data)], len(texts), self._dimension)
            except (self._errors, ExternalError, AttributeError, TypeError, ValueError) as error:
                if last:
                    raise ExternalError(f"the embeddings server did not answer as it should: {error}") from error
        raise AssertionError("unreachable: the last try returns or raises")


def unit_vectors(raw: Sequence[Any], count: int, dimension: int) -> list[Sequence[float]]:
    """Check what a model gave and normalise it.

    Raises:
        ExternalError: another number of vectors or of dimensions, numbers that are not finite, or a zero vector.
    """
    if len(raw) != count:
        raise ExternalError(f"{count} vectors were wanted; got {len(raw)}")
    found: list[Sequence[float]] = []
    for values in raw:
        vector: NDArray[np.float32] = np.asarray(values, dtype=np.float32)
        length = float(np.linalg.norm(vector)) if vector.shape == (dimension,) else 0.0
        if vector.shape != (dimension,) or not np.isfinite(length) or length == 0:
            raise ExternalError(f"finite vectors of {dimension} numbers were wanted; got the shape {vector.shape}")
        found.append(cast("Sequence[float]", vector / np.float32(length)))
    return found


def _in_order(data: Any) -> list[Any]:
    """Answers carry their place; a server may send them in any order."""
    return sorted(data, key=lambda item: item.index)
