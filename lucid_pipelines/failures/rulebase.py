"""The versioned rule base: patterns and failure families, read from data files (issue: data, not code)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.failures.literals import branches
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Restart, Role

MAX_MATCHED_CHARS = 4096
_MEMO_LIMIT = 20_000
_Place = tuple[int, str]
_FLAGS = re.IGNORECASE | re.MULTILINE
_VOLATILE = re.compile(
    r"0x[0-9a-fA-F]+|\d+(?:\.\d+){2,3}|\d\d:\d\d:\d\d\S*|(?<=<)\d+(?=>)|(?<=[Rr]ank )\d+|(?<=rank)\d+|(?<=#)\d+"
    r"|(?<=pid )\d+|(?<=pid=)\d+|(?<=Num=)\d+|(?<=In=)\d+|(?<=Out=)\d+|(?<=task )\d+|(?<=for )\d+(?= milli)"
)
"""Numbers that no rule looks at; two texts that differ only in them share one answer."""
_DEFAULT_PRIORITY = 50


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of failure: its class and what may be done about it.

    Attributes:
        source, date: where the class is known from, and when the entry was checked.
    """

    name: str
    title: str
    category: Category
    component: Component | None
    restart: Restart
    advice: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative of a pattern, with literals of which a matching text holds at least one."""

    pattern: str
    literals: tuple[str, ...] | None

    def found_in(self, text: str, lowered: str) -> bool:
        if self.literals is not None and not any(literal in lowered for literal in self.literals):
            return False
        return _compiled(self.pattern).search(text) is not None


@dataclass(frozen=True, slots=True)
class Rule:
    """One signature.

    Attributes:
        branches: the alternatives of its pattern, searched in the record's text, case-insensitive.
        unless: forbids the match when found too.
        requires: names of conditions that the rest of the log must meet.
        ending: for ``cancel`` rules, how the run ended.
        strength: ``hard`` or ``soft`` (a soft one yields to any other explanation).
        priority: of several matching rules the highest wins.
    """

    rule_id: str
    role: Role
    branches: tuple[Branch, ...]
    unless: re.Pattern[str] | None
    family: Family | None
    requires: frozenset[str]
    ending: Ending | None
    strength: str
    priority: int
    source: str
    date: str

    def matches(self, text: str, lowered: str | None = None) -> bool:
        """Whether the pattern is found in ``text`` and the exception to it is not.

        Args:
            lowered: ``text.lower()``, when the caller has it already.
        """
        lowered = text.lower() if lowered is None else lowered
        return any(branch.found_in(text, lowered) for branch in self.branches) and (
            self.unless is None or not self.unless.search(text)
        )


@dataclass(slots=True)
class RuleBase:
    """All rules of one version, with a memo of masked texts. Not to be shared between threads.

    Attributes:
        version: newest version among the data files.
    """

    version: str
    rules: tuple[Rule, ...]
    families: Mapping[str, Family]
    _memo: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    _always: tuple[_Place, ...] = field(init=False)
    _by_literal: tuple[tuple[str, tuple[_Place, ...]], ...] = field(init=False)

    def __post_init__(self) -> None:
        always: list[_Place] = []
        needed: dict[str, list[_Place]] = {}
        for index, rule in enumerate(self.rules):
            for branch in rule.branches:
                if branch.literals is None:
                    always.append((index, branch.pattern))
                for literal in branch.literals or ():
                    needed.setdefault(literal, []).append((index, branch.pattern))
        self._always = tuple(always)
        self._by_literal = tuple((literal, tuple(places)) for literal, places in needed.items())

    def matching(self, text: str) -> tuple[Rule, ...]:
        """Every rule whose pattern is found, highest priority first; conditions are not looked at.

        Args:
            text: a record without carrier prefixes; only its first 4,096 characters count.
        """
        text = text[:MAX_MATCHED_CHARS]
        key = stable_key(text)
        found = self._memo.get(key)
        if found is None:
            found = self._search(text)
            if len(self._memo) >= _MEMO_LIMIT:
                self._memo.clear()
            self._memo[key] = found
        return found

    def _search(self, text: str) -> tuple[Rule, ...]:
        lowered = text.lower()
        possible = dict.fromkeys(self._always)
        for literal, places in self._by_literal:
            if literal in lowered:
                possible.update(dict.fromkeys(places))
        hits: set[int] = set()
        for index, pattern in possible:
            if index not in hits and _compiled(pattern).search(text):
                hits.add(index)
        return tuple(
            rule for i in sorted(hits) if (rule := self.rules[i]).unless is None or not rule.unless.search(text)
        )

    def without(self, families: Iterable[str]) -> RuleBase:
        """The rule base as if these families had never been written (leave-one-family-out)."""
        gone = frozenset(families)
        self._require(gone)
        kept = tuple(rule for rule in self.rules if rule.family is None or rule.family.name not in gone)
        return RuleBase(self.version, kept, {n: f for n, f in self.families.items() if n not in gone})

    def family(self, name: str) -> Family:
        """Raises ``InputError`` for an unknown name."""
        self._require((name,))
        return self.families[name]

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.families:
                raise InputError(f"no failure family {name!r}{did_you_mean(name, self.families)}")


def stable_key(text: str) -> str:
    """The text without the numbers that no rule looks at: equal keys get equal answers."""
    return _VOLATILE.sub("0", text)


def load_rules(documents: Mapping[str, str] | None = None) -> RuleBase:
    """Read the rule base that is shipped, or the given TOML documents (name → text).

    Raises:
        InputError: a document is not valid; says which rule and what is wrong.
    """
    if documents is None:
        return _shipped()
    rules = _build({name: _parse(name, text) for name, text in documents.items()})
    for rule in rules.rules:
        for branch in rule.branches:
            try:
                _compiled(branch.pattern)
            except re.error as error:
                raise InputError(f"rule {rule.rule_id!r} is not valid: {error} in {branch.pattern!r}") from error
    return rules


def shipped_documents() -> dict[str, str]:
    """The data files of the rule base that is shipped."""
    folder = files("lucid_pipelines.failures")
    names = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name == "families.toml" or (entry.name.startswith("rules_") and entry.name.endswith(".toml"))
    )
    return {name: (folder / name).read_text("utf-8") for name in names}


@lru_cache(maxsize=1)
def _shipped() -> RuleBase:
    # Its patterns are compiled on first use; that all of them can be is what a test is for.
    return _build({name: _parse(name, text) for name, text in shipped_documents().items()})


def _parse(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"rule file {name} is not valid TOML: {error}") from error


def _build(parsed: Mapping[str, dict[str, Any]]) -> RuleBase:
    families: dict[str, Family] = {}
    for name, document in parsed.items():
        for key, row in cast("dict[str, dict[str, Any]]", document.get("family", {})).items():
            families[key] = _family(key, row, str(row.get("date", document.get("version", ""))), name)
    rules: list[Rule] = []
    seen: set[str] = set()
    for name, document in parsed.items():
        for row in cast("list[dict[str, Any]]", document.get("rule", [])):
            rule = _rule({"priority": document.get("priority", _DEFAULT_PRIORITY), **row}, families, document, name)
            if rule.rule_id in seen:
                raise InputError(f"rule file {name}: two rules have the id {rule.rule_id!r}")
            seen.add(rule.rule_id)
            rules.append(rule)
    rules.sort(key=lambda rule: -rule.priority)
    version = max((str(document.get("version", "")) for document in parsed.values()), default="")
    return RuleBase(version, tuple(rules), families)


def _family(key: str, row: dict[str, Any], date: str, where: str) -> Family:
    try:
        component = row.get("component")
        return Family(
            name=key,
            title=str(row["title"]),
            category=Category(row["category"]),
            component=Component(component) if component is not None else None,
            restart=Restart(row["restart"]),
            advice=str(row["advice"]),
            source=str(row["source"]),
            date=date,
        )
    except (KeyError, ValueError) as error:
        raise InputError(f"rule file {where}: family {key!r} is not complete: {error}") from error


def _rule(row: dict[str, Any], families: Mapping[str, Family], document: dict[str, Any], where: str) -> Rule:
    rule_id = str(row.get("id", "?"))
    try:
        family_name = row.get("family")
        if family_name is not None and family_name not in families:
            raise InputError(
                f"rule file {where}: rule {rule_id!r} names no known family: {family_name!r}"
                f"{did_you_mean(str(family_name), families)}"
            )
        role = Role(row.get("role", "root"))
        if family_name is None and role in (Role.ROOT, Role.WEAK):
            raise InputError(f"rule file {where}: rule {rule_id!r} names a cause and so needs a family")
        unless = row.get("unless")
        ending = row.get("outcome")
        return Rule(
            rule_id=rule_id,
            role=role,
            branches=_branches(str(row["pattern"])),
            unless=re.compile(str(unless), _FLAGS) if unless is not None else None,
            family=families[family_name] if family_name is not None else None,
            requires=frozenset(row.get("requires", ())),
            ending=Ending(ending) if ending is not None else None,
            strength=str(row.get("strength", "hard")),
            priority=int(row["priority"]),
            source=str(row["source"]),
            date=str(row.get("date", document.get("date", ""))),
        )
    except (KeyError, ValueError, re.error) as error:
        raise InputError(f"rule file {where}: rule {rule_id!r} is not valid: {error}") from error


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use: most branches of most rules are never needed in one log."""
    return re.compile(pattern, _FLAGS)


def _branches(pattern: str) -> tuple[Branch, ...]:
    return tuple(Branch(text, literals) for text, literals in branches(pattern))
