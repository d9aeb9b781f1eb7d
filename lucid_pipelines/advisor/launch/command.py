"""The one training program of a launch line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lucid_pipelines.advisor.evaluator.values import Lit, Origin
from lucid_pipelines.advisor.launch.entry import find_script
from lucid_pipelines.advisor.launch.launchers import Launch, batch_words, take_batch_options, unwrap
from lucid_pipelines.advisor.launch.shell import read_line, read_script
from lucid_pipelines.advisor.launch.shell_state import ShellCommand
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

_OPERATORS = re.compile(r"^(&&|\|\||;|\||&|>|>>|2>&1|2>|<|\\)$")
_SHELLS = ("bash", "sh", "zsh", "dash")
_TRAINING = re.compile(
    r"train|pretrain|finetune|fine_tune|fine-tune|run|main|fit|learn|sft|dpo|grpo|ppo|launch", re.IGNORECASE
)
_OTHER_WORK = re.compile(
    r"(^|[/_\-.])(eval|evaluate|test|infer|inference|predict|generate|sample|preprocess|prepare|convert|download|export"
    r"|install|setup|tokenize|plot|visualize|merge|serve|demo|benchmark|score|average|decode|extract|compute_|make_|build_|split_|clean|check)",
    re.IGNORECASE,
)


def words_of_command(command: Sequence[str]) -> list[Lit]:
    """The words of a command line with their places; the working directory's own name is taken out of paths."""
    return [
        Lit(_HERE.sub(r"\1.\2", word), Origin(SourceKind.COMMAND_LINE, "<command>", position))
        for position, word in enumerate(command, 1)
    ]


_HERE = re.compile(r"(^|=)(?:\$\(pwd\)|`pwd`|\$PWD|\$\{PWD\})(/|$)")


def read_launch(
    tree: SourceTree, command: Sequence[str], env: Mapping[str, str], cwd: str = "", hint: str | None = None
) -> list[Launch]:
    """Programs that a launch line starts, the likeliest training program first.

    Args:
        command: its words, or one text that a shell would split.
        env: variables that the submission adds.
        cwd: working directory inside the snapshot.
        hint: path of the entry, where the launch line alone is ambiguous.
    """
    inherited = {
        name: Lit(value, Origin(SourceKind.ENVIRONMENT, "<environment>", None, name)) for name, value in env.items()
    }
    commands = _shell_commands(tree, command, inherited, cwd, hint)
    launches: list[Launch] = []
    for shell_command, batch in commands:
        launch = unwrap(shell_command.words, shell_command.env, shell_command.cwd)
        if launch is None:
            continue
        launch.certain = shell_command.certain
        if batch:
            take_batch_options(batch, launch)
        launches.append(launch)
    order = sorted(range(len(launches)), key=lambda number: (-_likeliness(launches[number]), number))
    return [launches[number] for number in order]


def _shell_commands(
    tree: SourceTree, command: Sequence[str], env: dict[str, Lit], cwd: str, hint: str | None
) -> list[tuple[ShellCommand, dict[str, Lit]]]:
    if len(command) == 1 and re.search(r"\s", command[0]):
        return [(found, {}) for found in read_line(tree, command[0], env, cwd)]
    if any(_OPERATORS.match(word) for word in command) and _inline_script(words_of_command(command)) is None:
        # A pipeline that came in as words: only the parts before the first operator of each program count.
        return [(found, {}) for found in read_line(tree, " ".join(_quoted(word) for word in command), env, cwd)]
    words = words_of_command(command)
    prefix: dict[str, Lit] = {}
    while words and (match := re.match(r"^([A-Za-z_]\w*)=(.*)$", str(words[0].value), re.DOTALL)):
        origin = words[0].origin
        prefix[match.group(1)] = Lit(
            match.group(2),
            Origin(SourceKind.ENVIRONMENT, "<command>", origin.line if origin is not None else None, match.group(1)),
        )
        words = words[1:]
    merged_env = {**env, **prefix}
    inline = _inline_script(words)
    if inline is not None:
        return [(found, {}) for found in read_line(tree, inline, merged_env, cwd)]
    script = _script_of(tree, words, cwd, hint)
    if script is not None:
        path, arguments, folder, batch_words = script
        found, batch = read_script(tree, path, arguments, merged_env, folder)
        for name, value in batch_words.items():
            batch[name] = value
        return [(each, batch) for each in found]
    return [(ShellCommand(_from_program(words), merged_env, cwd, True, "<command>", 1), {})] if words else []


def _quoted(word: str) -> str:
    return word if _OPERATORS.match(word) else "'" + word.replace("'", "'\\''") + "'"


def _inline_script(words: list[Lit]) -> str | None:
    """The script of ``bash -c SCRIPT``, also as ``-lc`` or ``-e -c``."""
    if not words or str(words[0].value).rpartition("/")[2] not in _SHELLS:
        return None
    for position, word in enumerate(words[1:], 1):
        flag = str(word.value)
        if not flag.startswith("-") or flag == "--":
            return None
        if not flag.startswith("--") and flag.endswith("c"):
            return str(words[position + 1].value) if position + 1 < len(words) else None
    return None


def _script_of(
    tree: SourceTree, words: list[Lit], cwd: str, hint: str | None
) -> tuple[str, list[Lit], str, dict[str, Lit]] | None:
    """A shell script at the head of the words: its file, arguments and working directory."""
    position = 0
    batch: dict[str, Lit] = {}
    if words and str(words[0].value) in ("sbatch", "srun", "qsub", "bsub"):
        batch, position = batch_words(words)
    elif words and str(words[0].value) in (*_SHELLS, "source", "."):
        position = 1
        while position < len(words) and str(words[position].value).startswith("-"):
            if str(words[position].value) == "-c":
                return None
            position += 1
    if position >= len(words):
        return None
    path = str(words[position].value)
    if not path.endswith((".sh", ".bash", ".slurm", ".sbatch", ".slrm", ".job")) and position == 0:
        return None
    if path.endswith(".py") or path.startswith("-") or path in ("python", "torchrun"):
        return None
    arguments = words[position + 1 :]
    found = find_script(tree, path, [str(word.value) for word in arguments], cwd, hint)
    return None if found is None else (found.file, arguments, found.cwd, batch)


def _from_program(words: list[Lit]) -> list[Lit]:
    """The words from the first launcher or interpreter on, when prose stands before it."""
    known = re.compile(r"^(python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|mpiexec|horovodrun|composer)$")
    if words and (
        "/" in str(words[0].value) or known.match(str(words[0].value)) or str(words[0].value).endswith(".py")
    ):
        return words
    for position, word in enumerate(words[:12]):
        if known.match(str(word.value)) and position > 0 and str(words[0].value) in ("sbatch",):
            options = [
                Lit("--" + str(part.value).strip("(),"), part.origin)
                for part in words[:position]
                if re.fullmatch(r"[(]?(nodes|gres|ntasks|ntasks-per-node|gpus-per-node)=[\w:]+[,)]?", str(part.value))
            ]
            return [Lit("srun", word.origin), *options, *words[position:]] if options else words[position:]
    return words


def _likeliness(launch: Launch) -> float:
    """How likely a command is the training, by its launcher and by the name of what it starts."""
    name = launch.target
    score = 0.0
    if launch.launchers:
        score += 2
    if launch.kind in ("file", "module"):
        score += 2
    if _TRAINING.search(name):
        score += 2
    if _OTHER_WORK.search(name) and not re.search(r"train", name, re.IGNORECASE):
        score -= 3
    options = " ".join(str(word.value) for word in launch.args)
    if re.search(r"lr\b|learning.rate|epoch|batch|max.?steps|iters|config|cfg", options):
        score += 1.5
    if not launch.certain:
        score -= 0.5
    if launch.kind == "console" and not launch.args:
        score -= 2
    return score
