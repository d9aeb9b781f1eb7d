"""Classes of the snapshot: defining them and making instances."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.trace import InstanceEvent
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    FieldSpec,
    Frame,
    Func,
    Lit,
    Map,
    Native,
    Obj,
    Origin,
    Seq,
    Site,
    Sym,
    Value,
)
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Machine

NETWORK_BASES = frozenset(
    {
        "torch.nn.Module", "torch.nn.Sequential", "nn.Module", "torch.nn.modules.Module", "flax.linen.Module",
        "flax.nnx.Module", "haiku.Module", "tensorflow.keras.Model", "tensorflow.keras.layers.Layer", "keras.Model",
        "keras.layers.Layer", "tensorflow.Module", "equinox.Module", "paddle.nn.Layer", "mindspore.nn.Cell",
        "transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel", "chainer.Chain",
        "torch.autograd.Function", "torch.nn.ModuleList", "oneflow.nn.Module", "jittor.Module", "mlx.nn.Module",
    }
)  # fmt: skip
"""Bases of networks: their constructors build layers and are not walked through."""

DATACLASS_BASES = ("BaseModel", "BaseSettings", "Struct", "SQLModel", "PrintableConfig", "FlexibleArgumentModel")
CONFIGURATION_BASES = frozenset({"CfgNode", "ConfigDict", "HParams"})
_DICTIONARIES = frozenset({"dict", "collections.OrderedDict", "collections.UserDict", "collections.defaultdict"})


def define_class(machine: Machine, node: ast.ClassDef, frame: Frame) -> Cls:
    """Evaluate a class body."""
    bases = [machine.eval(base, frame) for base in node.bases if not isinstance(base, ast.Starred)]
    made = Cls(node.name, frame.module, node, bases)
    inner = Frame(frame.module, made.attrs, parent=frame, depth=frame.depth, is_class=True)
    for cls in list(made.ancestry())[1:]:
        if isinstance(cls, Cls) and cls.decorated in ("dataclass", "enum", "namedtuple"):
            made.decorated = cls.decorated if made.decorated == "plain" else made.decorated
    libraries = made.library_bases()
    if any(
        base.rpartition(".")[2] in ("Enum", "IntEnum", "StrEnum", "Flag", "ExplicitEnum", "IntFlag")
        for base in libraries
    ):
        made.decorated = "enum"
    elif any(base.endswith("NamedTuple") for base in libraries):
        made.decorated = "namedtuple"
    elif any(base.rpartition(".")[2] in DATACLASS_BASES for base in libraries):
        made.decorated = "dataclass"
    machine.run_block(node.body, inner)
    for value in made.attrs.values():
        if isinstance(value, Func) and value.owner is None:
            value.owner = made
    _collect_fields(machine, made, node)
    if made.decorated == "enum":
        _make_members(made)
    return made


def _collect_fields(machine: Machine, made: Cls, node: ast.ClassDef) -> None:
    for base in reversed([cls for cls in made.ancestry() if isinstance(cls, Cls) and cls is not made]):
        made.fields.update(base.fields)
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            annotation = statement.annotation
            if "ClassVar" in _names_in(annotation):
                continue
            made.fields[name] = field_spec(name, made.attrs.get(name), annotation)
        elif (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Call)
            and isinstance(statement.targets[0], ast.Name)
            and "attrib"
            in _names_in(statement.value.func)
            | ({"attrib"} if {"attr", "ib"} <= _names_in(statement.value.func) else set())
        ):
            name = statement.targets[0].id
            made.fields[name] = field_spec(name, made.attrs.get(name), None)
    docs = _attribute_docs(node)
    for name, text in docs.items():
        if name in made.fields:
            made.fields[name].help = text


def _names_in(node: ast.AST) -> set[str]:
    return {
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    }


def _attribute_docs(node: ast.ClassDef) -> dict[str, str]:
    """String literals that stand below a field: its documentation."""
    docs: dict[str, str] = {}
    last: str | None = None
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            last = statement.target.id
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and last:
            docs[last] = str(statement.value.value)[:500]
            last = None
    return docs


def field_spec(name: str, value: Value | None, annotation: ast.expr | None) -> FieldSpec:
    """A field from what the class body assigns to it: a value or ``field(default=…)``."""
    if isinstance(value, Sym) and value.path.removesuffix("()").rpartition(".")[2] in (
        "field", "Field", "ib", "attrib", "arg", "option", "list_field", "subgroups", "choice", "flag", "conf", "HfArg",
    ):  # fmt: skip
        default = value.kwargs.get("default")
        if default is None and value.args and value.path.rpartition(".")[2] in ("Field()", "ib()", "attrib()", "arg()"):
            default = value.args[0]
        factory = value.kwargs.get("default_factory") or value.kwargs.get("factory")
        help_text = value.kwargs.get("help") or value.kwargs.get("description")
        metadata = value.kwargs.get("metadata")
        if help_text is None and isinstance(metadata, Map):
            help_text = metadata.items.get("help")
        in_init = value.kwargs.get("init")
        return FieldSpec(
            name,
            None if default is None else as_field_default(default, name),
            factory,
            annotation,
            in_init=not (isinstance(in_init, Lit) and in_init.value is False),
            help=str(help_text.value)[:500] if isinstance(help_text, Lit) else None,
        )
    return FieldSpec(name, None if value is None else as_field_default(value, name), None, annotation)


def as_field_default(value: Value, name: str) -> Value:
    """A literal in a class body is the default of its field."""
    if isinstance(value, Lit) and value.origin is not None and value.origin.kind is SourceKind.CODE:
        origin = value.origin
        return Lit(value.value, Origin(SourceKind.DEFAULT, origin.file, origin.line, name, origin.node, origin.inputs))
    return value


def _make_members(made: Cls) -> None:
    for name, value in list(made.attrs.items()):
        if name.startswith("_") or isinstance(value, Func | Cls | Native):
            continue
        member = Obj(made)
        member.attrs = {"name": Lit(name), "value": value, "_value_": value}
        made.attrs[name] = member


def instantiate(machine: Machine, cls: Cls, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``cls(*args, **kwargs)``."""
    if cls.decorated == "enum":
        return _member_by_value(cls, args)
    libraries = cls.library_bases()
    for base in libraries:
        # A subclass of a configuration map (yacs' CfgNode, ConfigDict, …) is used like the map itself.
        if base.rpartition(".")[2] in CONFIGURATION_BASES:
            return machine.call(Sym(base), args, kwargs, site)
    made = Obj(cls, site)
    machine.made(made.attrs)
    made.opaque = bool(libraries)
    if any(base in _DICTIONARIES or base.endswith(("EasyDict", "AttributeDict")) for base in libraries):
        made.payload = Map()
    elif any(base in ("list", "collections.UserList") for base in libraries):
        made.payload = Seq([])
    creator = cls.find("__new__")
    if isinstance(creator, Func) and cls.find("__init__") is None and creator.module is cls.module:
        result = machine.call(creator, [cls, *args], kwargs, site)
        if isinstance(result, Obj):
            return result
    initialiser = cls.find("__init__")
    event = InstanceEvent(cls, named_arguments(cls, initialiser, args, kwargs), site, made)
    machine.trace.instance(event)
    if is_network(libraries) or _derives_from_own_module(cls):
        # The outermost network shows what it is made of; the layers inside it are not walked through.
        if machine.network_depth == 0 and isinstance(initialiser, Func):
            machine.network_depth += 1
            try:
                machine.call(initialiser.bind(made), args, kwargs, site)
            finally:
                machine.network_depth -= 1
        return made
    if cls.decorated in ("dataclass", "namedtuple") and not (
        isinstance(initialiser, Func) and initialiser.owner is cls
    ):
        fill_fields(machine, made, args, kwargs, site)
        for base in libraries:
            last = base.rpartition(".")[2]
            if last in machine.library.instance_defaults:
                machine.library.instance_defaults[last](made.attrs, last)
        hook = cls.find("__post_init__") or cls.find("__attrs_post_init__") or cls.find("model_post_init")
        if isinstance(hook, Func):
            hook_args: list[Value] = [NONE] if hook.name == "model_post_init" else []
            machine.call(hook.bind(made), hook_args, {}, site)
        return made
    if isinstance(initialiser, Func):
        machine.call(initialiser.bind(made), args, kwargs, site)
    else:
        fill_payload(machine, made, args, kwargs)
    return made


def _derives_from_own_module(cls: Cls) -> bool:
    """Whether a class derives from the network base of a framework that lies in the snapshot itself."""
    return any(
        isinstance(base, Cls) and base.name == "Module" and re.search(r"(^|/)(nn|linen|nnx)/", base.module.file)
        for base in cls.ancestry()
    )


def is_network(libraries: list[str]) -> bool:
    """Whether a class derives from a network base of a library."""
    return any(
        base in NETWORK_BASES
        or base.startswith(("torch.nn.", "keras.layers.", "tensorflow.keras.layers."))
        or base.endswith(("nn.Module", "linen.Module", "keras.Model", "PreTrainedModel"))
        for base in libraries
    )


def fill_fields(machine: Machine, made: Obj, args: list[Value], kwargs: dict[str, Value], site: Site) -> None:
    """Set the fields of a dataclass instance from arguments and defaults."""
    specs = [spec for spec in made.cls.fields.values() if spec.in_init]
    given = dict(zip((spec.name for spec in specs), args, strict=False))
    given.update({key: value for key, value in kwargs.items() if key != "**"})
    for spec in made.cls.fields.values():
        if spec.name in given:
            made.attrs[spec.name] = given.pop(spec.name)
        elif spec.default is not None:
            made.attrs[spec.name] = spec.default
        elif spec.factory is not None:
            value = machine.call(spec.factory, [], {}, site)
            made.attrs[spec.name] = as_field_default(value, spec.name) if isinstance(value, Lit) else value
        else:
            made.attrs[spec.name] = Sym(f"{made.cls.name}.{spec.name}")
    if made.opaque:
        # Fields of a library base (TrainingArguments, …) are taken as they are given.
        made.attrs.update(given)
    if "**" in kwargs:
        made.opaque = True


def fill_payload(machine: Machine, made: Obj, args: list[Value], kwargs: dict[str, Value]) -> None:
    """What ``dict.__init__`` or ``list.__init__`` does to an instance that derives from one."""
    if isinstance(made.payload, Map):
        update = machine.attribute(made.payload, "update", Site("<evaluator>", 0))
        machine.call(update, args, kwargs, Site("<evaluator>", 0))
    elif isinstance(made.payload, Seq) and args:
        made.payload.items.extend(items_of(machine, args[0]) or [])


def _member_by_value(cls: Cls, args: list[Value]) -> Value:
    if args and isinstance(args[0], Obj) and args[0].cls is cls:
        return args[0]
    for member in cls.attrs.values():
        value = member.attrs.get("value") if isinstance(member, Obj) else None
        if args and isinstance(value, Lit) and isinstance(args[0], Lit) and value.value == args[0].value:
            return member
    return Sym(f"{cls.name}()")


def named_arguments(
    cls: Cls, initialiser: Value | None, args: list[Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    """Constructor arguments by parameter name, defaults included, without running anything."""
    named: dict[str, Value] = {}
    if isinstance(initialiser, Func):
        arguments = initialiser.node.args
        parameters = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][1:]
        tail = parameters[len(parameters) - len(initialiser.defaults) :]
        named.update(zip(tail, initialiser.defaults, strict=False))
        named.update(initialiser.kw_defaults)
        named.update(zip(parameters, args, strict=False))
    elif cls.fields:
        named.update({name: spec.default for name, spec in cls.fields.items() if spec.default is not None})
        named.update(zip(cls.fields, args, strict=False))
    else:
        named.update({f"arg{number}": value for number, value in enumerate(args)})
    named.update(kwargs)
    return named
