"""The versioned rule base: patterns and failure families, read from data files (issue: data, not code)."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, cast

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.failures.literals import DigitBlind, blind_to_digits, branches
from lucid_pipelines.failures.memo import Memo
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Restart, Role

MAX_MATCHED_CHARS = 4096
_FLAGS = re.IGNORECASE | re.MULTILINE
_VOLATILE = re.compile(
    r"\d(?:(?<=0)x[0-9a-fA-F]+|\d*(?:\.\d+){2,3}|\d:\d\d:\d\d\S*|(?<=<\d)\d*(?=>)|(?<=[Rr]ank \d)\d*|(?<=rank\d)\d*"
    r"|(?<=#\d)\d*|(?<=pid \d)\d*|(?<=pid=\d)\d*|(?<=Num=\d)\d*|(?<=In=\d)\d*|(?<=Out=\d)\d*|(?<=task \d)\d*"
    r"|(?<=for \d)\d*(?= milli))"
)
"""Numbers that no rule looks at; two texts that differ only in them share one answer."""
_DEFAULT_PRIORITY = 50
_GRAM = 4
_ALIKE = str.maketrans("123456789", "000000000")


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
        return _is_found(self.pattern, text)


_Place = tuple[int, Branch]


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


@dataclass(frozen=True, slots=True)
class _Form:
    """What can be told of every text that differs from one only in its digits.

    Attributes:
        found: rules whose pattern all such texts match.
        by_digits: rules and branches that some of them may match.
        is_decided: no exception to one of those rules looks at digits.
    """

    found: frozenset[int]
    by_digits: tuple[_Place, ...]
    is_decided: bool


class _LiteralIndex:
    """Finds the branches that may match a text, by the literals that they need, all at once.

    Of each literal one piece of four characters is kept in a table; the pieces of a text are looked up in it together,
    and only the literals whose piece is there are searched. Digits are all taken for zeros, in literals as in texts.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._always: list[_Place] = []
        self._undecided: set[int] = set()
        literals: dict[str, list[_Place]] = {}
        for index, rule in enumerate(rules):
            if rule.unless is not None and not blind_to_digits(rule.unless.pattern).is_exact:
                self._undecided.add(index)
            for branch in rule.branches:
                place = (index, branch)
                if branch.literals is None:
                    self._always.append(place)
                for literal in branch.literals or ():
                    literals.setdefault(literal.translate(_ALIKE), []).append(place)
        self._places = {literal: tuple(places) for literal, places in literals.items()}
        self._short = tuple(literal for literal in literals if len(literal) < _GRAM)
        self._by_gram = _by_rarest_gram([literal for literal in literals if len(literal) >= _GRAM])

    def form(self, masked: str) -> _Form:
        """Args: masked: a text with its digits all zeros."""
        lowered = masked.lower()
        possible = dict.fromkeys(self._always)
        grams = {lowered[i : i + _GRAM] for i in range(len(lowered) - _GRAM + 1)}
        for gram in grams & self._by_gram.keys():
            for literal in self._by_gram[gram]:
                if literal in lowered:
                    possible.update(dict.fromkeys(self._places[literal]))
        for literal in self._short:
            if literal in lowered:
                possible.update(dict.fromkeys(self._places[literal]))
        found: set[int] = set()
        by_digits: list[_Place] = []
        for index, branch in possible:
            blind = _blind(branch.pattern)
            if blind.pattern is not None and not _is_found(blind.pattern, masked):
                continue
            if blind.is_exact:
                found.add(index)
            else:
                by_digits.append((index, branch))
        told = found.union(index for index, _ in by_digits)
        return _Form(frozenset(found), tuple(by_digits), self._undecided.isdisjoint(told))


@cache
def _blind(pattern: str) -> DigitBlind:
    return blind_to_digits(pattern)


def _is_found(pattern: str, text: str) -> bool:
    """``^`` holds only at the start of a text without line breaks: no need to try every other place."""
    compiled = _compiled(pattern)
    found = compiled.match(text) if pattern[:1] == "^" and "\n" not in text else compiled.search(text)
    return found is not None


def _by_rarest_gram(literals: list[str]) -> dict[str, list[str]]:
    """The literals under the piece of each that the fewest literals share."""
    pieces = {literal: [literal[i : i + _GRAM] for i in range(len(literal) - _GRAM + 1)] for literal in literals}
    counts = Counter(gram for grams in pieces.values() for gram in set(grams))
    table: dict[str, list[str]] = {}
    for literal, grams in pieces.items():
        table.setdefault(min(grams, key=lambda gram: (counts[gram], gram)), []).append(literal)
    return table


@dataclass(slots=True)
class RuleBase:
    """All rules of one version, with a memo of masked texts. Not to be shared between threads.

    Attributes:
        version: newest version among the data files.
    """

    version: str
    rules: tuple[Rule, ...]
    families: Mapping[str, Family]
    _memo: Memo[str, tuple[Rule, ...]] = field(default_factory=Memo)
    _forms: Memo[str, _Form] = field(default_factory=Memo)
    _index: _LiteralIndex = field(init=False)

    def __post_init__(self) -> None:
        self._index = _LiteralIndex(self.rules)

    def matching(self, text: str) -> tuple[Rule, ...]:
        """Every rule whose pattern is found, highest priority first; conditions are not looked at.

        Args:
            text: a record without carrier prefixes; only its first 4,096 characters count.
        """
        return self._matching(text[:MAX_MATCHED_CHARS])[1]

    def key(self, text: str) -> str:
        """What of a text decides which rules are found in it: equal keys get equal answers.

        That is its form (the text with all digits alike), and which of the branches that look at digits are found.
        """
        return self._matching(text[:MAX_MATCHED_CHARS])[0]

    def looks_at_digits_of(self, text: str) -> bool:
        """Whether a text that differs from this one in its digits only may get another answer."""
        form = self._form(text[:MAX_MATCHED_CHARS].translate(_ALIKE))
        return bool(form.by_digits) or not form.is_decided

    def _matching(self, text: str) -> tuple[str, tuple[Rule, ...]]:
        masked = text.translate(_ALIKE)
        form = self._form(masked)
        told = ""
        if form.by_digits:
            lowered = text.lower()
            told = ",".join([str(i) for i, branch in form.by_digits if branch.found_in(text, lowered)])
        key = f"{masked}\0{told}" if form.is_decided else stable_key(text)
        found = self._memo.get(key)
        if found is None:
            found = self._search(text, form, {int(i) for i in told.split(",") if i})
            self._memo.put(key, found)
        return key, found

    def _form(self, masked: str) -> _Form:
        form = self._forms.get(masked)
        if form is None:
            form = self._index.form(masked)
            self._forms.put(masked, form)
        return form

    def _search(self, text: str, form: _Form, hits: set[int]) -> tuple[Rule, ...]:
        found = sorted(hits | form.found)
        return tuple(rule for i in found if (rule := self.rules[i]).unless is None or not rule.unless.search(text))

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
