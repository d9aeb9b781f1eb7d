"""Configuration objects of libraries: OmegaConf, yacs, ml_collections, EasyDict and their kin, mmengine."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.interpolation import Interpolator, Resolver, interpolated
from lucid_pipelines.advisor.configs.load import ConfigTextError, load_config, parse_config
from lucid_pipelines.advisor.configs.yaml_text import parse_yaml
from lucid_pipelines.advisor.evaluator.classes import fill_fields
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Frame,
    Func,
    Lazy,
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
from lucid_pipelines.advisor.libraries.files import OpenFile, load_module_file, path_text
from lucid_pipelines.advisor.libraries.option_text import guessed, set_path, split_assignments
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine

MAX_DEPTH = 30
MAX_BASES = 30


class ConfigMap(Map):
    """An OmegaConf node: ``items`` are resolved, ``raw`` keeps the interpolations for later merges."""

    __slots__ = ("raw",)

    def __init__(self, raw: Map, resolved: Map) -> None:
        super().__init__(resolved.items, attributes=True, open=resolved.open, label="cfg")
        self.raw = raw


def with_attributes(value: Value) -> Value:
    """A copy in which every nested map can be read by attributes; what is shared inside stays shared."""
    return _attributes(value, {}, 0)


def _attributes(value: Value, done: dict[int, Value], depth: int) -> Value:
    if id(value) in done:
        return done[id(value)]
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, Obj) and value.cls.decorated == "dataclass":
        value = Map(value.attrs)
    if isinstance(value, Map):
        made = Map(attributes=True, open=value.open, label=value.label or "config")
        done[id(value)] = made
        made.items = {key: _attributes(item, done, depth + 1) for key, item in value.items.items()}
        return made
    if isinstance(value, Seq):
        copied = Seq([], value.kind, open=value.open)
        done[id(value)] = copied
        copied.items = [_attributes(item, done, depth + 1) for item in value.items]
        return copied
    return value


def merged(below: Value, above: Value, depth: int = 0) -> Value:
    """``above`` over ``below``, key by key."""
    if isinstance(below, Map) and isinstance(above, Map) and depth < MAX_DEPTH:
        if truth_flag(above, "_delete_"):
            return Map({key: item for key, item in above.items.items() if key != "_delete_"}, attributes=True)
        items = dict(below.items)
        for key, value in above.items.items():
            items[key] = merged(items[key], value, depth + 1) if key in items else value
        return Map(
            items, attributes=below.attributes or above.attributes, open=below.open or above.open, label=below.label
        )
    return above


def truth_flag(container: Map, name: str) -> bool:
    """Whether a map holds the key with the value ``True``."""
    flag = container.items.get(name)
    return isinstance(flag, Lit) and flag.value is True


# ---------------------------------------------------------------------- OmegaConf


def _unresolved(value: Value, depth: int = 0) -> Value:
    """The configuration as written: interpolations kept, later assignments included."""
    if isinstance(value, ConfigMap):
        items: dict[object, Value] = {}
        for key, item in value.items.items():
            raw = value.raw.items.get(key)
            items[key] = raw if raw is not None and _has_interpolation(raw) else _unresolved(item, depth + 1)
        return Map(items, attributes=True, open=value.open)
    if isinstance(value, Obj):
        return with_attributes(value)
    return with_attributes(value) if isinstance(value, Map) else value


def _has_interpolation(value: Value) -> bool:
    todo: list[Value] = [value]
    seen: set[int] = set()
    while todo and len(seen) < 20_000:
        current = todo.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Map):
            todo.extend(current.items.values())
        elif isinstance(current, Seq):
            todo.extend(current.items)
        elif interpolated(current):
            return True
    return False


def make_config(machine: Machine, raw: Map) -> ConfigMap:
    """An OmegaConf node of a configuration as it is written."""
    resolvers = machine.store.get("resolvers")
    known: Mapping[str, Resolver] = resolvers if isinstance(resolvers, dict) else {}
    resolved = Interpolator(raw, machine.env.items, known).resolved(raw)
    made = with_attributes(resolved)
    assert isinstance(made, Map)
    return ConfigMap(raw, made)


def omega_load(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    source = args[0] if args else NONE
    file = source.file if isinstance(source, OpenFile) else path_text(machine, source)
    try:
        content = load_config(machine.tree, file) if file is not None and machine.tree.is_file(file) else None
    except ConfigTextError:
        machine.trace.gap("unreadable configuration")
        content = None
    if not isinstance(content, Map):
        return Map(attributes=True, open=True, label="cfg")
    made = make_config(machine, content)
    machine.note_settings("omegaconf", made, Site(file or site.file, 1))
    return made


def omega_merge(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    parts = items_of(machine, args[0]) if len(args) == 1 and isinstance(args[0], Seq) else args
    result: Value = Map(attributes=True)
    for part in parts or []:
        raw = _unresolved(part)
        if isinstance(raw, Map):
            result = merged(result, raw)
        elif isinstance(raw, Sym) and isinstance(result, Map):
            result.open = True
    assert isinstance(result, Map)
    made = make_config(machine, result)
    machine.note_settings("omegaconf", made, site)
    return made


def omega_create(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    source = args[0] if args else Map()
    if isinstance(source, Seq):
        return omega_dotlist(machine, args, kwargs, site)
    text = text_of(source)
    if text is not None:
        documents = parse_yaml(text, site.file, SourceKind.CODE, lenient_floats=True)
        source = documents[0] if documents else Map()
    if isinstance(source, Cls):
        source = machine.call(source, [], {}, site)
    raw = _unresolved(source)
    return make_config(machine, raw) if isinstance(raw, Map) else raw


def omega_dotlist(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    words = items_of(machine, args[0]) if args else machine.argv.items[1:]
    made = Map(attributes=True)
    for key, word in split_assignments(words or []):
        set_path(machine, made, key, _config_word(word))
    result = make_config(machine, made)
    machine.note_settings("dotlist", result, site)
    return result


def _config_word(word: Lit) -> Value:
    """A command-line value as YAML reads it."""
    text = text_of(word)
    if text is not None and text[:1] in "[{" and len(text) < 5_000:
        try:
            origin = word.origin
            kind = origin.kind if origin is not None else SourceKind.COMMAND_LINE
            documents = parse_yaml(text, origin.file if origin is not None else "<command>", kind, lenient_floats=True)
        except ConfigTextError:
            return word
        return documents[0] if documents else word
    return guessed(word)


def omega_cli(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    given = args[0] if args else kwargs.get("args_list", NONE)
    words = machine.argv.items[1:] if isinstance(given, Lit) else (items_of(machine, given) or [])
    return omega_dotlist(machine, [Seq(words)], {}, site)


def omega_container(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return args[0] if args else NONE


def omega_select(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    path = text_of(args[1]) if len(args) > 1 else None
    current: Value = args[0] if args else NONE
    for part in path.split(".") if path is not None else []:
        if not isinstance(current, Map) or part not in current.items:
            return kwargs.get("default", NONE)
        current = current.items[part]
    return current


def omega_update(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    path = text_of(args[1]) if len(args) > 2 else None
    if path is not None:
        set_path(machine, args[0], path, args[2])
    return NONE


def register_resolver(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    name = text_of(args[0]) if args else None
    if name is not None and len(args) > 1:
        resolvers = machine.store.setdefault("resolvers", {})
        assert isinstance(resolvers, dict)
        resolvers[name] = lambda values, function=args[1]: machine.call(function, values, {}, site)
    return NONE


# ---------------------------------------------------------------------- attribute dictionaries and yacs


def attribute_map(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``EasyDict(d)``, ``ConfigDict(d)``, ``Munch(**d)``, ``CfgNode()``: nested maps with attributes."""
    source = args[0] if args else Map()
    if isinstance(source, Obj) and isinstance(source.payload, Map):
        source = source.payload
    made = with_attributes(source) if isinstance(source, Map) else Map(attributes=True, open=isinstance(source, Sym))
    assert isinstance(made, Map)
    for key, value in kwargs.items():
        if key not in ("new_allowed", "init_dict", "default_box", "frozen_box", "type_safe"):
            made.items[key] = with_attributes(value)
    return made


def merge_from_file(machine: Machine, owner: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``cfg.merge_from_file(path)`` of yacs and fvcore: ``_BASE_`` files lie below."""
    file = path_text(machine, args[0]) if args else None
    if file is None:
        owner.open = True
        return NONE
    content = yaml_with_bases(machine, file, 0)
    if isinstance(content, Map):
        _merge_into(machine, owner, content, 0)
        machine.note_settings("yacs", owner, Site(file, 1))
    return NONE


def yaml_with_bases(machine: Machine, file: str, depth: int) -> Value | None:
    """A YAML file over the files that its ``_BASE_`` names."""
    try:
        content = load_config(machine.tree, file)
    except ConfigTextError:
        machine.trace.gap("unreadable configuration")
        return None
    if not isinstance(content, Map) or depth > 10:
        return content
    bases = content.items.pop("_BASE_", None)
    result: Value = Map()
    for base in bases.items if isinstance(bases, Seq) else [bases] if bases is not None else []:
        name = text_of(base)
        path = machine.tree.relative(name, posixpath.dirname(file)) if name is not None else None
        below = yaml_with_bases(machine, path, depth + 1) if path is not None else None
        if isinstance(below, Map):
            result = merged(result, below)
    return merged(result, content)


def load_with_base(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``CfgNode.load_yaml_with_base(file)``."""
    file = path_text(machine, args[0]) if args else None
    content = yaml_with_bases(machine, file, 0) if file is not None else None
    return content if content is not None else Map(open=True)


def _merge_into(machine: Machine, owner: Map, content: Map, depth: int) -> None:
    for key, value in content.items.items():
        old = owner.items.get(key)
        if isinstance(old, Map) and isinstance(value, Map) and depth < MAX_DEPTH:
            _merge_into(machine, old, value, depth + 1)
        else:
            machine.put(owner.items, key, _like(old, with_attributes(value)))


def _like(old: Value | None, value: Value) -> Value:
    """yacs decodes text by the type of what it replaces: ``"(1, 2)"``, ``"1e-4"``."""
    if (
        isinstance(value, Lit)
        and isinstance(value.value, str)
        and not (isinstance(old, Lit) and isinstance(old.value, str))
    ):
        return guessed(value)
    return value


def merge_from_list(machine: Machine, owner: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``cfg.merge_from_list([key, value, …])`` and ``["key=value", …]``."""
    words = items_of(machine, args[0]) if args else None
    if words is None:
        return NONE
    pairs = split_assignments(words) if all("=" in str(text_of(word)) for word in words) else []
    for key, word in pairs:
        set_path(machine, owner, key, guessed(word))
    if not pairs:
        for key, value in zip(words[::2], words[1::2], strict=False):
            name = text_of(key)
            if name is not None:
                new = guessed(value) if isinstance(value, Lit) else value
                if isinstance(new, Lit) and new.origin is not None:
                    new = Lit(new.value, new.origin.named(name.rpartition(".")[2]))
                set_path(machine, owner, name, new)
    machine.note_settings("yacs", owner, site)
    return NONE


def merge_other(machine: Machine, owner: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``cfg.merge_from_other_cfg(other)``, ``cfg.merge_from_dict(options)``."""
    other = args[0] if args else NONE
    if isinstance(other, Map):
        for key, value in other.items.items():
            if isinstance(key, str) and "." in key:
                set_path(machine, owner, key, value)
            else:
                _merge_into(machine, owner, Map({key: value}), 0)
    return NONE


def clone(machine: Machine, owner: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return with_attributes(owner)


def update_flat(machine: Machine, owner: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``config.update_from_flattened_dict({"a.b": 1})``."""
    source = args[0] if args else NONE
    for key, value in source.items.items() if isinstance(source, Map) else []:
        set_path(machine, owner, str(key), value)
    return NONE


def parse_override_text(machine: Machine, owner: Map, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``hparams.parse("a=1,b=2")`` of TensorFlow's HParams."""
    text = text_of(args[0]) if args else None
    source = args[0] if args else None
    if text and isinstance(source, Lit):
        words: list[Value] = [Lit(part, source.origin) for part in text.split(",")]
        for key, word in split_assignments(words):
            set_path(machine, owner, key, guessed(word))
        machine.note_settings("hparams", owner, site)
    return owner


def hparams(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    made = attribute_map(machine, args, kwargs, site)
    machine.note_settings("hparams", made, site)
    return made


# ---------------------------------------------------------------------- mmengine and detectron2 lazy configurations


def mm_config(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``Config.fromfile(path)``: a Python, YAML or JSON file with ``_base_`` files below it."""
    file = path_text(machine, args[0]) if args else None
    if file is None:
        return Map(attributes=True, open=True, label="cfg")
    content = python_config(machine, file, 0)
    made = with_attributes(content)
    machine.note_settings("mmengine", made, Site(file, 1))
    return made


def python_config(machine: Machine, file: str, depth: int) -> Map:
    """The settings of a Python configuration file, over those of its ``_base_`` files."""
    machine.modules.config_files.add(file)
    if not file.endswith(".py"):
        text = machine.tree.read_text(file)
        try:
            content = parse_config(text, file, SourceKind.CONFIG) if text is not None else None
        except ConfigTextError:
            content = None
        own = content if isinstance(content, Map) else Map(open=True)
    else:
        module = load_module_file(machine, file)
        own = Map({key: value for key, value in module.globals.items() if is_setting(key, value)})
        own.items.update({"_base_": module.globals["_base_"]} if "_base_" in module.globals else {})
    bases = own.items.pop("_base_", None)
    result: Value = Map()
    for base in bases.items if isinstance(bases, Seq) else [bases] if bases is not None else []:
        name = text_of(base)
        path = machine.tree.relative(name, posixpath.dirname(file)) if name is not None else None
        if path is not None and machine.tree.is_file(path) and depth < 8:
            result = merged(result, python_config(machine, path, depth + 1))
    final = merged(result, own)
    assert isinstance(final, Map)
    return final


def is_setting(name: object, value: Value) -> bool:
    """Whether a global of a configuration file is a setting rather than a helper."""
    return (
        isinstance(name, str)
        and not name.startswith("_")
        and name != "*"
        and not isinstance(value, Func | Lazy | Mod | Cls | Native)
    )


def lazy_config_load(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``LazyConfig.load(path)`` of detectron2."""
    return mm_config(machine, args, kwargs, site)


def lazy_config_overrides(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``LazyConfig.apply_overrides(cfg, ["a.b=1"])``."""
    words = items_of(machine, args[1]) if len(args) > 1 else None
    for key, word in split_assignments(words or []):
        set_path(machine, args[0], key, guessed(word))
    return args[0] if args else NONE


def lazy_call(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``LazyCall(Class)(**arguments)``: a description of a call."""
    target = args[0] if args else NONE

    def describe(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        made = Map(dict(named), attributes=True, label="lazy")
        made.items["_target_"] = target
        return made

    return Native("LazyCall", describe)


def fill_dataclass(machine: Machine, cls: Cls, source: Map, site: Site) -> Obj:
    """An instance of a dataclass whose fields are taken from a map, nested ones included."""
    made = Obj(cls, site)
    made.opaque = bool(cls.library_bases())
    fill_fields(machine, made, [], {str(key): value for key, value in source.items.items()}, site)
    for name, value in list(made.attrs.items()):
        spec = cls.fields.get(name)
        if isinstance(value, Map) and spec is not None and spec.annotation is not None:
            frame = Frame(cls.module, cls.module.globals)
            kind = machine.eval(spec.annotation, frame)
            if isinstance(kind, Cls) and kind.fields:
                made.attrs[name] = fill_dataclass(machine, kind, value, site)
    return made


def none_placeholder(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return NONE


def first_argument(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return args[0] if args else kwargs.get("default", unknown("argument"))


ATTRIBUTE_CLASSES = ("EasyDict", "AttrDict", "AttributeDict", "Munch", "DotMap", "Box", "ConfigDict",
    "FrozenConfigDict", "CfgNode", "CN", "Addict", "edict")  # fmt: skip


def register(library: Library) -> None:
    """Add these models to a library."""
    calls = library.calls
    for prefix in ("omegaconf.OmegaConf", "omegaconf.omegaconf.OmegaConf"):
        calls[f"{prefix}.load"] = omega_load
        calls[f"{prefix}.merge"] = omega_merge
        calls[f"{prefix}.unsafe_merge"] = omega_merge
        calls[f"{prefix}.create"] = omega_create
        calls[f"{prefix}.structured"] = omega_create
        calls[f"{prefix}.from_dotlist"] = omega_dotlist
        calls[f"{prefix}.from_cli"] = omega_cli
        for name in ("to_container", "to_object", "resolve"):
            calls[f"{prefix}.{name}"] = omega_container
        calls[f"{prefix}.select"] = omega_select
        calls[f"{prefix}.update"] = omega_update
        calls[f"{prefix}.register_new_resolver"] = register_resolver
        calls[f"{prefix}.register_resolver"] = register_resolver
        for name in ("set_struct", "set_readonly"):
            calls[f"{prefix}.{name}"] = none_placeholder
    calls["omegaconf.DictConfig"] = omega_create
    for name in ATTRIBUTE_CLASSES:
        library.endings[name] = attribute_map
    calls["addict.Dict"] = attribute_map
    library.endings["HParams"] = hparams
    library.endings["load_yaml_with_base"] = load_with_base
    for name in ("mmengine.Config.fromfile", "mmcv.Config.fromfile", "mmengine.config.Config.fromfile",
        "mmcv.utils.Config.fromfile"):  # fmt: skip
        calls[name] = mm_config
    library.endings["LazyCall"] = lazy_call
    calls["detectron2.config.LazyConfig.load"] = lazy_config_load
    calls["detectron2.config.LazyConfig.apply_overrides"] = lazy_config_overrides
    calls["ml_collections.config_dict.placeholder"] = none_placeholder
    calls["ml_collections.config_dict.required_placeholder"] = none_placeholder
    calls["ml_collections.FieldReference"] = calls["ml_collections.config_dict.FieldReference"] = first_argument
    library.map_methods.update(
        {
            "merge_from_file": merge_from_file,
            "merge_from_list": merge_from_list,
            "merge_from_other_cfg": merge_other,
            "merge_from_dict": merge_other,
            "clone": clone,
            "update_from_flattened_dict": update_flat,
            "override_from_dict": merge_other,
            "parse": parse_override_text,
        }
    )
