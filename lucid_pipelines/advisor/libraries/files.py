"""Files of the snapshot as the program opens them: ``open``, ``os.path``, ``pathlib``, YAML, JSON, TOML.

Only files inside the snapshot are read. Anything else (data, checkpoints, ``~``) does not exist here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.flat_text import parse_ini, parse_toml
from lucid_pipelines.advisor.configs.hyperpyyaml import resolve_tags
from lucid_pipelines.advisor.configs.json_text import parse_json
from lucid_pipelines.advisor.configs.yaml_text import ConfigTextError, parse_yaml
from lucid_pipelines.advisor.evaluator.builtin_code import WHOLE_FILE
from lucid_pipelines.advisor.evaluator.expressions import shown_text
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Lit,
    Map,
    Mod,
    Model,
    Native,
    NativeCall,
    Obj,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
    text_of,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


def path_text(machine: Machine, value: Value | None) -> str | None:
    """The path inside the snapshot that a value names, or ``None``.

    A relative path starts at the working directory; modules find their own files through ``__file__``,
    which is written from the root and marked by its origin.
    """
    text = text_of(value) if isinstance(value, Lit) else (value.text() if isinstance(value, PathModel) else None)
    if text is None or "\n" in text or len(text) > 500:
        return None
    for base in (machine.cwd, ""):
        found = machine.tree.relative(text, base)
        if found is not None and (machine.tree.is_file(found) or machine.tree.is_dir(found)):
            return found
    return None


class OpenFile(Model):
    """A file of the snapshot opened for reading."""

    __slots__ = ("content", "file")

    def __init__(self, file: str, content: str) -> None:
        self.file = file
        self.content = content

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name in ("read", "getvalue"):
            return Native(name, lambda m, args, kwargs, at: self.whole())
        if name == "readlines":
            return Native(name, lambda m, args, kwargs, at: Seq(self.lines()))
        if name == "name":
            return Lit(self.file)
        return Native(name, lambda m, args, kwargs, at: NONE)

    def iterate(self, machine: Machine) -> list[Value] | None:
        return self.lines()

    def whole(self) -> Lit:
        return Lit(self.content, Origin(SourceKind.CONFIG, self.file, 1, WHOLE_FILE))

    def lines(self) -> list[Value]:
        return [
            Lit(line + "\n", Origin(SourceKind.CONFIG, self.file, number))
            for number, line in enumerate(self.content.split("\n")[:2_000], 1)
        ]


def open_(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    mode = text_of(args[1]) if len(args) > 1 else text_of(kwargs.get("mode"))
    if mode is not None and set(mode) & set("wax+"):
        return Sym("open()")
    file = path_text(machine, args[0]) if args else None
    content = machine.tree.read_text(file) if file is not None else None
    if file is None or content is None:
        return Sym("open()", args)
    return OpenFile(file, content)


def _source(machine: Machine, value: Value | None) -> tuple[str, str] | None:
    """Text and file name of what a loader is given: an open file or a string."""
    if isinstance(value, OpenFile):
        return value.content, value.file
    if isinstance(value, Lit) and isinstance(value.value, str):
        file = value.origin.file if value.origin is not None else "<text>"
        return value.value, file
    return None


def load_yaml(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    source = _source(machine, args[0] if args else kwargs.get("stream"))
    if source is None:
        return Map(open=True, label="yaml")
    try:
        documents = parse_yaml(source[0], source[1])
    except ConfigTextError:
        machine.trace.gap("unreadable YAML")
        return machine.fail("YAMLError", source[1])
    content = documents[0] if documents else NONE
    if isinstance(content, Map) and source[1] != "<text>":
        machine.note_settings("yaml", content, Site(source[1], 1))
    return content


def load_hyperpyyaml(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``hyperpyyaml.load_hyperpyyaml(file, overrides)``."""
    source = _source(machine, args[0] if args else kwargs.get("yaml_stream"))
    if source is None:
        return Map(open=True, label="hparams")
    overrides = args[1] if len(args) > 1 else kwargs.get("overrides")
    try:
        documents = parse_yaml(source[0], source[1], lenient_floats=True)
        changes: Value | None = overrides
        if isinstance(overrides, Lit) and isinstance(overrides.value, str):
            kind = overrides.origin.kind if overrides.origin is not None else SourceKind.COMMAND_LINE
            parsed = parse_yaml(overrides.value, "<command>", kind, lenient_floats=True)
            changes = parsed[0] if parsed else None
    except ConfigTextError:
        machine.trace.gap("unreadable YAML")
        return Map(open=True, label="hparams")
    content = documents[0] if documents else Map()
    if isinstance(content, Map) and isinstance(changes, Map):
        content.items.update(changes.items)
    resolved = resolve_tags(content, machine, Site(source[1], 1))
    machine.note_settings("hyperpyyaml", resolved, Site(source[1], 1))
    return resolved


def load_json(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    source = _source(machine, args[0] if args else None)
    if source is None:
        return Map(open=True, label="json")
    try:
        content = parse_json(source[0], source[1])
    except ConfigTextError:
        return machine.fail("JSONDecodeError", source[1])
    if isinstance(content, Map) and source[1] != "<text>":
        machine.note_settings("json", content, Site(source[1], 1))
    return content


def load_toml(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    first = args[0] if args else kwargs.get("f")
    source = _source(machine, first)
    file = path_text(machine, first)
    if file is not None and machine.tree.is_file(file):
        text = machine.tree.read_text(file)
        source = (text, file) if text is not None else None
    if source is None:
        return Map(open=True, label="toml")
    try:
        content = parse_toml(*source)
    except ConfigTextError:
        return machine.fail("TOMLDecodeError", source[1])
    machine.note_settings("toml", content, Site(source[1], 1))
    return content


class IniParser(Model):
    """``configparser.ConfigParser``."""

    __slots__ = ("content",)

    def __init__(self) -> None:
        self.content = Map()

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name == "read":
            return Native(name, self._read)
        if name in ("get", "getint", "getfloat", "getboolean"):
            kind = name.removeprefix("get") or "str"
            return Native(name, lambda m, args, kwargs, at: self._option(m, args, kwargs, kind, at))
        if name == "sections":
            return Native(name, lambda m, args, kwargs, at: Seq([Lit(key) for key in self.content.items]))
        if name in ("items", "options"):
            return Native(name, lambda m, args, kwargs, at: self._section(m, args, at, name))
        return Native(name, lambda m, args, kwargs, at: unknown(name))

    def item(self, machine: Machine, key: Value, site: Site) -> Value | None:
        return self.content.items.get(text_of(key))

    def _read(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        for part in (items_of(machine, args[0]) or [args[0]]) if args and isinstance(args[0], Seq) else args[:1]:
            file = path_text(machine, part)
            text = machine.tree.read_text(file) if file is not None else None
            if file is None or text is None:
                continue
            try:
                parsed = parse_ini(text, file)
            except ConfigTextError:
                machine.trace.gap("unreadable INI")
                continue
            if isinstance(parsed, Map):
                self.content.items.update(parsed.items)
                machine.note_settings("ini", parsed, Site(file, 1))
        return Seq([])

    def _option(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], kind: str, site: Site) -> Value:
        section = self.content.items.get(text_of(args[0])) if args else None
        value = (
            section.items.get((text_of(args[1]) or "").lower()) if isinstance(section, Map) and len(args) > 1 else None
        )
        if value is None:
            return kwargs.get("fallback", unknown("option"))
        converter = machine.library.builtins.get({"boolean": "bool"}.get(kind, kind))
        if kind == "boolean":
            return Lit(
                str(getattr(value, "value", "")).lower() in ("1", "yes", "true", "on"), getattr(value, "origin", None)
            )
        return value if converter is None else machine.call(converter, [value], {}, site)

    def _section(self, machine: Machine, args: list[Value], site: Site, name: str) -> Value:
        section = self.content.items.get(text_of(args[0])) if args else None
        if not isinstance(section, Map):
            return Seq([], open=True)
        return machine.call(machine.attribute(section, "items" if name == "items" else "keys", site), [], {}, site)


# ---------------------------------------------------------------------- paths


class PathModel(Model):
    """A ``pathlib`` path."""

    __slots__ = ("origin", "path")

    def __init__(self, path: str, origin: Origin | None = None) -> None:
        self.path = path
        self.origin = origin

    def text(self) -> str | None:
        return self.path

    def invoke_operator(self, machine: Machine, symbol: str, right: Value, site: Site) -> Value | None:
        shown = shown_text(right)
        if symbol != "/" or shown is None:
            return unknown("path", right)
        return PathModel(posixpath.join(self.path, shown), self.origin)

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        pure = PurePosixPath(self.path)
        if name in ("name", "stem", "suffix"):
            return Lit(getattr(pure, name), self.origin)
        if name == "parent":
            return PathModel(str(pure.parent), self.origin)
        if name == "parents":
            return Seq([PathModel(str(parent), self.origin) for parent in pure.parents])
        if name == "parts":
            return Seq([Lit(part) for part in pure.parts], "tuple")
        if name in ("resolve", "absolute", "expanduser", "as_posix", "__str__"):
            return Native(name, lambda m, args, kwargs, at: Lit(self.path, self.origin) if name == "as_posix" else self)
        if name in ("exists", "is_file", "is_dir"):
            return Native(name, lambda m, args, kwargs, at: exists(m, [self], kwargs, at))
        if name in ("open", "read_text", "read_bytes"):
            return Native(name, lambda m, args, kwargs, at: self._open(m, name, args, kwargs, at))
        if name in ("joinpath", "with_suffix", "with_name"):
            return Native(name, lambda m, args, kwargs, at: self._joined(name, args))
        return Native(name, lambda m, args, kwargs, at: unknown(name))

    def _open(self, machine: Machine, name: str, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        opened = open_(machine, [self, *args], kwargs, site)
        if name == "open":
            return opened
        return opened.whole() if isinstance(opened, OpenFile) else unknown("text")

    def _joined(self, name: str, args: list[Value]) -> Value:
        parts = [shown_text(arg) for arg in args]
        if None in parts:
            return unknown("path")
        if name == "joinpath":
            return PathModel(posixpath.join(self.path, *(part for part in parts if part is not None)), self.origin)
        try:
            pure = PurePosixPath(self.path)
            changed = pure.with_suffix(parts[0] or "") if name == "with_suffix" else pure.with_name(parts[0] or "x")
        except ValueError:
            return unknown("path")
        return PathModel(str(changed), self.origin)


def make_path(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    parts = [shown_text(arg) for arg in args]
    if None in parts:
        return unknown("path", *args)
    origin = next((arg.origin for arg in args if isinstance(arg, Lit)), None)
    return PathModel(posixpath.join(*(part for part in parts if part is not None)) if parts else ".", origin)


def join(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    parts = [shown_text(arg) for arg in args]
    if None in parts or not parts:
        return unknown("path", *args)
    origin = next((arg.origin for arg in reversed(args) if isinstance(arg, Lit) and arg.origin), None)
    return Lit(posixpath.join(*(part for part in parts if part is not None)), origin)


def _on_text(function: Callable[[str], str | bool | tuple[str, str]]) -> NativeCall:
    def call(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        shown = shown_text(args[0]) if args else None
        if shown is None:
            return unknown("path", *args)
        result = function(shown)
        origin = args[0].origin if isinstance(args[0], Lit) else None
        if isinstance(result, tuple):
            return Seq([Lit(part, origin) for part in result], "tuple")
        return Lit(result, origin)

    return call


def exists(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Files of the snapshot exist; of others nothing is known, and a job is taken to start fresh."""
    if args and path_text(machine, args[0]) is not None:
        return Lit(True)
    return Sym("exists", args, tags=frozenset({"fresh_start"}))


def here(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Lit(machine.cwd or ".")


def listing(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    folder = path_text(machine, args[0]) if args else machine.cwd
    if folder is None or not machine.tree.is_dir(folder):
        return unknown("listdir")
    folders, files = machine.tree.children(folder)
    return Seq([Lit(name) for name in sorted([*folders, *files])[:2_000]])


def run_path(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``runpy.run_path`` and ``SourceFileLoader(name, path).load_module()``."""
    file = path_text(machine, args[0]) if args else None
    if file is None:
        return unknown("module", *args)
    return load_module_file(machine, file)


def load_module_file(machine: Machine, file: str) -> Mod:
    """The module of a Python file that a program loads by path."""
    stem = PurePosixPath(file).stem
    folder = posixpath.dirname(file)
    module = machine.modules.at(file, stem, folder.replace("/", "."))
    machine.run_module(module)
    return module


def source_loader(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    path = args[1] if len(args) > 1 else kwargs.get("path") or kwargs.get("location")
    file = path_text(machine, path) if path is not None else None
    if file is None:
        return unknown("module", *args)
    return ModuleSpec(file)


class ModuleSpec(Model):
    """A module that is loaded from a path by ``importlib.util``."""

    __slots__ = ("file",)

    def __init__(self, file: str) -> None:
        self.file = file

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name == "loader":
            return self
        if name in ("load_module", "exec_module"):
            return Native(name, lambda m, args, kwargs, at: load_module_file(m, self.file))
        return unknown(name)


def module_from_spec(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    spec = args[0] if args else NONE
    return load_module_file(machine, spec.file) if isinstance(spec, ModuleSpec) else unknown("module")


def import_module(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    name = text_of(args[0]) if args else None
    if name is None:
        return unknown("module", *args)
    package = text_of(args[1] if len(args) > 1 else kwargs.get("package")) or ""
    level = len(name) - len(name.lstrip("."))
    full = machine.modules.absolute(name.lstrip("."), package, level) if level else name
    found = machine.module_value(full, site)
    if isinstance(found, Mod):
        machine.run_module(found)
    return found


def is_object_with_items(value: Value) -> bool:
    """Whether a value holds settings."""
    return isinstance(value, Map | Obj)


def register(library: Library) -> None:
    """Add these models to a library."""
    calls = library.calls
    for module in ("yaml", "ruamel.yaml", "ruamel_yaml", "ruyaml", "oyaml"):
        for name in ("load", "safe_load", "full_load", "unsafe_load", "round_trip_load", "load_all", "YAML().load"):
            calls[f"{module}.{name}"] = load_yaml
    for name in (
        "json.load",
        "json.loads",
        "json5.load",
        "json5.loads",
        "commentjson.load",
        "hjson.load",
        "hjson.loads",
        "simplejson.load",
        "simplejson.loads",
        "ujson.load",
        "ujson.loads",
        "orjson.loads",
    ):
        calls[name] = load_json
    for name in ("toml.load", "toml.loads", "tomllib.load", "tomllib.loads", "tomli.load", "tomli.loads"):
        calls[name] = load_toml
    library.endings["load_hyperpyyaml"] = load_hyperpyyaml
    for name in ("ConfigParser", "RawConfigParser", "SafeConfigParser"):
        library.endings[name] = lambda machine, args, kwargs, site: IniParser()
    library.builtins["open"] = Native("open", open_)
    for name in ("io.open", "codecs.open", "tensorflow.io.gfile.GFile", "tensorflow.gfile.Open", "epath.Path().open",
        "fsspec.open"):  # fmt: skip
        calls[name] = open_
    for name in ("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "etils.epath.Path"):
        calls[name] = make_path
    library.endings["open"] = open_
    calls["pathlib.Path.cwd"] = lambda machine, args, kwargs, site: PathModel(machine.cwd or ".")
    calls["os.path.join"] = join
    for name, function in (("basename", posixpath.basename), ("dirname", posixpath.dirname), ("splitext",
        posixpath.splitext), ("split", posixpath.split), ("normpath", posixpath.normpath), ("isabs",
        posixpath.isabs)):  # fmt: skip
        calls[f"os.path.{name}"] = _on_text(function)
    for name in ("abspath", "realpath", "expanduser", "expandvars", "relpath"):
        calls[f"os.path.{name}"] = _on_text(lambda text: text)
    for name in ("os.path.exists", "os.path.isfile", "os.path.isdir", "os.path.lexists"):
        calls[name] = exists
    calls["os.getcwd"] = here
    calls["os.listdir"] = listing
    calls["runpy.run_path"] = run_path
    calls["importlib.import_module"] = import_module
    calls["importlib.util.spec_from_file_location"] = source_loader
    calls["importlib.machinery.SourceFileLoader"] = source_loader
    calls["importlib.util.module_from_spec"] = module_from_spec
