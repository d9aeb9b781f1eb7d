"""What a user writes, checked: one job request from the command line, a YAML file, Python or the launchpad."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.domain.job import JobSpec
from lucid_pipelines.near_files import near_file

MAX_NAME_CHARS = 200
_MAX_FILE_BYTES = 4 * 1024 * 1024
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "LUCID_ATTEMPT_ID", "LUCID_JOB_ID"})


_LOAD = {"gpu_util_pct": 100.0, "memory_util_pct": 100.0, "memory_used_mib": 1e9}


def _words(value: object) -> object:
    """A command may be one line, split as a shell splits it, or a list of words."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"the command cannot be split into words ({error}); give a list instead") from error
    return value


def _texts(value: object) -> object:
    """YAML reads ``1`` and ``true`` as numbers and booleans; in an environment and in labels they are text."""
    if isinstance(value, Mapping):
        return {str(key): _text(item) for key, item in value.items()}
    return value


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def current_user() -> str:
    """The name under which a job is submitted unless another is given."""
    return os.environ.get("LUCID_USER") or getpass.getuser()


class JobRequest(BaseModel):
    """One job as a user asks for it.

    Attributes:
        source_dir: the tree that is sealed into the snapshot; the job starts in ``workdir`` below it.
        idempotency_key: submitting twice with the same key gives one job.
        declared_load: on virtual GPUs, what the job would ask of each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(min_length=1)
    name: str | None = Field(default=None, max_length=MAX_NAME_CHARS)
    user: str = Field(default_factory=current_user, min_length=1, max_length=MAX_NAME_CHARS)
    vc: str | None = None
    gpus: int = Field(default=1, ge=1)
    env: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)
    source_dir: Path | None = None
    workdir: str = "."
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=MAX_NAME_CHARS)
    never_restart: bool = False
    amp: bool | None = None
    long_cold_start: bool = False
    grace_s: float = Field(default=10.0, ge=0, le=3600)
    labels: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)
    declared_load: dict[str, float] | None = None

    @field_validator("command", "name", "user", "vc", "workdir", "env", "labels", "idempotency_key")
    @classmethod
    def _no_nul(cls, value: Any) -> Any:
        texts: Sequence[Any]
        if isinstance(value, Mapping):
            texts = [*value, *value.values()]
        else:
            texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise ValueError("it must not hold a NUL character")
        return value

    @field_validator("command")
    @classmethod
    def _has_program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command[0].strip():
            raise ValueError("the first word must name a program")
        return command

    @field_validator("env")
    @classmethod
    def _usable_names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not _ENV_NAME.match(name):
                raise ValueError(f"not a name for an environment variable: {name!r}")
            if name in _RESERVED_ENV:
                raise ValueError(f"{name} is set by the scheduler and cannot be given")
        return env

    @field_validator("declared_load")
    @classmethod
    def _known_load(cls, load: dict[str, float] | None) -> dict[str, float] | None:
        for name, value in (load or {}).items():
            if name not in _LOAD:
                raise ValueError(f"a declared load has {', '.join(_LOAD)}{did_you_mean(name, _LOAD)}; not {name!r}")
            if not 0 <= value <= _LOAD[name]:
                raise ValueError(f"{name} lies from 0 to {_LOAD[name]:g}; got {value!r}")
        return load

    @field_validator("workdir")
    @classmethod
    def _inside(cls, workdir: str) -> str:
        if Path(workdir).is_absolute() or ".." in Path(workdir).parts:
            raise ValueError("it must be a path inside the submitted tree, without '..'")
        return workdir

    def to_spec(self, *, vc: str, snapshot_digest: str | None) -> JobSpec:
        """The frozen request that the state database keeps."""
        return JobSpec(
            name=self.name or Path(self.command[-1] if len(self.command) == 1 else self.command[0]).name,
            user=self.user,
            vc=vc,
            gpus=self.gpus,
            command=self.command,
            env=tuple(sorted(self.env.items())),
            workdir=self.workdir,
            snapshot_digest=snapshot_digest,
            source_dir=str(self.source_dir) if self.source_dir else None,
            idempotency_key=self.idempotency_key,
            never_restart=self.never_restart,
            amp=self.amp,
            long_cold_start=self.long_cold_start,
            grace_s=self.grace_s,
            labels=tuple(sorted(self.labels.items())),
            declared_load=tuple(sorted((self.declared_load or {}).items())),
        )


def parse_request(values: Mapping[str, Any], where: str = "the request") -> JobRequest:
    """Check one job request.

    Raises:
        InputError: a key is unknown (the nearest one is named) or a value cannot be used.
    """
    try:
        return JobRequest.model_validate(dict(values))
    except ValidationError as error:
        raise InputError(f"{where} cannot be used: {_explain(error)}") from error


def read_job_file(path: Path) -> list[JobRequest]:
    """Read one or many jobs from a YAML file: one mapping, a list of them, or a mapping with ``jobs``.

    ``source_dir`` is the folder of the file unless a job names another; relative folders are meant from there.

    Raises:
        InputError: the file cannot be read, is not YAML, is too large, or a job in it is wrong.
    """
    loaded = _load(path)
    entries: object = loaded
    if isinstance(loaded, Mapping):
        if "jobs" in loaded:
            extra = sorted(str(key) for key in loaded if key != "jobs")
            if extra:
                hint = did_you_mean(extra[0], ["jobs"])
                raise InputError(f"beside 'jobs' nothing may stand at the top of {path}{hint}; got {extra[0]!r}")
            entries = loaded["jobs"]
        else:
            entries = [loaded]
    if not isinstance(entries, list) or not entries:
        raise InputError(f"a job file holds one job, or a list of jobs under 'jobs': {path}")
    return [_entry(entry, number, path) for number, entry in enumerate(entries, start=1)]


def _entry(entry: object, number: int, path: Path) -> JobRequest:
    where = f"job {number} of {path}"
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} must be a mapping of keys to values; got {type(entry).__name__}")
    request = parse_request({str(key): value for key, value in entry.items()}, where)
    folder = path.parent.absolute()
    source = folder / request.source_dir if request.source_dir else folder
    return request.model_copy(update={"source_dir": source})


def _load(path: Path) -> object:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InputError(f"a job file is at most {_MAX_FILE_BYTES} bytes; split it: {path}")
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFoundError(f"the job file does not exist{near_file(path)}: {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the job file cannot be read as text: {path}: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"the job file is not valid YAML; mend it: {path}: {error}") from error


def _explain(error: ValidationError) -> str:
    parts: list[str] = []
    for item in error.errors():
        dotted = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            parts.append(f"unknown key {dotted!r}{did_you_mean(dotted, JobRequest.model_fields)}")
        elif item["type"] == "missing":
            parts.append(f"{dotted} is missing")
        else:
            message = item["msg"].removeprefix("Value error, ")
            parts.append(f"{dotted}: {message}; got {str(item['input'])[:80]!r}")
    return "; ".join(parts)
