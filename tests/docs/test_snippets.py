"""What the documentation tells people to run is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucid_pipelines.cli.lazy import COMMANDS
from lucid_pipelines.settings import load_settings
from tests.support_layout.staged import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"<!-- run -->\n```(bash|python)\n(.*?)```", re.DOTALL)
ANCHOR = re.compile(r"\]\((?!https?://)([^)#]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.*?)\s*$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def snippets() -> Iterator[tuple[str, str, str]]:
    for page in PAGES:
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1):
            yield f"{page.relative_to(ROOT)}:{number}", language, text


@pytest.mark.parametrize(("language", "text"), [pytest.param(*rest, id=name) for name, *rest in snippets()])
def test_a_snippet_runs(language: str, text: str, tmp_path: Path) -> None:
    programs = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        "LUCID_HOME": str(tmp_path / "home"),
        "LUCID__CLUSTER__GPUS": "virtual",
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
    }
    command = (
        ["bash", "-euo", "pipefail", "-c", text.replace(".venv/bin/", "")]
        if language == "bash"
        else [sys.executable, "-c", text]
    )
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "home").mkdir()  # who reads these pages has run `make up`
    done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [
        target for target in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_a_page_lead_to_a_heading(page: Path) -> None:
    missing = []
    for target, anchor in ANCHOR.findall(page.read_text(encoding="utf-8")):
        headings = HEADING.findall((page.parent / target if target else page).read_text(encoding="utf-8"))
        if anchor not in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}:
            missing.append(f"{target}#{anchor}")
    assert missing == []


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(COMMANDS) if not re.search(rf"`[^`]*\b{name}\b", text)] == []


def test_the_example_settings_are_the_defaults(tmp_path: Path) -> None:
    example = load_settings(tmp_path, config=ROOT / "lucid.example.yaml", environ={})
    default = load_settings(tmp_path, environ={})
    for section in ("scheduling", "submission", "snapshot", "dagster", "modes", "retention"):
        assert getattr(example, section) == getattr(default, section), section
    assert [(node.name, node.gpus, node.vc) for node in example.cluster.nodes] == [
        (node.name, node.gpus, node.vc) for node in default.cluster.nodes
    ]
