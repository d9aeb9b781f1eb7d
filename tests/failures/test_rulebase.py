"""The rule base: shipped files are sound, wrong files are refused, the cheap test never loses a match."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures.corpus import build_corpus
from lucid_pipelines.failures.literals import blind_to_digits, branches, needed_literals
from lucid_pipelines.failures.rulebase import load_rules, shipped_documents
from lucid_pipelines.failures.vocabulary import Category, Restart, Role

FAMILY = """
[family.x]
title = "t"
category = "framework"
restart = "never"
advice = "a"
source = "s"
"""


def test_every_family_is_complete_and_every_rule_says_where_it_comes_from() -> None:
    rules = load_rules()
    assert rules.version >= "2025.11"
    for family in rules.families.values():
        assert family.title and family.advice.endswith(".") and family.source and family.date
        is_infrastructure = family.category is Category.INFRASTRUCTURE
        assert (family.component is not None) == is_infrastructure, family.name
        assert not (family.category is Category.USER_SCRIPT and family.restart.is_automatic), family.name
    for rule in rules.rules:
        assert rule.source and rule.date, rule.rule_id


def test_what_a_person_must_mend_first_is_never_restarted_by_itself() -> None:
    rules = load_rules()
    for name in ("disk-full", "quota", "checkpoint-cut", "checkpoint-write", "data-corrupt"):
        assert rules.family(name).restart is Restart.AFTER_FIX


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rule = 3 =", "not valid TOML"),
        (FAMILY + '[[rule]]\nid="a"\nfamily="x"\npattern="("\nsource="s"', "'a' is not valid"),
        (FAMILY + '[[rule]]\nid="a"\nfamily="y"\npattern="b"\nsource="s"', "no known family: 'y'"),
        ('[[rule]]\nid="a"\npattern="b"\nsource="s"', "needs a family"),
        (FAMILY + '[[rule]]\nid="a"\nfamily="x"\npattern="b"', "'a' is not valid"),
        (FAMILY + ('[[rule]]\nid="a"\nfamily="x"\npattern="b"\nsource="s"\n' * 2), "two rules have the id 'a'"),
        ('[family.z]\ntitle="t"', "family 'z' is not complete"),
        (FAMILY + '[[rule]]\nid="a"\nfamily="x"\nrole="boss"\npattern="b"\nsource="s"', "'a' is not valid"),
    ],
)
def test_a_damaged_rule_file_is_refused_and_says_where(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load_rules({"mine.toml": text})


def test_the_highest_priority_wins_and_unless_forbids() -> None:
    rules = load_rules(
        {
            "mine.toml": FAMILY
            + '[[rule]]\nid="low"\nfamily="x"\npattern="broken thing"\nsource="s"\n'
            + '[[rule]]\nid="high"\nfamily="x"\npriority=90\npattern="thing"\nunless="harmless"\nsource="s"\n'
        }
    )
    assert [rule.rule_id for rule in rules.matching("a BROKEN thing")] == ["high", "low"]
    assert [rule.rule_id for rule in rules.matching("a broken thing, harmless")] == ["low"]
    assert rules.matching("all is well") == ()


def test_leaving_a_family_out_takes_its_rules_with_it() -> None:
    rules = load_rules()
    text = "CUDA error: uncorrectable ECC error encountered"
    assert any(rule.family and rule.family.name == "gpu-ecc" for rule in rules.matching(text))
    smaller = rules.without(["gpu-ecc"])
    assert not any(rule.family and rule.family.name == "gpu-ecc" for rule in smaller.matching(text))
    with pytest.raises(InputError, match="did you mean 'gpu-ecc'"):
        rules.without(["gpu-eccc"])


def test_the_cheap_test_never_loses_a_match_on_error_texts() -> None:
    texts = [line.text for line in build_corpus(variants=1).lines]
    for name, document in shipped_documents().items():
        if not name.startswith("rules_"):
            continue
        for pattern in re.findall(r"^(?:pattern|unless) = '''(.*)'''$", document, re.MULTILINE):
            whole = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
            parts = [(re.compile(text, re.IGNORECASE | re.MULTILINE), lits) for text, lits in branches(pattern)]
            for text in texts:
                lowered = text.lower()
                by_parts = any(
                    (lits is None or any(lit in lowered for lit in lits)) and part.search(text) for part, lits in parts
                )
                assert by_parts == bool(whole.search(text)), (name, pattern[:60], text)


@given(st.text(alphabet="abcdef ()|[]?*+\\.^$0", max_size=30), st.text(alphabet="abcdef 0", max_size=30))
def test_needed_literals_are_needed(pattern: str, text: str) -> None:
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error:
        return
    literals = needed_literals(pattern)
    if literals is not None and compiled.search(text):
        assert any(literal in text.lower() for literal in literals)


def test_roles_without_a_family_are_not_causes() -> None:
    for rule in load_rules().rules:
        if rule.family is None:
            assert rule.role not in (Role.ROOT, Role.WEAK)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@given(
    st.text(alphabet="ab 0159()|[]?*+\\.^$-d{},!<", max_size=25),
    st.text(alphabet="ab 01589", max_size=25),
)
def test_what_holds_for_all_digits_alike_holds_for_each(pattern: str, text: str) -> None:
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError):
        return
    blind = blind_to_digits(pattern)
    alike = re.sub("[1-9]", "0", text)
    if blind.pattern is None:
        return
    found = re.search(blind.pattern, alike, re.IGNORECASE)
    if compiled.search(text):
        assert found
    if blind.is_exact:
        assert bool(compiled.search(text)) == bool(found)


@pytest.mark.parametrize(
    ("pattern", "is_exact"),
    [
        (r"exit code \d+", True),
        (r"lost [0-9a-f]{4,8}", True),
        ("errno 28", False),
        ("code 0", False),
        ("GPU[1-4]", False),
        (r"[^0]x", False),
        (r"(?<!1)00", False),
    ],
)
def test_patterns_that_tell_digits_apart_are_known(pattern: str, is_exact: bool) -> None:
    assert blind_to_digits(pattern).is_exact is is_exact


def test_the_index_finds_what_trying_every_rule_finds() -> None:
    rules = load_rules()
    texts = [line.text for line in build_corpus(variants=1).lines]
    texts += [re.sub(r"\d", digit, text) for text in texts[::3] for digit in "059"]
    for text in texts:
        expected = [rule.rule_id for rule in rules.rules if rule.matches(text)]
        assert [rule.rule_id for rule in rules.matching(text)] == expected, text


def test_numbers_that_a_rule_looks_at_are_not_mixed_up() -> None:
    rules = load_rules(
        {
            "mine.toml": FAMILY
            + '[[rule]]\nid="full"\nfamily="x"\npattern="errno 28\\\\b"\nsource="s"\n'
            + '[[rule]]\nid="any"\nfamily="x"\npattern="errno \\\\d+"\nunless="errno 30"\nsource="s"\n'
        }
    )
    for _ in range(2):
        assert [rule.rule_id for rule in rules.matching("errno 28")] == ["full", "any"]
        assert [rule.rule_id for rule in rules.matching("errno 27")] == ["any"]
        assert [rule.rule_id for rule in rules.matching("errno 30")] == []
