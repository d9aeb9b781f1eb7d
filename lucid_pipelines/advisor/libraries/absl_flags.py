"""Flags of absl, TensorFlow and ml_collections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Func,
    Lit,
    Map,
    Model,
    NativeCall,
    Seq,
    Site,
    Value,
    text_of,
    unknown,
)
from lucid_pipelines.advisor.libraries.command_words import read_pairs, words_of
from lucid_pipelines.advisor.libraries.configurations import with_attributes
from lucid_pipelines.advisor.libraries.files import load_module_file, path_text
from lucid_pipelines.advisor.libraries.option_text import (
    as_default,
    boolean_word,
    guessed,
    set_path,
)

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


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


def run_main(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``app.run(main)``: call it with the program's words."""
    main = args[0] if args else kwargs.get("main")
    if main is None and machine.caller is not None:
        main = machine.caller.module.globals.get("main")
    return machine.call(main, [machine.argv], {}, site) if isinstance(main, Func) else NONE


def register(library: Library) -> None:
    """Add these models to a library."""
    calls, endings = library.calls, library.endings
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
