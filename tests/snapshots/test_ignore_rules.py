"""Ignore files mean what git means by them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lucid_pipelines.snapshots.ignore_rules import for_matching, parse_rules

_ATOMS = st.sampled_from(
    ["a", "b", "*", "**/", "/**", "/", "!", "?", "[ab]", "[!a]", "[^b]", ".py", "\\*", "#", " ", "ab", "*.py", "x", "["]
)  # fmt: skip
_LINES = st.lists(_ATOMS, min_size=1, max_size=4).map("".join)
_NAMES = st.sampled_from(["a", "b", "ab", "x", "a.py", "b.py", "#a", "!a", "a b", " a", "[", "*"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
# Where asterisks stand next to other characters, git departs from its own documentation.
_UNDOCUMENTED = re.compile(r"[^/!]\*\*|\*\*[^/]|//")


def _included(lines: str, paths: list[str]) -> set[str]:
    rules = parse_rules(lines.encode(), ".gitignore")
    found: set[str] = set()
    for path in paths:
        steps = path.split("/")
        verdicts = (
            rules.decide("/".join(steps[:depth]), is_directory=depth < len(steps)) for depth in range(1, len(steps) + 1)
        )
        if all(rule is None or rule.negated for rule in verdicts):
            found.add(path)
    return found


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git, which is not installed")
@given(lines=st.lists(_LINES, min_size=1, max_size=5), paths=st.lists(_PATHS, min_size=1, max_size=20))
@settings(max_examples=70, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_git_agrees(lines: list[str], paths: list[str]) -> None:
    assume(not any(_UNDOCUMENTED.search(line) for line in lines))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        subprocess.run(["git", "init", "-q", name], check=True)
        files: list[str] = []
        for path in dict.fromkeys(paths):
            full = root / path
            if full.exists() or any(parent.is_file() for parent in full.parents):
                continue
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text("x")
            files.append(path)
        (root / ".gitignore").write_text("\n".join(lines))
        listed = subprocess.run(
            ["git", "-C", name, "ls-files", "-z", "-o", "--exclude-per-directory=.gitignore"],
            check=True,
            capture_output=True,
        ).stdout
        theirs = set(listed.decode().split("\0")) & set(files)
        assert _included("\n".join(lines), files) == theirs


@pytest.mark.parametrize(
    ("lines", "path", "is_directory", "ignored"),
    [
        ("*.log", "deep/down/a.log", False, True),
        ("/a.log", "deep/a.log", False, False),
        ("build/", "build", False, False),
        ("build/", "src/build", True, True),
        ("*\n!*/\n!*.py", "pkg", True, False),
        ("a/**", "a", True, False),
        ("a/**", "a/b", True, True),
        ("\\#notes", "#notes", False, True),
        ("\\!bang", "!bang", False, True),
        ("trail\\ ", "trail ", False, True),
        ("trail   ", "trail", False, True),
        ("crlf\r", "crlf", False, True),
        ("**", "anything", False, True),
        ("[^x]bc", "d/bc", False, False),
    ],
)
def test_known_cases(lines: str, path: str, is_directory: bool, ignored: bool) -> None:
    rule = parse_rules(lines.encode(), "f").decide(path, is_directory=is_directory)
    assert (rule is not None and not rule.negated) is ignored


def test_a_byte_order_mark_is_no_part_of_the_first_rule() -> None:
    assert parse_rules(b"\xef\xbb\xbf*.log\n", "f").decide("a.log", is_directory=False) is not None


def test_newlines_in_names_do_not_hide_them_from_the_rules() -> None:
    rules = parse_rules(b"*.log\nd/**/x\n", "f")
    assert rules.decide(for_matching("a\nb/c\n.log"), is_directory=False) is not None
    assert rules.decide(for_matching("d/e\nf/x"), is_directory=False) is not None


def test_lines_that_mean_nothing_are_told() -> None:
    rules = parse_rules(b"ok\n/\nends\\\n!\n", ".gitignore")
    assert [str(rule) for rule in rules.rules] == [".gitignore:1: ok"]
    assert [problem.split(":")[1] for problem in rules.problems] == ["2", "3", "4"]


@given(st.binary(max_size=200))
@settings(max_examples=150)
def test_any_bytes_can_be_an_ignore_file(data: bytes) -> None:
    rules = parse_rules(data, "f")
    rules.decide("some/path.py", is_directory=False)
