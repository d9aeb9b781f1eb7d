"""The language model that the settings name, opened at its first question: its client takes a second to import."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property

from lucid_pipelines.ports import LanguageModel
from lucid_pipelines.resources.language_models.openai_server import OpenAiLanguageModel, open_language_model
from lucid_pipelines.settings import LanguageModelSettings


class ConfiguredModel:
    """``LanguageModel`` by settings. Its key is read from the environment and kept nowhere else."""

    def __init__(self, url: str, chosen: LanguageModelSettings) -> None:
        self._url = url
        self._chosen = chosen

    def complete_json(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], timeout_s: float
    ) -> Mapping[str, object]:
        """One validated answer. Raises ``ExternalError``, also when the client is not installed."""
        return self._opened.complete_json(messages, schema, timeout_s)

    @cached_property
    def _opened(self) -> OpenAiLanguageModel:
        key = os.environ.get(self._chosen.api_key_env) or "none"
        return open_language_model(self._url, self._chosen.model, key)


def configured_model(chosen: LanguageModelSettings) -> LanguageModel | None:
    """``None`` when no server is set."""
    return ConfiguredModel(chosen.url, chosen) if chosen.url is not None else None
