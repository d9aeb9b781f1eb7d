"""Values of the abstract evaluator. Every known scalar remembers where it was written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

Plain = str | int | float | bool | bytes | complex | None


@dataclass(slots=True, frozen=True)
class Site:
    """A place in a file of the snapshot."""

    file: str
    line: int


@dataclass(slots=True)
class Origin:
    """Where a scalar comes from.

    Attributes:
        name: the setting, variable or option that it was first bound to.
        node: the expression that computed it, for its formula.
        inputs: the scalars it was computed from.
    """

    kind: SourceKind
    file: str
    line: int | None = None
    name: str | None = None
    node: ast.AST | None = None
    inputs: tuple[Lit, ...] = ()

    def named(self, name: str) -> Origin:
        """The same origin under the first name it is bound to."""
        return Origin(self.kind, self.file, self.line, self.name or name, self.node, self.inputs)


class Value:
    """Base of everything an expression can evaluate to."""

    __slots__ = ()


class Lit(Value):
    """A known scalar: string, number, boolean, bytes or ``None``."""

    __slots__ = ("origin", "value")

    def __init__(self, value: Plain, origin: Origin | None = None) -> None:
        self.value = value
        self.origin = origin

    def __repr__(self) -> str:
        return f"Lit({self.value!r})"


class Seq(Value):
    """A list, tuple or set whose length is known, unless ``open`` says that more may follow."""

    __slots__ = ("items", "kind", "open")

    def __init__(self, items: list[Value], kind: str = "list", *, open: bool = False) -> None:
        self.items = items
        self.kind = kind
        self.open = open

    def __repr__(self) -> str:
        return f"Seq({self.kind}, {self.items!r})"


class Map(Value):
    """A dictionary with plain keys.

    Attributes:
        attributes: items can be reached as attributes too (namespace, EasyDict, OmegaConf, …).
        open: other keys may exist, so a missing key is unknown and no error.
        nested: maps inside are reached as attributes too.
    """

    __slots__ = ("attributes", "factory", "items", "label", "open")

    def __init__(
        self,
        items: dict[Any, Value] | None = None,
        *,
        attributes: bool = False,
        open: bool = False,
        label: str | None = None,
    ) -> None:
        self.items: dict[Any, Value] = {} if items is None else items
        self.attributes = attributes
        self.open = open
        self.label = label
        self.factory: Value | None = None

    def __repr__(self) -> str:
        return f"Map({self.items!r})"


class Sym(Value):
    """Something unknown: an object of a library, or a result that depends on one.

    Attributes:
        path: dotted name of the library object, e.g. ``torch.optim.AdamW``; for the result of a call it
            ends in ``()``; for an operation it is the operator, e.g. ``//``.
        args, kwargs: operands or call arguments.
        tags: what it depends on: ``world_size``, ``gpu_count``, ``outside_file``, …
    """

    __slots__ = ("args", "kwargs", "path", "site", "tags")

    def __init__(
        self,
        path: str,
        args: Sequence[Value] = (),
        kwargs: dict[str, Value] | None = None,
        tags: frozenset[str] = frozenset(),
        site: Site | None = None,
    ) -> None:
        self.path = path
        self.args = tuple(args)
        self.kwargs = kwargs or {}
        self.tags = tags
        self.site = site

    def __repr__(self) -> str:
        return f"Sym({self.path})"


class Func(Value):
    """A function or method written in the snapshot."""

    __slots__ = ("bound", "closure", "defaults", "extra", "kw_defaults", "module", "name", "node", "owner", "role")

    def __init__(
        self,
        name: str,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        module: Mod,
        closure: Frame | None,
        defaults: list[Value],
        kw_defaults: dict[str, Value],
    ) -> None:
        self.name = name
        self.node = node
        self.module = module
        self.closure = closure
        self.defaults = defaults
        self.kw_defaults = kw_defaults
        self.bound: Value | None = None
        self.owner: Cls | None = None
        self.role = "function"
        self.extra: dict[str, Any] = {}

    def bind(self, receiver: Value) -> Func:
        """The method bound to its receiver."""
        twin = Func(self.name, self.node, self.module, self.closure, self.defaults, self.kw_defaults)
        twin.bound = receiver
        twin.owner = self.owner
        twin.role = self.role
        twin.extra = self.extra
        return twin

    def __repr__(self) -> str:
        return f"Func({self.name})"


class Cls(Value):
    """A class written in the snapshot.

    Attributes:
        fields: annotated class variables in order, for dataclasses and their kin.
        decorated: how instances are made: ``dataclass``, ``enum``, ``namedtuple`` or ``plain``.
    """

    __slots__ = ("attrs", "bases", "decorated", "fields", "line", "module", "name", "node")

    def __init__(self, name: str, module: Mod, node: ast.ClassDef | None, bases: list[Value]) -> None:
        self.name = name
        self.module = module
        self.node = node
        self.bases = bases
        self.attrs: dict[str, Value] = {}
        self.fields: dict[str, FieldSpec] = {}
        self.decorated = "plain"
        self.line = node.lineno if node is not None else None

    def ancestry(self) -> Iterator[Value]:
        """This class and its bases, depth first; library bases come as :class:`Sym`."""
        seen: set[int] = set()
        todo: list[Value] = [self]
        while todo:
            current = todo.pop(0)
            if id(current) in seen or len(seen) > 200:
                continue
            seen.add(id(current))
            yield current
            if isinstance(current, Cls):
                todo = list(current.bases) + todo

    def find(self, name: str) -> Value | None:
        """A class attribute, looked up along the bases."""
        for cls in self.ancestry():
            if isinstance(cls, Cls) and name in cls.attrs:
                return cls.attrs[name]
        return None

    def library_bases(self) -> list[str]:
        """Dotted names of the library classes among the ancestors."""
        return [
            cls.path if isinstance(cls, Sym) else cls.name
            for cls in self.ancestry()
            if isinstance(cls, Sym | Native) and not (isinstance(cls, Sym) and cls.path == "object")
        ]

    def __repr__(self) -> str:
        return f"Cls({self.name})"


@dataclass(slots=True)
class FieldSpec:
    """One field of a dataclass-like class."""

    name: str
    default: Value | None = None
    factory: Value | None = None
    annotation: ast.expr | None = None
    in_init: bool = True
    help: str | None = None


class Obj(Value):
    """An instance of a class written in the snapshot.

    ``payload`` is the dictionary or list inside an instance whose class derives from one.
    """

    __slots__ = ("attrs", "cls", "opaque", "payload", "site")

    def __init__(self, cls: Cls, site: Site | None = None) -> None:
        self.cls = cls
        self.attrs: dict[str, Value] = {}
        self.payload: Map | Seq | None = None
        self.site = site
        self.opaque = False

    def __repr__(self) -> str:
        return f"Obj({self.cls.name})"


class Mod(Value):
    """A module of the snapshot; its body runs when a name of it is first needed."""

    __slots__ = ("file", "globals", "kind", "name", "package", "state", "tree")

    def __init__(self, name: str, file: str, package: str, kind: SourceKind = SourceKind.CODE) -> None:
        self.name = name
        self.file = file
        self.package = package
        self.kind = kind
        self.globals: dict[str, Value] = {}
        self.state = "new"
        self.tree: ast.Module | None = None

    def __repr__(self) -> str:
        return f"Mod({self.name})"


class Lazy(Value):
    """A name imported from a module that has not been run yet."""

    __slots__ = ("attr", "level", "module", "package", "site")

    def __init__(self, module: str, attr: str | None, package: str, level: int, site: Site) -> None:
        self.module = module
        self.attr = attr
        self.package = package
        self.level = level
        self.site = site


NativeCall = Callable[["Machine", list[Value], dict[str, Value], Site], Value]


class Native(Value):
    """A function of Python or of a library that is modelled here."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: NativeCall) -> None:
        self.name = name
        self.call = call

    def __repr__(self) -> str:
        return f"Native({self.name})"


class Model(Value):
    """Base of library objects that are modelled with state (parsers, configurations, paths, …)."""

    __slots__ = ()

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        """An attribute or bound method; ``None`` when this model does not know it."""
        return None

    def set(self, machine: Machine, name: str, value: Value) -> bool:
        """Set an attribute; whether it was taken."""
        return False

    def holds(self, item: Value) -> bool | None:
        """``item in self``; ``None`` when this is not known."""
        return None

    def invoke(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value | None:
        """Call the object itself."""
        return None

    def invoke_operator(self, machine: Machine, symbol: str, right: Value, site: Site) -> Value | None:
        """``self symbol right``."""
        return None

    def item(self, machine: Machine, key: Value, site: Site) -> Value | None:
        """``self[key]``."""
        return None

    def set_item(self, machine: Machine, key: Value, value: Value) -> None:
        """``self[key] = value``."""

    def iterate(self, machine: Machine) -> list[Value] | None:
        """The items, when known."""
        return None

    def text(self) -> str | None:
        """What ``str()`` gives, when known."""
        return None


@dataclass(slots=True)
class Frame:
    """Names visible while one function, class or module body is evaluated."""

    module: Mod
    names: dict[str, Value]
    parent: Frame | None = None
    function: Func | None = None
    depth: int = 0
    global_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    maybe_returns: list[Value] = field(default_factory=list)
    yields: list[Value] | None = None
    is_class: bool = False


NONE = Lit(None)
TRUE = Lit(True)
FALSE = Lit(False)


def unknown(reason: str = "unknown", *parts: Value, site: Site | None = None) -> Sym:
    """A symbol for a result that depends on ``parts``; it inherits what they depend on."""
    tags: frozenset[str] = frozenset()
    for part in parts:
        if isinstance(part, Sym) and part.tags:
            tags |= part.tags
    return Sym(reason, parts, tags=tags, site=site)


def plain(value: Value | None) -> Any:
    """The Python value of a :class:`Lit`; ``None`` for anything else."""
    return value.value if isinstance(value, Lit) else None


def text_of(value: Value | None) -> str | None:
    """The string of a known string, else ``None``."""
    return value.value if isinstance(value, Lit) and isinstance(value.value, str) else None


def whole_of(value: Value | None) -> int | None:
    """The integer of a known integer (not a boolean), else ``None``."""
    if isinstance(value, Lit) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    return None
