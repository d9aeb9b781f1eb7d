"""Hydra programs: ``@hydra.main``, ``compose``, ``instantiate`` and the configuration store."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.hydra_compose import Composer, Override
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Func,
    Lit,
    Map,
    Mod,
    Native,
    Obj,
    Seq,
    Site,
    Sym,
    Value,
    text_of,
    unknown,
)
from lucid_pipelines.advisor.libraries.configurations import _config_word, make_config, merged, with_attributes
from lucid_pipelines.advisor.libraries.option_text import from_word, set_path

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine

_FOLDER_OPTIONS = {"--config-path": "path", "-cp": "path", "--config-dir": "dir", "-cd": "dir",
    "--config-name": "name", "-cn": "name"}  # fmt: skip


def hydra_main(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``@hydra.main(config_path=…, config_name=…)``."""
    if args and isinstance(args[0], Func) and not kwargs:
        return _with_entry(args[0], None, "config", site)
    path = text_of(args[0]) if args else text_of(kwargs.get("config_path"))
    name = text_of(args[1]) if len(args) > 1 else text_of(kwargs.get("config_name"))
    if path is not None and name is None and path.endswith((".yaml", ".yml")):
        # Hydra before 1.0 named the file itself.
        folder, _, file = path.rpartition("/")
        path, name = folder or ".", file.rpartition(".")[0]

    def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        return _with_entry(inner[0], path, name, site) if inner and isinstance(inner[0], Func) else NONE

    return Native("hydra.main", decorate)


def _with_entry(func: Func, path: str | None, name: str | None, site: Site) -> Func:
    def entry(machine: Machine, called: Func, args: list[Value], kwargs: dict[str, Value], at: Site) -> Value | None:
        if args or kwargs:
            return None
        config = compose_from_words(machine, site.file, path, name, machine.argv.items[1:])
        plain = Func(called.name, called.node, called.module, called.closure, called.defaults, called.kw_defaults)
        return machine.call(plain, [config], {}, at)

    func.extra["entry"] = entry
    return func


def compose_from_words(machine: Machine, file: str, path: str | None, name: str | None, words: list[Value]) -> Value:
    """The configuration that a Hydra program gets for these command-line words."""
    folder = posixpath.dirname(file)
    extra: list[str] = []
    overrides: list[Override] = []
    position = 0
    while position < len(words):
        word = words[position]
        text = text_of(word) or ""
        position += 1
        option, mark, value = text.partition("=")
        if option in _FOLDER_OPTIONS and isinstance(word, Lit):
            if not mark and position < len(words):
                value = text_of(words[position]) or ""
                position += 1
            kind = _FOLDER_OPTIONS[option]
            if kind == "name":
                name = value
            elif kind == "dir":
                inside = machine.tree.relative(value, machine.cwd)
                extra.extend([inside] if inside is not None else [])
            else:
                path = value
        elif isinstance(word, Lit) and (override := parse_override(word)) is not None:
            overrides.append(override)
    base = machine.tree.relative(path, folder) if path else folder
    if path and base is not None and not machine.tree.is_dir(base):
        inside = machine.tree.relative(path, machine.cwd)
        base = inside if inside is not None and machine.tree.is_dir(inside) else base
    folders = [part for part in (base, *extra) if part is not None]
    return compose(machine, folders, name or "config", overrides, Site(file, 1))


def parse_override(word: Lit) -> Override | None:
    """One override word, or ``None`` when it is something else."""
    text = str(word.value)
    if text.startswith("-"):
        return None
    mark = ""
    while text[:1] in ("+", "~"):
        mark += text[0]
        text = text[1:]
    key, equals, value = text.partition("=")
    if not equals:
        return Override(key, None, mark) if mark.startswith("~") else None
    return Override(key, from_word(Lit(value, word.origin), key.rpartition(".")[2]), mark)


def compose(machine: Machine, folders: list[str], name: str, overrides: list[Override], site: Site) -> Value:
    """Compose, apply value overrides, resolve interpolations."""
    stored = machine.store.get("config_store")
    nodes = {key: _stored_node(machine, node) for key, node in stored.items()} if isinstance(stored, dict) else {}
    composer = Composer(machine.tree, folders, nodes, merged)
    raw, plain = composer.compose(name, overrides)
    for override in plain:
        if override.mark.startswith("~"):
            _remove(raw, override.key)
        elif override.value is not None:
            set_path(machine, raw, override.key, _config_word(override.value))
    result = make_config(machine, raw)
    if composer.missing:
        machine.trace.gap("missing Hydra option")
    where = composer.files[0] if composer.files else site.file
    machine.note_settings("hydra", result, Site(where, 1))
    return result


def _stored_node(machine: Machine, node: Value) -> Value:
    if isinstance(node, Cls):
        node = machine.call(node, [], {}, Site(node.module.file, node.line or 1))
    return with_attributes(node)


def _remove(raw: Map, path: str) -> None:
    current: Value = raw
    *parents, last = path.split(".")
    for name in parents:
        current = current.items.get(name, NONE) if isinstance(current, Map) else NONE
    if isinstance(current, Map):
        current.items.pop(last, None)


def hydra_compose(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``hydra.compose(config_name=…, overrides=[…])``."""
    name = text_of(args[0] if args else kwargs.get("config_name")) or "config"
    words = items_of(machine, args[1] if len(args) > 1 else kwargs.get("overrides", Seq([]))) or []
    folder = machine.store.get("hydra_folder")
    overrides = [found for word in words if isinstance(word, Lit) and (found := parse_override(word)) is not None]
    return compose(
        machine, [folder if isinstance(folder, str) else posixpath.dirname(site.file)], name, overrides, site
    )


def initialise(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``hydra.initialize(config_path=…)``."""
    path = text_of(args[0] if args else kwargs.get("config_path") or kwargs.get("config_dir"))
    base = machine.tree.relative(path or ".", posixpath.dirname(site.file))
    if base is not None:
        machine.store["hydra_folder"] = base
    return NONE


def store_node(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``ConfigStore.instance().store(group=…, name=…, node=…)``."""
    name = text_of(kwargs.get("name") or (args[0] if args else None))
    node = kwargs.get("node") or (args[1] if len(args) > 1 else None)
    group = text_of(kwargs.get("group")) or ""
    if name is not None and node is not None:
        stored = machine.store.setdefault("config_store", {})
        assert isinstance(stored, dict)
        stored[(group, name.removesuffix(".yaml"))] = node
    return NONE


def instantiate(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``hydra.utils.instantiate(config, **more)``: build what ``_target_`` names."""
    source = args[0] if args else kwargs.pop("config", NONE)
    return _instantiate(machine, source, args[1:], kwargs, site, 0)


def _instantiate(
    machine: Machine, source: Value, args: list[Value], more: dict[str, Value], site: Site, depth: int
) -> Value:
    if isinstance(source, Obj) and source.payload is None:
        source = Map(source.attrs)
    if isinstance(source, Seq):
        return Seq([_instantiate(machine, item, [], {}, site, depth + 1) for item in source.items])
    if not isinstance(source, Map) or depth > 12:
        return source if isinstance(source, Lit) else unknown("instantiate", source)
    target = source.items.get("_target_")
    recursive = source.items.get("_recursive_")
    deep = not (isinstance(recursive, Lit) and recursive.value is False)
    values = {
        str(key): _instantiate(machine, value, [], {}, site, depth + 1)
        if deep and isinstance(value, Map | Seq)
        else value
        for key, value in source.items.items()
        if not (isinstance(key, str) and key.startswith("_") and key.endswith("_"))
    }
    values.update(more)
    if target is None:
        return Map(dict(values), attributes=True, open=source.open)
    callee = target if not isinstance(target, Lit) else find_dotted(machine, str(target.value), site)
    partial = source.items.get("_partial_")
    where = _place(source) or site
    if isinstance(partial, Lit) and partial.value is True:
        machine.note_call(_name_of(callee), args, values, where)
        return Native("partial", lambda m, inner, named, at: m.call(callee, [*args, *inner], {**values, **named}, at))
    return machine.call(callee, list(args), values, where)


def _place(source: Map) -> Site | None:
    target = source.items.get("_target_")
    origin = target.origin if isinstance(target, Lit) else None
    return Site(origin.file, origin.line or 1) if origin is not None else None


def _name_of(callee: Value) -> str:
    if isinstance(callee, Sym):
        return callee.path
    return callee.name if isinstance(callee, Cls | Func | Native) else "callable"


def find_dotted(machine: Machine, dotted: str, site: Site) -> Value:
    """The object that a dotted name means: in the snapshot, else a library's."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = machine.modules.find(".".join(parts[:cut]))
        if module is None:
            continue
        value: Value = module
        for name in parts[cut:]:
            value = machine.attribute(value, name, site)
        return value if not isinstance(value, Mod) else unknown(dotted)
    return machine.library_name(dotted, site)


def get_target(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``hydra.utils.get_class("a.b.C")`` and ``get_method``."""
    name = text_of(args[0]) if args else None
    return find_dotted(machine, name, site) if name is not None else unknown("class")


def register(library: Library) -> None:
    """Add these models to a library."""
    calls = library.calls
    calls["hydra.main"] = hydra_main
    calls["hydra.compose"] = calls["hydra.experimental.compose"] = hydra_compose
    for name in ("initialize", "initialize_config_dir", "experimental.initialize"):
        calls[f"hydra.{name}"] = initialise
    for name in (
        "hydra.utils.instantiate",
        "hydra.utils.call",
        "hydra_zen.instantiate",
        "detectron2.config.instantiate",
    ):
        calls[name] = instantiate
    for name in ("get_class", "get_method", "get_object"):
        calls[f"hydra.utils.{name}"] = get_target
    calls["hydra.core.config_store.ConfigStore.instance().store"] = store_node
