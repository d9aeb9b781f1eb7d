"""The plan's rules about who may import whom, and that nothing of one machine is in the tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support_layout.staged import ROOT, TOP_LEVEL_PACKAGES, stage

FORBIDDEN = re.compile(r"(?<![\w.-])/(?:work/(?:main|shared)|work/\.|root/\w|farm/)")


def test_nobody_imports_what_the_plan_forbids(tmp_path: Path) -> None:
    staged = stage(tmp_path)
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=staged,
        env={**os.environ, "PYTHONPATH": str(staged)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "0 broken" in done.stdout


def test_the_rules_are_enforced(tmp_path: Path) -> None:
    """The check can fail: a domain module that imports the store is found."""
    staged = stage(tmp_path)
    domain = staged / "lucid_pipelines" / "domain"
    (domain / "intruder.py").write_text("import lucid_pipelines.store\n")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=staged,
        env={**os.environ, "PYTHONPATH": str(staged)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "intruder" in done.stdout


def test_no_path_of_one_machine_is_tracked() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    found: list[str] = []
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if not path.is_file() or path.suffix in (".gz", ".parquet", ".png", ".lock") or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {match.group(0)}" for match in FORBIDDEN.finditer(text)]
    assert not found


def test_every_package_is_installed() -> None:
    """A wheel holds only the packages that are listed; a room that is not would work in a clone and nowhere else."""
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    roots = {"lucid_pipelines": "lucid_pipelines", **{name: f"lucid_pipelines.{name}" for name in TOP_LEVEL_PACKAGES}}
    tracked = subprocess.run(["git", "ls-files", "*__init__.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = set()
    for path in map(Path, tracked.stdout.split()):
        if path.parts[0] in roots:
            found.add(".".join([roots[path.parts[0]], *path.parts[1:-1]]))
    assert listed >= found, "list them in pyproject.toml"


def test_type_checkers_find_every_file(tmp_path: Path) -> None:
    """They walk through folders and follow no links to them: what is linked as a folder is never checked."""
    staged = stage(tmp_path / "staged") / "lucid_pipelines"
    walked = {Path(folder).relative_to(staged) / name for folder, _, names in os.walk(staged) for name in names}
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {
        Path(name) for name in tracked.stdout.split() if Path(name).parts[0] in ("lucid_pipelines", *TOP_LEVEL_PACKAGES)
    }
    expected = {path.relative_to("lucid_pipelines") if path.parts[0] == "lucid_pipelines" else path for path in ours}
    assert expected <= walked
