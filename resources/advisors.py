"""The advisor that the settings name: embedder, history index, language model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from lucid_pipelines.control.live_advisor import LiveAdvisor
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.ports import LanguageModel
from lucid_pipelines.settings import Settings

if TYPE_CHECKING:
    from lucid_pipelines.advisor.advising import Advisor
    from lucid_pipelines.control.system import System
    from lucid_pipelines.resources.embedders.bge import BgeM3Embedder
    from lucid_pipelines.resources.embedders.hashing import HashEmbedder
    from lucid_pipelines.resources.embedders.server import ServerEmbedder
    from lucid_pipelines.resources.history_index.rebuilding import Rebuilt

STANDALONE = "standalone"
_USED = (
    "lucid_pipelines.advisor.advising",
    "lucid_pipelines.advisor.extract",
    "lucid_pipelines.resources.embedders.hashing",
    "lucid_pipelines.resources.history_index.embedded",
)
_KEY = "LUCID_EMBEDDER_KEY"


def configured_advisor(settings: Settings, model: LanguageModel | None = None) -> LiveAdvisor | None:
    """The advisor of a control plane, opened at its first question; ``None`` when ``modes.advise`` is off."""
    if settings.modes.advise is Mode.OFF:
        return None
    return LiveAdvisor(partial(open_advisor, settings, model), settings.submission.advise_timeout_s)


def open_advisor(settings: Settings, model: LanguageModel | None = None, residuals: Sequence[float] = ()) -> Advisor:
    """Open the history index and the embedder.

    Raises:
        InputError, ExternalError: the index or the embedder cannot be used; the message says what to do.
    """
    from lucid_pipelines.advisor.advising import Advisor, AdvisorSettings, vector_space
    from lucid_pipelines.advisor.box import extract_quickly
    from lucid_pipelines.resources.history_index import open_index

    chosen = settings.advisor
    embedder = open_embedder(settings)
    threshold = embedder.default_threshold if chosen.threshold is None else chosen.threshold
    rules = AdvisorSettings(
        threshold,
        chosen.k,
        settings.submission.advise_timeout_s,
        use_paper_rule=settings.scheduling.policy == STANDALONE,
        memory_mib=chosen.memory_mib,
    )
    index = open_index(settings.history_index_url, vector_space(embedder))
    asked = model if chosen.ask_language_model else None
    return Advisor(embedder, index, rules, model=asked, read=extract_quickly, residuals=residuals)


def rebuild_index(system: System) -> Rebuilt:
    """Fill the history index in the space of the embedder that the settings name."""
    from lucid_pipelines.advisor.advising import vector_space
    from lucid_pipelines.resources.history_index import open_index
    from lucid_pipelines.resources.history_index.rebuilding import rebuild

    settings = system.settings
    embedder = open_embedder(settings)
    index = open_index(settings.history_index_url, vector_space(embedder))
    return rebuild(system.store, index, embedder, open_advisor(settings))


def preload() -> None:
    """Load what advice needs, in a process that others are forked from: each would spend most of a second on it."""
    for name in _USED:
        import_module(name)


def open_embedder(settings: Settings) -> HashEmbedder | ServerEmbedder | BgeM3Embedder:
    """The embedder that the settings name."""
    chosen = settings.advisor
    if chosen.embedder == "server" and chosen.embedder_url is not None:
        from lucid_pipelines.resources.embedders.server import ServerEmbedder

        key = os.environ.get(_KEY) or "none"
        return ServerEmbedder(chosen.embedder_url, chosen.embedder_model, chosen.embedder_dimension, api_key=key)
    if chosen.embedder == "bge":
        from lucid_pipelines.resources.embedders.bge import BgeM3Embedder

        return BgeM3Embedder(chosen.embedder_model)
    from lucid_pipelines.resources.embedders.hashing import HashEmbedder

    return HashEmbedder()
