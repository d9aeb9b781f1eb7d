"""Every setting that a launch, its configuration files and its program name, in one table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from lucid_pipelines.advisor.evaluator.flatten import scalars
from lucid_pipelines.advisor.evaluator.trace import Assignment, Trace
from lucid_pipelines.advisor.evaluator.values import Cls, Lit, Map, Obj, Origin, Value
from lucid_pipelines.advisor.metadata import SourceKind


class Trust(IntEnum):
    """How surely a setting is one that the program uses."""

    PARAMETER = 0
    """What some function of the program got for a parameter."""
    ASSIGNMENT = 1
    """A variable of the program."""
    LOOSE = 2
    """Named on the launch line or in a file that it names; whether the program reads it was not followed."""
    INSTANCE = 3
    """A field of a settings object that the program makes."""
    PARSED = 4
    """Parsed or loaded by the program itself."""


@dataclass(slots=True)
class Setting:
    """One named scalar.

    Attributes:
        path: dotted path inside its container.
        name: last part of the path, normalised: ``batch_size``.
        initial: as it was set.
        final: as the program leaves it; ``None`` when it became unknown.
        container: what kind of thing it belongs to.
    """

    path: str
    name: str
    initial: Lit
    final: Lit | None
    trust: Trust
    container: str

    @property
    def kind(self) -> SourceKind:
        return self.initial.origin.kind if self.initial.origin is not None else SourceKind.CODE

    @property
    def level(self) -> int:
        """3 said at launch, 2 in a configuration, 1 in the program, 0 by a library."""
        return _LEVELS[self.kind]


_LEVELS = {
    SourceKind.LIBRARY: 0,
    SourceKind.LANGUAGE_MODEL: 0,
    SourceKind.DEFAULT: 1,
    SourceKind.CODE: 1,
    SourceKind.COMPUTED: 1,
    SourceKind.CONFIG: 2,
    SourceKind.COMMAND_LINE: 3,
    SourceKind.ENVIRONMENT: 3,
    SourceKind.LAUNCHER: 3,
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER_PHASE = re.compile(
    r"(^|[._])(val|valid|validation|eval|evaluation|test|dev|infer|inference|predict|generation|"
    r"gen_kwargs|sampling|logging|probe|linear_eval|rollout_eval)([._]|$)")  # fmt: skip


def normal_name(name: str) -> str:
    """``--learningRate`` and ``LEARNING-RATE`` as ``learning_rate``."""
    plain = name.strip("-_ ")
    if not plain.isupper():
        plain = _CAMEL.sub("_", plain)
    return plain.lower().replace("-", "_")


def is_other_phase(path: str) -> bool:
    """Whether a setting belongs to evaluation, testing or generation rather than to training."""
    return _OTHER_PHASE.search(normal_name(path)) is not None


@dataclass(slots=True)
class SettingsTable:
    """All settings, found by name."""

    settings: list[Setting] = field(default_factory=list)
    launch_values: frozenset[str] = frozenset()
    """Plain values on the launch line: they choose sections of configuration files."""
    _by_name: dict[str, list[Setting]] = field(default_factory=dict)

    def add(self, path: str, initial: Lit, final: Lit | None, trust: Trust, container: str) -> None:
        parts = path.split(".")
        # The first item of a list stands for the list: ``lr: [0.0005]``.
        last = parts[-2] if parts[-1] == "0" and len(parts) > 1 else path if parts[-1].isdigit() else parts[-1]
        name = normal_name(last)
        setting = Setting(path, name, initial, final, trust, container)
        self.settings.append(setting)
        self._by_name.setdefault(name, []).append(setting)

    def named(self, *names: str) -> list[Setting]:
        """Settings with one of these normalised names."""
        return [setting for name in names for setting in self._by_name.get(name, [])]

    def matching(self, pattern: re.Pattern[str]) -> Iterator[Setting]:
        """Settings whose normalised name matches as a whole."""
        for name, settings in self._by_name.items():
            if pattern.fullmatch(name):
                yield from settings

    def under(self, container: str) -> list[Setting]:
        """Settings of one kind of container."""
        return [setting for setting in self.settings if setting.container == container]


_SETTINGS_CLASS = re.compile(r"(config|cfg|args|arguments|params|hyper|hparams|setting|options|recipe)", re.IGNORECASE)


def build_table(
    trace: Trace | None,
    launch_words: Iterable[Lit],
    config_files: Iterable[tuple[str, Value]],
    main_names: dict[str, Value] | None,
) -> SettingsTable:
    """Collect the settings of one job.

    Args:
        trace: what the walk noted; ``None`` when there was no program to walk.
        launch_words: words after the program on the launch line.
        config_files: files that the launch line names, with their content.
        main_names: global variables of the entry after the walk.
    """
    table = SettingsTable()
    if trace is not None:
        _add_containers(table, trace)
        _add_instances(table, trace)
        _add_assignments(table, trace, main_names or {})
        _add_parameters(table, trace)
    # A file that the program loads itself counts as the program uses it.
    loaded = {event.site.file for event in trace.settings} if trace is not None else set()
    for file, content in config_files:
        if file in loaded:
            continue
        for path, value in scalars(content):
            table.add(path, value, value, Trust.LOOSE, f"file {file}")
    words = list(launch_words)
    for path, value in loose_options(words):
        table.add(path, value, value, Trust.LOOSE, "command")
    table.launch_values = frozenset(str(word.value).rpartition("=")[2] for word in words)
    return table


def _add_parameters(table: SettingsTable, trace: Trace) -> None:
    for name, values in trace.parameters.items():
        for value in values:
            if isinstance(value.value, str | int | float):
                table.add(name, value, value, Trust.PARAMETER, "parameter")


def _add_containers(table: SettingsTable, trace: Trace) -> None:
    for event in trace.settings:
        now = dict(scalars(event.container))
        for path, value in event.initial.items():
            table.add(path, value, now.get(path), Trust.PARSED, event.kind)
        for path, value in now.items():
            if path not in event.initial:
                # Added later by the program: computed settings such as the scaled learning rate.
                table.add(path, value, value, Trust.INSTANCE, event.kind)


def _add_instances(table: SettingsTable, trace: Trace) -> None:
    for event in trace.instances[:3_000]:
        cls = event.cls
        if not _SETTINGS_CLASS.search(cls.name) and cls.decorated not in ("dataclass", "namedtuple"):
            continue
        current = event.instance.attrs
        for name, value in event.arguments.items():
            if isinstance(value, Lit):
                final = current.get(name, value)
                table.add(name, value, final if isinstance(final, Lit) else None, Trust.INSTANCE, cls.name)
        for name, value in current.items():
            if isinstance(value, Lit) and name not in event.arguments:
                table.add(name, value, value, Trust.INSTANCE, cls.name)


def _add_assignments(table: SettingsTable, trace: Trace, main_names: dict[str, Value]) -> None:
    for name, assigned in trace.assignments.items():
        scopes: dict[tuple[object, str], list[Assignment]] = {}
        for each in assigned:
            scopes.setdefault((each.scope, each.owner), []).append(each)
        for (scope, owner), group in scopes.items():
            path = f"{owner}.{name}" if owner not in ("", "self") else name
            written = [each for each in group if not _is_computed(each.value)]
            # The last value that was written down is the setting; what the program makes of it comes after.
            last = group[-1].value
            final = main_names.get(name) if scope == id(main_names) else last
            settings = [written[-1].value] if written else [group[0].value]
            if any(not each.certain for each in written) and not isinstance(final, Lit):
                settings = [each.value for each in written]
            elif any(not each.certain for each in written) and scope != id(main_names):
                # Set in a branch whose condition is unknown: each of its values is possible.
                settings = [each.value for each in written]
            for initial in settings:
                if isinstance(initial.value, str | int | float):
                    table.add(path, initial, final if isinstance(final, Lit) else None, Trust.ASSIGNMENT, "variable")


def _is_computed(value: Lit) -> bool:
    return value.origin is not None and value.origin.kind is SourceKind.COMPUTED


_UPPER_KEY = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z0-9_]+)+")
_NEGATIVE_NUMBER = re.compile(r"^-\d|^-\.\d")


def loose_options(words: list[Lit]) -> Iterator[tuple[str, Lit]]:
    """Options and ``key=value`` words of a launch line, by name; flags are ``True``."""
    position = 0
    while position < len(words):
        word = words[position]
        text = str(word.value)
        position += 1
        is_flag = text.startswith("-") and len(text) > 1 and not _NEGATIVE_NUMBER.match(text)
        name, mark, value = text.lstrip("-+~").partition("=")
        origin = word.origin
        kind = origin.kind if origin is not None else SourceKind.COMMAND_LINE
        file = origin.file if origin is not None else "<command>"
        line = origin.line if origin is not None else None
        if mark and re.fullmatch(r"[A-Za-z_][\w./@\-]*", name):
            yield name, Lit(_literal(value), Origin(kind, file, line, name))
        elif is_flag and position < len(words) and not _is_option(str(words[position].value)):
            following = words[position]
            where = following.origin
            yield (
                name,
                Lit(
                    _literal(str(following.value)),
                    Origin(
                        where.kind if where else kind,
                        where.file if where else file,
                        where.line if where else line,
                        name,
                    ),
                ),
            )
            position += 1
        elif not is_flag and _UPPER_KEY.fullmatch(text) and position < len(words):
            # yacs: SOLVER.BASE_LR 0.0025
            yield text, Lit(_literal(str(words[position].value)), Origin(kind, file, line, text))
            position += 1
        elif is_flag:
            yield name, Lit(True, Origin(kind, file, line, name))


def _is_option(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not _NEGATIVE_NUMBER.match(text)


def _literal(text: str) -> str | int | float | bool:
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if re.fullmatch(r"[-+]?\d{1,18}", lowered):
        return int(lowered)
    if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", lowered):
        return float(lowered)
    return text.strip().strip("'\"")


def is_settings_holder(value: Value) -> bool:
    """Whether a value can hold settings."""
    return isinstance(value, Map | Obj | Cls)
