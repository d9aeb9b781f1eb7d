"""BGE-m3 in this process through FlagEmbedding (extra ``bge``, in an environment of its own)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.resources.embedders.server import unit_vectors

MAX_TOKENS = 512


class BgeM3Embedder:
    """The dense vector of BGE-m3, the paper's embedder (section 12).

    Args:
        model: a model name or the folder of its weights.
        fp16: half precision, for a GPU.
    """

    name = "bge-m3"
    dimension = 1024
    default_threshold = 0.9

    def __init__(self, model: str = "BAAI/bge-m3", *, fp16: bool = False) -> None:
        try:
            from FlagEmbedding import BGEM3FlagModel  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ExternalError(
                "install the extra 'bge' in an environment of its own (it cannot share one with vllm), or serve "
                "the model and use the 'server' embedder"
            ) from error
        try:
            self._model: Any = BGEM3FlagModel(model, use_fp16=fp16)
        except (OSError, RuntimeError, ValueError) as error:
            raise ExternalError(f"the weights of {model!r} cannot be loaded: {error}") from error

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One unit vector per text. Raises ``ExternalError`` when the model gives none."""
        if not texts:
            return []
        try:
            answer: Any = self._model.encode(list(texts), max_length=MAX_TOKENS)
            return unit_vectors(list(answer["dense_vecs"]), len(texts), self.dimension)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise ExternalError(f"the embedding model failed: {error}") from error
