"""Launchers: which program a command starts, in how many processes, on how many GPUs and nodes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lucid_pipelines.advisor.evaluator.values import Lit, Origin
from lucid_pipelines.advisor.launch.shell import option_pairs
from lucid_pipelines.advisor.metadata import SourceKind


@dataclass(slots=True)
class Launch:
    """A program and the resources that its launchers ask for. Unknown is ``None``.

    Attributes:
        kind: ``file``, ``module``, ``code`` (``python -c``), ``console`` (an installed command) or ``binary``.
        target: path, module or command name as written.
        args: words after it.
        launchers: names of what stood before it, outermost first.
        per_node: processes on each node.
        total: processes in all, when only that is said.
        all_visible: the launcher takes every GPU that it sees.
        unread: the launcher has options that are not known.
        is_elastic: it may be given any number of nodes within a range.
    """

    kind: str
    target: str
    args: list[Lit]
    env: dict[str, Lit]
    cwd: str
    launchers: tuple[str, ...] = ()
    per_node: Lit | None = None
    total: Lit | None = None
    nodes: Lit | None = None
    visible: Lit | None = None
    mixed_precision: Lit | None = None
    accumulation: Lit | None = None
    deepspeed_config: Lit | None = None
    config_file: Lit | None = None
    all_visible: bool = False
    hosts_from_file: bool = False
    unread: bool = False
    is_elastic: bool = False
    gpus_per_node: Lit | None = None
    certain: bool = True
    batch: dict[str, Lit] = field(default_factory=dict)
    target_word: Lit | None = None


_PYTHON = re.compile(r"^(python|python3|python2|pypy|pypy3)(\.\d+)*$")
_FLAGS: Mapping[str, frozenset[str]] = {
    "torchrun": frozenset({"standalone", "m", "module", "no_python", "use_env", "run_path"}),
    "accelerate": frozenset({"multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "debug", "quiet",
        "q", "same_network", "tpu", "use_xpu", "module", "m", "no_python", "use_mps_device",
        "use_parallelism_config"}),
    "deepspeed": frozenset({"module", "no_python", "no_local_rank", "no_ssh", "bind_cores_to_rank",
        "elastic_training", "force_multi", "save_pid", "use_pbs", "no_ssh_check"}),
    "srun": frozenset({"u", "unbuffered", "l", "label", "exclusive", "overlap", "O", "overcommit", "Q", "quiet", "v",
        "verbose", "pty", "K", "preserve_env", "wait_all_nodes", "no_kill", "hold", "H", "parsable", "W", "requeue",
        "no_requeue", "spread_job", "contiguous", "k"}),
    "mpirun": frozenset({"allow_run_as_root", "oversubscribe", "tag_output", "q", "v", "report_bindings",
        "display_map", "bynode", "verbose", "nooversubscribe", "display_allocation", "disable_cache",
        "timestamp_output"}),
    "composer": frozenset({"m", "module_mode", "c", "command_mode", "v", "verbose"}),
}  # fmt: skip
_TORCH_MODULES = {
    "torch.distributed.launch": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.elastic.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed.launcher.launch": "deepspeed",
    "paddle.distributed.launch": "paddle",
    "oneflow.distributed.launch": "torchrun",
    "bagua.distributed.launch": "torchrun",
    "composer.cli.launcher": "composer",
    "colossalai.cli": "torchrun",
}
_MPI = frozenset({"mpirun", "mpiexec", "orterun", "horovodrun", "mpiexec.hydra", "prun"})
_WRAPPERS: Mapping[str, int] = {
    "nohup": 0, "time": 0, "unbuffer": 0, "sudo": 0, "nice": 0, "ionice": 0, "env": 0, "stdbuf": 0, "setsid": 0,
    "xvfb-run": 0, "catchsegv": 0, "proxychains": 0, "proxychains4": 0, "timeout": 1, "taskset": 1, "numactl": 0,
    "chrt": 1, "viztracer": 0, "tsp": 0, "exec": 0, "scl": 0, "mprof": 0, "gdb": 0, "strace": 0, "perf": 1,
    "nsys": 1, "ncu": 0, "nvprof": 0, "kernprof": 0, "coverage": 1, "uv": 1, "poetry": 1, "pdm": 1, "pipenv": 1,
    "rye": 1, "hatch": 1, "pixi": 1, "conda": 1, "mamba": 1, "micromamba": 1, "singularity": 1, "apptainer": 1,
    "enroot": 1, "screen": 0, "tmux": 0, "ts": 0, "watch": 0, "script": 0, "caffeinate": 0, "dlprof": 0,
}  # fmt: skip
"""Commands that run another one: the number of plain words before it."""
_WITH_VALUE = frozenset({"-n", "--name", "-p", "--prefix", "--env", "-e", "-c", "--with", "--python", "--extra", "-B",
    "--bind", "-o", "--output", "-t", "--trace", "-s", "-S", "--group", "--project", "--cpunodebind", "--membind",
    "-u"})  # fmt: skip
_IMAGE_RUNNERS = frozenset({"singularity", "apptainer", "enroot"})


def unwrap(words: Sequence[Lit], env: Mapping[str, Lit], cwd: str) -> Launch | None:
    """Follow launchers to the program. ``None`` when the words start no program that could train."""
    launch = Launch("binary", "", [], dict(env), cwd)
    rest = list(words)
    for _ in range(12):
        rest = _take_assignments(rest, launch)
        if not rest:
            return None
        name = posixpath.basename(str(rest[0].value))
        if name in ("torchrun", "torchx"):
            rest = _torchrun(rest[1:], launch, "torchrun")
        elif name == "accelerate" and len(rest) > 1:
            rest = _accelerate(rest[2:] if str(rest[1].value) == "launch" else rest[1:], launch)
        elif name == "accelerate-launch":
            rest = _accelerate(rest[1:], launch)
        elif name in ("deepspeed", "ds", "deepspeed.pt"):
            rest = _deepspeed(rest[1:], launch)
        elif name in ("srun", "sbatch", "salloc", "swatch"):
            rest = _slurm(rest[1:], launch, name)
        elif name in _MPI:
            rest = _mpi(rest[1:], launch, name)
        elif name == "composer":
            rest = _composer(rest[1:], launch)
        elif name in ("lightning", "fabric") and len(rest) > 1 and str(rest[1].value) == "run":
            rest = _lightning(rest[2:], launch)
        elif name == "colossalai" and len(rest) > 1:
            rest = _torchrun(rest[2:], launch, "colossalai")
        elif _PYTHON.match(name) or (name.startswith("${") and len(rest) > 1 and _looks_like_program(rest[1])):
            following = _python(rest, launch)
            if following is None:
                return launch if launch.target else None
            rest = following
        elif name in _WRAPPERS:
            rest = _wrapper(rest, name)
        else:
            return _program(rest, launch)
    return None


def _looks_like_program(word: Lit) -> bool:
    text = str(word.value)
    return text.endswith(".py") or text == "-m"


def _take_assignments(words: list[Lit], launch: Launch) -> list[Lit]:
    while words:
        match = re.match(r"^([A-Za-z_]\w*)=(.*)$", str(words[0].value), re.DOTALL)
        if match is None:
            break
        origin = words[0].origin
        moved = Origin(SourceKind.ENVIRONMENT, origin.file, origin.line, match.group(1)) if origin is not None else None
        launch.env[match.group(1)] = Lit(match.group(2), moved)
        words = words[1:]
    visible = launch.env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        launch.visible = _device_list(visible)
    return words


def _device_list(value: Lit) -> Lit | None:
    """How many devices ``0,1,2`` names; ``None`` when it is a placeholder."""
    text = str(value.value).strip().strip("\"'")
    if re.fullmatch(r"(GPU-[\w-]+|\d+)(\s*,\s*(GPU-[\w-]+|\d+))*,?", text):
        return Lit(len([part for part in text.split(",") if part.strip()]), _named(value, "CUDA_VISIBLE_DEVICES"))
    return Lit(0, _named(value, "CUDA_VISIBLE_DEVICES")) if text in ("", "-1") else None


def _named(word: Lit, name: str) -> Origin | None:
    origin = word.origin
    if origin is None:
        return None
    kind = SourceKind.LAUNCHER if origin.kind in (SourceKind.COMMAND_LINE, SourceKind.LAUNCHER) else origin.kind
    return Origin(kind, origin.file, origin.line, name)


def whole_number(word: Lit | None, name: str) -> Lit | None:
    """A word as a whole number under an option's name, ``None`` when it is a placeholder."""
    if word is None:
        return None
    text = str(word.value).strip().rstrip(",)")
    return Lit(int(text), _named(word, name)) if re.fullmatch(r"\d{1,7}", text) else None


_UNKNOWN = re.compile(r"^\$\{[\w?]+\}$")
_UNREAD = "?"
"""Stands for options that a variable holds whose value is not known: then no default may be taken."""


def _options(words: list[Lit], flags: frozenset[str]) -> tuple[dict[str, Lit], list[Lit]]:
    """Options before the program, by name with underscores, and the words from the program on."""
    found: dict[str, Lit] = {}
    position = 0
    while position < len(words):
        word = words[position]
        text = str(word.value)
        if _UNKNOWN.match(text) and position + 1 < len(words):
            found[_UNREAD] = word
            position += 1
            continue
        if not text.startswith("-") or text == "--":
            break
        position += 1
        name, mark, value = text.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if mark:
            found[name] = Lit(value, word.origin)
        elif (
            name in flags
            or position >= len(words)
            or str(words[position].value).startswith("-")
            or (
                str(words[position].value).endswith(".py")
                and position + 1 < len(words)
                and name not in ("config_file",)
            )
        ):
            found[name] = Lit("", word.origin)
        else:
            found[name] = words[position]
            position += 1
    if position < len(words) and str(words[position].value) == "--":
        position += 1
    return found, words[position:]


def _first(options: Mapping[str, Lit], *names: str) -> Lit | None:
    return next((options[name] for name in names if name in options), None)


def _as_module(options: Mapping[str, Lit], rest: list[Lit]) -> list[Lit]:
    """The program after a launcher: ``-m`` makes it a module."""
    if any(name in options for name in ("m", "module", "module_mode")):
        return [Lit("python"), Lit("-m"), *rest]
    if rest and str(rest[0].value).endswith(".py"):
        return [Lit("python"), *rest]
    return rest


def _torchrun(words: list[Lit], launch: Launch, name: str) -> list[Lit]:
    options, rest = _options(words, _FLAGS["torchrun"])
    launch.launchers += (name,)
    launch.unread = launch.unread or _UNREAD in options
    count = _first(options, "nproc_per_node", "nproc_per_gpu")
    launch.per_node = whole_number(count, "nproc_per_node")
    if count is not None and str(count.value) in ("gpu", "auto"):
        launch.all_visible = True
        launch.per_node = launch.visible
    elif count is None and _UNREAD not in options:
        # torchrun and torch.distributed.launch start one process when nothing is said.
        launch.per_node = Lit(1, Origin(SourceKind.LAUNCHER, "<library>", None, "nproc_per_node"))
    nodes = _first(options, "nnodes")
    if nodes is None and _UNREAD not in options:
        launch.nodes = launch.nodes or Lit(1, Origin(SourceKind.LAUNCHER, "<library>", None, "nnodes"))
    elif nodes is not None:
        least, _, most = str(nodes.value).partition(":")
        launch.is_elastic = bool(most) and most != least
        launch.nodes = None if launch.is_elastic else whole_number(Lit(least, nodes.origin), "nnodes")
    return _as_module(options, rest)


def _lightning(words: list[Lit], launch: Launch) -> list[Lit]:
    """``lightning run model [options] FILE``, ``fabric run [model] [options] FILE``."""
    if words and str(words[0].value) == "model":
        words = words[1:]
    options, rest = _options(words, frozenset())
    launch.launchers += ("lightning",)
    launch.unread = launch.unread or _UNREAD in options
    devices = _first(options, "devices")
    if devices is not None and "," in str(devices.value):
        launch.per_node = _device_list(devices)
    elif devices is None and _UNREAD not in options:
        launch.per_node = Lit(1, Origin(SourceKind.LAUNCHER, "<library>", None, "devices"))
    else:
        launch.per_node = whole_number(devices, "devices")
        launch.all_visible = devices is not None and str(devices.value) in ("auto", "-1")
    nodes = _first(options, "num_nodes")
    if nodes is not None:
        launch.nodes = whole_number(nodes, "num_nodes")
    elif _UNREAD not in options:
        launch.nodes = Lit(1, Origin(SourceKind.LAUNCHER, "<library>", None, "num_nodes"))
    launch.mixed_precision = _first(options, "precision")
    return _as_module(options, rest)


def _accelerate(words: list[Lit], launch: Launch) -> list[Lit]:
    options, rest = _options(words, _FLAGS["accelerate"])
    launch.launchers += ("accelerate",)
    launch.total = whole_number(_first(options, "num_processes", "num_process"), "num_processes")
    launch.nodes = whole_number(_first(options, "num_machines"), "num_machines")
    launch.mixed_precision = _first(options, "mixed_precision")
    launch.accumulation = whole_number(_first(options, "gradient_accumulation_steps"), "gradient_accumulation_steps")
    launch.config_file = _first(options, "config_file")
    launch.deepspeed_config = _first(options, "deepspeed_config_file")
    devices = _first(options, "gpu_ids")
    if devices is not None and str(devices.value) not in ("all", ""):
        launch.visible = _device_list(devices) or launch.visible
    launch.all_visible = launch.total is None
    return _as_module(options, rest)


def _deepspeed(words: list[Lit], launch: Launch) -> list[Lit]:
    options, rest = _options(words, _FLAGS["deepspeed"])
    launch.launchers += ("deepspeed",)
    launch.per_node = whole_number(_first(options, "num_gpus", "num_accelerators"), "num_gpus")
    launch.nodes = whole_number(_first(options, "num_nodes"), "num_nodes")
    include = _first(options, "include", "i")
    if include is not None:
        _included(include, launch)
    hostfile = _first(options, "hostfile", "H")
    launch.hosts_from_file = hostfile is not None and launch.nodes is None
    launch.all_visible = launch.per_node is None
    return _as_module(options, rest)


def _included(include: Lit, launch: Launch) -> None:
    """``localhost:0,1@worker-2:0,1``."""
    hosts = [part for part in str(include.value).split("@") if part]
    counts = [len([device for device in host.partition(":")[2].split(",") if device]) for host in hosts]
    if counts and all(count == counts[0] and count > 0 for count in counts):
        launch.per_node = Lit(counts[0], _named(include, "include"))
        launch.nodes = Lit(len(hosts), _named(include, "include"))


def _slurm(words: list[Lit], launch: Launch, name: str) -> list[Lit]:
    options, rest = _options(words, _FLAGS["srun"])
    launch.launchers += (name,)
    take_batch_options({key: value for key, value in options.items()}, launch)
    return rest


def batch_words(words: list[Lit]) -> tuple[dict[str, Lit], int]:
    """Options of a batch command at the head of the words, and the position of the first other word."""
    options, rest = _options(words[1:], _FLAGS["srun"])
    return options, len(words) - len(rest)


def take_batch_options(options: Mapping[str, Lit], launch: Launch) -> None:
    """Nodes, tasks and GPUs out of batch-system options."""
    given = {name.replace("-", "_"): value for name, value in options.items()}
    nodes = _first(given, "nodes", "N")
    if nodes is not None:
        launch.nodes = whole_number(Lit(str(nodes.value).partition("-")[0], nodes.origin), "nodes") or launch.nodes
    per_node = whole_number(_first(given, "ntasks_per_node", "tasks_per_node"), "ntasks-per-node")
    total = whole_number(_first(given, "ntasks", "n"), "ntasks")
    gpus = _gpu_request(given)
    per_task = whole_number(_first(given, "gpus_per_task"), "gpus-per-task")
    if gpus is not None:
        launch.gpus_per_node = gpus
    elif per_task is not None and per_node is not None:
        launch.gpus_per_node = Lit(int(str(per_task.value)) * int(str(per_node.value)), per_task.origin)
    if per_node is not None and launch.per_node is None:
        launch.batch["ntasks_per_node"] = per_node
    if total is not None:
        launch.batch["ntasks"] = total
    whole = _first(given, "gpus", "G")
    if whole is not None and gpus is None:
        count = whole_number(Lit(str(whole.value).rpartition(":")[2], whole.origin), "gpus")
        if count is not None:
            launch.batch["gpus"] = count
            if launch.nodes is None or launch.nodes.value == 1:
                launch.gpus_per_node = count


def _gpu_request(options: Mapping[str, Lit]) -> Lit | None:
    """``--gres=gpu:v100:4``, ``--gpus-per-node=a100:8``, ``-l select=1:ngpus=4``."""
    gres = _first(options, "gres")
    if gres is not None:
        match = re.search(r"gpu(?::[\w.\-]+)?:(\d+)", str(gres.value))
        if match is not None:
            return Lit(int(match.group(1)), _named(gres, "gres"))
        return Lit(1, _named(gres, "gres")) if re.fullmatch(r"gpu(:[a-z]\w*)?", str(gres.value)) else None
    per_node = _first(options, "gpus_per_node")
    if per_node is not None:
        return whole_number(Lit(str(per_node.value).rpartition(":")[2], per_node.origin), "gpus-per-node")
    for name in ("l", "select"):
        listed = options.get(name)
        match = re.search(r"n?gpus?[=:](\d+)", str(listed.value)) if listed is not None else None
        if match is not None and listed is not None:
            return Lit(int(match.group(1)), _named(listed, "ngpus"))
    return None


def _mpi(words: list[Lit], launch: Launch, name: str) -> list[Lit]:
    launch.launchers += ("mpirun" if name != "horovodrun" else name,)
    position = 0
    options: dict[str, Lit] = {}
    while position < len(words) and str(words[position].value).startswith("-"):
        word = words[position]
        option, mark, value = str(word.value).lstrip("-").partition("=")
        option = option.replace("-", "_")
        position += 1
        if mark:
            options[option] = Lit(value, word.origin)
        elif option in _FLAGS["mpirun"]:
            continue
        elif option in ("mca", "gmca", "genv") and position + 1 < len(words):
            position += 2
        elif position < len(words):
            options[option] = words[position]
            if option == "x" and "=" in str(words[position].value):
                _take_assignments([words[position]], launch)
            position += 1
    launch.total = whole_number(_first(options, "np", "n", "c"), "np") or launch.total
    launch.per_node = whole_number(_first(options, "npernode", "N", "ppn", "map_by_ppr"), "npernode")
    hosts = _first(options, "H", "host", "hosts")
    if hosts is not None:
        _host_list(hosts, launch)
    elif _first(options, "hostfile", "machinefile", "f", "hostlist") is not None:
        launch.hosts_from_file = True
    elif launch.nodes is None and launch.total is not None and launch.per_node is None:
        launch.per_node, launch.nodes = launch.total, Lit(1, Origin(SourceKind.LAUNCHER, "<library>", None, "hosts"))
    rest = words[position:]
    return [Lit("python"), *rest] if rest and str(rest[0].value).endswith(".py") else rest


def _host_list(hosts: Lit, launch: Launch) -> None:
    """``server1:4,server2:4``."""
    parts = [part for part in str(hosts.value).split(",") if part]
    slots = [part.rpartition(":")[2] for part in parts if ":" in part]
    launch.nodes = Lit(len(parts), _named(hosts, "hosts"))
    if len(slots) == len(parts) and len(set(slots)) == 1 and slots[0].isdigit():
        launch.per_node = Lit(int(slots[0]), _named(hosts, "hosts"))
    elif launch.total is not None and isinstance(launch.total.value, int) and launch.total.value % len(parts) == 0:
        launch.per_node = Lit(launch.total.value // len(parts), launch.total.origin)


def _composer(words: list[Lit], launch: Launch) -> list[Lit]:
    options, rest = _options(words, _FLAGS["composer"])
    launch.launchers += ("composer",)
    launch.per_node = whole_number(_first(options, "n", "nproc"), "nproc")
    launch.total = whole_number(_first(options, "world_size"), "world_size")
    launch.all_visible = launch.per_node is None
    if launch.total is None or launch.total == launch.per_node:
        launch.nodes = launch.nodes or Lit(1, Origin(SourceKind.LAUNCHER, "<library>", None, "nodes"))
    return _as_module(options, rest)


def _python(words: list[Lit], launch: Launch) -> list[Lit] | None:
    """``python [options] (-m module | -c code | file) …``; returns words only when a launcher follows."""
    position = 1
    while position < len(words):
        text = str(words[position].value)
        if text == "-m" and position + 1 < len(words):
            module = str(words[position + 1].value)
            return _module(module, words[position + 1 :], launch)
        if text == "-c" and position + 1 < len(words):
            launch.kind, launch.target, launch.args = "code", str(words[position + 1].value), words[position + 2 :]
            launch.target_word = words[position + 1]
            return None
        if re.fullmatch(r"-[a-zA-Z]*m", text) and position + 1 < len(words):
            return _module(str(words[position + 1].value), words[position + 1 :], launch)
        if text in ("-W", "-X"):
            position += 2
        elif text.startswith("-"):
            position += 1
        else:
            launch.kind, launch.target, launch.args = "file", text, words[position + 1 :]
            launch.target_word = words[position]
            return None
    return None


def _module(module: str, words: list[Lit], launch: Launch) -> list[Lit] | None:
    kind = _TORCH_MODULES.get(module)
    if kind == "torchrun":
        return _torchrun(words[1:], launch, module)
    if kind == "accelerate":
        return _accelerate(words[1:], launch)
    if kind == "deepspeed":
        return _deepspeed(words[1:], launch)
    if kind == "composer":
        return _composer(words[1:], launch)
    if kind == "paddle":
        return _paddle(words[1:], launch)
    launch.kind, launch.target, launch.args = "module", module, words[1:]
    launch.target_word = words[0]
    return None


def _paddle(words: list[Lit], launch: Launch) -> list[Lit]:
    options, rest = _options(words, frozenset())
    launch.launchers += ("paddle",)
    devices = _first(options, "gpus", "devices", "selected_gpus")
    if devices is not None:
        launch.per_node = _device_list(devices)
    launch.all_visible = launch.per_node is None
    launch.nodes = whole_number(_first(options, "nnodes"), "nnodes") or Lit(
        1, Origin(SourceKind.LAUNCHER, "<library>", None, "nnodes")
    )
    return [Lit("python"), *rest]


def _wrapper(words: list[Lit], name: str) -> list[Lit]:
    """Words after a wrapper and its own options."""
    rest = words[1:]
    plain = _WRAPPERS[name]
    while rest:
        text = str(rest[0].value)
        if text == "--":
            return rest[1:]
        if text.startswith("-"):
            takes = text in _WITH_VALUE and len(rest) > 1 and name not in ("nohup", "time")
            rest = rest[2:] if takes else rest[1:]
        elif plain > 0:
            plain -= 1
            rest = rest[1:]
        else:
            break
    if name in _IMAGE_RUNNERS and len(rest) > 1:
        return rest[1:]
    return rest


def _program(words: list[Lit], launch: Launch) -> Launch | None:
    """A file that is started directly, an installed command or another binary."""
    name = str(words[0].value)
    launch.target, launch.args, launch.target_word = name, list(words[1:]), words[0]
    if name.endswith(".py"):
        launch.kind = "file"
    elif name.endswith(".ipynb"):
        launch.kind = "notebook"
    elif "/" in name:
        launch.kind = "binary"
    else:
        launch.kind = "console"
    return launch


__all__ = ["Launch", "option_pairs", "take_batch_options", "unwrap", "whole_number"]
