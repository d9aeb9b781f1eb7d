"""One ignore file: lines with the meaning that git gives them, the last match deciding.

``pathspec`` translates each line to a regular expression. The order of precedence is kept here, since a walk
asks about every directory on the way, where the library answers for whole paths at once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_EVERYTHING = re.compile(r"(?:\*|(?:/?\*\*/)*/?\*\*|(?:/?\*\*/)+\*)\Z")
_SET = re.compile(r"\\.|(\[\^?\]?(?:\\.|[^\]])*\])", re.DOTALL)
_WILDCARDS = re.compile(r"[*?\[\\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    line: str
    source: str
    number: int
    negated: bool
    only_directories: bool
    only_inside: bool
    """The pattern ends in ``/**``: it means what lies below, not the directory itself."""
    segments: tuple[str, ...]
    anchored: bool
    regex: re.Pattern[str] | None
    """``None`` matches everything."""

    def matches(self, path: str, *, is_directory: bool) -> bool:
        """Whether the rule means this very entry (not merely a directory above it)."""
        if self.only_directories and not is_directory:
            return False
        if self.regex is None:
            return True
        found = self.regex.search(path)
        if found is None:
            return False
        return self.only_inside or found.end() == len(path)

    def may_match_below(self, directory: str) -> bool:
        """Whether an anchored rule could mean something inside this directory."""
        if not self.anchored or self.segments[0] == "**":
            return False
        steps = directory.split("/")
        for step, segment in zip(steps, self.segments, strict=False):
            if segment == "**":
                return True
            if not fnmatchcase(step, segment):
                return False
        return len(self.segments) > len(steps)

    @property
    def names_one_file(self) -> bool:
        """The last part is a literal name: an explicit choice of that file."""
        return not _WILDCARDS.search(self.segments[-1])

    @property
    def names_a_kind(self) -> bool:
        """The last part is at least partly literal, such as ``*.pem``."""
        return self.segments[-1].strip("*?") != ""

    def __str__(self) -> str:
        return f"{self.source}:{self.number}: {self.line}" if self.number else self.line


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of one file, and the lines in it that mean nothing."""

    rules: tuple[Rule, ...]
    problems: tuple[str, ...] = ()

    def decide(self, path: str, *, is_directory: bool) -> Rule | None:
        """The last rule that means this entry; ``path`` is relative to the ignore file's directory."""
        for rule in reversed(self.rules):
            if rule.matches(path, is_directory=is_directory):
                return rule
        return None


def parse_rules(data: bytes, source: str) -> RuleSet:
    """Read an ignore file as git does: ``\\n`` ends a line, a UTF-8 mark and a ``\\r`` are skipped."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return make_rules(text.split("\n"), source)


def make_rules(lines: Iterable[str], source: str, *, numbered: bool = True) -> RuleSet:
    """Rules from lines; ``numbered=False`` for those that stand in no file."""
    rules: list[Rule] = []
    problems: list[str] = []
    for number, raw in enumerate(lines, start=1):
        line = _strip_end(raw.removesuffix("\r"))
        if not line or line.startswith("#"):
            continue
        try:
            rules.append(_compile(line, source, number if numbered else 0))
        except (GitIgnorePatternError, re.error):
            problems.append(f"{source}:{number}: not a pattern, so it matches nothing: {line}")
    return RuleSet(tuple(rules), tuple(problems))


def for_matching(path: str) -> str:
    """The form in which paths are compared: a newline would stop the ``.`` of a regular expression."""
    return path.replace("\n", "\0") if "\n" in path else path


def _compile(line: str, source: str, number: int) -> Rule:
    negated = line.startswith("!")
    body = line[1:] if negated else line
    only_directories = body.endswith("/")
    core = body[:-1] if only_directories else body
    if not core.strip("/"):
        raise GitIgnorePatternError(line)
    regex = None if _EVERYTHING.match(core) else _regex(core, line)
    return Rule(
        line=line,
        source=source,
        number=number,
        negated=negated,
        only_directories=only_directories,
        only_inside=core.endswith("/**"),
        segments=tuple(core.removeprefix("/").split("/")),
        anchored="/" in core,
        regex=regex,
    )


def _regex(core: str, line: str) -> re.Pattern[str]:
    # The first character has its special meaning only at the start of the line.
    plain = f"\\{core}" if core[0] in "!#" else core
    if plain.endswith(" ") and not plain.endswith("\\ "):
        plain = f"{plain[:-1]}\\ "  # a space that stood before the closing slash
    text, _ = GitIgnoreSpecPattern.pattern_to_regex(plain)
    if text is None:
        raise GitIgnorePatternError(line)
    with warnings.catch_warnings():
        # "Possible nested set": the brackets are meant as they stand.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(_SET.sub(_keep_off_slash, text))


def _keep_off_slash(token: re.Match[str]) -> str:
    """A bracket expression never matches ``/`` in git; in a regular expression ``[^a]`` would."""
    return token[0] if token[1] in (None, "[^/]") else f"(?!/){token[1]}"


def _strip_end(line: str) -> str:
    """Trailing spaces go unless a backslash keeps them."""
    stripped = line.rstrip(" ")
    kept = len(line) > len(stripped) and len(stripped) - len(stripped.rstrip("\\"))
    return f"{stripped} " if kept and kept % 2 else stripped
