"""A program's own words, and the parameters of a function as its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Func,
    Lit,
    Map,
    Site,
    Sym,
    Value,
)
from lucid_pipelines.advisor.libraries.option_text import (
    as_default,
    by_annotation,
    from_word,
    guessed,
    is_option,
    set_path,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine


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
    plain_func = func if "entry" not in func.extra else without_entry(func)
    return machine.call(plain_func, [], given, site)


def without_entry(func: Func) -> Func:
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
