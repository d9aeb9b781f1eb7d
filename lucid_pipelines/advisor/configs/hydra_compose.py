"""Hydra's composition: defaults lists, packages, group overrides, ``override``, ``optional``, ``_self_``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lucid_pipelines.advisor.configs.load import ConfigTextError, load_config
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Seq, Value, text_of
from lucid_pipelines.advisor.source_tree import SourceTree

MAX_FILES = 200
MAX_DEPTH = 12
_PACKAGE = re.compile(r"^\s*#\s*@package\s+(?:_group_\.)?(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Override:
    """One word of the command line: ``key=value``, ``+key=value``, ``~key``."""

    key: str
    value: Lit | None
    mark: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of a defaults list."""

    group: str
    option: str | None
    package: str | None
    is_self: bool = False
    is_override: bool = False
    is_path: bool = False
    """A configuration that is named outright, which no group choice replaces."""
    is_optional: bool = False


class Composer:
    """Composes one configuration.

    Args:
        folders: where configuration files lie, first match wins.
        stored: nodes that the program registered, by ``(group, name)``.
    """

    def __init__(
        self,
        tree: SourceTree,
        folders: list[str],
        stored: Mapping[tuple[str, str], Value],
        merge: Callable[[Value, Value], Value],
    ) -> None:
        self._tree = tree
        self._folders = folders
        self._stored = stored
        self._merge = merge
        self._choices: dict[str, str | None] = {}
        self._from_command: dict[str, str | None] = {}
        self._added: list[_Entry] = []
        self._loaded = 0
        self.files: list[str] = []
        self.missing: list[str] = []

    def compose(self, name: str, overrides: list[Override]) -> tuple[Map, list[Override]]:
        """The composed configuration, unresolved, and the overrides that set plain values."""
        plain: list[Override] = []
        for override in overrides:
            group = override.key.replace(".", "/").partition("@")[0]
            option = text_of(override.value)
            if option is not None and (
                self._is_group(override.key, option) or (option == "null" and self._group_folder(group))
            ):
                chosen = None if option == "null" else option
                self._from_command[override.key.partition("@")[0]] = chosen
                if override.mark.startswith("+"):
                    key, _, package = override.key.partition("@")
                    self._added.append(_Entry(key, chosen, package or None))
            elif override.mark == "~" and self._group_folder(group):
                self._from_command[override.key] = None
            else:
                plain.append(override)
        for _ in range(3):
            before = dict(self._choices)
            self._gather(name, "", 0)
            for entry in self._added:
                if entry.option is not None:
                    self._gather(entry.option, entry.group, 0)
            if before == self._choices:
                break
        composed = self._build(name, "", "", 0)
        for entry in self._added:
            composed = self._merge(composed, self._entry(entry, "", 0))
        assert isinstance(composed, Map)
        return composed, plain

    def _group_folder(self, group: str) -> bool:
        return any(self._tree.is_dir(f"{folder}/{group}" if folder else group) for folder in self._folders) or any(
            key[0] == group for key in self._stored
        )

    def _is_group(self, key: str, option: str) -> bool:
        group = key.partition("@")[0]
        return self._file(group, option) is not None or (group, option) in self._stored

    def _file(self, group: str, option: str) -> str | None:
        name = f"{group}/{option}" if group else option
        name = name.removesuffix(".yaml").removesuffix(".yml")
        for folder in self._folders:
            for ending in (".yaml", ".yml"):
                path = self._tree.relative(f"{name}{ending}", folder)
                if path is not None and self._tree.is_file(path):
                    return path
        return None

    def _load(self, group: str, option: str) -> tuple[Map, str | None, str | None] | None:
        """Content, package header and file of an option."""
        self._loaded += 1
        if self._loaded > MAX_FILES * 4:
            return None
        file = self._file(group, option)
        stored = self._stored.get((group, option))
        if file is None:
            return (stored, None, None) if isinstance(stored, Map) else None
        try:
            content = load_config(self._tree, file)
        except ConfigTextError:
            return None
        if file not in self.files:
            self.files.append(file)
        header = _PACKAGE.search((self._tree.read_text(file) or "")[:2_000])
        own = content if isinstance(content, Map) else Map()
        return own, header.group(1) if header else None, file

    def _gather(self, option: str, group: str, depth: int) -> None:
        """Collect ``override`` entries, so that they are known before anything is composed."""
        loaded = self._load(group, option)
        if loaded is None or depth > MAX_DEPTH:
            return
        folder = _parent(group, option)
        for entry in _defaults(loaded[0], folder):
            if entry.is_self:
                continue
            if entry.is_override:
                self._choices[entry.group] = entry.option
                continue
            chosen = self._chosen(entry)
            if chosen is not None:
                self._gather(chosen, entry.group, depth + 1)

    def _chosen(self, entry: _Entry) -> str | None:
        if entry.is_path:
            return entry.option
        if entry.group and entry.group in self._from_command:
            return self._from_command[entry.group]
        if entry.group and entry.group in self._choices:
            return self._choices[entry.group]
        option = entry.option
        if option is not None and "${" in option:
            option = re.sub(
                r"\$\{([^}]+)\}",
                lambda match: str(self._from_command.get(match.group(1), self._choices.get(match.group(1), ""))),
                option,
            )
        return option

    def _build(self, option: str, group: str, package: str, depth: int) -> Value:
        loaded = self._load(group, option)
        if loaded is None or depth > MAX_DEPTH:
            self.missing.append(f"{group}/{option}" if group else option)
            return Map(attributes=True, open=True)
        content, header, _ = loaded
        entries = _defaults(content, _parent(group, option))
        body = Map(
            {key: value for key, value in content.items.items() if key not in ("defaults", "hydra")}, attributes=True
        )
        body.open = content.open
        where = _package(header, group, package)
        own = _placed(body, where)
        if not any(entry.is_self for entry in entries):
            entries.append(_Entry("", None, None, is_self=True))
        result: Value = Map(attributes=True)
        for entry in entries:
            if entry.is_self:
                result = self._merge(result, own)
            elif not entry.is_override:
                result = self._merge(result, self._entry(entry, where, depth + 1))
        return result

    def _entry(self, entry: _Entry, parent_package: str, depth: int) -> Value:
        if entry.group == "hydra" or entry.group.startswith("hydra/"):
            return Map(attributes=True)
        chosen = self._chosen(entry)
        if chosen is None or chosen in ("", "null"):
            return Map(attributes=True)
        if not entry.group:
            return self._build(chosen, "", parent_package, depth)
        package = entry.package
        if package is None:
            package = ""
        result: Value = Map(attributes=True)
        for option in chosen.split(",") if chosen.startswith("[") else [chosen]:
            name = option.strip("[] ")
            if entry.is_optional and self._load(entry.group, name) is None:
                continue
            result = self._merge(result, self._build(name, entry.group, package, depth))
        return result


def _parent(group: str, option: str) -> str:
    """The group in which a configuration's relative defaults lie."""
    inner = option.rpartition("/")[0]
    return "/".join(part for part in (group, inner) if part)


def _defaults(content: Map, folder: str) -> list[_Entry]:
    listed = content.items.get("defaults")
    entries: list[_Entry] = []
    for item in listed.items if isinstance(listed, Seq) else []:
        word = text_of(item)
        if word is not None:
            entries.append(_word_entry(word, folder))
        elif isinstance(item, Map):
            for key, value in item.items.items():
                entries.extend(_pair_entries(str(key), value, folder))
    return entries


def _word_entry(word: str, folder: str) -> _Entry:
    if word == "_self_":
        return _Entry("", None, None, is_self=True)
    name, _, package = word.partition("@")
    if name.startswith("/"):
        group, _, option = name[1:].rpartition("/")
        return _Entry(group, option, package or None, is_path=True)
    inner, _, option = name.rpartition("/")
    group = "/".join(part for part in (folder, inner) if part)
    return _Entry(group, option, package or None, is_path=True)


def _pair_entries(key: str, value: Value, folder: str) -> list[_Entry]:
    words = key.split()
    is_override = "override" in words[:-1]
    name, _, package = words[-1].partition("@")
    group = name[1:] if name.startswith("/") else "/".join(part for part in (folder, name) if part)
    if is_override and not name.startswith("/"):
        group = name
    if isinstance(value, Seq):
        options = [text_of(option) for option in value.items]
        return [_Entry(group, option, package or None) for option in options if option is not None]
    option = text_of(value)
    if option is None and isinstance(value, Lit) and value.value is not None and not isinstance(value.value, bool):
        option = str(value.value)
    if isinstance(value, Lit) and isinstance(value.value, bool):
        option = None
    optional = "optional" in words[:-1]
    return [_Entry(group, option, package or None, is_override=is_override, is_optional=optional)]


def _package(header: str | None, group: str, given: str) -> str:
    """Where in the configuration an option's content goes."""
    if given:
        return "" if given == "_global_" else given.replace("_group_", group.replace("/", "."))
    if header == "_global_":
        return ""
    if header and header != "_group_":
        return header.replace("_group_", group.replace("/", "."))
    return group.replace("/", ".")


def _placed(body: Map, package: str) -> Value:
    result = body
    for name in reversed([part for part in package.split(".") if part]):
        result = Map({name: result}, attributes=True)
    return result
