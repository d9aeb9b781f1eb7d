"""What belongs to a snapshot: three layers of rules, nested ignore files included.

From strongest to weakest: ``.lucidignore`` (the user's word about snapshots, may leave out and bring back), the
built-in list, tracking by git (a tracked file is in whatever ``.gitignore`` says), ``.gitignore``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lucid_pipelines.snapshots.ignore_rules import Rule, RuleSet, for_matching, make_rules
from lucid_pipelines.snapshots.results import ExclusionReason

NEVER_INCLUDED = frozenset({".git", ".lucid"})
"""Not even ``.lucidignore`` brings these back: they change by themselves and hold the store."""

ALWAYS_IGNORED = (
    ".hg/", ".svn/", ".bzr/", "_darcs/",
    "__pycache__/", "*.py[cod]", ".venv/", "venv/", ".tox/", ".nox/", ".eggs/", ".direnv/",
    "node_modules/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".pytype/", ".hypothesis/",
    ".ipynb_checkpoints/", ".import_linter_cache/",
    ".DS_Store", "Thumbs.db", "*.swp", "*~",
)  # fmt: skip

_BUILT_IN = make_rules(ALWAYS_IGNORED, "built-in", numbered=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an entry is in, and the rule that said so.

    Attributes:
        reason: ``None`` = included.
        detail: the rule that excluded it.
        explicit: the ``.lucidignore`` line that asks for this very entry, if any.
    """

    reason: ExclusionReason | None = None
    detail: str = ""
    explicit: Rule | None = None


INCLUDED = Verdict()


@dataclass(frozen=True, slots=True)
class Tracked:
    """Paths that git tracks, and the directories that lead to them."""

    files: frozenset[str]
    directories: frozenset[str]

    @classmethod
    def of(cls, paths: frozenset[str]) -> Tracked:
        directories: set[str] = set()
        for path in paths:
            while (cut := path.rfind("/")) > 0 and (path := path[:cut]) not in directories:
                directories.add(path)
        return cls(paths, frozenset(directories))


@dataclass(frozen=True, slots=True)
class _Layer:
    prefix: str
    rules: RuleSet

    def decide(self, path: str, is_directory: bool) -> Rule | None:
        if self.prefix.startswith("/"):  # an ignore file above the source
            return self.rules.decide(self.prefix[1:] + path, is_directory=is_directory)
        return self.rules.decide(path[len(self.prefix) :], is_directory=is_directory)


@dataclass(frozen=True, slots=True)
class IgnoreScope:
    """The rules in force inside one directory.

    Attributes:
        inherited: why the directory itself is excluded, while it is searched for entries that are brought
            back; ``INCLUDED`` otherwise.
        tracked: asked only when ``.gitignore`` excludes something.
    """

    tracked: Callable[[], Tracked]
    git: tuple[_Layer, ...] = ()
    lucid: tuple[_Layer, ...] = ()
    inherited: Verdict = INCLUDED

    def with_files(self, directory: str, git: RuleSet | None, lucid: RuleSet | None) -> IgnoreScope:
        """The scope inside ``directory`` (``""`` for the root), given its own ignore files."""
        prefix = f"{for_matching(directory)}/" if directory else ""
        return replace(
            self,
            git=(_Layer(prefix, git), *self.git) if git and git.rules else self.git,
            lucid=(_Layer(prefix, lucid), *self.lucid) if lucid and lucid.rules else self.lucid,
        )

    def below_repository(self, steps_down: str, git: RuleSet) -> IgnoreScope:
        """Add the ``.gitignore`` of a directory above the source, which lies at ``steps_down`` from it."""
        return replace(self, git=(_Layer(f"/{for_matching(steps_down)}/", git), *self.git))

    def inside(self, verdict: Verdict) -> IgnoreScope:
        """The scope for the entries of a directory that itself got ``verdict``."""
        return replace(self, inherited=verdict if verdict.reason else INCLUDED)

    def judge(self, path: str, *, is_directory: bool) -> Verdict:
        """Decide about one entry of this directory."""
        matched = for_matching(path)
        for layer in self.lucid:
            rule = layer.decide(matched, is_directory)
            if rule is None:
                continue
            if rule.negated:
                return Verdict(explicit=rule)
            return Verdict(ExclusionReason.LUCIDIGNORE, str(rule))
        if self.inherited.reason not in (None, ExclusionReason.GITIGNORE):
            return self.inherited
        rule = _BUILT_IN.decide(matched, is_directory=is_directory)
        if rule is not None:
            return Verdict(ExclusionReason.ALWAYS_IGNORED, str(rule))
        ignored = self.inherited if self.inherited.reason else self._ask_git(matched, is_directory)
        if ignored.reason and not is_directory and path in self.tracked().files:
            return INCLUDED
        return ignored

    def must_search(self, directory: str, verdict: Verdict) -> bool:
        """Whether an excluded directory can hold entries that are brought back."""
        matched = for_matching(directory)
        for layer in self.lucid:
            below = matched[len(layer.prefix) :]
            if any(rule.negated and rule.may_match_below(below) for rule in layer.rules.rules):
                return True
        return verdict.reason is ExclusionReason.GITIGNORE and directory in self.tracked().directories

    def _ask_git(self, matched: str, is_directory: bool) -> Verdict:
        for layer in self.git:
            rule = layer.decide(matched, is_directory)
            if rule is not None:
                return INCLUDED if rule.negated else Verdict(ExclusionReason.GITIGNORE, str(rule))
        return INCLUDED
