"""JSON with line numbers; comments and trailing commas, which many tools allow, are accepted."""

from __future__ import annotations

import json
import re

from lucid_pipelines.advisor.configs.yaml_text import MAX_DEPTH, ConfigTextError
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Origin, Seq, Value
from lucid_pipelines.advisor.metadata import SourceKind

MAX_VALUES = 100_000
_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.){0,200000}"')
_WORDS = {"true": True, "false": False, "null": None, "NaN": float("nan"), "Infinity": float("inf")}


def parse_json(text: str, file: str, kind: SourceKind = SourceKind.CONFIG) -> Value:
    """The value of a JSON text.

    Raises:
        ConfigTextError: malformed, deeper than 60 levels or more than 100,000 values.
    """
    reader = _Reader(text, file, kind)
    return reader.value(0)


class _Reader:
    def __init__(self, text: str, file: str, kind: SourceKind) -> None:
        self._text = text
        self._file = file
        self._kind = kind
        self._at = 0
        self._line = 1
        self._counted_to = 0
        self._values = 0

    def value(self, depth: int) -> Value:
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES:
            raise ConfigTextError(f"too deep or too large: {self._file}")
        self._skip()
        character = self._text[self._at : self._at + 1]
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        return Lit(self._scalar(), self._origin())

    def _object(self, depth: int) -> Map:
        made = Map()
        self._at += 1
        while not self._take("}"):
            key = self._scalar()
            if not self._take(":"):
                raise ConfigTextError(f"not JSON, ':' expected: {self._file}:{self._line}")
            value = self.value(depth + 1)
            if isinstance(value, Lit) and value.origin is not None:
                value = Lit(value.value, value.origin.named(str(key)))
            made.items[key] = value
            if not self._take(",") and not self._peek("}"):
                raise ConfigTextError(f"not JSON, ',' expected: {self._file}:{self._line}")
        return made

    def _array(self, depth: int) -> Seq:
        made = Seq([])
        self._at += 1
        while not self._take("]"):
            made.items.append(self.value(depth + 1))
            if not self._take(",") and not self._peek("]"):
                raise ConfigTextError(f"not JSON, ',' expected: {self._file}:{self._line}")
        return made

    def _scalar(self) -> str | int | float | bool | None:
        self._skip()
        if self._text[self._at : self._at + 1] == '"':
            match = _STRING.match(self._text, self._at)
            if match is None:
                raise ConfigTextError(f"not JSON, unfinished string: {self._file}:{self._line}")
            self._at = match.end()
            try:
                return str(json.loads(match.group(), strict=False))
            except ValueError as error:
                raise ConfigTextError(f"not JSON: {self._file}:{self._line}") from error
        match = _NUMBER.match(self._text, self._at)
        if match is not None and len(match.group()) <= 60:
            self._at = match.end()
            word = match.group()
            return int(word) if re.fullmatch(r"-?\d+", word) else float(word)
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._at):
                self._at += len(word)
                return value
        raise ConfigTextError(f"not JSON: {self._file}:{self._line}")

    def _origin(self) -> Origin:
        return Origin(self._kind, self._file, self._line)

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at

    def _take(self, mark: str) -> bool:
        self._skip()
        if self._at >= len(self._text):
            raise ConfigTextError(f"not JSON, it ends too early: {self._file}")
        if self._text.startswith(mark, self._at):
            self._at += len(mark)
            return True
        return False

    def _peek(self, mark: str) -> bool:
        self._skip()
        return self._text.startswith(mark, self._at)
