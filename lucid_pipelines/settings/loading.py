"""From the settings file and the environment to typed settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.settings.cluster import NodeSettings
from lucid_pipelines.settings.paths import with_absolute_paths
from lucid_pipelines.settings.root import Settings

ENV_PREFIX = "LUCID__"
FILE_NAME = "lucid.yaml"


def load_settings(
    home: Path | str | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings of one home folder.

    Args:
        home: state folder; default ``LUCID_HOME``, then ``./.lucid``. Relative paths are meant from the folder of the
            settings file, else from the folder that holds the home folder: the service runs elsewhere than its user.
        config: settings file; default ``LUCID_CONFIG``, then ``lucid.yaml`` in the home folder, then in the
            folder that holds the home folder.
        environ: the environment; default that of the process.

    Raises:
        InputError: the file cannot be read, a key is unknown, or a value is out of range.
    """
    env = os.environ if environ is None else environ
    root = Path(home or env.get("LUCID_HOME") or ".lucid").expanduser().absolute()
    path = config or (Path(env["LUCID_CONFIG"]) if env.get("LUCID_CONFIG") else None)
    if path is not None and not path.is_file():
        raise NotFoundError(f"the settings file does not exist; create it or unset LUCID_CONFIG: {path}")
    if path is None:
        path = next((p for p in (root / FILE_NAME, root.parent / FILE_NAME) if p.is_file()), None)
    values = _read(path) if path else {}
    _apply_environment(values, env)
    values.setdefault("home", str(root))
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise InputError(_explain(error, path)) from error
    return with_absolute_paths(settings, path.absolute().parent if path else root.parent)


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(f"the settings file is not valid YAML; mend it: {path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the settings file cannot be read: {path}: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"the settings file holds sections (a mapping); got {type(loaded).__name__}: {path}")
    return loaded


def _apply_environment(values: dict[str, Any], env: Mapping[str, str]) -> None:
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX):
            continue
        keys = name.removeprefix(ENV_PREFIX).lower().split("__")
        target = values
        for key in keys[:-1]:
            section = target.setdefault(key, {})
            if not isinstance(section, dict):
                raise InputError(f"{key!r} is not a section, so it cannot be overridden by {name}")
            target = section
        try:
            target[keys[-1]] = yaml.safe_load(env[name])
        except yaml.YAMLError as error:
            raise InputError(f"the value of {name} is not valid YAML: {env[name]!r}") from error


def _explain(error: ValidationError, path: Path | None) -> str:
    lines: list[str] = []
    for item in error.errors():
        location = [str(part) for part in item["loc"]]
        dotted = ".".join(location)
        if item["type"] == "extra_forbidden":
            known = _known_keys(location[:-1])
            lines.append(f"unknown key {dotted!r}{did_you_mean(location[-1], known)}")
        else:
            lines.append(f"{dotted}: {item['msg']}; got {item['input']!r}")
    where = str(path) if path else "the environment"
    return f"the settings in {where} cannot be used: " + "; ".join(lines)


def _known_keys(location: list[str]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in location:
        if part.isdigit():
            continue
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        if part == "nodes":
            annotation = NodeSettings
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
