"""What the git work tree around a source says: rules from above it, and what is tracked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from lucid_pipelines.snapshots.git_index import UnreadableIndexError, WorkTree, find_work_tree, tracked_paths
from lucid_pipelines.snapshots.ignore_rules import RuleSet, parse_rules
from lucid_pipelines.snapshots.ignoring import IgnoreScope, Tracked
from lucid_pipelines.snapshots.paths import to_bytes, to_text

_IGNORE_FILE_MAX_BYTES = 1 << 20


def repository_scope(source_dir: Path, warnings: list[str]) -> IgnoreScope:
    """The scope in which the root of the source lies.

    ``.gitignore`` files above the source count as they do for git, unless they exclude the source itself: then
    whoever submits it knows better. Personal rules (``core.excludesFile``, ``.git/info/exclude``) do not count,
    since the same tree must give the same snapshot on another machine.

    Args:
        source_dir: resolved.
        warnings: what could not be used is added here.
    """
    try:
        work_tree = find_work_tree(source_dir)
    except OSError as error:
        warnings.append(f"the git work tree around the source cannot be read ({error.strerror})")
        work_tree = None
    if work_tree is None:
        return IgnoreScope(lambda: Tracked(frozenset(), frozenset()))
    steps = source_dir.relative_to(work_tree.top).parts
    scope = IgnoreScope(_tracked_below(work_tree, steps, warnings))
    above: list[tuple[str, RuleSet]] = []
    place = work_tree.top
    for position, step in enumerate(steps):
        rules = _read_rules(place, "../" * (len(steps) - position), warnings)
        if rules is not None and rules.rules:
            above.append(("/".join(steps[position:]), rules))
        place /= step
    if any(_excluded(steps[:upto], len(steps), above) for upto in range(1, len(steps) + 1)):
        warnings.append("the source itself is ignored by git; rules from the directories above it are not used")
        return scope
    for steps_down, rules in above:
        scope = scope.below_repository(steps_down, rules)
    return scope


def _excluded(steps: tuple[str, ...], depth: int, above: list[tuple[str, RuleSet]]) -> bool:
    for steps_down, rules in reversed(above):
        skipped = depth - len(steps_down.split("/"))
        if skipped >= len(steps):
            continue
        rule = rules.decide("/".join(steps[skipped:]), is_directory=True)
        if rule is not None:
            return not rule.negated
    return False


def _read_rules(directory: Path, way_up: str, warnings: list[str]) -> RuleSet | None:
    path = directory / ".gitignore"
    shown = f"{way_up}.gitignore"
    try:
        if not path.is_file() or path.is_symlink():
            return None
        with path.open("rb") as stream:
            data = stream.read(_IGNORE_FILE_MAX_BYTES + 1)
    except OSError as error:
        warnings.append(f"rules above the source cannot be read ({error.strerror}): {shown}")
        return None
    if len(data) > _IGNORE_FILE_MAX_BYTES:
        warnings.append(f"rules above the source are larger than 1 MiB and not used: {shown}")
        return None
    return parse_rules(data, shown)


def _tracked_below(work_tree: WorkTree, steps: tuple[str, ...], warnings: list[str]) -> Callable[[], Tracked]:
    prefix = to_bytes("".join(f"{step}/" for step in steps))

    @cache
    def read() -> Tracked:
        try:
            paths = tracked_paths(work_tree)
        except UnreadableIndexError as error:
            warnings.append(f"what git tracks is unknown ({error}); .gitignore alone decided")
            return Tracked(frozenset(), frozenset())
        return Tracked.of(frozenset(to_text(p[len(prefix) :]) for p in paths if p.startswith(prefix)))

    return read
