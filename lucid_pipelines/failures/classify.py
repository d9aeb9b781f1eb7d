"""Who is to blame: rules, then the shape of the traceback, then the text model, then a language model (R-3).

Numbered rules, read top to bottom. Every answer says what it rests on; below the threshold it is "unknown" and
a person is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from lucid_pipelines.failures.calibration import Calibration, Ground, load_calibration
from lucid_pipelines.failures.locate import Located
from lucid_pipelines.failures.records import Record, RecordKind, is_bare_exception
from lucid_pipelines.failures.rulebase import Family, RuleBase
from lucid_pipelines.failures.scan import Judged
from lucid_pipelines.failures.textmodel import LABELS, Opinion, TextModel
from lucid_pipelines.failures.verdicts import without_quoted
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Restart, Role

_NEAR_PLACES = 300
_VAGUE = frozenset({"internal-assert", "segfault"})
_SURE = 0.85
_HARDLY = 0.05
_DISPUTED = 0.55
"""The most that an answer is sure of that says only how a process died, or against which its own wording speaks; a
judgement, not measured."""
_SIGNATURE = re.compile(
    r"unexpected keyword argument|missing \d+ required (positional|keyword)|takes (from )?\d+ .{0,20}positional|"
    r"got multiple values for|takes no arguments|object is not callable|not subscriptable"
)
_NO_ATTRIBUTE = re.compile(r"module '?[\w.]+'? has no attribute|'(?P<owner>[A-Z]\w*)' object has no attribute")
_PLAIN_OBJECTS = frozenset(
    {"NoneType", "Tensor", "Parameter", "Namespace", "DataFrame", "Series", "Path", "DictConfig"}
)
_FOR_A_PERSON = re.compile(
    r"\b(is |are )?forbidden\b|\bunauthori[sz]ed\b|(permission|access) denied|not (permitted|authori[sz]ed)"
    r"|does not exist|\b(configmap|secret|volume|claim|bucket|image|queue|account|project|user|key|token|role"
    r"|namespace)s? \S{1,80} not found"
    r"|unknown (field|option|parameter)|invalid (option|argument|parameter|credential|token|value|name)"
    r"|(licen[sc]e|token|certificate|credentials?|subscription) (has |have |is |are )?(expired|invalid)"
    r"|certificate verify failed",
    re.IGNORECASE,
)
_IMPORT = re.compile(r"^(\w+\.)*(ImportError|ModuleNotFoundError)")
_SIGKILL = re.compile(
    r"signal:? ?-?9\b|SIGKILL|exit ?code:? ?:? ?-?(9|137)\b|status -?(9|137)\b|\bKilled\b", re.IGNORECASE
)
_WORKER_GONE = re.compile(r"worker.{0,40} exited unexpectedly")
_NATIVE = re.compile(
    r"signal:? ?-?(11|4|7|8)\b|SIG(SEGV|ILL|BUS|FPE)|exit ?code:? ?:? ?-?(11|139|132|135|136)\b|Segmentation",
    re.IGNORECASE,
)


_NAMES_A_CAUSE = frozenset(
    {
        Ground.HARDWARE,
        Ground.SPECIFIC,
        Ground.GENERAL,
        Ground.PASSING,
        Ground.SHAPE,
        Ground.OWN_CODE,
        Ground.PACKAGE_CODE,
    }
)


class Source(StrEnum):
    """What an answer rests on."""

    RULE = "rule"
    TRACEBACK = "traceback"
    TEXT_MODEL = "text_model"
    LANGUAGE_MODEL = "language_model"
    EVIDENCE = "evidence"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Classified:
    """The class of a failure.

    Attributes:
        category, component: ``None`` where nothing is to blame, or it is unknown.
        restart: what a restart would do.
        confidence: probability that category and component are right, as measured mostly of kinds of failure that
            no rule was written for: of the kinds that the rules know a lower bound.
        source: what the answer rests on.
        family: the failure family, when a rule or evidence named one.
        reasons: why, in order, for people.
        ground: the same as ``source``, as finely as its reliability differs; ``None`` where nothing was answered.
        support_frac: probability that the text model gives to the category; ``None`` = it was not asked.
        is_disputed: the error's own wording speaks against it.
    """

    category: Category | None
    component: Component | None
    restart: Restart
    confidence: float
    source: Source
    rule_id: str | None = None
    family: Family | None = None
    reasons: tuple[str, ...] = ()
    ground: Ground | None = None
    support_frac: float | None = None
    is_disputed: bool = False

    @property
    def names_a_cause(self) -> bool:
        """Whether a rule or the shape of a traceback names the cause, and nothing speaks against it."""
        return self.ground in _NAMES_A_CAUSE and not self.is_disputed

    @property
    def is_known(self) -> bool:
        return self.category is not None

    def advises_restart(self, ending: Ending, limits: Thresholds) -> bool:
        """Whether to start a job that ended so again: a restart would help, and that is sure enough."""
        return ending is Ending.FAILED and self.restart.is_automatic and self.confidence >= limits.restart


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Below these confidences an answer is not given, or not acted on.

    Attributes:
        category: below it the class is unknown and a person is asked.
        restart: below it nothing is restarted by itself.
        ask_language_model: below it a configured language model is asked.
    """

    category: float = 0.40
    restart: float = 0.60
    ask_language_model: float = 0.75


def classify(
    located: Located,
    rules: RuleBase,
    model: TextModel | None,
    thresholds: Thresholds | None = None,
    *,
    use_rules: bool = True,
    calibration: Calibration | None = None,
) -> Classified:
    """The class of what ``locate`` found.

    Args:
        located: the first true error and what stands around it.
        model: judges what no rule knows; ``None`` = such things stay unknown.
        use_rules: ``False`` measures the text model alone.
        calibration: how sure answers are; ``None`` = as shipped.
    """
    limits = thresholds or Thresholds()
    answer = _answer(located, rules, model, limits, use_rules=use_rules)
    if answer.ground is None:
        return answer
    measured = (calibration or load_calibration()).confidence(answer.ground, answer.support_frac)
    answer = replace(answer, confidence=min(measured, answer.confidence))
    if answer.category is None or answer.confidence >= limits.category:
        return answer
    why = f"such answers are right in {answer.confidence:.0%} of cases only: a person should look"
    return Classified(None, None, Restart.NEVER, answer.confidence, Source.NONE, reasons=(*answer.reasons, why))


def _answer(
    located: Located, rules: RuleBase, model: TextModel | None, limits: Thresholds, *, use_rules: bool
) -> Classified:
    """The class with what it rests on; its confidence is the most that it may be."""
    root = located.root
    # 1. Nothing failed, or its cause is not in the log.
    if located.ending is not Ending.FAILED or root is None:
        why = "nothing is to blame: " + located.basis
        if located.ending is Ending.UNKNOWN:
            return Classified(None, None, Restart.NEVER, 0.0, Source.NONE, reasons=(why,))
        return Classified(None, None, Restart.NEVER, 1.0, Source.NONE, reasons=(why,), ground=Ground.BLAMELESS)
    # 2. A rule names the family; evidence beside it may sharpen it.
    family = root.verdict.family
    if use_rules and family is not None and not root.verdict.is_generic:
        other = _otherwise(root, family, model)
        return other if other is not None else _by_family(root, family, located, rules, model)
    # 3. Only echoes are left, and one says how a process died.
    if use_rules and root.role is Role.CASCADE:
        return _by_echo(root, rules)
    # 4. The shape of the traceback: a call inside installed packages failed, not the job's own.
    if use_rules and (shaped := _by_shape(root.record, rules)) is not None:
        return shaped
    # 5. A plain Python error raised by the job's own code is the job's own.
    if use_rules and (plain := _by_own_code(root, model)) is not None:
        return plain
    # 6. The text model, with what kind of exception it is as a prior.
    return _by_model(root, model, limits, use_rules=use_rules)


def _by_family(root: Judged, family: Family, located: Located, rules: RuleBase, model: TextModel | None) -> Classified:
    name = family.name
    reasons = [f"{root.verdict.rule_id}: {family.title}"]
    most, restart = 1.0, family.restart
    if root.role is Role.WEAK:
        reasons.append("a symptom: no rank names an earlier cause")
    if _speaks_against(root, family, model):
        most, restart = _DISPUTED, Restart.UNSURE if restart.is_automatic else restart
        reasons.append("the wording speaks against it: a person should look before anything is restarted")
    if restart.is_automatic and _is_only_cited(root, rules):
        most, restart = _DISPUTED, Restart.UNSURE
        reasons.append("the job's own code raised it, and the telling words stand in quotes: they may be its data")
    if restart.is_automatic and _is_for_a_person(root, family):
        restart = Restart.UNSURE
        reasons.append("the wording names something that is missing or not allowed: a restart would find it so again")
    if name in ("checkpoint-write", "io-error") and "disk-full" in rules.families and _near(located, root, "disk-full"):
        family = rules.family("disk-full")
        restart = family.restart
        reasons.append("a line nearby shows the file system at 100 %")
    if name in ("peer-reset", "collective-timeout", "rendezvous") and (part := _hardware_nearby(located, root)):
        reasons.append(f"line {part.record.number} nearby: {part.record.text[:100]}")
    return Classified(
        family.category,
        family.component,
        restart,
        most,
        Source.RULE,
        root.verdict.rule_id,
        family,
        tuple(reasons),
        _ground_of(root, family),
        _support(root, family.category, model),
        most < 1.0,
    )


def _ground_of(root: Judged, family: Family) -> Ground:
    if root.role is Role.WEAK:
        return Ground.SYMPTOM
    if root.role is Role.CASCADE:
        return Ground.PASSING
    if family.component in (Component.GPU, Component.NVLINK):
        return Ground.HARDWARE
    return Ground.GENERAL if root.verdict.is_general else Ground.SPECIFIC


def _support(root: Judged, category: Category, model: TextModel | None) -> float | None:
    """How likely the text model thinks the category is; codes have no wording to read."""
    if model is None or (root.verdict.rule_id or "").startswith("xid-"):
        return None
    return model.judge(root.record.judged_text).category_frac(category)


def _is_only_cited(root: Judged, rules: RuleBase) -> bool:
    """Whether a script's own exception holds the words of the rule in quotes only, as it would show a value."""
    record = root.record
    if record.kind is not RecordKind.TRACEBACK or not record.frames or not record.frames[-1].is_own_code:
        return False
    bare = without_quoted(record.judged_text)
    return bare != record.judged_text and all(rule.rule_id != root.verdict.rule_id for rule in rules.matching(bare))


def _is_for_a_person(root: Judged, family: Family) -> bool:
    """Whether the error's own words say what a person must provide or allow, whatever part they are about.

    Hardware is never missing for such a reason, and what a node's services refuse one another is not for its user.
    """
    if family.component not in (Component.NETWORK, Component.STORAGE):
        return False
    return _FOR_A_PERSON.search(root.record.text[:2000]) is not None


def _speaks_against(root: Judged, family: Family, model: TextModel | None) -> bool:
    """The text model finds hardly any infrastructure in what a rule calls so; codes have no wording to read."""
    if family.category is not Category.INFRASTRUCTURE:
        return False
    support = _support(root, Category.INFRASTRUCTURE, model)
    return support is not None and support < _HARDLY


def _otherwise(root: Judged, family: Family, model: TextModel | None) -> Classified | None:
    """A vague rule ("internal error") yields to a text model that is sure of something else."""
    if model is None or family.name not in _VAGUE or root.role is not Role.WEAK:
        return None
    label, share = model.judge(root.record.judged_text).best_failure()
    category, component = LABELS[label]
    if share < _SURE or (category, component) == (family.category, family.component):
        return None
    why = f"{root.verdict.rule_id} is vague, and the text reads like {label} ({share:.2f})"
    restart = Restart.UNSURE if category is Category.INFRASTRUCTURE else Restart.NEVER
    return Classified(
        category, component, restart, 1.0, Source.TEXT_MODEL, "text-model", None, (why,), Ground.WORDS, share
    )


def _by_echo(root: Judged, rules: RuleBase) -> Classified:
    text = root.record.text
    family = None
    if _NATIVE.search(text):
        family, why = rules.families.get("segfault"), "a process died in native code and left no other message"
    elif _WORKER_GONE.search(text):
        family, why = rules.families.get("host-oom"), "a data worker went away without a word: most often host memory"
    elif _SIGKILL.search(text):
        family, why = rules.families.get("host-oom"), "a process was killed and left no message: most often host memory"
    else:
        why = "only echoes of a failure are left"
    if family is None:
        return Classified(None, None, Restart.NEVER, 0.0, Source.NONE, reasons=(why,))
    return Classified(
        family.category,
        family.component,
        Restart.NEVER,
        _DISPUTED,
        Source.EVIDENCE,
        root.verdict.rule_id,
        family,
        (why,),
        Ground.ECHO,
    )


def _by_shape(record: Record, rules: RuleBase) -> Classified | None:
    """A signature or attribute error raised inside installed packages is a misfit of versions, not a user's bug."""
    frames = record.frames
    if not frames or frames[-1].is_own_code:
        return None
    text = record.text
    name = (record.exception_type or "").rsplit(".", 1)[-1]
    misfit = name == "TypeError" and _SIGNATURE.search(text) is not None
    if name == "AttributeError" and (match := _NO_ATTRIBUTE.search(text)):
        misfit = match["owner"] not in _PLAIN_OBJECTS
    if _IMPORT.match(text):
        misfit = True
    family = rules.families.get("api-mismatch")
    if not misfit or family is None:
        return None
    why = (
        f"raised in {frames[-1].file.rsplit('/', 1)[-1]}, inside an installed package, by a call that no own code makes"
    )
    return Classified(
        family.category, None, family.restart, 1.0, Source.TRACEBACK, "frames", family, (why,), Ground.SHAPE
    )


def _by_own_code(root: Judged, model: TextModel | None) -> Classified | None:
    family, frames = root.verdict.family, root.record.frames
    if family is None or not root.verdict.is_generic or not frames or not frames[-1].is_own_code:
        return None
    why = (
        f"{family.title}: {root.record.exception_type} in {frames[-1].file.rsplit('/', 1)[-1]}, line {frames[-1].line}"
    )
    return Classified(
        family.category,
        None,
        Restart.NEVER,
        1.0,
        Source.TRACEBACK,
        root.verdict.rule_id,
        family,
        (why,),
        Ground.OWN_CODE,
        _support(root, family.category, model),
    )


def _by_model(root: Judged, model: TextModel | None, limits: Thresholds, *, use_rules: bool) -> Classified:
    record = root.record
    family = root.verdict.family if use_rules else None
    opinion = model.judge(record.judged_text) if model is not None else None
    is_python = record.kind is RecordKind.TRACEBACK or is_bare_exception(record.text)
    prior = _prior(record, is_code=family is not None) if is_python and use_rules else {}
    shares = _shares(opinion, prior)
    label = max(shares, key=lambda key: shares[key], default=None)
    if label is None or shares[label] < limits.category:
        why = "no rule knows this error, and the text model is not sure enough: a person should look"
        return Classified(None, None, Restart.NEVER, shares.get(label or "", 0.0), Source.NONE, reasons=(why,))
    category, component = LABELS[label]
    restart = Restart.UNSURE if category is Category.INFRASTRUCTURE else Restart.NEVER
    source = Source.TEXT_MODEL if opinion is not None else Source.TRACEBACK
    why = f"no rule knows this text; it reads like {label} ({shares[label]:.2f})"
    if family is not None and category is family.category:
        return Classified(category, component, Restart.NEVER, 1.0, Source.RULE, root.verdict.rule_id, family,
            (f"{family.title}: {record.exception_type}", why), Ground.PACKAGE_CODE,
            _support(root, family.category, model))  # fmt: skip
    ground = Ground.EXCEPTION_WORDS if is_python else Ground.WORDS
    share = sum(x for name, x in shares.items() if LABELS[name][0] is category)
    return Classified(category, component, restart, 1.0, source, "text-model", None, (why,), ground, share)


def _prior(record: Record, *, is_code: bool) -> dict[str, float]:
    """What the kind of exception and the place where it was raised tell, before its words are read."""
    if is_code:
        return {"user_script": 0.82, "framework": 0.12, "storage": 0.02, "network": 0.02, "node": 0.01, "gpu": 0.01}
    name = (record.exception_type or "").rsplit(".", 1)[-1]
    if name in ("OSError", "IOError", "FileExistsError", "BlockingIOError"):
        return {"storage": 0.35, "user_script": 0.25, "framework": 0.15, "network": 0.15, "gpu": 0.05, "node": 0.05}
    if re.search(r"Connection|Timeout|Network|Socket|Http|HTTP|Unavailable|Rpc|RPC", name):
        return {"network": 0.55, "storage": 0.12, "node": 0.12, "user_script": 0.10, "framework": 0.08, "gpu": 0.03}
    if "Import" in name or "Compil" in name:
        return {"framework": 0.70, "user_script": 0.28, "gpu": 0.01, "node": 0.01}
    rest = {"network": 0.10, "storage": 0.10, "gpu": 0.08, "node": 0.05, "nvlink": 0.03}
    return {"user_script": 0.32, "framework": 0.32, **rest}


def _shares(opinion: Opinion | None, prior: dict[str, float]) -> dict[str, float]:
    """The model's probabilities, given that it is an error, mixed with the prior."""
    if opinion is None:
        return prior
    rest = {label: p for label, p in opinion.probabilities.items() if label != "harmless"}
    if prior:
        rest = {label: p * prior.get(label, 0.01) for label, p in rest.items()}
    total = sum(rest.values())
    return {label: p / total for label, p in rest.items()} if total else {}


def _near(located: Located, root: Judged, family: str) -> bool:
    return any(
        item.verdict.family_name == family and abs(item.position - root.position) <= _NEAR_PLACES
        for item in located.evidence
    )


def _hardware_nearby(located: Located, root: Judged) -> Judged | None:
    for item in located.evidence:
        family = item.verdict.family
        is_hardware = family is not None and family.component in (Component.GPU, Component.NVLINK)
        if is_hardware and abs(item.position - root.position) <= _NEAR_PLACES:
            return item
    return None
