"""``HfArgumentParser`` and the settings classes of the transformers family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.configs.load import ConfigTextError, load_config
from lucid_pipelines.advisor.evaluator.iterate import items_of
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
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
)
from lucid_pipelines.advisor.libraries.command_words import read_pairs, words_of
from lucid_pipelines.advisor.libraries.files import path_text
from lucid_pipelines.advisor.libraries.option_text import by_annotation, guessed
from lucid_pipelines.advisor.metadata import SourceKind

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine

TRAINING_DEFAULTS: dict[str, str | int | float | bool | None] = {
    "num_train_epochs": 3.0,
    "max_steps": -1,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-5,
    "optim": "adamw_torch",
    "fp16": False,
    "bf16": False,
    "seed": 42,
    "dataloader_num_workers": 0,
    "lr_scheduler_type": "linear",
}
"""Defaults of ``transformers.TrainingArguments`` as its documentation gives them."""
OTHER_DEFAULTS: dict[str, dict[str, str | int | float | bool | None]] = {
    "SFTConfig": {"learning_rate": 2e-5},
    "DPOConfig": {"learning_rate": 1e-6},
    "GRPOConfig": {"learning_rate": 1e-6},
    "KTOConfig": {"learning_rate": 1e-6},
    "ORPOConfig": {"learning_rate": 1e-6},
    "RewardConfig": {"learning_rate": 1e-4},
}
SETTINGS_CLASSES = (
    "TrainingArguments",
    "Seq2SeqTrainingArguments",
    "SentenceTransformerTrainingArguments",
    *OTHER_DEFAULTS,
)


def library_default(name: str, value: str | int | float | bool | None, library: str) -> Lit:
    """A default that a library's documentation gives."""
    return Lit(value, Origin(SourceKind.LIBRARY, f"<{library}>", None, name))


def add_training_defaults(values: dict[str, Value], cls_name: str) -> None:
    """Fill in what the program leaves to the library."""
    defaults = {**TRAINING_DEFAULTS, **OTHER_DEFAULTS.get(cls_name, {})}
    for name, value in defaults.items():
        values.setdefault(name, library_default(name, value, "transformers"))


def training_arguments(cls_name: str) -> NativeCall:
    """``TrainingArguments(…)`` called in code."""

    def make(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        made = Map(
            {key: value for key, value in kwargs.items() if key != "**"}, attributes=True, open=True, label=cls_name
        )
        if args:
            made.items.setdefault("output_dir", args[0])
        if "**" not in kwargs:
            add_training_defaults(made.items, cls_name)
        machine.note_settings("training_arguments", made, site)
        return made

    return make


class HfArgumentParser(Model):
    """``HfArgumentParser((ModelArguments, TrainingArguments, …))``."""

    __slots__ = ("classes",)

    def __init__(self, classes: list[Value]) -> None:
        self.classes = classes

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name in ("parse_args_into_dataclasses", "parse_args_and_config"):
            return Native(name, self._parse_words)
        if name in ("parse_json_file", "parse_yaml_file"):
            return Native(name, self._parse_file)
        if name == "parse_dict":
            return Native(name, self._parse_dict)
        if name in ("add_argument", "set_defaults", "add_argument_group"):
            return Native(name, lambda m, args, kwargs, at: self if name == "add_argument_group" else NONE)
        return Sym(f"HfArgumentParser().{name}")

    def _parse_words(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        given = kwargs.get("args", args[0] if args else NONE)
        listed = items_of(machine, given) if not isinstance(given, Lit) else None
        words = [item for item in listed if isinstance(item, Lit)] if listed is not None else words_of(machine)
        pairs, _ = read_pairs(words)
        return self._fill(machine, pairs, {}, site)

    def _parse_file(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        given = args[0] if args else kwargs.get("json_file") or kwargs.get("yaml_file")
        file = path_text(machine, given) if given is not None else None
        try:
            content = load_config(machine.tree, file) if file is not None and machine.tree.is_file(file) else None
        except ConfigTextError:
            machine.trace.gap("unreadable configuration")
            content = None
        return self._fill(machine, [], content.items if isinstance(content, Map) else {}, site)

    def _parse_dict(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        source = args[0] if args else NONE
        return self._fill(machine, [], source.items if isinstance(source, Map) else {}, site)

    def _fill(self, machine: Machine, pairs: list[tuple[str, Lit]], values: dict[object, Value], site: Site) -> Value:
        for name, word in pairs:
            if name == "config":
                # trl reads a YAML file first; the command line stands above it.
                try:
                    file = path_text(machine, word)
                    content = load_config(machine.tree, file) if file is not None else None
                except ConfigTextError:
                    content = None
                if isinstance(content, Map):
                    values = {**content.items, **values}
        return Seq([self._one(machine, cls, pairs, values, site) for cls in self.classes], "tuple")

    def _one(
        self, machine: Machine, cls: Value, pairs: list[tuple[str, Lit]], values: dict[object, Value], site: Site
    ) -> Value:
        known = {str(key): value for key, value in values.items()}
        if isinstance(cls, Cls):
            from_library = [base.rpartition(".")[2] for base in cls.library_bases()]
            is_training = any(base in SETTINGS_CLASSES for base in from_library)
            named = {key: value for key, value in known.items() if key in cls.fields or is_training}
            for name, word in pairs:
                spec = cls.fields.get(name)
                if spec is not None:
                    named[name] = by_annotation(machine, spec.annotation, spec.default, word, site)
                elif is_training or cls.library_bases():
                    named[name] = guessed(word)
            made = machine.call(cls, [], named, site)
            if isinstance(made, Obj) and is_training:
                add_training_defaults(made.attrs, next(base for base in from_library if base in SETTINGS_CLASSES))
        else:
            label = cls.path.rpartition(".")[2] if isinstance(cls, Sym) else "arguments"
            items: dict[str, Value] = dict(known)
            items.update({name: guessed(word) for name, word in pairs})
            made = Map(dict(items), attributes=True, open=True, label=label)
            if label in SETTINGS_CLASSES:
                add_training_defaults(made.items, label)
        machine.note_settings("dataclass", made, site)
        return made


def hf_parser(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    given = args[0] if args else kwargs.get("dataclass_types", Seq([]))
    classes = items_of(machine, given) if isinstance(given, Seq) else [given]
    return HfArgumentParser(classes or [])


def register(library: Library) -> None:
    """Add these models to a library."""
    library.endings["HfArgumentParser"] = hf_parser
    library.endings["TrlParser"] = hf_parser
    library.endings["H4ArgumentParser"] = hf_parser
    for name in SETTINGS_CLASSES:
        library.endings[name] = training_arguments(name)
        library.instance_defaults[name] = add_training_defaults
