"""Any configuration file of the snapshot as a value."""

from __future__ import annotations

from lucid_pipelines.advisor.configs.flat_text import parse_ini, parse_toml
from lucid_pipelines.advisor.configs.json_text import parse_json
from lucid_pipelines.advisor.configs.yaml_text import ConfigTextError, parse_yaml
from lucid_pipelines.advisor.evaluator.values import Value
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

YAML_ENDINGS = (".yaml", ".yml")
ENDINGS = (*YAML_ENDINGS, ".json", ".jsonc", ".json5", ".toml", ".ini", ".cfg", ".conf")


def load_config(
    tree: SourceTree, file: str, kind: SourceKind = SourceKind.CONFIG, *, lenient_floats: bool = True
) -> Value | None:
    """The content of a configuration file, or ``None`` when it cannot be read.

    Raises:
        ConfigTextError: it can be read but not understood.
    """
    text = tree.read_text(file)
    if text is None:
        return None
    return parse_config(text, file, kind, lenient_floats=lenient_floats)


def parse_config(text: str, file: str, kind: SourceKind, *, lenient_floats: bool = True) -> Value | None:
    """A configuration text in the format that its file name says.

    Raises:
        ConfigTextError: malformed, too deep or too large.
    """
    lower = file.lower()
    if lower.endswith((".json", ".jsonc", ".json5")):
        return parse_json(text, file, kind)
    if lower.endswith(".toml"):
        return parse_toml(text, file, kind)
    if lower.endswith((".ini", ".cfg", ".conf")):
        return parse_ini(text, file, kind)
    documents = parse_yaml(text, file, kind, lenient_floats=lenient_floats)
    return documents[0] if documents else None


__all__ = ["ENDINGS", "YAML_ENDINGS", "ConfigTextError", "load_config", "parse_config"]
