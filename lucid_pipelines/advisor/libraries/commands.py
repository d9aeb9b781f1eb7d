"""Command lines made of a function's or a class's own parameters: fire, tyro, dataclass parsers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.load import ConfigTextError, load_config
from lucid_pipelines.advisor.evaluator.calls import NOT_MODELLED
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Frame,
    Func,
    Lit,
    Map,
    Native,
    NativeCall,
    Obj,
    Site,
    Value,
    unknown,
)
from lucid_pipelines.advisor.libraries.command_words import call_with_options, read_pairs, without_entry, words_of
from lucid_pipelines.advisor.libraries.files import path_text
from lucid_pipelines.advisor.libraries.option_text import (
    by_annotation,
    child,
    from_word,
    guessed,
    set_path,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


def fire(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``fire.Fire(component)``."""
    words = words_of(machine)
    component: Value | None = args[0] if args else kwargs.get("component")
    if component is None and machine.caller is not None:
        component = Map(machine.caller.module.globals)
    if isinstance(component, Map):
        if not words:
            return NONE
        name = str(words[0].value).replace("-", "_")
        found = component.items.get(name)
        if found is None:
            return NONE
        component = machine.settle(component.items, name)
        words = words[1:]
    if isinstance(component, Func):
        return call_with_options(machine, component, words, site, "fire")
    if isinstance(component, Cls | Obj):
        return _fire_class(machine, component, words, site)
    return machine.call(component, [], {}, site) if component is not None else NONE


def _fire_class(machine: Machine, component: Cls | Obj, words: list[Lit], site: Site) -> Value:
    cls = component if isinstance(component, Cls) else component.cls
    method = next((str(word.value) for word in words if isinstance(cls.find(str(word.value)), Func)), None)
    rest = [word for word in words if str(word.value) != method]
    instance: Value = component
    initialiser = cls.find("__init__")
    if isinstance(component, Cls):
        pairs, _ = read_pairs(rest)
        names = (
            {argument.arg for argument in initialiser.node.args.args}
            if isinstance(initialiser, Func)
            else set(cls.fields)
        )
        named = {name: guessed(word) for name, word in pairs if name in names}
        instance = machine.call(component, [], named, site)
        rest = [word for word in rest if str(word.value).lstrip("-").partition("=")[0].replace("-", "_") not in names]
    if method is None:
        return instance
    bound = machine.attribute(instance, method, site)
    return call_with_options(machine, bound, rest, site, "fire") if isinstance(bound, Func) else NONE


# ---------------------------------------------------------------------- structured settings


def settings_from_words(machine: Machine, target: Value, words: list[Lit], site: Site, kind: str) -> Value:
    """Fill a dataclass instance or map from ``--a.b value`` words (tyro, simple-parsing, draccus, …)."""
    pairs, loose = read_pairs(words)
    for word in loose:
        # key=value without dashes, as chz and pyrallis-like tools accept
        text = str(word.value)
        if "=" in text:
            key, _, value = text.partition("=")
            pairs.append((key.replace("-", "_"), from_word(Lit(value, word.origin), key.rpartition(".")[2])))
    for name, word in pairs:
        if name in ("config_path", "config", "config_file") and child(machine, target, name) is None:
            _overlay_file(machine, target, word)
    for name, word in pairs:
        path = _find_option(machine, target, name)
        if path is None:
            negated = _find_option(machine, target, re.sub(r"(^|\.)no_", r"\1", name))
            if negated is not None and negated != name:
                set_path(machine, target, negated, Lit(False, word.origin))
            continue
        owner_path, _, last = path.rpartition(".")
        owner = _follow(machine, target, owner_path)
        spec = owner.cls.fields.get(last) if isinstance(owner, Obj) else None
        current = child(machine, owner, last) if owner is not None else None
        value = by_annotation(machine, spec.annotation if spec is not None else None, current, word, site)
        set_path(machine, target, path, value)
    machine.note_settings(kind, target, site)
    return target


def _overlay_file(machine: Machine, target: Value, word: Lit) -> None:
    file = path_text(machine, word)
    try:
        content = load_config(machine.tree, file) if file is not None and machine.tree.is_file(file) else None
    except ConfigTextError:
        machine.trace.gap("unreadable configuration")
        return
    _overlay(machine, target, content, "", 0)


def _overlay(machine: Machine, target: Value, content: Value | None, prefix: str, depth: int) -> None:
    if not isinstance(content, Map) or depth > 10:
        return
    for key, value in content.items.items():
        path = f"{prefix}{key}"
        if isinstance(value, Map) and isinstance(_follow(machine, target, path), Map | Obj):
            _overlay(machine, target, value, f"{path}.", depth + 1)
        else:
            set_path(machine, target, path, value)


def _find_option(machine: Machine, target: Value, name: str) -> str | None:
    """The dotted path that an option means: itself, or the only nested field of that name."""
    owner_path, _, last = name.rpartition(".")
    owner = _follow(machine, target, owner_path)
    if owner is not None and (child(machine, owner, last) is not None or _declares(owner, last)):
        return name
    if owner_path:
        return None
    nested: list[str] = []
    inner = target.attrs if isinstance(target, Obj) else target.items if isinstance(target, Map) else {}
    for key, value in inner.items():
        if isinstance(value, Obj | Map) and (child(machine, value, last) is not None or _declares(value, last)):
            nested.append(f"{key}.{last}")
    if len(nested) == 1:
        return nested[0]
    return name if (isinstance(target, Obj) and target.opaque) or (isinstance(target, Map) and target.open) else None


def _declares(owner: Value, name: str) -> bool:
    return isinstance(owner, Obj) and name in owner.cls.fields


def _follow(machine: Machine, target: Value, path: str) -> Value | None:
    current: Value | None = target
    for name in [part for part in path.split(".") if part]:
        current = child(machine, current, name) if current is not None else None
    return current


def structured(kind: str) -> NativeCall:
    """``tyro.cli(Args)`` and its kin: make the settings, overlay the command line, return them."""

    def parse(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        target = args[0] if args else kwargs.get("config_class") or kwargs.get("config_cls") or NONE
        given = kwargs.get("args")
        words = words_of(machine)
        if given is not None and not (isinstance(given, Lit) and given.value is None):
            words = [item for item in items_of(machine, given) or [] if isinstance(item, Lit)]
        if isinstance(target, Func):
            return call_with_options(machine, target, words, site, kind)
        if isinstance(target, Cls):
            default = kwargs.get("default")
            instance = default if isinstance(default, Obj | Map) else machine.call(target, [], {}, site)
            return settings_from_words(machine, instance, words, site, kind)
        if isinstance(target, Obj | Map):
            return settings_from_words(machine, target, words, site, kind)
        return unknown(kind)

    return parse


def wrapped_main(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``@pyrallis.wrap()`` and ``@draccus.wrap()``: the first parameter is filled from the command line."""

    def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        func = inner[0] if inner else NONE
        if not isinstance(func, Func):
            return NONE

        def entry(mm: Machine, called: Func, given: list[Value], more: dict[str, Value], where: Site) -> Value | None:
            parameter = called.node.args.args[0] if called.node.args.args else None
            if given or more or parameter is None or parameter.annotation is None:
                return None
            cls = mm.eval(parameter.annotation, Frame(called.module, called.module.globals))
            if not isinstance(cls, Cls):
                return None
            instance = mm.call(cls, [], {}, where)
            settings = settings_from_words(mm, instance, words_of(mm), where, "dataclass")
            return mm.call(without_entry(called), [settings], {}, where)

        func.extra["entry"] = entry
        return func

    return decorate(machine, args, kwargs, site) if args and isinstance(args[0], Func) else Native("wrap", decorate)


def run_function(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``run_cli(main)`` of libraries that are not modelled: the parameters of ``main`` are the options."""
    if args and isinstance(args[0], Func):
        return call_with_options(machine, args[0], words_of(machine), site, "function")
    if args and isinstance(args[0], Cls):
        return structured("dataclass")(machine, args, kwargs, site)
    return NOT_MODELLED


def register(library: Library) -> None:
    """Add these models to a library."""
    calls, endings = library.calls, library.endings
    calls["fire.Fire"] = fire
    for name in ("tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse", "chz.entrypoint",
        "chz.nested_entrypoint", "jsonargparse.CLI", "jsonargparse.auto_cli", "datargs.parse", "dcargs.cli",
        "argbind.parse_args", "clize.run", "defopt.run", "plac.call", "argh.dispatch_command"):  # fmt: skip
        calls[name] = structured("dataclass")
    for name in ("run_cli", "cli", "auto_cli", "cli_main", "run_main"):
        endings[name] = run_function
    for name in ("pyrallis.wrap", "draccus.wrap"):
        calls[name] = wrapped_main
