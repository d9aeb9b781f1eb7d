"""What carriers put before a line: ranks, hosts, pods, container timestamps (R-9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from lucid_pipelines.logs.times import LineTime, find_time

_MAX_LAYERS = 6
_MIN_LABELLED_LINES = 8
_LABELLED_SHARE = 0.8

_CONTAINER_TIME = re.compile(
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)[ \t](?:(?:stdout|stderr) [FP] )?"
)
_SYSLOG = re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?: ")
_POD = re.compile(r"^\[pod/[^\]\s]+\]:? ?")
_RAY = re.compile(r"^\((?:[\w.:-]+ )?(?:pid|actor_id)=\w+(?:, ip=[\w.:]+)?\) ?")
_COMPOSE = re.compile(r"^[a-z][\w.-]*-\d+[ \t]+\| ")
_ROLE = re.compile(r"^\[(?P<role>[A-Za-z][A-Za-z_.-]*?)[-_ =]?(?P<rank>\d{1,6})\]: ?")
_NOT_ROLES = frozenset(
    {
        "epoch",
        "epochs",
        "ep",
        "step",
        "steps",
        "iter",
        "iters",
        "iteration",
        "it",
        "batch",
        "round",
        "fold",
        "trial",
        "seed",
        "run",
        "stage",
        "train",
        "val",
        "valid",
        "test",
        "eval",
        "job",
        "task",
        "update",
        "game",
        "episode",
        "phase",
    }
)
_MPI = re.compile(r"^\[\d+,(?P<rank>\d+)\](?:<std(?:out|err|diag)>:? ?)")
_MPI_DATED = re.compile(r"^(?=[A-Z][a-z]{2} [A-Z][a-z]{2} ).{20,30}?(?=\[\d+,\d+\]<std)")
_RANK_WORD = re.compile(
    r"^(?:[\[(<](?:global[ _]?)?rank[ _:=-]?(?P<a>\d{1,6})(?:/\d+)?[\])>][:,]? ?|rank[ _]?(?P<b>\d{1,6}) ?[:|] ?)",
    re.IGNORECASE,
)
_RANK_INSIDE = re.compile(r"[\[(]rank[ :=]?(\d{1,6})[\])]|\brank[=:] ?(\d{1,6})\b", re.IGNORECASE)
_TASK_LABEL = re.compile(r"^ {0,5}(?P<rank>\d{1,6}): ?")
_HOST_LABEL = re.compile(r"^(?P<host>[A-Za-z][\w.-]{0,120}?\d[\w.-]{0,120}|\d{1,3}(?:\.\d{1,3}){3}): ")
_RANK_PATH = re.compile(r"(?:rank|worker|local_rank|proc|gpu|node)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Labels:
    """Which ambiguous labels this log uses; only many lines together can tell.

    Attributes:
        task: every line begins with a task number (``srun -l``: ``12: text``).
        host: every line begins with a host name (``pdsh``: ``worker-1: text``).
    """

    task: bool = False
    host: bool = False


@dataclass(frozen=True, slots=True)
class _Layer:
    size: int
    rank: int | None = None
    host: str | None = None
    carrier_time: LineTime | None = None
    is_task_label: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stood before a line.

    Attributes:
        size: how many characters of the line it takes.
        rank: rank or task number, ``None`` when not given.
        host: host name of a ``pdsh``-like label.
        carrier_time: time that the carrier added (container runtime, syslog).
    """

    size: int = 0
    rank: int | None = None
    host: str | None = None
    carrier_time: LineTime | None = None


NO_LABELS = Labels()
_NOTHING = Prefix()


def split_prefix(text: str, labels: Labels = NO_LABELS) -> Prefix:
    """Find everything that carriers put before the program's own text."""
    position, rank, host, carrier_time = 0, None, None, None
    for _ in range(_MAX_LAYERS):
        rest = text[position : position + 400]
        layer = _layer(rest, labels)
        if layer is None:
            break
        position += layer.size
        rank = rank if layer.rank is None else layer.rank
        host = host or layer.host
        carrier_time = carrier_time or layer.carrier_time
        if layer.host is not None:
            labels = Labels(task=labels.task)
        elif layer.is_task_label:
            labels = Labels(host=labels.host)
    return Prefix(position, rank, host, carrier_time) if position else _NOTHING


def rank_inside(text: str) -> int | None:
    """A rank that the program itself wrote near the start of its text (``[Rank 0]``, ``rank=3``)."""
    match = _RANK_INSIDE.search(text, 0, 160)
    return int(match[1] or match[2]) if match else None


def rank_from_path(path: PurePath | str) -> int | None:
    """Rank that a per-rank log's path names (``rank_3.log``, ``attempt_0/3/stdout.log``)."""
    path = PurePath(path)
    if match := _RANK_PATH.search(path.name):
        return int(match[1])
    if path.parent.parent.name == "attempts":  # our own layout: the number is the attempt's
        return None
    if path.stem in ("stdout", "stderr", "error", "output", "std_log") and path.parent.name.isdigit():
        return int(path.parent.name)
    return None


def detect_labels(samples: Iterable[str]) -> Labels:
    """Whether the lines of this log begin with task numbers or host names.

    A number before a colon is also how some programs write an epoch or iteration, so almost all the lines
    must have one and the numbers must not simply count upward.

    Args:
        samples: display states from a few places of the log.
    """
    texts = [text for text in samples if text.strip()]
    if len(texts) < _MIN_LABELLED_LINES:
        return NO_LABELS
    texts = [text[split_prefix(text).size :] for text in texts]
    tasks = [int(m["rank"]) for text in texts if (m := _TASK_LABEL.match(text))]
    hosts = [m["host"] for text in texts if (m := _HOST_LABEL.match(text))]
    need = _LABELLED_SHARE * len(texts)
    return Labels(
        task=len(tasks) >= need and not _counts_upward(tasks),
        host=len(hosts) >= need and len(set(hosts)) <= max(1, len(hosts) // 4),
    )


def _counts_upward(numbers: Sequence[int]) -> bool:
    ups = sum(b > a for a, b in pairwise(numbers))
    downs = sum(b < a for a, b in pairwise(numbers))
    return ups > 0 and downs <= max(1, ups // 20) and len(set(numbers)) > len(numbers) // 3


def _layer(rest: str, labels: Labels) -> _Layer | None:
    """The outermost carrier prefix of ``rest``; which ones are tried depends on its first character."""
    first = rest[:1]
    if first == "[":
        if match := _MPI.match(rest):
            return _Layer(match.end(), int(match["rank"]))
        if (match := _ROLE.match(rest)) and match["role"].lower() not in _NOT_ROLES:
            return _Layer(match.end(), int(match["rank"]))
        if match := _POD.match(rest):
            return _Layer(match.end())
    if first in "[(<rR" and (match := _RANK_WORD.match(rest)):
        return _Layer(match.end(), int(match["a"] or match["b"]))
    if first == "(" and (match := _RAY.match(rest)):
        return _Layer(match.end())
    if first.isdigit() and (match := _CONTAINER_TIME.match(rest)):
        return _Layer(match.end(), carrier_time=find_time(match[0]))
    if first.isalpha():
        if match := (_SYSLOG.match(rest) or _MPI_DATED.match(rest)):
            return _Layer(match.end(), carrier_time=find_time(match[0]))
        if match := _COMPOSE.match(rest):
            return _Layer(match.end())
    if labels.task and (match := _TASK_LABEL.match(rest)):
        return _Layer(match.end(), int(match["rank"]), is_task_label=True)
    if labels.host and (match := _HOST_LABEL.match(rest)):
        return _Layer(match.end(), host=match["host"])
    return None
