"""The plan's rules about who may import whom, and that nothing of one machine is in the tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support_layout.staged import ROOT, stage

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
    target = domain.resolve()
    domain.unlink()
    domain.mkdir()
    for child in target.glob("*.py"):
        (domain / child.name).write_text(child.read_text())
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
