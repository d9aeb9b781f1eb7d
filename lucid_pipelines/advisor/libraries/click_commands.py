"""click and Typer: options kept on a function, groups and sub-commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    Func,
    Lit,
    Map,
    Model,
    Native,
    Obj,
    Seq,
    Site,
    Sym,
    Value,
    text_of,
)
from lucid_pipelines.advisor.libraries.command_words import call_with_options, without_entry, words_of
from lucid_pipelines.advisor.libraries.option_text import (
    as_default,
    boolean_word,
    convert,
    from_word,
    guessed,
    renamed,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


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
        func.extra["callback"] = without_entry(func)
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
            func.extra["callback"] = without_entry(func)
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
        machine.call(without_entry(func), [], {"ctx": Sym("click.Context()"), **values}, site)
        for position, word in enumerate(loose):
            chosen = commands.items.get(str(word.value))
            if isinstance(chosen, Func):
                machine.store["click_words"] = loose[position + 1 :]
                return machine.call(chosen, [], {}, site)
        return NONE
    machine.note_settings("click", Map(dict(values), attributes=True), site)
    first = func.node.args.args[0].arg if func.node.args.args else ""
    context: list[Value] = [Sym("click.Context()")] if first in ("ctx", "context") and first not in values else []
    return machine.call(without_entry(func), context, values, site)


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


def register(library: Library) -> None:
    """Add these models to a library."""
    calls = library.calls
    for name in ("click.option", "click.argument"):
        calls[name] = click_option
    for name in ("click.command", "click.group"):
        calls[name] = click_command
    calls["typer.Typer"] = lambda machine, args, kwargs, site: TyperApp()
    calls["typer.run"] = typer_run
