"""The client of a language model server, against a server with bad habits."""

from __future__ import annotations

import json
import math
import sys
import time
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import Embedder, LanguageModel
from lucid_pipelines.resources.embedders.bge import BgeM3Embedder
from lucid_pipelines.resources.embedders.server import ServerEmbedder
from lucid_pipelines.resources.language_models.openai_server import OpenAiLanguageModel, open_language_model
from lucid_pipelines.resources.language_models.schema import violation
from tests.support_advisor.model_server import (
    Habit,
    drips,
    embeds,
    fails,
    hangs,
    hangs_up,
    never_ends,
    raw,
    says,
    serving,
)

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["batch_size", "model"],
    "properties": {
        "batch_size": {"type": "integer", "minimum": 1, "maximum": 100_000},
        "model": {"type": "string", "maxLength": 20},
    },
}
GOOD = {"batch_size": 64, "model": "resnet50"}
MESSAGES = [{"role": "user", "content": "which?"}]

BAD: dict[str, Habit] = {
    "truncated": says('{"batch_size": 64, "mod'),
    "cut off by the token limit": says(GOOD, finish="length"),
    "wrong schema": says({"batch": 64}),
    "an extra key": says({**GOOD, "sudo": True}),
    "out of range": says({"batch_size": 10**12, "model": "x"}),
    "negative": says({"batch_size": -1, "model": "x"}),
    "a number as text": says({"batch_size": "64", "model": "x"}),
    "true as a number": says({"batch_size": True, "model": "x"}),
    "not a number": says('{"batch_size": NaN, "model": "x"}'),
    "a long text": says({"batch_size": 1, "model": "x" * 5_000}),
    "a list": says([GOOD]),
    "prose": says("The batch size is 64."),
    "empty": says(""),
    "deep": says("[" * 100_000),
    "no choices": raw('{"choices": []}'),
    "no message": raw('{"choices": [{"finish_reason": "stop"}]}'),
    "content null": raw('{"choices": [{"finish_reason": "stop", "message": {"content": null}}]}'),
    "html": raw("<html>502 Bad Gateway</html>"),
    "nothing": raw(""),
    "500": fails(500),
    "503": fails(503),
    "429": fails(429),
    "hangs up": hangs_up,
}


def ask(url: str, timeout_s: float = 20.0) -> tuple[Mapping[str, object], OpenAiLanguageModel]:
    model = OpenAiLanguageModel(url, "test")
    return model.complete_json(MESSAGES, SCHEMA, timeout_s), model


def test_a_good_answer() -> None:
    with serving(says(GOOD)) as server:
        answer, model = ask(server.url)
    assert answer == GOOD
    request = server.seen[0]
    assert request["response_format"]["type"] == "json_schema"
    assert request["response_format"]["json_schema"]["schema"] == SCHEMA
    assert (request["temperature"], request["model"], request["messages"]) == (0, "test", MESSAGES)
    assert "tools" not in request
    assert (model.use.answers, model.use.requests, model.use.retries) == (1, 1, 0)
    assert (model.use.prompt_tokens, model.use.completion_tokens) == (11, 7)


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_answer_is_asked_for_once_more(name: str) -> None:
    with serving(BAD[name], says(GOOD)) as server:
        answer, model = ask(server.url)
    assert answer == GOOD
    assert len(server.seen) == 2
    assert (model.use.retries, model.use.failures) == (1, 0)


@pytest.mark.parametrize("name", sorted(BAD))
def test_two_bad_answers_are_an_outage(name: str) -> None:
    with serving(BAD[name]) as server:
        model = OpenAiLanguageModel(server.url, "test")
        with pytest.raises(ExternalError, match="twice"):
            model.complete_json(MESSAGES, SCHEMA, 20)
    assert len(server.seen) == 2
    assert (model.use.failures, model.use.answers) == (1, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(status: int) -> None:
    with serving(fails(status)) as server:
        with pytest.raises(ExternalError, match="refused"):
            ask(server.url)
        assert len(server.seen) == 1


def test_the_model_is_told_what_was_wrong() -> None:
    with serving(says({"batch_size": 0, "model": "x"}), says(GOOD)) as server:
        ask(server.url)
    assert "batch_size must be at least 1" in server.seen[1]["messages"][-1]["content"]


@pytest.mark.parametrize("habit", [hangs(5), drips(5)], ids=["hangs", "drips"])
def test_the_time_limit_holds(habit: Habit) -> None:
    with serving(habit) as server:
        started = time.monotonic()
        with pytest.raises(ExternalError):
            ask(server.url, timeout_s=0.4)
        assert time.monotonic() - started < 3


def test_an_endless_answer_is_cut() -> None:
    with serving(never_ends) as server, pytest.raises(ExternalError, match="does not end"):
        ask(server.url)


def test_nobody_listens() -> None:
    with pytest.raises(ExternalError, match="twice"):
        ask("http://127.0.0.1:1/v1", timeout_s=5)


def test_urls() -> None:
    with pytest.raises(InputError, match="http"):
        open_language_model("ftp://x", "m")
    model: LanguageModel = open_language_model("http://127.0.0.1:1/v1", "m")
    assert model is not None


# ---------------------------------------------------------------------- schemas

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "model"]), inner),
    max_leaves=6,
)


@given(values)
def test_what_passes_has_the_shape(value: object) -> None:
    if violation(value, SCHEMA) is None:
        assert isinstance(value, dict)
        assert set(value) == {"batch_size", "model"}
        assert type(value["batch_size"]) is int and 1 <= value["batch_size"] <= 100_000
        assert isinstance(value["model"], str) and len(value["model"]) <= 20


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        (1, {"type": "number"}, True),
        (math.inf, {"type": "number"}, False),
        (True, {"type": ["number", "null"]}, False),
        (None, {"type": ["number", "null"]}, True),
        ("a", {"enum": ["a", "b"]}, True),
        (1, {"enum": [True]}, False),
        (2, {"const": 2}, True),
        ([1, "x"], {"items": {"type": "integer"}}, False),
        ([1, 2, 3], {"minItems": 1, "maxItems": 2}, False),
        ("ab", {"minLength": 3}, False),
        ("ab1", {"pattern": "^[a-z]+$"}, False),
        (5, {"exclusiveMinimum": 5}, False),
        (5, {"anyOf": [{"type": "string"}, {"exclusiveMaximum": 6}]}, True),
        ({"x": 1}, {"additionalProperties": {"type": "string"}}, False),
        ({"x": 1}, {"additionalProperties": True}, True),
    ],
)
def test_keywords(value: object, schema: dict[str, Any], fits: bool) -> None:
    assert (violation(value, schema) is None) == fits


@pytest.mark.parametrize("schema", [{"multipleOf": 2}, {"type": "decimal"}, {"$ref": "#/x"}])
def test_a_keyword_that_would_go_unchecked_is_an_error(schema: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        violation(4, schema)


def test_nesting_ends() -> None:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    value: list[Any] = []
    for _ in range(200):
        value = [value]
    assert "nested" in str(violation(value, schema))


# ---------------------------------------------------------------------- embeddings


def _vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def test_embeddings_of_a_server() -> None:
    texts = [f"{'x' * i}" for i in range(1, 131)]
    with serving(embeds(_vector, reverse=True)) as server:
        embedder: Embedder = ServerEmbedder(server.url, "bge-m3", 3)
        vectors = embedder.embed(texts)
    assert (embedder.name, embedder.dimension) == ("bge-m3", 3)
    assert [len(request["input"]) for request in server.seen] == [64, 64, 2]
    for text, vector in zip(texts, vectors, strict=True):
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert vector[0] / vector[1] == pytest.approx(len(text), rel=1e-4)


@pytest.mark.parametrize(
    "habit",
    [
        embeds(lambda _text: [1.0]),
        embeds(lambda _text: [math.nan, 0.0, 0.0]),
        embeds(lambda _text: [0.0, 0.0, 0.0]),
        raw('{"data": []}'),
        raw("nonsense"),
        fails(500),
        hangs_up,
    ],
    ids=["dimension", "nan", "zero", "count", "no json", "500", "hangs up"],
)
def test_unusable_embeddings(habit: Habit) -> None:
    with serving(habit) as server:
        with pytest.raises(ExternalError):
            ServerEmbedder(server.url, "m", 3, timeout_s=5).embed(["x"])
        assert len(server.seen) == 2
    with serving(habit, embeds(_vector)) as server:
        assert len(ServerEmbedder(server.url, "m", 3, timeout_s=5).embed(["x"])) == 1


def test_bge_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a double of FlagEmbedding, whose weights are not here: what is asked of it, and what is made of it."""
    calls: list[tuple[list[str], int]] = []

    class Model:
        def __init__(self, name: str, use_fp16: bool) -> None:
            self.name = name

        def encode(self, texts: list[str], max_length: int) -> dict[str, Any]:
            calls.append((texts, max_length))
            return {"dense_vecs": np.full((len(texts), 1024), 2.0, dtype=np.float16)}

    module = types.ModuleType("FlagEmbedding")
    module.BGEM3FlagModel = Model  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "FlagEmbedding", module)
    embedder: Embedder = BgeM3Embedder()
    vectors = embedder.embed(["a", "b"])
    assert calls == [(["a", "b"], 512)]
    assert [np.linalg.norm(vector) for vector in vectors] == pytest.approx([1, 1], abs=1e-3)
    assert embedder.embed([]) == []


def test_bge_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    with pytest.raises(ExternalError, match="extra 'bge'"):
        BgeM3Embedder()


def test_answers_are_plain_json() -> None:
    with serving(says(GOOD)) as server:
        answer, _ = ask(server.url)
    assert json.loads(json.dumps(answer)) == GOOD
