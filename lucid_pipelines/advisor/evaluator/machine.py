"""The abstract machine: names, modules, attributes, calls and branches.

It walks the syntax tree of a program as Python would run it, with the program's real options and
configuration. What is known is computed; what is not (libraries, data, hardware) becomes a symbol that
remembers what it depends on. No code of the snapshot is ever executed, and nothing outside the snapshot
is read.
"""

from __future__ import annotations

import ast
import builtins
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lucid_pipelines.advisor.evaluator.flatten import scalars
from lucid_pipelines.advisor.evaluator.modules import Modules
from lucid_pipelines.advisor.evaluator.trace import CallEvent, SettingsEvent, Trace
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Frame,
    Lazy,
    Lit,
    Map,
    Mod,
    NativeCall,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.branches import Journal


class BudgetSpentError(Exception):
    """The step or time budget of an evaluation is used up. What was noted so far stands."""


class RaisedError(Exception):
    """An exception of the evaluated program.

    Attributes:
        name: class name of the exception.
    """

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or name)
        self.name = name


@dataclass(frozen=True, slots=True)
class World:
    """What the launcher tells the program about its processes and devices; ``None`` = not known.

    Attributes:
        world_size: processes in all.
        local_size: processes on one node.
        gpus: devices that one process can see.
        distributed: whether a launcher sets RANK and WORLD_SIZE.
    """

    world_size: int | None = None
    local_size: int | None = None
    gpus: int | None = None
    distributed: bool = False
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds on one evaluation."""

    steps: int = 700_000
    items: int = 12_000_000
    """Items of containers and characters of texts that may be made in all."""
    call_depth: int = 45
    calls_per_function: int = 300
    uncertain_calls: int = 40
    """The same for calls inside branches whose condition is unknown."""
    deadline: Callable[[], bool] = field(default=lambda: False)


@dataclass(slots=True)
class Signal:
    """How a block was left: ``return``, ``break`` or ``continue``."""

    kind: str
    value: Value = NONE


@dataclass(frozen=True, slots=True)
class Semantics:
    """How each kind of syntax node is evaluated: handlers by node type."""

    expressions: Mapping[type[ast.AST], Callable[[Machine, Any, Frame], Value]]
    statements: Mapping[type[ast.AST], Callable[[Machine, Any, Frame], Signal | None]]
    call: Callable[[Machine, Value, list[Value], dict[str, Value], Site], Value]
    attribute: Callable[[Machine, Value, str, Site, bool], Value]


@dataclass(slots=True)
class Library:
    """Models of library calls and attributes by dotted name, and of builtins by name."""

    calls: dict[str, NativeCall] = field(default_factory=dict)
    endings: dict[str, NativeCall] = field(default_factory=dict)
    attributes: dict[str, Callable[[Machine], Value]] = field(default_factory=dict)
    builtins: dict[str, Value] = field(default_factory=dict)
    instance_defaults: dict[str, Callable[[dict[str, Value], str], None]] = field(default_factory=dict)
    """What a library base (by its last name) adds to the fields of an instance."""
    map_methods: dict[str, Callable[..., Value]] = field(default_factory=dict)
    """Further methods of configuration maps: called with machine, map, args, kwargs and site."""


def deadline_after(seconds: float, clock: Callable[[], float] = time.monotonic) -> Callable[[], bool]:
    """A function that says whether ``seconds`` have passed since now."""
    end = clock() + seconds
    return lambda: clock() > end


class Machine:
    """One evaluation of one program.

    Args:
        tree: the snapshot.
        semantics: handlers of the syntax.
        argv: words of the command line, the program's own name first.
        env: environment variables of the launch line.
        cwd: working directory inside the snapshot.
        library: models of what is not in the snapshot.
        world: processes and devices.
    """

    def __init__(
        self,
        tree: SourceTree,
        semantics: Semantics,
        library: Library,
        argv: Sequence[Lit],
        env: Mapping[str, Lit],
        cwd: str = "",
        roots: Sequence[str] = (),
        world: World | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.tree = tree
        self.semantics = semantics
        self.library = library
        self.argv = Seq(list(argv))
        self.env = Map(dict(env))
        self.cwd = cwd
        self.world = world or World()
        self.budget = budget or Budget()
        self.trace = Trace()
        self.modules = Modules(tree, roots)
        self.steps = 0
        self.depth = 0
        self.handlers: list[tuple[str, ...]] = []
        self.journal: Journal | None = None
        self.caller: Frame | None = None
        """The frame of the call that is being made, for builtins that look at it."""
        self.call_counts: dict[int, int] = {}
        self.network_depth = 0
        self._star_steps = 0
        self._spent = 0
        self.known_builtins = frozenset(dir(builtins))
        self.watched: frozenset[str] = frozenset()
        """Names of parameters whose values are worth noting."""
        self.store: dict[str, object] = {}
        """State that library models share (parsers, flags, registries)."""

    # ------------------------------------------------------------------ budget

    def tick(self) -> None:
        """Count one step.

        Raises:
            BudgetSpentError: the budget is used up.
        """
        self.steps += 1
        if self.steps > self.budget.steps:
            raise BudgetSpentError(f"{self.budget.steps} steps")
        if self.steps & 0x3FF == 0 and self.budget.deadline():
            raise BudgetSpentError("time")

    def spend(self, size: int) -> None:
        """Count items of new containers and characters of new texts, so that memory stays bounded.

        Raises:
            BudgetSpentError: more than ``budget.items`` in all.
        """
        self._spent += size
        if self._spent > self.budget.items:
            raise BudgetSpentError("memory")

    # ------------------------------------------------------------------ names

    def lookup(self, name: str, frame: Frame) -> Value | None:
        """The value of a name, or ``None`` when nothing binds it."""
        current: Frame | None = frame
        first = True
        while current is not None:
            if (first or not current.is_class) and name in current.names:
                return self.settle(current.names, name)
            first = False
            current = current.parent
        if name in frame.module.globals:
            return self.settle(frame.module.globals, name)
        return self.library.builtins.get(name)

    def settle(self, names: dict[Any, Value], name: Any) -> Value:
        """A value out of a dictionary of names; an imported name is resolved on first use."""
        value = names[name]
        if isinstance(value, Lazy):
            value = self.resolve_import(value)
            names[name] = value
        return value

    def bind(self, name: str, value: Value, frame: Frame) -> None:
        """Assign a plain name in the right scope, and note known scalars."""
        names = frame.names
        if name in frame.global_names:
            names = frame.module.globals
        elif name in frame.outer_names:
            outer = frame.parent
            while outer is not None and name not in outer.names:
                outer = outer.parent
            names = outer.names if outer is not None else names
        self.put(names, name, value)

    def put(self, names: dict[Any, Value], name: Any, value: Value) -> None:
        """Write to a dictionary, remembering the old value inside an uncertain branch."""
        if self.journal is not None:
            self.journal.note(names, name)
        names[name] = value

    def made(self, names: object) -> None:
        """Announce a dictionary or sequence that did not exist before: its changes need no undoing."""
        if self.journal is not None:
            self.journal.fresh[id(names)] = names

    def touch(self, value: Seq) -> None:
        """Announce that a sequence is about to change in place."""
        if self.journal is not None:
            self.journal.note_sequence(value)

    # ------------------------------------------------------------------ modules

    def resolve_import(self, lazy: Lazy) -> Value:
        """The module, or the name in it, that an import statement asked for."""
        target = self.modules.absolute(lazy.module, lazy.package, lazy.level)
        if lazy.attr is None:
            return self.module_value(target, lazy.site)
        module = self.modules.find(target)
        if module is not None:
            self.run_module(module)
            if lazy.attr in module.globals:
                found = module.globals[lazy.attr]
                if not (isinstance(found, Lazy) and found.module == lazy.module and found.attr == lazy.attr):
                    return self.settle(module.globals, lazy.attr)
            inner = self.modules.find(f"{target}.{lazy.attr}")
            if inner is not None:
                return inner
            return self.star_name(module, lazy.attr)
        inner = self.modules.find(f"{target}.{lazy.attr}")
        if inner is not None:
            return inner
        return self.library_name(f"{target}.{lazy.attr}", lazy.site)

    def module_value(self, name: str, site: Site) -> Value:
        """A module of the snapshot, else the symbol of a library module."""
        module = self.modules.find(name)
        return module if module is not None else self.library_name(name, site)

    def may_run_stars(self) -> bool:
        """Whether star imports may still run whole modules: packages of hundreds of models would eat the budget."""
        return self._star_steps < self.budget.steps * 0.12

    def run_star(self, module: Mod) -> None:
        """Run a module for its names, and count what that costs."""
        before = self.steps
        self.run_module(module)
        self._star_steps += self.steps - before

    def star_name(self, module: Mod, name: str) -> Value:
        """A name that a module may have got by ``from library import *``."""
        stars = module.globals.get("*")
        if isinstance(stars, Seq):
            for star in reversed(stars.items):
                if isinstance(star, Mod):
                    if star.state == "new" and not self.modules.defines(star.file, name):
                        continue
                    self.run_module(star)
                    if name in star.globals:
                        return self.settle(star.globals, name)
                elif isinstance(star, Sym):
                    return self.library_name(f"{star.path}.{name}", Site(module.file, 1))
        return Sym(f"{module.name}.{name}")

    def library_name(self, path: str, site: Site) -> Value:
        """The model or the symbol of something outside the snapshot."""
        top = path.partition(".")[0]
        if top.isidentifier() and top not in self.trace.imports:
            self.trace.imports[top] = site
        maker = self.library.attributes.get(path)
        return maker(self) if maker is not None else Sym(path[:240])

    def run_module(self, module: Mod) -> None:
        """Evaluate a module's body once."""
        if module.state != "new":
            return
        module.state = "running"
        if self.budget.deadline():
            raise BudgetSpentError("time")
        tree = self.modules.syntax(module.file)
        if tree is None:
            self.trace.gap(f"unreadable module {module.file}")
            module.state = "done"
            return
        module.globals.setdefault("__name__", Lit(module.name))
        module.globals.setdefault("__file__", Lit(module.file, Origin(SourceKind.CODE, module.file, 1)))
        module.tree = tree
        frame = Frame(module, module.globals, depth=self.depth)
        # A module that is needed first inside an uncertain branch stays loaded after it.
        journal, self.journal = self.journal, None
        handlers, self.handlers = self.handlers, []
        try:
            self.run_block(tree.body, frame)
        finally:
            self.journal = journal
            self.handlers = handlers
            module.state = "done"

    # ------------------------------------------------------------------ errors

    def can_catch(self, name: str) -> bool:
        """Whether the evaluated program is inside a ``try`` that would catch this exception."""
        return any(catches(kinds, name) for kinds in self.handlers)

    def fail(self, name: str, message: str) -> Value:
        """Raise in the evaluated program when it would catch it; otherwise the result is unknown.

        A job that runs does not raise here, so an error that nobody catches is a gap of this model.
        """
        if self.can_catch(name):
            raise RaisedError(name, message)
        self.trace.gap(name)
        return unknown(name)

    def error_type(self, name: str) -> RaisedError:
        """An exception of the evaluated program, for models that raise."""
        return RaisedError(name)

    # ------------------------------------------------------------------ evaluation, by the handlers of the semantics

    def eval(self, node: ast.AST, frame: Frame) -> Value:
        """Evaluate an expression."""
        self.tick()
        handler = self.semantics.expressions.get(type(node))
        return unknown(type(node).__name__) if handler is None else handler(self, node, frame)

    def run_block(self, body: Sequence[ast.stmt], frame: Frame) -> Signal | None:
        """Run statements until one of them leaves the block."""
        for statement in body:
            self.tick()
            handler = self.semantics.statements.get(type(statement))
            if handler is None:
                continue
            try:
                signal = handler(self, statement, frame)
            except RecursionError:
                self.trace.gap("recursion")
                continue
            except RaisedError as error:
                if self.journal is not None or self.can_catch(error.name):
                    raise
                # Nobody catches it, and the job is taken to run: go on behind the statement.
                self.trace.gap(f"uncaught {error.name}")
                continue
            if signal is not None:
                return signal
        return None

    def call(self, callee: Value, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        """Call any value."""
        return self.semantics.call(self, callee, args, kwargs, site)

    def note_call(self, path: str, args: list[Value], kwargs: dict[str, Value], site: Site) -> Sym:
        """Record the call of a library object and return the symbol of its result."""
        result = Sym(path + "()" if len(path) < 200 else "long()", args, kwargs, site=site)
        self.trace.call(CallEvent(path, args, kwargs, site, result))
        return result

    def note_parameters(self, names: Mapping[str, Value], site: Site) -> None:
        """Record scalars that a function of the program gets: computed ones, and those of watched names."""
        for name, value in names.items():
            if not isinstance(value, Lit) or value.origin is None:
                continue
            if value.origin.kind is SourceKind.COMPUTED:
                self.trace.assign(name, value, site, ("parameter", site))
            elif name in self.watched and value.origin.name == name:
                kept = self.trace.parameters.setdefault(name, [])
                if len(kept) < 20:
                    kept.append(value)

    def note_settings(self, kind: str, container: Value, site: Site) -> None:
        """Record a container of settings as it is now."""
        self.trace.settings.append(SettingsEvent(kind, container, site, dict(scalars(container))))

    def attribute(self, owner: Value, name: str, site: Site, *, strict: bool = False) -> Value:
        """``owner.name``; with ``strict`` a missing attribute raises in the evaluated program."""
        return self.semantics.attribute(self, owner, name, site, strict)


_PARENTS: Mapping[str, tuple[str, ...]] = {
    "KeyError": ("LookupError",),
    "IndexError": ("LookupError",),
    "FileNotFoundError": ("OSError", "IOError", "EnvironmentError"),
    "ModuleNotFoundError": ("ImportError",),
    "ZeroDivisionError": ("ArithmeticError",),
    "NotImplementedError": ("RuntimeError",),
    "JSONDecodeError": ("ValueError",),
    "UnicodeDecodeError": ("ValueError",),
}


def catches(kinds: tuple[str, ...], name: str) -> bool:
    """Whether a handler for ``kinds`` catches the exception ``name``."""
    if not kinds or "Exception" in kinds or "BaseException" in kinds or name in kinds:
        return True
    return any(parent in kinds for parent in _PARENTS.get(name, ()))
