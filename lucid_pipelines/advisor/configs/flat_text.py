"""TOML and INI texts as values with line numbers."""

from __future__ import annotations

import configparser
import re
import tomllib
from typing import Any

from lucid_pipelines.advisor.configs.yaml_text import ConfigTextError
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Origin, Seq, Value, unknown
from lucid_pipelines.advisor.metadata import SourceKind

_SECTION = re.compile(r"^\s*\[{1,2}\s*([^\]]+?)\s*\]{1,2}")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\-\"']+)\s*[=:]")


_LONG_KEY = re.compile(r"""(?<![\w"'\-.])(?:[\w"'\-]++[ \t]*+\.[ \t]*+){64}""")


def toml_data(text: str) -> dict[str, Any]:
    """A TOML text as plain data.

    Raises:
        ValueError: it is malformed, or a key has so many parts that the parser's time would grow with their square.
        RecursionError: it is too deep.
    """
    if _LONG_KEY.search(text) is not None:
        raise ValueError("a key has more than 64 parts")
    return tomllib.loads(text)


def parse_toml(text: str, file: str, kind: SourceKind = SourceKind.CONFIG) -> Value:
    """The table of a TOML text.

    Raises:
        ConfigTextError: malformed.
    """
    try:
        data = toml_data(text)
    except (ValueError, RecursionError) as error:
        raise ConfigTextError(f"not TOML: {file}: {error}") from error
    return _located(data, "", _lines(text), file, kind, 0)


def parse_ini(text: str, file: str, kind: SourceKind = SourceKind.CONFIG) -> Value:
    """The sections of an INI text; values stay text.

    Raises:
        ConfigTextError: malformed.
    """
    parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ConfigTextError(f"not INI: {file}: {str(error)[:200]}") from error
    data = {name: dict(parser.items(name)) for name in parser.sections()}
    return _located(data, "", _lines(text), file, kind, 0)


def _lines(text: str) -> dict[str, int]:
    """Line of each ``section.key``."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if (found := _SECTION.match(line)) is not None:
            section = found.group(1).replace('"', "") + "."
        elif (found := _KEY.match(line)) is not None:
            lines.setdefault((section + found.group(1).strip("\"'")).lower(), number)
    return lines


def _located(value: Any, path: str, lines: dict[str, int], file: str, kind: SourceKind, depth: int) -> Value:
    if depth > 60:
        return unknown("deep")
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        return Map({key: _located(item, prefix + key, lines, file, kind, depth + 1) for key, item in value.items()})
    if isinstance(value, list):
        return Seq([_located(item, path, lines, file, kind, depth + 1) for item in value])
    origin = Origin(kind, file, lines.get(path.lower()), path.rpartition(".")[2])
    return Lit(value if isinstance(value, str | int | float | bool) else str(value), origin)
