"""A language model behind a server that speaks the OpenAI protocol; vLLM is the one we test (R-42)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.resources.language_models.schema import violation

MAX_BODY_BYTES = 1_000_000
MAX_ERROR_CHARS = 300
_NOT_WORTH_REPEATING = frozenset({400, 401, 403, 404, 405, 413, 422})


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What was asked of the server so far, for the record and the cost report."""

    answers: int = 0
    requests: int = 0
    retries: int = 0
    invalid: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    wall_s: float = 0.0


class _UnusableAnswerError(Exception):
    """An answer arrived, and it is no JSON of the schema. ``said`` is the beginning of what was said."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


class OpenAiLanguageModel:
    """``LanguageModel`` over ``/v1/chat/completions`` with ``response_format`` json_schema.

    Args:
        base_url: up to and with ``/v1``.
        model: the name under which the server serves it.
        max_tokens: bound on one answer.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "none",
        max_tokens: int = 1_024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise ExternalError("install the extra 'llm' to use a language model server") from error
        self._openai = openai
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0)
        self._model = model
        self._max_tokens = max_tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._use = ModelUse()

    @property
    def use(self) -> ModelUse:
        """Counts since this object was made."""
        return self._use

    def complete_json(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], timeout_s: float
    ) -> Mapping[str, object]:
        """One answer that fits the schema; asked for a second time when the first does not.

        Raises:
            ExternalError: the server cannot be reached, refuses, or gave no usable answer twice or in time.
        """
        started = self._clock()
        deadline = started + timeout_s
        asked = [dict(message) for message in messages]
        try:
            return self._ask_twice(asked, schema, deadline)
        except ExternalError:
            self._count(failures=1)
            raise
        finally:
            self._count(wall_s=self._clock() - started)

    def _ask_twice(
        self, messages: list[dict[str, str]], schema: Mapping[str, object], deadline: float
    ) -> Mapping[str, object]:
        try:
            return self._ask(messages, schema, deadline)
        except _UnusableAnswerError as error:
            why, said = str(error), error.said
            self._count(invalid=1)
        except self._openai.OpenAIError as error:
            if getattr(error, "status_code", None) in _NOT_WORTH_REPEATING:
                raise ExternalError(f"the language model server refused the request: {_short(error)}") from error
            why, said = f"the server failed: {_short(error)}", ""
        if self._clock() >= deadline:
            raise ExternalError(f"the language model gave no usable answer in time: {why}")
        self._count(retries=1)
        repeated = messages
        if said:
            # What was wrong goes back; so does the beginning of the answer, which alone would repeat itself.
            correction = f"Your answer cannot be used: {why}. Answer again, with one JSON object of the schema only."
            repeated = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": correction}]
        try:
            return self._ask(repeated, schema, deadline)
        except _UnusableAnswerError as error:
            self._count(invalid=1)
            raise ExternalError(f"the language model gave no usable answer, twice: {error}") from error
        except self._openai.OpenAIError as error:
            raise ExternalError(f"the language model server failed, twice: {_short(error)}") from error

    def _ask(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], deadline: float
    ) -> Mapping[str, object]:
        self._count(requests=1)
        body = self._body(messages, schema, deadline)
        data = _object(body, "the server's answer", is_models_own=False)
        self._count_tokens(data)
        answer = _object(_content(data), "the model's answer", is_models_own=True)
        wrong = violation(answer, schema)
        if wrong is not None:
            raise _UnusableAnswerError(wrong, json.dumps(answer)[:500])
        self._count(answers=1)
        return answer

    def _body(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, object], deadline: float) -> str:
        """The raw answer, read in pieces: neither a slow drip nor an endless one may hold the caller."""
        left_s = max(0.05, deadline - self._clock())
        chat: Any = self._client.chat.completions.with_streaming_response
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}
        pieces: list[bytes] = []
        size = 0
        with chat.create(
            model=self._model,
            messages=list(messages),
            response_format=form,
            temperature=0,
            max_tokens=self._max_tokens,
            timeout=left_s,
        ) as response:
            for piece in response.iter_bytes():
                size += len(piece)
                pieces.append(piece)
                if size > MAX_BODY_BYTES:
                    raise _UnusableAnswerError("the server's answer does not end")
                if self._clock() > deadline:
                    raise _UnusableAnswerError("the server's answer did not arrive in time")
        return b"".join(pieces).decode("utf-8", errors="replace")

    def _count_tokens(self, data: Mapping[str, Any]) -> None:
        usage = data.get("usage")
        if isinstance(usage, Mapping):
            sent, got = usage.get("prompt_tokens"), usage.get("completion_tokens")
            self._count(
                prompt_tokens=sent if isinstance(sent, int) else 0,
                completion_tokens=got if isinstance(got, int) else 0,
            )

    def _count(self, **more: float) -> None:
        with self._lock:
            changes: dict[str, Any] = {name: getattr(self._use, name) + value for name, value in more.items()}
            self._use = replace(self._use, **changes)


def _content(data: Mapping[str, Any]) -> str:
    """The text of the only choice.

    Raises:
        _UnusableAnswerError: there is none, or it was cut off: then even JSON that parses is not the answer.
    """
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise _UnusableAnswerError("the server's answer has no choice")
    choice = choices[0]
    message = choice.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if choice.get("finish_reason") != "stop":
        said = content[:500] if isinstance(content, str) else ""
        raise _UnusableAnswerError(f"the answer ended by {str(choice.get('finish_reason'))[:40]!r}", said)
    if not isinstance(content, str) or not content.strip():
        raise _UnusableAnswerError("the answer is empty")
    return content


def _object(text: str, what: str, *, is_models_own: bool) -> Mapping[str, Any]:
    said = text[:500] if is_models_own else ""
    try:
        value: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _UnusableAnswerError(f"{what} is no JSON: {str(error)[:120]}", said) from error
    if not isinstance(value, Mapping):
        raise _UnusableAnswerError(f"{what} is no JSON object", said)
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_ERROR_CHARS]


def open_language_model(base_url: str, model: str, api_key: str = "none") -> OpenAiLanguageModel:
    """A model by its server's URL.

    Raises:
        InputError: the URL is none of HTTP.
        ExternalError: the client is not installed.
    """
    if not base_url.startswith(("http://", "https://")):
        raise InputError(f"give the URL of an OpenAI-compatible server, such as http://host:8000/v1: {base_url!r}")
    return OpenAiLanguageModel(base_url, model, api_key=api_key)
