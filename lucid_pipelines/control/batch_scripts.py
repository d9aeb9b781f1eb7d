"""Existing batch scripts: what their ``#SBATCH`` lines ask for, as a job of ours."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import InputError

_MAX_BYTES = 4 << 20
_SHORT = {"J": "job-name", "N": "nodes", "p": "partition", "D": "chdir", "G": "gpus", "n": "ntasks", "t": "time"}
_SHORT |= {
    "o": "output",
    "e": "error",
    "c": "cpus-per-task",
    "A": "account",
    "q": "qos",
    "a": "array",
    "d": "dependency",
}
_FLAGS = frozenset({"hold", "exclusive", "requeue", "no-requeue", "overcommit", "parsable", "H", "s", "O"})
_REFUSED = {
    "array": "an array is many jobs: submit each, or list them in a job file (`lucid submit -f`)",
    "dependency": "dependencies between jobs are not known here: submit the second when the first has ended",
    "wrap": "give the command itself: `lucid submit -- COMMAND`",
}
_GPUS = re.compile(r"(?:gpu)(?::[A-Za-z_][\w.-]*)?(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class BatchScript:
    """What a script asks for.

    Attributes:
        values: keys of ``JobRequest``.
        not_carried_over: options that mean nothing here, as they were written.
    """

    values: Mapping[str, Any]
    not_carried_over: tuple[str, ...]


def read_batch_script(path: Path, arguments: Sequence[str], folder: Path) -> BatchScript:
    """Read a script as ``sbatch`` would: ``#SBATCH`` lines count until the first command.

    Args:
        arguments: given to the script.
        folder: where it is submitted from; the code below it (or below ``--chdir``) is sealed.

    Raises:
        InputError: it cannot be read, asks for what is not possible here, or lies outside the sealed folder.
    """
    options = _options(_text(path), path)
    for name, why in _REFUSED.items():
        if name in options:
            raise InputError(f"{why}; got --{name}={options[name]}")
    source = (folder / options["chdir"]).resolve() if "chdir" in options else folder.resolve()
    script = path.resolve()
    if not script.is_relative_to(source):
        raise InputError(f"the script must lie in the folder that is sealed, {source}; got {script}")
    values: dict[str, Any] = {
        "command": (_shell(path), str(script.relative_to(source)), *arguments),
        "source_dir": source,
        "gpus": _gpu_count(options),
        "name": options.get("job-name", path.stem),
    }
    if "partition" in options:
        values["vc"] = options["partition"].partition(",")[0]
    used = {"chdir", "job-name", "partition", "gres", "gpus", "gpus-per-node", "gpus-per-task", "nodes", "ntasks"}
    left = tuple(f"--{name}={value}" if value else f"--{name}" for name, value in options.items() if name not in used)
    return BatchScript(values, left)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"a batch script is at most {_MAX_BYTES} bytes: {path}")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the batch script cannot be read as text: {path}: {error}") from error


def _options(text: str, path: Path) -> dict[str, str]:
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise InputError(f"a batch script begins with #! and its shell; sbatch would refuse it too: {path}")
    options: dict[str, str] = {}
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("#SBATCH"):
            try:
                words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                raise InputError(f"line {number} of {path} cannot be split into words: {line!r}") from error
            options |= _pairs(words, number, path)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return options


def _pairs(words: Sequence[str], number: int, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = _SHORT.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        else:
            raise InputError(f"line {number} of {path} holds an option that sbatch does not know; got {word!r}")
        if not equals and name not in _FLAGS and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        found[name] = value
    return found


def _gpu_count(options: Mapping[str, str]) -> int:
    nodes = _number(options.get("nodes", "1").partition("-")[0], "nodes")
    if "gpus" in options:
        return _counted(options["gpus"], "gpus")
    if "gpus-per-node" in options:
        return nodes * _counted(options["gpus-per-node"], "gpus-per-node")
    if "gpus-per-task" in options:
        return _number(options.get("ntasks", "1"), "ntasks") * _counted(options["gpus-per-task"], "gpus-per-task")
    per_node = 0
    for part in options.get("gres", "").split(","):
        match = _GPUS.fullmatch(part.strip())
        if match is not None:
            per_node += int(match[1] or 1)
    if not per_node:
        raise InputError("the script asks for no GPU (--gres=gpu:N, --gpus or --gpus-per-node); add --gpus N")
    return nodes * per_node


def _counted(text: str, option: str) -> int:
    """``4`` or ``a100:4``, or several of them."""
    return sum(_number(part.rpartition(":")[2], option) for part in text.split(","))


def _number(text: str, option: str) -> int:
    if not text.isdigit() or not int(text):
        raise InputError(f"--{option} takes a number from 1 up; got {text!r}")
    return int(text)


def _shell(path: Path) -> str:
    first = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("#!").split()
    words = first[1:] if first and first[0].endswith("/env") else first
    return Path(words[0]).name if words else "bash"
