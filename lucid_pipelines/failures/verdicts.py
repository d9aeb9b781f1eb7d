"""What one record is in the story of a failure: root, weak, cascade, evidence, harmless (rules, read top to bottom)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lucid_pipelines.failures.memo import Memo
from lucid_pipelines.failures.records import Record, RecordKind, is_bare_exception
from lucid_pipelines.failures.rulebase import MAX_MATCHED_CHARS, Family, Rule, RuleBase, stable_key
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Restart, Role
from lucid_pipelines.failures.xid import XidPointsTo, find_xid, load_xids

CLEAN_EXIT = "clean-exit"
_GENERIC_RULE = "code"
_LAUNCHER_FILE = re.compile(
    r"torch/distributed/(run|launch|elastic|launcher|argparse_util)|/bin/(torchrun|accelerate|deepspeed|horovodrun|mpirun)"
    r"|accelerate/commands|deepspeed/launcher|horovod/runner|paddle/distributed/launch|multiprocessing/(spawn|popen)"
    r"|lightning_fabric/strategies/launchers|torch_npu/distributed/run"
)
_LAUNCHER_TYPE = re.compile(
    r"(ChildFailedError|ProcessRaisedException|ProcessExitedException|SystemExit|CalledProcessError)$"
)
_CONFIGURED = re.compile(r"^(ValueError|KeyError|TypeError|AttributeError|AssertionError|NotImplementedError)$")
_PARSES = re.compile(
    r"torch/distributed/(run|launch|launcher|argparse_util)|deepspeed/launcher|accelerate/commands|horovod/runner"
    r"|paddle/distributed/launch|torch_npu/distributed/run"
)
_OF_CODE = re.compile(
    r"^((builtins\.)?(AssertionError|AttributeError|IndexError|KeyError|LookupError|NameError|NotImplementedError|TypeError"
    r"|UnboundLocalError|Unicode\w*Error|ValueError|ZeroDivisionError)|json\.decoder\.JSONDecodeError)$"
)
"""Exceptions that Python code raises about its own values; what stands in quotes in them is such a value."""
_QUOTED = re.compile(r"""(?<![A-Za-z0-9])(?:'[^'\n]{0,2000}'|"[^"\n]{0,2000}")""")
_CLEAN_EXIT = re.compile(
    r"(?:^|[\s)\]])(?:(?:\w+\.)*(?:SystemExit|GeneratorExit)|click\.exceptions\.Exit|typer\.Exit)"
    r"(?:: *(?:0|None|False)?|\((?:0|None|False|)\))?\s*$"
    r"|\bexception=(?:SystemExit|GeneratorExit)\((?:0|None|False|)\)"
)
"""A program that ends itself with status 0, however that is written. It fails nobody."""
_CANCELLED_TASK = re.compile(r"^(?:\w+\.)*CancelledError(?:: *)?$")
"""What a coroutine says when something else ended it."""
_CITED = re.compile(r'(?<![\w=\\])"[^"\n]{0,30}[ ][^"\n]{1,2000}"')
_CARRIER = re.compile(
    r'^\s*[{\[]|"\s*:|\b(msg|message|err|error|reason|detail|details|cause|stderr)[\s=:]|rror[:\]]|^\w*Error'
)
"""Lines whose quotes hold what the program itself says: JSON, logfmt, messages of errors."""
_SIGNAL_TYPE = re.compile(r"SignalException$")
_SEVERITY = re.compile(
    r"\b(ERROR|FATAL|CRITICAL|SEVERE|PANIC|EMERG)\b|^\W{0,3}[EF]\d{4} |\b[Ee]rror: |^\W{0,3}(error|fatal)\b"
    r"|\[(error|fatal|E)\b|\"(level|severity|lvl)\": ?\"(error|fatal|critical)"
    r"|level=(error|fatal|panic)|\bpanic: |\bpanicked at |\bfatal error\b|^Exception in thread \"main\"|^Caused by: "
    r"|[Uu]nhandled exception|[Uu]ncaught exception|^\s*what\(\): "
    r"|^Error (from|in|at|while|when|during|opening|reading|loading|code)\b|\bError -?\d+: [A-Z]"
)
_MILD = re.compile(r"(?<!NCCL )\b(WARN|WARNING|INFO|NOTICE|DEBUG)\b|^\W{0,3}[WI]\d{4} |\[(W|I|WARN|INFO)\b")
"""The writer itself marks the line as less than an error. (NCCL writes its errors as WARN.)"""
_EXPLAINED_BELOW = re.compile(r"HCCL|inner error|call \w+ api failed|error code", re.IGNORECASE)
"""Only such a message is explained by symptoms in the lines after it: others may be followed by other ranks' echoes."""
_THREAD = re.compile(r"^Exception in thread (?!MainThread)")
_NOISE_FRAME = re.compile(
    r"^\s*(frame #\d+|#\d+ +0x|\[bt\]|@ +0x|\d+ +(0x|paddle|torch|at::|c10|std::|tensorflow)|[-=*_~]{4,}$"
    r"|CUDA kernel errors might be|For debugging consider passing|Compile with .TORCH_USE|Exception raised from )"
)
_SYMPTOM_FAMILIES = frozenset({"gpu-illegal-access", "segfault", "internal-assert", "gpu-missing", "compiler", "code"})
_MERE_ECHOES = frozenset({"native-frame", "nccl-tail", "watchdog-echo", "native-death"})
_SAID_IN_PASSING = frozenset(
    {
        "code",
        "process-limit",
        "file-missing",
        "arguments",
        "api-mismatch",
        "parallel-config",
        "collective-usage",
        "internal-assert",
        "package-missing",
        "permission",
        "data-format",
        "auth",
        "remote-service",
        "shared-library",
    }
)
_XID_FAMILIES = {
    **dict.fromkeys((48, 64, 94, 95, 140, 171, 172), "gpu-ecc"),
    **dict.fromkeys((79, 167), "gpu-bus"),
    **dict.fromkeys((46, 62, 109, 119, 120, 158, 169), "gpu-hang"),
}


class Condition(StrEnum):
    """What a rule may ask of the rest of the log."""

    GPU_LOST_LATER = "gpu-lost-later"
    MEMORY_HELD_BY_OTHERS = "memory-held-by-others"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one record was judged, and by which rule.

    Attributes:
        family: the failure family, for a cause; ``None`` where no rule knows the record.
        soft: gives way to any other explanation (signals from outside, weak success words).
        is_generic: only the type of a Python exception is known, not what it means.
    """

    role: Role
    rule_id: str | None = None
    family: Family | None = None
    ending: Ending | None = None
    soft: bool = False
    is_generic: bool = False
    why: str = ""

    @property
    def is_mere_echo(self) -> bool:
        """A line of a native stack or an abort notice: its numbers mean nothing, one is like the other."""
        return self.rule_id in _MERE_ECHOES

    @property
    def family_name(self) -> str | None:
        return self.family.name if self.family is not None else None

    @property
    def is_symptom(self) -> bool:
        """Whether hardware evidence nearby explains it better than its own words."""
        return self.family is not None and self.family.name in _SYMPTOM_FAMILIES

    @property
    def is_general(self) -> bool:
        """Whether the words are used for many things, and so often for another one."""
        return self.family is not None and self.family.name in (_SYMPTOM_FAMILIES | _SAID_IN_PASSING)


@dataclass(slots=True)
class Judge:
    """Judges records by a rule base; remembers what it said of lines that differ only in idle numbers.

    Not to be shared between threads.
    """

    rules: RuleBase
    _memo: Memo[str, Verdict] = field(default_factory=Memo)

    def judge(self, record: Record, met: frozenset[Condition] = frozenset()) -> Verdict:
        """The role of a record.

        Args:
            met: conditions that the rest of the log meets for this record.
        """
        if record.kind is RecordKind.TRACEBACK:
            return self._judge_traceback(record, met)
        is_ignored = record.lead.startswith("Exception ignored in")
        key = f"{self._key(record.text)}\n{is_ignored}\n{','.join(sorted(met))}"
        verdict = self._memo.get(key)
        if verdict is None:
            verdict = self._judge_line(record, met)
            self._memo.put(key, verdict)
        return verdict

    def is_blind_to_digits(self, record: Record) -> bool:
        """Whether every line that differs from this one in its digits only is judged alike."""
        return _has_plain_digits(record.text) and not self.rules.looks_at_digits_of(record.text)

    def _key(self, text: str) -> str:
        return self.rules.key(text) if _has_plain_digits(text) else stable_key(text)

    def _judge_line(self, record: Record, met: frozenset[Condition]) -> Verdict:
        text = record.text
        if _NOISE_FRAME.match(text):
            return Verdict(Role.CASCADE, "native-frame", why="a native stack frame")
        if _CLEAN_EXIT.search(text):
            return _clean_exit()
        if _CANCELLED_TASK.match(text):
            return Verdict(Role.CASCADE, "cancelled-task", why="a task that something else ended")
        if (xid := self._judge_xid(_without_values(record, text))) is not None:
            return xid
        found = [rule for rule in self._said_by(record, text) if _conditions_met(rule, met)]
        by_role: defaultdict[Role, list[Rule]] = defaultdict(list)
        for rule in found:
            by_role[rule.role].append(rule)
        if record.lead.startswith("Exception ignored in"):
            return Verdict(Role.TEARDOWN, "ignored", why="Python ignored this exception")
        benign = next((rule for rule in by_role[Role.BENIGN] if rule.strength == "hard"), None)
        if benign is not None and not _hard_hardware(by_role[Role.ROOT]):
            return _of(benign, "a known harmless line")
        if by_role[Role.EVIDENCE]:
            return _of(by_role[Role.EVIDENCE][0], "tells what kind of error it was")
        roots = [rule for rule in by_role[Role.ROOT] if rule.rule_id != _GENERIC_RULE]
        if by_role[Role.HANDLED] and not _hard_hardware(roots):
            return _of(by_role[Role.HANDLED][0], "the line itself says that the program goes on")
        if by_role[Role.CANCEL] and not roots:
            return _of(by_role[Role.CANCEL][0], "ended on purpose")
        if roots and not (by_role[Role.CASCADE] and _echo_only(roots)):
            in_passing = _echo_only(roots[:1]) or _MILD.search(text[:160]) is not None
            verdict = _of(roots[0], roots[0].family.title if roots[0].family else "")
            return replace(verdict, soft=True) if in_passing else verdict
        if by_role[Role.CASCADE]:
            echo = _of(by_role[Role.CASCADE][0], "an echo of a failure elsewhere")
            # What an echo says in passing is better than nothing, when nothing else says anything.
            return replace(echo, family=roots[0].family) if roots else echo
        if by_role[Role.WEAK]:
            rule = by_role[Role.WEAK][0]
            return _of(rule, rule.family.title if rule.family else "")
        for role in (Role.RESTARTED, Role.SUCCESS):
            if by_role[role]:
                return _of(by_role[role][0], "")
        if is_bare_exception(text):
            return _generic(found, "an exception whose traceback is not in the log")
        if by_role[Role.BENIGN]:
            return _of(by_role[Role.BENIGN][0], "a known harmless line")
        if _SEVERITY.search(text):
            return Verdict(Role.UNKNOWN, why="marked as an error; no rule knows it")
        if any(rule.role is Role.TEARDOWN for rule in found) and "rror" in text:
            return _of(by_role[Role.TEARDOWN][0], "printed while the program is taken apart")
        return Verdict(Role.NONE)

    def _judge_traceback(self, record: Record, met: frozenset[Condition]) -> Verdict:
        name = record.exception_type or ""
        if not record.complete:
            return Verdict(Role.UNKNOWN, why="a traceback whose last line is missing")
        if record.lead.startswith("Exception ignored in"):
            return Verdict(Role.TEARDOWN, "ignored", why="Python ignored this exception")
        if name.rsplit(".", 1)[-1] == "KeyboardInterrupt":
            return Verdict(Role.CANCEL, "interrupted", ending=Ending.INTERRUPTED, why="interrupted by the user")
        if _CLEAN_EXIT.match(record.text):
            return _clean_exit()
        if _CANCELLED_TASK.match(record.text):
            return Verdict(Role.CASCADE, "cancelled-task", why="a task that something else ended")
        if _SIGNAL_TYPE.search(name):
            return Verdict(Role.CANCEL, "terminated", ending=Ending.TERMINATED, soft=True, why="a signal from outside")
        found = [rule for rule in self._rules_of(record) if _conditions_met(rule, met)]
        if _LAUNCHER_TYPE.search(name) and not any(rule.role is Role.ROOT for rule in found):
            return Verdict(Role.CASCADE, "launcher-summary", why="the launcher reports that a process failed")
        own_fault = _CONFIGURED.search(name) is not None and not any(rule.role is Role.CASCADE for rule in found)
        if own_fault and record.frames and _PARSES.search(record.frames[-1].file) is not None:
            # A launcher that cannot read what it was given fails before it starts anything: its own error is the cause.
            return Verdict(
                Role.ROOT,
                _GENERIC_RULE,
                self.rules.families.get("arguments"),
                soft=True,
                why="the launcher's own error",
            )
        if record.frames and all(_LAUNCHER_FILE.search(frame.file) for frame in record.frames[-2:]):
            return Verdict(Role.CASCADE, "launcher-frames", why="raised inside the launcher")
        evidence = next((rule for rule in found if rule.role is Role.EVIDENCE), None)
        if evidence is not None:
            return _of(evidence, "printed by a library that goes on afterwards")
        root = next((rule for rule in found if rule.role is Role.ROOT and rule.rule_id != _GENERIC_RULE), None)
        if root is not None:
            return _of(root, root.family.title if root.family else "")
        said = found if _EXPLAINED_BELOW.search(record.text) else self._said_by(record, record.text)
        weak = next((rule for rule in said if rule.role is Role.WEAK), None)
        head = self.rules.matching(record.text)
        cascade = next((rule for rule in head if rule.role is Role.CASCADE), None)
        if cascade is not None or (_THREAD.match(record.lead) and weak is not None):
            return Verdict(
                Role.CASCADE, cascade.rule_id if cascade else "thread", why="what a process says when another one died"
            )
        if weak is not None:
            return _of(weak, weak.family.title if weak.family else "")
        return _generic(found, "an exception that nothing caught")

    def _said_by(self, record: Record, text: str) -> tuple[Rule, ...]:
        """The rules found, without those that accuse infrastructure or restart on the word of a quoted value only."""
        found = self.rules.matching(text)
        bare = _without_values(record, text)
        if record.kind is RecordKind.LINE:
            bare = _without_citations(bare)
        if bare == text or not any(_is_weighty(rule) for rule in found):
            return found
        kept = self.rules.matching(bare)
        return tuple(rule for rule in found if not _is_weighty(rule) or rule in kept)

    def _rules_of(self, record: Record) -> list[Rule]:
        """Rules found in the message first, then in earlier exceptions of its chain."""
        found = list(self._said_by(record, record.judged_text))
        named = [rule for rule in found if rule.role is Role.ROOT and rule.rule_id != _GENERIC_RULE]
        if not named:
            for text in reversed(record.chain):
                found.extend(rule for rule in self.rules.matching(text) if rule.role is Role.ROOT)
        return found

    def _judge_xid(self, text: str) -> Verdict | None:
        sighting = find_xid(text)
        if sighting is None:
            return None
        entry = load_xids().entry(sighting.code)
        if entry is None:
            return Verdict(Role.EVIDENCE, f"xid-{sighting.code}", why="an Xid that the catalogue does not have")
        if entry.points_to in (XidPointsTo.GPU, XidPointsTo.NVLINK):
            name = "nvlink-error" if entry.component is Component.NVLINK else _XID_FAMILIES.get(entry.code, "gpu-xid")
            family = self.rules.families.get(name)
            if family is not None:
                return Verdict(Role.ROOT, f"xid-{entry.code}", family, why=f"Xid {entry.code}: {entry.meaning}")
        return Verdict(Role.EVIDENCE, f"xid-{entry.code}", why=f"Xid {entry.code}: {entry.meaning}")


def _clean_exit() -> Verdict:
    return Verdict(Role.SUCCESS, CLEAN_EXIT, ending=Ending.SUCCEEDED, why="the program ended itself with status 0")


def _has_plain_digits(text: str) -> bool:
    """Codes of Xids and addresses are told from their digits by the judge itself, whatever the rules do."""
    return len(text) <= MAX_MATCHED_CHARS and "0x" not in text and "xid" not in text.lower()


def without_quoted(text: str) -> str:
    """The text with empty quotes in place of what stands in quotes."""
    return _QUOTED.sub("''", text)


def _without_values(record: Record, text: str) -> str:
    return without_quoted(text) if _OF_CODE.search(record.exception_type or "") else text


def _without_citations(text: str) -> str:
    """A line without the sentences that it cites, unless it is a logger's or marks itself as an error.

    A program that prints its data prints other people's errors: only what stands outside the quotes is its own.
    """
    if '"' not in text or _SEVERITY.search(text) or _CARRIER.search(text):
        return text
    return _CITED.sub('""', text)


def _is_weighty(rule: Rule) -> bool:
    family = rule.family
    if family is None:
        return False
    return family.category is Category.INFRASTRUCTURE or family.restart in (Restart.AGAIN, Restart.ELSEWHERE)


def _of(rule: Rule, why: str) -> Verdict:
    return Verdict(rule.role, rule.rule_id, rule.family, rule.ending, rule.strength == "soft", why=why)


def _generic(found: Sequence[Rule], why: str) -> Verdict:
    """An exception of which only the type is known."""
    rule = next((rule for rule in found if rule.rule_id == _GENERIC_RULE), None)
    if rule is None:
        return Verdict(Role.ROOT, is_generic=True, why=why)
    return Verdict(Role.ROOT, rule.rule_id, rule.family, is_generic=True, why=why)


def _conditions_met(rule: Rule, met: frozenset[Condition]) -> bool:
    return all(name in met for name in rule.requires)


def _hard_hardware(roots: list[Rule]) -> bool:
    """Whether a hardware or kernel signature stands in the line, which no soft word beside it can explain away."""
    return any(rule.family is not None and rule.family.component in (Component.GPU, Component.NVLINK) for rule in roots)


def _echo_only(roots: list[Rule]) -> bool:
    """Roots that are said in passing by launchers and other ranks, and so yield to the cascade rule."""
    return all(rule.family is not None and rule.family.name in _SAID_IN_PASSING for rule in roots)
