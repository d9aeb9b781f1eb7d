"""Relative paths in settings are meant from one folder, whatever the process that reads them works in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

from lucid_pipelines.settings.root import Settings
from lucid_pipelines.settings.section import Section

_S = TypeVar("_S", bound=Section)
_OWN_TABLE = "generated"
"""What ``replay.workloads`` says for the table of our own."""


def with_absolute_paths(settings: Settings, folder: Path) -> Settings:
    """The same settings with every path absolute.

    Args:
        folder: what a relative path is meant from; ``~`` is the home folder of the user.
    """
    whole = _section(settings, folder)
    replay = whole.replay
    texts = {"trace": replay.trace, "workloads": None if replay.workloads == _OWN_TABLE else replay.workloads}
    absolute = {name: str(_path(Path(text), folder)) for name, text in texts.items() if text}
    return whole.model_copy(update={"replay": replay.model_copy(update=absolute)})


def _section(section: _S, folder: Path) -> _S:
    found: dict[str, Any] = {}
    for name in type(section).model_fields:
        value: object = getattr(section, name)
        if isinstance(value, Section):
            found[name] = _section(value, folder)
        elif isinstance(value, Path):
            found[name] = _path(value, folder)
        elif isinstance(value, tuple) and any(isinstance(item, Path) for item in value):
            found[name] = tuple(_path(item, folder) if isinstance(item, Path) else item for item in value)
    return section.model_copy(update=found)


def _path(path: Path, folder: Path) -> Path:
    return folder / os.path.expanduser(path)  # noqa: PTH111  the other one raises for a user that does not exist
