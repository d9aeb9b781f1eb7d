"""Existing batch scripts: what their ``#SBATCH`` lines ask for, as a job of ours."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.near_files import near_file

_MAX_BYTES = 4 << 20
_LETTERS = """
A=account B=extra-node-info C=constraint D=chdir F=nodefile G=gpus H=hold J=job-name L=licenses M=clusters N=nodes
O=overcommit Q=quiet S=core-spec V=version W=wait a=array b=begin c=cpus-per-task d=dependency e=error h=help i=input
k=no-kill n=ntasks o=output p=partition q=qos s=oversubscribe t=time v=verbose w=nodelist x=exclude
"""
_WITHOUT_VALUE = """
contiguous exclusive get-user-env help hold ignore-pbs nice no-kill no-requeue overcommit oversubscribe parsable quiet
reboot requeue spread-job stepmgr test-only usage use-min-nodes verbose version wait
"""
_WITH_VALUE = """
acctg-freq batch bb bbf cluster-constraint comment container container-id cores-per-socket cpu-freq cpus-per-gpu
deadline delay-boot export export-file gid gpu-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
hint kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network
ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step open-mode power prefer priority profile
propagate reservation resv-ports segment signal sockets-per-node switches thread-spec threads-per-core time-min tmp
tres-bind tres-per-task uid wait-all-nodes wckey wrap
"""
_SHORT = {letter: name for letter, _, name in (word.partition("=") for word in _LETTERS.split())}
_FLAGS = frozenset(_WITHOUT_VALUE.split())
"""Options without a value, or whose value can only follow an equals sign."""
_KNOWN = frozenset(_SHORT.values()) | _FLAGS | frozenset(_WITH_VALUE.split())
"""Those of sbatch 22.05 to 24.11: an option that sbatch would refuse is refused here too."""
_REFUSED = {
    "array": "an array is many jobs: submit each, or list them in a job file (`lucid submit -f`)",
    "dependency": "dependencies between jobs are not known here: submit the second when the first has ended",
    "wrap": "give the command itself: `lucid submit -- COMMAND`",
    "hold": "it would be started here: take the line out, or submit it to Slurm itself, where held jobs can be adopted",
    "begin": "a later begin is not known here, and the job would start at once: submit it when it may start",
    "test-only": "nothing is only tested here, the job would run: take the line out",
    "uid": "a job runs as whoever submits it: take the line out",
    "gid": "a job runs as whoever submits it: take the line out",
    "help": "it submits nothing: take the line out",
    "usage": "it submits nothing: take the line out",
    "version": "it submits nothing: take the line out",
}
"""What would do something else here than in Slurm, if it were passed over."""
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
            got = f"--{name}={options[name]}" if options[name] else f"--{name}"
            raise InputError(f"{why}; got {got}")
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
    used = {"chdir", "job-name", "partition", "gres", "gpus", "gpus-per-node", "gpus-per-task", "nodes"}
    if "gpus-per-task" in options:
        used.add("ntasks")
    left = tuple(f"--{name}={value}" if value else f"--{name}" for name, value in options.items() if name not in used)
    return BatchScript(values, left)


def _text(path: Path) -> str:
    try:
        if not path.exists():
            raise NotFoundError(f"there is no batch script{near_file(path)}: {path}")
        if not path.is_file():
            raise InputError(f"a batch script is a regular file: {path}")
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"a batch script is at most {_MAX_BYTES} bytes: {path}")
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the batch script cannot be read as text: {path}: {error}") from error
    for said, what in (("\r\n", "DOS line breaks; convert it (dos2unix)"), ("\0", "NUL characters")):
        if said in text:
            raise InputError(f"the batch script has {what}; sbatch would refuse it too: {path}")
    return text


def _options(text: str, path: Path) -> dict[str, str]:
    lines = text.split("\n")  # as sbatch does: other characters that break lines are part of one
    if not lines[0].startswith("#!"):
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
        elif word in ("hetjob", "packjob", ":"):
            raise InputError(f"jobs of several parts are not possible here: submit each; line {number} of {path}")
        else:
            raise InputError(f"line {number} of {path} holds a word that is no option of sbatch; got {word!r}")
        name = _full_name(name, f"line {number} of {path}")
        if not equals and name not in _FLAGS and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        found[name] = value
    return found


def _full_name(name: str, where: str) -> str:
    """sbatch takes the beginning of an option's name when only one begins so."""
    found = [known for known in sorted(_KNOWN) if known.startswith(name)] if name else []
    if name in _KNOWN or len(found) == 1:
        return name if name in _KNOWN else found[0]
    raise InputError(f"{where} holds an option that sbatch does not know{did_you_mean(name, _KNOWN)}; got {name!r}")


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
    if not (text.isascii() and text.isdigit() and len(text) < 10) or not int(text):
        raise InputError(f"--{option} takes a number from 1 up; got {text!r}")
    return int(text)


def _shell(path: Path) -> str:
    first = _text(path).partition("\n")[0].removeprefix("#!").split()
    if first and first[0].endswith("/env"):
        first = [word for word in first[1:] if not word.startswith("-") and "=" not in word]
    return Path(first[0]).name if first else "bash"
