"""Command-line libraries other than argparse: click, fire, typer, tyro, absl, dataclass parsers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.load import ConfigTextError, load_config
from lucid_pipelines.advisor.evaluator.calls import NOT_MODELLED
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    Cls,
    Frame,
    Func,
    Lit,
    Map,
    Model,
    Native,
    NativeCall,
    Obj,
    Seq,
    Site,
    Sym,
    Value,
    text_of,
    unknown,
)
from lucid_pipelines.advisor.libraries.configurations import with_attributes
from lucid_pipelines.advisor.libraries.files import load_module_file, path_text
from lucid_pipelines.advisor.libraries.option_text import (
    as_default,
    boolean_word,
    by_annotation,
    child,
    convert,
    from_word,
    guessed,
    is_option,
    renamed,
    set_path,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


def words_of(machine: Machine) -> list[Lit]:
    """The command-line words after the program's name."""
    return [word for word in machine.argv.items[1:] if isinstance(word, Lit)]


def read_pairs(words: list[Lit], flags: frozenset[str] = frozenset()) -> tuple[list[tuple[str, Lit]], list[Lit]]:
    """``--key value``, ``--key=value``, ``--flag`` and ``--noflag`` as pairs, and the other words.

    Args:
        flags: names that never take the next word.
    """
    pairs: list[tuple[str, Lit]] = []
    loose: list[Lit] = []
    position = 0
    while position < len(words):
        word = words[position]
        text = str(word.value)
        position += 1
        if not is_option(text):
            loose.append(word)
            continue
        name, mark, value = text.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if mark:
            pairs.append((name, from_word(Lit(value, word.origin), name.rpartition(".")[2])))
        elif position < len(words) and not is_option(str(words[position].value)) and name not in flags:
            pairs.append((name, from_word(words[position], name.rpartition(".")[2])))
            position += 1
        else:
            pairs.append((name, Lit("True", from_word(word, name).origin)))
    return pairs, loose


# ---------------------------------------------------------------------- functions whose parameters are options


def call_with_options(machine: Machine, func: Func, words: list[Lit], site: Site, kind: str) -> Value:
    """Call a function whose parameters are the program's options (fire, typer, jsonargparse)."""
    arguments = func.node.args
    parameters = [argument for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if func.bound is not None:
        parameters = parameters[1:]
    defaults = _parameter_defaults(func)
    booleans = frozenset(
        name for name, value in defaults.items() if isinstance(value, Lit) and isinstance(value.value, bool)
    )
    pairs, loose = read_pairs(words)
    annotations = {argument.arg: argument.annotation for argument in parameters}
    values: dict[str, Value] = {}
    for name, word in pairs:
        plain = name.removeprefix("no_") if name.removeprefix("no_") in booleans and name not in annotations else name
        if plain != name or (name.removeprefix("no") in booleans and name not in annotations):
            values[plain if plain != name else name.removeprefix("no")] = Lit(False, word.origin)
        elif "." in name:
            owner, _, rest = name.partition(".")
            current = values.get(owner) or defaults.get(owner)
            if current is not None:
                set_path(machine, current, rest, guessed(word))
                values[owner] = current
        else:
            values[name] = by_annotation(machine, annotations.get(name), defaults.get(name), word, site)
    free = [argument.arg for argument in parameters if argument.arg not in values]
    for name, word in zip(free, loose, strict=False):
        values[name] = by_annotation(machine, annotations.get(name), defaults.get(name), from_word(word, name), site)
    complete = {**defaults, **values}
    machine.note_settings(kind, Map(dict(complete), attributes=True), site)
    known = set(annotations)
    given = {name: value for name, value in complete.items() if name in known or arguments.kwarg is not None}
    plain_func = func if "entry" not in func.extra else _without_entry(func)
    return machine.call(plain_func, [], given, site)


def _without_entry(func: Func) -> Func:
    twin = Func(func.name, func.node, func.module, func.closure, func.defaults, func.kw_defaults)
    twin.bound, twin.owner, twin.role = func.bound, func.owner, func.role
    return twin


def _parameter_defaults(func: Func) -> dict[str, Value]:
    arguments = func.node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(zip(names[len(names) - len(func.defaults) :], func.defaults, strict=True))
    defaults.update(func.kw_defaults)
    return {name: _declared_default(value, name) for name, value in defaults.items()}


def _declared_default(value: Value, name: str) -> Value:
    """``typer.Option(5)`` and ``Annotated`` defaults: the value inside."""
    if isinstance(value, Sym) and value.path.rpartition(".")[2] in ("Option()", "Argument()"):
        inner = value.args[0] if value.args else value.kwargs.get("default", NONE)
        return as_default(inner, name)
    return as_default(value, name)


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
            return mm.call(_without_entry(called), [settings], {}, where)

        func.extra["entry"] = entry
        return func

    return decorate(machine, args, kwargs, site) if args and isinstance(args[0], Func) else Native("wrap", decorate)


# ---------------------------------------------------------------------- click and typer


def click_option(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``@click.option(…)`` and ``@click.argument(…)``: kept on the function until it is called."""
    names = [text for arg in args if (text := text_of(arg)) is not None]

    def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        func = inner[0] if inner else NONE
        if isinstance(func, Func):
            func.extra.setdefault("click_options", []).insert(0, (names, kwargs, site))
        return func

    return Native("click.option", decorate)


def click_command(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``@click.command()`` and ``@click.group()``."""

    def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        func = inner[0] if inner else NONE
        if not isinstance(func, Func):
            return func
        func.extra["entry"] = _click_entry
        func.extra["commands"] = Map()
        func.extra["command"] = Native("command", lambda mm, a, k, where: _sub_command(mm, func, a, k, where))
        func.extra["group"] = func.extra["command"]
        func.extra["callback"] = _without_entry(func)
        func.extra["add_command"] = Native("add_command", lambda mm, a, k, where: _add_command(func, a))
        return func

    return (
        decorate(machine, args, kwargs, site)
        if args and isinstance(args[0], Func)
        else Native("click.command", decorate)
    )


def _sub_command(machine: Machine, group: Func, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    name = text_of(args[0]) if args else text_of(kwargs.get("name"))

    def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        func = inner[0] if inner else NONE
        if isinstance(func, Func):
            func.extra["entry"] = _click_entry
            func.extra["commands"] = Map()
            func.extra["command"] = Native("command", lambda mm, a, k, where: _sub_command(mm, func, a, k, where))
            func.extra["callback"] = _without_entry(func)
            group.extra["commands"].items[name or func.name.replace("_", "-")] = func
        return func

    is_bare = bool(args) and isinstance(args[0], Func)
    return decorate(machine, args, kwargs, site) if is_bare else Native("command", decorate)


def _add_command(group: Func, args: list[Value]) -> Value:
    if args and isinstance(args[0], Func):
        name = text_of(args[1]) if len(args) > 1 else None
        group.extra["commands"].items[name or args[0].name.replace("_", "-")] = args[0]
    return NONE


def _click_entry(machine: Machine, func: Func, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value | None:
    options = func.extra.get("click_options", [])
    if any(name in kwargs for names, _, _ in options for name in [_click_name(names)]):
        return None
    words = machine.store.pop("click_words", None)
    rest = words if isinstance(words, list) else words_of(machine)
    values, loose = _click_values(machine, options, rest, site)
    commands = func.extra.get("commands")
    if isinstance(commands, Map) and commands.items:
        machine.call(_without_entry(func), [], {"ctx": Sym("click.Context()"), **values}, site)
        for position, word in enumerate(loose):
            chosen = commands.items.get(str(word.value))
            if isinstance(chosen, Func):
                machine.store["click_words"] = loose[position + 1 :]
                return machine.call(chosen, [], {}, site)
        return NONE
    machine.note_settings("click", Map(dict(values), attributes=True), site)
    first = func.node.args.args[0].arg if func.node.args.args else ""
    context: list[Value] = [Sym("click.Context()")] if first in ("ctx", "context") and first not in values else []
    return machine.call(_without_entry(func), context, values, site)


def _click_name(names: list[str]) -> str:
    """The parameter that an option fills: its explicit name, else its longest flag."""
    for name in names:
        if not name.startswith("-"):
            return name.lower() if not name.isidentifier() else name
    longest = max(names, key=lambda name: (name.startswith("--"), len(name))) if names else ""
    return longest.partition("/")[0].lstrip("-").replace("-", "_").lower()


def _click_values(
    machine: Machine, options: list[tuple[list[str], dict[str, Value], Site]], words: list[Lit], site: Site
) -> tuple[dict[str, Value], list[Lit]]:
    by_flag: dict[str, tuple[str, dict[str, Value], bool | None]] = {}
    arguments: list[tuple[str, dict[str, Value]]] = []
    values: dict[str, Value] = {}
    for names, settings, _ in options:
        name = _click_name(names)
        flags = [flag for flag in names if flag.startswith("-")]
        if not flags:
            arguments.append((name, settings))
            values[name] = as_default(settings.get("default", NONE), name)
            continue
        is_flag = isinstance(settings.get("is_flag"), Lit) and settings["is_flag"].value is True  # type: ignore[attr-defined]
        for flag in flags:
            positive, _, negative = flag.partition("/")
            by_flag[positive.strip()] = (name, settings, True if is_flag or negative else None)
            if negative:
                by_flag[negative.strip()] = (name, settings, False)
        default = settings.get("default", FALSE if is_flag else NONE)
        default = as_default(default, name)
        if isinstance(default, Lit) and default.value is not None and "type" in settings and not is_flag:
            default = _click_convert(machine, settings, renamed(default, name), site)
        values[name] = default
    loose = _click_words(machine, by_flag, words, values, site)
    for position, (name, settings) in enumerate(arguments):
        if position < len(loose):
            values[name] = _click_convert(machine, settings, from_word(loose[position], name), site)
    return values, loose


def _click_words(
    machine: Machine,
    by_flag: dict[str, tuple[str, dict[str, Value], bool | None]],
    words: list[Lit],
    values: dict[str, Value],
    site: Site,
) -> list[Lit]:
    loose: list[Lit] = []
    position = 0
    while position < len(words):
        word = words[position]
        text = str(word.value)
        position += 1
        flag, mark, attached = text.partition("=")
        found = by_flag.get(flag)
        if found is None:
            loose.append(word)
            continue
        name, settings, fixed = found
        if fixed is not None:
            values[name] = Lit(fixed, from_word(word, name).origin)
            continue
        if mark:
            value = from_word(Lit(attached, word.origin), name)
        elif position < len(words):
            value = from_word(words[position], name)
            position += 1
        else:
            break
        converted = _click_convert(machine, settings, value, site)
        if isinstance(settings.get("multiple"), Lit) and settings["multiple"].value is True:  # type: ignore[attr-defined]
            old = values.get(name)
            converted = Seq(
                [*(old.items if isinstance(old, Seq) and old.kind == "multiple" else []), converted], "multiple"
            )
        values[name] = converted
    return loose


def _click_convert(machine: Machine, settings: dict[str, Value], word: Value, site: Site) -> Value:
    if not isinstance(word, Lit):
        return word
    kind = settings.get("type")
    if kind is None:
        default = settings.get("default")
        if isinstance(default, Lit) and isinstance(default.value, bool):
            return boolean_word(word)
        if isinstance(default, Lit) and isinstance(default.value, int | float):
            return guessed(word)
        return word
    if isinstance(kind, Native) and kind.name == "bool":
        return boolean_word(word) if isinstance(word.value, str) else word
    if isinstance(kind, Obj):
        method = kind.cls.find("convert")
        return machine.call(method.bind(kind), [word, NONE, NONE], {}, site) if isinstance(method, Func) else word
    return convert(machine, kind, word, site)


class TyperApp(Model):
    """``typer.Typer()``."""

    __slots__ = ("commands",)

    def __init__(self) -> None:
        self.commands: dict[str, Func] = {}

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name in ("command", "callback"):
            return Native(
                name, self._command if name == "command" else lambda m, a, k, at: Native("callback", lambda *_: NONE)
            )
        return Sym(f"typer.{name}")

    def _command(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        name = text_of(args[0]) if args else text_of(kwargs.get("name"))

        def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
            if inner and isinstance(inner[0], Func):
                self.commands[name or inner[0].name.replace("_", "-")] = inner[0]
            return inner[0] if inner else NONE

        return Native("command", decorate)

    def invoke(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value | None:
        words = words_of(machine)
        if len(self.commands) == 1:
            return call_with_options(machine, next(iter(self.commands.values())), words, site, "typer")
        for position, word in enumerate(words):
            chosen = self.commands.get(str(word.value))
            if chosen is not None:
                return call_with_options(machine, chosen, words[position + 1 :], site, "typer")
        return NONE


def typer_run(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return (
        call_with_options(machine, args[0], words_of(machine), site, "typer")
        if args and isinstance(args[0], Func)
        else NONE
    )


# ---------------------------------------------------------------------- absl and TensorFlow flags


def absl_flags(machine: Machine) -> Map:
    """The one ``FLAGS`` object of a program."""
    flags = machine.store.get("absl_flags")
    if not isinstance(flags, Map):
        flags = Map(attributes=True, label="FLAGS")
        machine.store["absl_flags"] = flags
        machine.note_settings("absl", flags, Site("<command>", 0))
    return flags


def define_flag(kind: str) -> NativeCall:
    """``flags.DEFINE_integer(name, default, help)``."""

    def define(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        name = text_of(args[0] if args else kwargs.get("name"))
        if name is None:
            return NONE
        default = args[1] if len(args) > 1 else kwargs.get("default", NONE)
        value = as_default(default, name)
        for option, word in read_pairs(words_of(machine), frozenset({name} if kind == "bool" else ()))[0]:
            if option == name:
                value = _flag_value(kind, word, value)
            elif kind == "bool" and option == f"no{name}":
                value = Lit(False, word.origin)
        flags = absl_flags(machine)
        flags.items[name] = value
        for event in machine.trace.settings:
            if event.container is flags and isinstance(value, Lit):
                event.initial[name] = value
        return FlagHolder(name)

    return define


def _flag_value(kind: str, word: Lit, old: Value) -> Value:
    if kind == "bool":
        return boolean_word(word)
    if kind in ("integer", "float"):
        number = guessed(word)
        return number if isinstance(number, Lit) and isinstance(number.value, int | float) else unknown("not a number")
    if kind in ("list", "multi_string", "spaceseplist"):
        items: list[Value] = [Lit(part, word.origin) for part in str(word.value).split(",")]
        return Seq([*(old.items if isinstance(old, Seq) and kind == "multi_string" else []), *items])
    return word


class FlagHolder(Model):
    """What ``DEFINE_…`` returns: ``.value`` is the flag's value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name in ("value", "default"):
            return absl_flags(machine).items.get(self.name, NONE)
        return unknown(name)


def define_config_file(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``config_flags.DEFINE_config_file("config", default)`` of ml_collections."""
    name = text_of(args[0] if args else kwargs.get("name")) or "config"
    given = args[1] if len(args) > 1 else kwargs.get("default", NONE)
    pairs, _ = read_pairs(words_of(machine))
    for option, word in pairs:
        if option == name:
            given = word
    path = text_of(given)
    flags = absl_flags(machine)
    if path is None:
        flags.items[name] = Map(attributes=True, open=True, label="config")
        return NONE
    file_name, _, argument = path.partition(":")
    file = path_text(machine, Lit(file_name))
    if file is None or not file.endswith(".py"):
        flags.items[name] = Map(attributes=True, open=True, label="config")
        return NONE
    machine.modules.config_files.add(file)
    module = load_module_file(machine, file)
    getter = module.globals.get("get_config")
    config: Value = Map(attributes=True, open=True, label="config")
    if isinstance(getter, Func):
        extra: list[Value] = [Lit(argument, given.origin if isinstance(given, Lit) else None)] if argument else []
        config = with_attributes(machine.call(getter, extra, {}, Site(file, getter.node.lineno)))
    for option, word in pairs:
        if option.startswith(f"{name}."):
            set_path(machine, config, option.partition(".")[2], guessed(word))
    flags.items[name] = config
    machine.note_settings("ml_collections", config, Site(file, 1))
    return FlagHolder(name)


def run_function(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``run_cli(main)`` of libraries that are not modelled: the parameters of ``main`` are the options."""
    if args and isinstance(args[0], Func):
        return call_with_options(machine, args[0], words_of(machine), site, "function")
    if args and isinstance(args[0], Cls):
        return structured("dataclass")(machine, args, kwargs, site)
    return NOT_MODELLED


def run_main(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``app.run(main)``: call it with the program's words."""
    main = args[0] if args else kwargs.get("main")
    if main is None and machine.caller is not None:
        main = machine.caller.module.globals.get("main")
    return machine.call(main, [machine.argv], {}, site) if isinstance(main, Func) else NONE


def register(library: Library) -> None:
    """Add these models to a library."""
    calls, endings = library.calls, library.endings
    calls["fire.Fire"] = fire
    for name in ("click.option", "click.argument"):
        calls[name] = click_option
    for name in ("click.command", "click.group"):
        calls[name] = click_command
    calls["typer.Typer"] = lambda machine, args, kwargs, site: TyperApp()
    calls["typer.run"] = typer_run
    for name in ("tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse", "chz.entrypoint",
        "chz.nested_entrypoint", "jsonargparse.CLI", "jsonargparse.auto_cli", "datargs.parse", "dcargs.cli",
        "argbind.parse_args", "clize.run", "defopt.run", "plac.call", "argh.dispatch_command"):  # fmt: skip
        calls[name] = structured("dataclass")
    for name in ("run_cli", "cli", "auto_cli", "cli_main", "run_main"):
        endings[name] = run_function
    for name in ("pyrallis.wrap", "draccus.wrap"):
        calls[name] = wrapped_main
    for ending, kind in (("integer", "integer"), ("float", "float"), ("string", "string"), ("bool", "bool"),
        ("boolean", "bool"), ("enum", "string"), ("list", "list"), ("multi_string", "multi_string"), ("spaceseplist",
        "list"), ("enum_class", "string")):  # fmt: skip
        endings[f"DEFINE_{ending}"] = define_flag(kind)
    endings["DEFINE_config_file"] = define_config_file
    for name in ("absl.app.run", "tensorflow.app.run", "tensorflow.compat.v1.app.run", "app.run"):
        calls[name] = run_main
    for name in ("absl.flags.FLAGS", "tensorflow.flags.FLAGS", "tensorflow.app.flags.FLAGS",
        "tensorflow.compat.v1.flags.FLAGS", "tensorflow.compat.v1.app.flags.FLAGS"):  # fmt: skip
        library.attributes[name] = absl_flags
