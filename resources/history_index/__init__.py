"""Past jobs by the nearness of their vectors: exact search over our own rows, or Redis 8 vector sets."""

from lucid_pipelines.resources.history_index.embedded import EmbeddedIndex
from lucid_pipelines.resources.history_index.opening import open_index

__all__ = ["EmbeddedIndex", "open_index"]
