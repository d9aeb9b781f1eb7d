"""``argparse`` and parsers that derive from it: options, defaults and the parsed namespace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.load import ConfigTextError, load_config
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    TRUE,
    Cls,
    Lit,
    Map,
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
from lucid_pipelines.advisor.libraries.files import path_text
from lucid_pipelines.advisor.libraries.option_text import as_default, convert, from_word, guessed, is_option, renamed
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine


@dataclass(slots=True)
class Option:
    """One ``add_argument``."""

    flags: tuple[str, ...]
    dest: str
    action: str
    nargs: str | int | None
    const: Value | None
    default: Value
    converter: Value | None
    site: Site
    custom_action: bool = False

    @property
    def takes_value(self) -> bool:
        return self.action in ("store", "append", "extend")


@dataclass(slots=True)
class ParserState:
    """Everything that was declared on a parser; groups of one parser share it."""

    options: dict[str, Option] = field(default_factory=dict)
    positionals: list[Option] = field(default_factory=list)
    defaults: dict[str, Value] = field(default_factory=dict)
    subparsers: dict[str, ArgumentParser] = field(default_factory=dict)
    subparser_dest: str | None = None
    open: bool = False
    config_flags: tuple[str, ...] = ()
    configs: dict[str, Value] = field(default_factory=dict)


class ArgumentParser(Model):
    """A parser or one of its groups."""

    __slots__ = ("kind", "state")

    def __init__(self, state: ParserState | None = None, kind: str = "argparse") -> None:
        self.state = state or ParserState()
        self.kind = kind

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        method = _METHODS.get(name)
        if method is None:
            return Sym(f"ArgumentParser().{name}")
        return Native(name, lambda m, args, kwargs, at: method(m, self, args, kwargs, at))


def _add_argument(
    machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    flags = tuple(text for arg in args if (text := text_of(arg)) is not None)
    if not flags:
        return NONE
    action, custom = _action_name(kwargs.get("action"))
    nargs = kwargs.get("nargs")
    nargs_value = nargs.value if isinstance(nargs, Lit) and isinstance(nargs.value, str | int) else None
    if isinstance(nargs, Sym) and nargs.path.endswith("REMAINDER"):
        nargs_value = "..."
    optional = flags[0].startswith("-")
    dest = text_of(kwargs.get("dest"))
    if dest is None:
        long = [flag for flag in flags if flag.startswith("--")]
        dest = (long[0] if long else flags[0]).lstrip("-").replace("-", "_" if optional else "-")
    default = kwargs.get("default")
    if default is None:
        default = {"store_true": FALSE, "store_false": TRUE}.get(action, NONE)
        if action in ("store_true", "store_false"):
            default = _declared(default, dest, site)
    declared = as_default(default, dest)
    if isinstance(declared, Lit) and declared.value is not None:
        machine.trace.declared.setdefault(dest, declared)
    option = Option(
        flags,
        dest,
        action,
        nargs_value,
        kwargs.get("const"),
        declared,
        kwargs.get("type"),
        site,
        custom,
    )
    if optional:
        for flag in flags:
            self.state.options[flag] = option
        if action == "boolean_optional":
            for flag in flags:
                if flag.startswith("--"):
                    self.state.options["--no-" + flag[2:]] = option
    else:
        self.state.positionals.append(option)
    if _is_config_flag(kwargs):
        self.state.config_flags += flags
    return Sym("argparse.Action()")


def _is_config_flag(kwargs: dict[str, Value]) -> bool:
    marked = kwargs.get("is_config_file") or kwargs.get("is_config_file_arg")
    action = kwargs.get("action")
    return (isinstance(marked, Lit) and marked.value is True) or (
        isinstance(action, Sym) and action.path.endswith("ActionConfigFile")
    )


def _declared(value: Lit, name: str, site: Site) -> Value:
    from_site = Lit(value.value, Origin(SourceKind.CODE, site.file, site.line))
    return as_default(renamed(from_site, name), name)


def _action_name(action: Value | None) -> tuple[str, bool]:
    if action is None:
        return "store", False
    text = text_of(action)
    if text is not None:
        return text, False
    if isinstance(action, Sym) and action.path.endswith("BooleanOptionalAction"):
        return "boolean_optional", False
    return "store", True


def _group(machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return ArgumentParser(self.state, self.kind)


def _set_defaults(
    machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    for key, value in kwargs.items():
        if key != "**":
            self.state.defaults[key] = as_default(value, key)
    return NONE


def _get_default(
    machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    name = text_of(args[0]) if args else None
    for option in (*self.state.options.values(), *self.state.positionals):
        if option.dest == name:
            return self.state.defaults.get(option.dest, option.default)
    return NONE


def _add_subparsers(
    machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    self.state.subparser_dest = text_of(kwargs.get("dest"))
    return Subparsers(self)


class Subparsers(Model):
    """What ``add_subparsers`` returns."""

    __slots__ = ("parser",)

    def __init__(self, parser: ArgumentParser) -> None:
        self.parser = parser

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name != "add_parser":
            return None

        def add(m: Machine, args: list[Value], kwargs: dict[str, Value], at: Site) -> Value:
            made = ArgumentParser()
            _take_parents(m, made, kwargs)
            word = text_of(args[0]) if args else None
            if word is not None:
                self.parser.state.subparsers[word] = made
            return made

        return Native(name, add)


def _take_parents(machine: Machine, made: ArgumentParser, kwargs: dict[str, Value]) -> None:
    for parent in items_of(machine, kwargs["parents"]) or [] if "parents" in kwargs else []:
        if isinstance(parent, ArgumentParser):
            made.state.options.update(parent.state.options)
            made.state.positionals.extend(parent.state.positionals)
            made.state.defaults.update(parent.state.defaults)
            made.state.configs.update(parent.state.configs)


def _parse(machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    namespace, _ = parse_words(machine, self, _words(machine, args, kwargs), kwargs.get("namespace"), site, known=False)
    machine.note_settings(self.kind, namespace, site)
    return namespace


def _parse_known(
    machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    namespace, rest = parse_words(
        machine, self, _words(machine, args, kwargs), kwargs.get("namespace"), site, known=True
    )
    machine.note_settings(self.kind, namespace, site)
    return Seq([namespace, Seq(list(rest))], "tuple")


def _words(machine: Machine, args: list[Value], kwargs: dict[str, Value]) -> list[Lit]:
    given = args[0] if args else kwargs.get("args", NONE)
    if isinstance(given, Lit) and given.value is None:
        items: list[Value] = machine.argv.items[1:]
    else:
        items = items_of(machine, given) or []
    return [item for item in items if isinstance(item, Lit)]


def parse_words(
    machine: Machine,
    parser: ArgumentParser,
    words: list[Lit],
    into: Value | None,
    site: Site,
    *,
    known: bool,
) -> tuple[Map, list[Lit]]:
    """Parse words as argparse would. Options that nobody declared are accepted when the parser is open."""
    state = parser.state
    namespace = into if isinstance(into, Map) else Map(attributes=True, label="args")
    namespace.open = namespace.open or state.open
    given: set[str] = set()
    rest: list[Lit] = []
    loose: list[Lit] = []
    at = 0
    while at < len(words):
        word = words[at]
        text = str(word.value)
        at += 1
        if text == "--":
            loose.extend(words[at:])
            break
        if loose and _is_remainder(state, len(loose)):
            loose.extend(words[at - 1 :])
            break
        if not is_option(text):
            if state.subparsers and text in state.subparsers and not state.positionals:
                if state.subparser_dest:
                    namespace.items[state.subparser_dest] = from_word(word, state.subparser_dest)
                inner, extra = parse_words(machine, state.subparsers[text], words[at:], namespace, site, known=known)
                rest.extend(extra)
                given.update(inner.items)
                break
            loose.append(word)
            continue
        option, attached = _find(state, text)
        if option is None:
            at = _undeclared(state, namespace, words, at, word, text, rest, known=known)
            continue
        at = _take_option(machine, option, attached, words, at, word, namespace, given, site)
        if text.partition("=")[0] in state.config_flags:
            _read_config_file(machine, namespace, namespace.items.get(option.dest), given)
    rest.extend(_take_positionals(machine, state, loose, namespace, given, site))
    _fill_defaults(machine, state, namespace, given, site)
    return namespace, rest


def _is_remainder(state: ParserState, taken: int) -> bool:
    """Whether the positional that takes the next word takes all that follow."""
    before = sum(1 for option in state.positionals if option.nargs is None)
    last = state.positionals[-1] if state.positionals else None
    return last is not None and last.nargs == "..." and taken > before


def _find(state: ParserState, text: str) -> tuple[Option | None, str | None]:
    if text in state.options:
        return state.options[text], None
    flag, mark, value = text.partition("=")
    if mark and flag in state.options:
        return state.options[flag], value
    if text.startswith("--"):
        matches = {id(option): option for name, option in state.options.items() if name.startswith(flag)}
        if len(matches) == 1:
            return next(iter(matches.values())), value if mark else None
        return None, None
    for length in (2, 3):
        if text[:length] in state.options and len(text) > length:
            option = state.options[text[:length]]
            return option, text[length:] if option.takes_value else None
    return None, None


def _undeclared(
    state: ParserState,
    namespace: Map,
    words: list[Lit],
    at: int,
    word: Lit,
    text: str,
    rest: list[Lit],
    *,
    known: bool,
) -> int:
    """An option that no ``add_argument`` declared: kept for the caller, or taken by an open parser."""
    flag, mark, value = text.partition("=")
    name = flag.lstrip("-").replace("-", "_")
    if known and not state.open:
        rest.append(word)
        while at < len(words) and not is_option(str(words[at].value)) and not mark:
            rest.append(words[at])
            at += 1
        return at
    if mark:
        namespace.items[name] = guessed(from_word(Lit(value, word.origin), name))
        return at
    if at < len(words) and not is_option(str(words[at].value)):
        namespace.items[name] = guessed(from_word(words[at], name))
        return at + 1
    namespace.items[name] = Lit(True, from_word(word, name).origin)
    return at


def _take_option(
    machine: Machine,
    option: Option,
    attached: str | None,
    words: list[Lit],
    at: int,
    word: Lit,
    namespace: Map,
    given: set[str],
    site: Site,
) -> int:
    given.add(option.dest)
    flag_origin = from_word(word, option.dest).origin
    if option.action in ("store_true", "store_false"):
        namespace.items[option.dest] = Lit(option.action == "store_true", flag_origin)
        return at
    if option.action == "boolean_optional":
        namespace.items[option.dest] = Lit(not str(word.value).startswith("--no-"), flag_origin)
        return at
    if option.action in ("store_const", "append_const", "count", "help", "version"):
        value = option.const if option.const is not None else Lit(1)
        namespace.items[option.dest] = Lit(value.value, flag_origin) if isinstance(value, Lit) else value
        return at
    taken: list[Lit] = []
    if attached is not None:
        taken.append(Lit(attached, word.origin))
    else:
        limit = _most_values(option.nargs)
        if option.nargs == "...":
            taken, at = list(words[at:]), len(words)
        while at < len(words) and len(taken) < limit and (not is_option(str(words[at].value)) or option.nargs is None):
            if str(words[at].value).startswith("--") and len(str(words[at].value)) > 2:
                break
            taken.append(words[at])
            at += 1
    converted = [convert(machine, option.converter, from_word(item, option.dest), option.site) for item in taken]
    namespace.items[option.dest] = _combined(option, converted, namespace, flag_origin is not None)
    return at


def _combined(option: Option, values: list[Value], namespace: Map, first: bool) -> Value:
    if option.action in ("append", "extend"):
        old = namespace.items.get(option.dest)
        items = list(old.items) if isinstance(old, Seq) else []
        return Seq([*items, *values])
    if option.nargs == "?" and not values:
        return option.const if option.const is not None else NONE
    if option.custom_action and values and all("=" in str(text_of(value) or "") for value in values):
        return _assignments(values)
    if option.nargs is None or option.nargs == "?":
        return values[0] if values else unknown("no value")
    return Seq(values)


def _assignments(values: list[Value]) -> Map:
    """``key=value …`` of a dictionary action."""
    made = Map()
    for value in values:
        key, _, text = str(text_of(value)).partition("=")
        assert isinstance(value, Lit)
        made.items[key] = guessed(from_word(Lit(text, value.origin), key.rpartition(".")[2]))
    return made


def _most_values(nargs: str | int | None) -> int:
    if nargs is None or nargs == "?":
        return 1
    return nargs if isinstance(nargs, int) else 10_000


def _take_positionals(
    machine: Machine, state: ParserState, loose: list[Lit], namespace: Map, given: set[str], site: Site
) -> list[Lit]:
    left = list(loose)
    for number, option in enumerate(state.positionals):
        needed_later = sum(
            1 if later.nargs is None else (later.nargs if isinstance(later.nargs, int) else later.nargs == "+")
            for later in state.positionals[number + 1 :]
        )
        count = min(_most_values(option.nargs), max(0, len(left) - needed_later))
        taken, left = left[:count], left[count:]
        if not taken:
            continue
        given.add(option.dest)
        values = [convert(machine, option.converter, from_word(item, option.dest), option.site) for item in taken]
        namespace.items[option.dest] = values[0] if option.nargs in (None, "?") else Seq(values)
    return left


def _fill_defaults(machine: Machine, state: ParserState, namespace: Map, given: set[str], site: Site) -> None:
    for option in (*state.positionals, *state.options.values()):
        if option.dest in given or option.dest in namespace.items:
            continue
        default = state.defaults.get(option.dest, option.default)
        if isinstance(default, Sym) and default.path.endswith("SUPPRESS"):
            continue
        if isinstance(default, Lit) and isinstance(default.value, str) and option.converter is not None:
            default = convert(machine, option.converter, default, option.site)
        namespace.items[option.dest] = default
    for name, value in state.defaults.items():
        namespace.items.setdefault(name, value)
    for name, value in state.configs.items():
        # Whole configurations (dataclasses) that are parsed under one name.
        namespace.items.setdefault(name, value)


def _read_config_file(machine: Machine, namespace: Map, path: Value | None, given: set[str]) -> None:
    """``--config file`` of configargparse and jsonargparse: its values stand below the command line."""
    file = path_text(machine, path) if path is not None else None
    if file is None:
        return
    try:
        content = load_config(machine.tree, file)
    except ConfigTextError:
        machine.trace.gap("unreadable configuration")
        return
    if isinstance(content, Map):
        for key, value in content.items.items():
            if isinstance(key, str) and key not in given:
                namespace.items[key.replace("-", "_")] = value


def _add_class(
    machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site
) -> Value:
    """``add_arguments(Config, dest="config")`` of simple-parsing, ``add_class_arguments`` of jsonargparse."""
    dest = text_of(kwargs.get("dest")) or text_of(args[1] if len(args) > 1 else None)
    cls = args[0] if args else None
    if dest is None or not isinstance(cls, Cls | Obj):
        self.state.open = True
        return NONE
    made = machine.call(cls, [], {}, site) if isinstance(cls, Cls) else cls
    if isinstance(made, Obj):
        self.state.configs[dest] = made
        for name, spec in made.cls.fields.items():
            current = made.attrs.get(name, NONE)
            option = Option((f"--{name}",), name, "store", None, None, current, None, site)
            self.state.options.setdefault(f"--{name}", option)
            del spec
    return NONE


def _nothing(machine: Machine, self: ArgumentParser, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Sym("text")


_METHODS = {
    "add_argument": _add_argument,
    "add": _add_argument,
    "add_arg": _add_argument,
    "add_argument_group": _group,
    "add_mutually_exclusive_group": _group,
    "set_defaults": _set_defaults,
    "get_default": _get_default,
    "add_subparsers": _add_subparsers,
    "add_arguments": _add_class,
    "add_class_arguments": _add_class,
    "parse_args": _parse,
    "parse": _parse,
    "parse_known_args": _parse_known,
    "parse_intermixed_args": _parse,
    "print_help": _nothing,
    "format_help": _nothing,
}


def make_parser(kind: str) -> NativeCall:
    """The model of a parser class."""

    def make(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        made = ArgumentParser(kind=kind)
        _take_parents(machine, made, kwargs)
        return made

    return make


def namespace(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``argparse.Namespace(**values)`` and ``types.SimpleNamespace``."""
    return Map({key: value for key, value in kwargs.items() if key != "**"}, attributes=True, open="**" in kwargs)


def add_trainer_options(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``Trainer.add_argparse_args(parser)``: options of a library, so any option may be given."""
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, ArgumentParser):
            arg.state.open = True
            return arg
    return unknown("parser")


def register(library: Library) -> None:
    """Add these models to a library."""
    for path in ("argparse.ArgumentParser", "configargparse.ArgumentParser", "configargparse.ArgParser",
        "jsonargparse.ArgumentParser", "simple_parsing.ArgumentParser",
        "deepspeed.argparse.ArgumentParser"):  # fmt: skip
        library.calls[path] = make_parser("argparse")
    library.endings["ArgumentParser"] = make_parser("argparse")
    library.calls["argparse.Namespace"] = namespace
    library.calls["types.SimpleNamespace"] = namespace
    library.endings["add_argparse_args"] = add_trainer_options
    library.endings["add_config_arguments"] = add_trainer_options
