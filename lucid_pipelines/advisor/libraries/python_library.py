"""Python's standard library: environment, mathematics, copies, collections, functools."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.builtin_code import from_python, literal_eval
from lucid_pipelines.advisor.evaluator.builtin_functions import item_getter, leave
from lucid_pipelines.advisor.evaluator.expressions import shown_text
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.operators import binary, derived
from lucid_pipelines.advisor.evaluator.values import (
    FALSE,
    NONE,
    TRUE,
    Cls,
    FieldSpec,
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
from lucid_pipelines.advisor.libraries.files import path_text

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine

_MATH = ("ceil", "floor", "sqrt", "log", "log2", "log10", "exp", "pow", "gcd", "prod", "trunc", "cos", "sin")
MAX_COPY = 20_000


def mathematics(function: Callable[..., float]) -> NativeCall:
    """A function of ``math`` or its twin in numpy."""

    def call(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        if len(args) == 1 and isinstance(args[0], Seq) and function is math.prod:
            result: Value = Lit(1)
            for item in args[0].items:
                result = binary("*", result, item, site)
            return result
        known = [arg for arg in args if isinstance(arg, Lit) and isinstance(arg.value, int | float)]
        if len(known) != len(args) or not args:
            return unknown("math", *args)
        try:
            return derived(function(*(arg.value for arg in known)), tuple(known), site)
        except (ValueError, OverflowError, TypeError):
            return unknown("math")

    return call


def environ(machine: Machine) -> Value:
    """``os.environ``: what the launch line sets; other variables are taken to be unset."""
    return machine.env


def getenv(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return machine.call(machine.attribute(machine.env, "get", site), args, kwargs, site)


def arguments(machine: Machine) -> Value:
    """``sys.argv``."""
    return machine.argv


class ModuleTable(Model):
    """``sys.modules``."""

    __slots__ = ()

    def item(self, machine: Machine, key: Value, site: Site) -> Value | None:
        name = text_of(key)
        if machine.caller is not None and name in ("__main__", machine.caller.module.name):
            return machine.caller.module
        return machine.module_value(name, site) if name is not None else None


class ImportPath(Model):
    """``sys.path``: a folder that is added is searched for modules."""

    __slots__ = ()

    def holds(self, item: Value) -> bool | None:
        """Nothing that the program asks for before it adds it; adding twice does no harm."""
        return False

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        def add(m: Machine, args: list[Value], kwargs: dict[str, Value], at: Site) -> Value:
            folder = path_text(m, args[-1]) if args else None
            if folder is not None and m.tree.is_dir(folder) and folder not in m.modules.roots:
                m.modules.roots.append(folder)
                m.modules.forget_missing()
            return NONE

        return Native(name, add)


def deep_copy(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``copy.deepcopy`` of containers and instances; everything else is shared."""
    budget = [MAX_COPY]
    seen: dict[int, Value] = {}

    def copied(value: Value) -> Value:
        if id(value) in seen:
            return seen[id(value)]
        budget[0] -= 1
        if budget[0] < 0:
            return value
        if isinstance(value, Seq):
            made = Seq([], value.kind, open=value.open)
            seen[id(value)] = made
            made.items = [copied(item) for item in value.items]
            return made
        if isinstance(value, Map):
            twin = Map({}, attributes=value.attributes, open=value.open, label=value.label)
            twin.factory = value.factory
            seen[id(value)] = twin
            twin.items = {key: copied(item) for key, item in value.items.items()}
            return twin
        if isinstance(value, Obj) and value.cls.decorated != "enum":
            instance = Obj(value.cls, value.site)
            seen[id(value)] = instance
            instance.opaque = value.opaque
            instance.attrs = {key: copied(item) for key, item in value.attrs.items()}
            if value.payload is not None:
                payload = copied(value.payload)
                instance.payload = payload if isinstance(payload, Map | Seq) else None
            return instance
        return value

    return copied(args[0]) if args else NONE


def partial(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    if not args:
        return NONE
    target, fixed = args[0], args[1:]
    if isinstance(target, Sym):
        machine.note_call(f"{target.path}<partial>", fixed, kwargs, site)
    return Native("partial", lambda m, inner, named, at: m.call(target, [*fixed, *inner], {**kwargs, **named}, at))


def wraps(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return Native("wraps", lambda m, inner, named, at: inner[0] if inner else NONE)


def identity_decorator(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``lru_cache``, ``contextmanager`` and others that leave the function as it is."""
    if len(args) == 1 and isinstance(args[0], Func | Cls) and not kwargs:
        return args[0]
    return Native("decorator", lambda m, inner, named, at: inner[0] if inner else NONE)


def dataclass(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``@dataclass``, ``@attr.s``, ``@define`` with or without arguments."""

    def decorate(m: Machine, inner: list[Value], named: dict[str, Value], at: Site) -> Value:
        if inner and isinstance(inner[0], Cls):
            inner[0].decorated = "dataclass"
            return inner[0]
        return inner[0] if inner else NONE

    return decorate(machine, args, kwargs, site) if args and isinstance(args[0], Cls) else Native("dataclass", decorate)


def as_dictionary(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``dataclasses.asdict``."""
    value = args[0] if args else NONE
    if isinstance(value, Obj):
        made = Map(dict(value.attrs), open=value.opaque)
        for key, item in value.attrs.items():
            if isinstance(item, Obj) and item.cls.decorated == "dataclass":
                made.items[key] = as_dictionary(machine, [item], {}, site)
        return made
    return value if isinstance(value, Map) else Map(open=True)


def replace(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``dataclasses.replace``."""
    source = args[0] if args else NONE
    if not isinstance(source, Obj):
        return unknown("replace", *args)
    made = Obj(source.cls, site)
    made.opaque = source.opaque
    made.attrs = {**source.attrs, **kwargs}
    return made


def fields(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``dataclasses.fields``."""
    source = args[0] if args else NONE
    cls = source if isinstance(source, Cls) else source.cls if isinstance(source, Obj) else None
    if cls is None:
        return Seq([], open=True)
    return Seq(
        [
            Map(
                {
                    "name": Lit(spec.name),
                    "default": spec.default or Sym("dataclasses.MISSING"),
                    "type": Sym("annotation"),
                    "init": Lit(spec.in_init),
                    "metadata": Map(),
                },
                attributes=True,
            )
            for spec in cls.fields.values()
        ]
    )


def default_dictionary(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    made = Map()
    made.factory = args[0] if args and not (isinstance(args[0], Lit) and args[0].value is None) else None
    if len(args) > 1:
        machine.call(machine.attribute(made, "update", site), args[1:], {}, site)
    return made


def ordered_dictionary(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return machine.call(machine.library.builtins["dict"], args, kwargs, site)


def named_tuple(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``namedtuple("Name", "a b c")``."""
    names = text_of(args[1]) if len(args) > 1 else None
    listed = (
        names.replace(",", " ").split()
        if names is not None
        else [text for item in (items_of(machine, args[1]) or [] if len(args) > 1 else []) if (text := text_of(item))]
    )

    if machine.caller is None:
        return unknown("namedtuple")
    made = Cls((text_of(args[0]) if args else None) or "namedtuple", machine.caller.module, None, [])
    made.decorated = "namedtuple"
    defaults = items_of(machine, kwargs["defaults"]) or [] if "defaults" in kwargs else []
    for position, name in enumerate(listed):
        after = position - (len(listed) - len(defaults))
        made.fields[name] = FieldSpec(name, defaults[after] if after >= 0 else None)
    return made


def chain(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    joined: list[Value] = []
    for arg in args:
        items = items_of(machine, arg)
        if items is None:
            return unknown("chain", *args)
        joined.extend(items)
    return Seq(joined)


def split_words(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    text = text_of(args[0]) if args else None
    origin = args[0].origin if args and isinstance(args[0], Lit) else None
    return from_python(text.split(), origin) if text is not None else unknown("split")


def constant(value: Value) -> NativeCall:
    """A function that always gives the same value."""
    return lambda machine, args, kwargs, site: value


def first(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    return args[0] if args else NONE


def text_or_unknown(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    shown = shown_text(args[0]) if args else None
    return unknown("text") if shown is None else Lit(shown)


def register(library: Library) -> None:
    """Add these models to a library."""
    calls, attributes = library.calls, library.attributes
    for name in _MATH:
        calls[f"math.{name}"] = mathematics(getattr(math, name))
        calls[f"numpy.{name}"] = mathematics(getattr(math, name))
    calls["math.pow"] = mathematics(math.pow)
    attributes["math.inf"] = attributes["numpy.inf"] = lambda machine: Lit(math.inf)
    attributes["math.pi"] = lambda machine: Lit(math.pi)
    for name in ("numpy.int32", "numpy.int64", "numpy.float32", "numpy.float64", "numpy.array", "numpy.asarray"):
        calls[name] = first
    attributes["os.environ"] = environ
    attributes["sys.argv"] = arguments
    attributes["sys.modules"] = lambda machine: ModuleTable()
    attributes["sys.path"] = lambda machine: ImportPath()
    attributes["sys.executable"] = lambda machine: Lit("python")
    attributes["os.sep"] = lambda machine: Lit("/")
    attributes["os.name"] = lambda machine: Lit("posix")
    attributes["sys.platform"] = lambda machine: Lit("linux")
    attributes["os.cpu_count"] = lambda machine: Sym("os.cpu_count")
    attributes["typing.TYPE_CHECKING"] = lambda machine: FALSE
    attributes["sys.version_info"] = lambda machine: Seq([Lit(3), Lit(11), Lit(0)], "tuple")
    calls["os.getenv"] = getenv
    calls["sys.exit"] = calls["os._exit"] = leave
    calls["copy.deepcopy"] = deep_copy
    calls["copy.copy"] = lambda machine, args, kwargs, site: _shallow(machine, args, site)
    calls["functools.partial"] = partial
    calls["functools.wraps"] = wraps
    for name in ("functools.lru_cache", "functools.cache", "contextlib.contextmanager", "torch.no_grad",
        "torch.inference_mode", "torch.jit.script", "numba.jit", "numba.njit",
        "torch.distributed.elastic.multiprocessing.errors.record", "record", "beartype.beartype",
        "typing.no_type_check", "gin.configurable", "gin.register", "functools.total_ordering",
        "typing.runtime_checkable", "tensorflow.function"):  # fmt: skip
        calls[name] = identity_decorator
    for name in ("dataclasses.dataclass", "attr.s", "attr.attrs", "attr.dataclass", "attr.define", "attrs.define",
        "attrs.frozen", "attr.frozen", "flax.struct.dataclass", "chex.dataclass", "pydantic.dataclasses.dataclass",
        "chz.chz", "dataclass", "configclass", "hydra_zen.hydrated_dataclass"):  # fmt: skip
        calls[name] = dataclass
    library.endings["dataclass"] = dataclass
    calls["dataclasses.asdict"] = calls["attr.asdict"] = calls["attrs.asdict"] = as_dictionary
    calls["dataclasses.replace"] = calls["attr.evolve"] = calls["attrs.evolve"] = replace
    calls["dataclasses.fields"] = fields
    calls["dataclasses.is_dataclass"] = lambda machine, args, kwargs, site: Lit(
        bool(args) and isinstance(args[0], Obj | Cls)
    )
    calls["collections.defaultdict"] = default_dictionary
    calls["collections.OrderedDict"] = ordered_dictionary
    calls["collections.namedtuple"] = named_tuple
    calls["collections.deque"] = lambda machine, args, kwargs, site: Seq(
        list((items_of(machine, args[0]) or []) if args else [])
    )
    calls["itertools.chain"] = chain
    calls["operator.itemgetter"] = item_getter
    calls["ast.literal_eval"] = literal_eval
    calls["shlex.split"] = split_words
    calls["str"] = text_or_unknown
    for name in ("typing.cast",):
        calls[name] = lambda machine, args, kwargs, site: args[1] if len(args) > 1 else NONE
    calls["distutils.util.strtobool"] = lambda machine, args, kwargs, site: (
        Lit(str(text_of(args[0])).lower() in ("y", "yes", "t", "true", "on", "1"), args[0].origin)
        if args and isinstance(args[0], Lit)
        else unknown("bool")
    )
    calls["importlib.util.find_spec"] = constant(TRUE)


def _shallow(machine: Machine, args: list[Value], site: Site) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Seq | Map):
        return machine.call(machine.attribute(value, "copy", site), [], {}, site)
    if isinstance(value, Obj):
        made = Obj(value.cls, value.site)
        made.attrs = dict(value.attrs)
        made.payload, made.opaque = value.payload, value.opaque
        return made
    return value
