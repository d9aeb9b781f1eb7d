"""Which files of a tree go into its snapshot: layers of rules, tracking by git, links, special files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from lucid_pipelines.snapshots import ExclusionReason, SealedSnapshot, manifest, seal
from tests.support_snapshots.trees import put, write

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "source"
    place.mkdir()
    return place


def sealed_paths(source: Path) -> set[str]:
    store = source.parent / "store"
    return {entry.path for entry in manifest(seal(source, store).digest, store).entries}


def reasons(sealed: SealedSnapshot) -> dict[str, ExclusionReason]:
    return {row.path: row.reason for row in sealed.excluded}


def test_nested_ignore_files_and_negation(source: Path) -> None:
    write(
        source,
        dot_gitignore="*.log\n/data/\n!keep.log\n",
        a__dot_gitignore="*.tmp\n!b.log\n",
        **{"x.log": "", "keep.log": "", "data/big.bin": "", "a/b.log": "", "a/c.log": "", "a/d.tmp": "", "e.tmp": ""},
    )
    assert sealed_paths(source) == {".gitignore", "a", "a/.gitignore", "a/b.log", "e.tmp", "keep.log"}
    assert reasons(seal(source, source.parent / "store")) == {
        "x.log": ExclusionReason.GITIGNORE,
        "data/": ExclusionReason.GITIGNORE,
        "a/c.log": ExclusionReason.GITIGNORE,
        "a/d.tmp": ExclusionReason.GITIGNORE,
    }


def test_lucidignore_leaves_out_and_brings_back(source: Path) -> None:
    write(
        source,
        dot_gitignore="data/\nweights/\n*.csv\n",
        dot_lucidignore="docs/\n!weights/\n!data/train.csv\n!/table.csv\n!node_modules/\n",
        **{
            "docs/a.md": "", "weights/w.bin": "", "data/train.csv": "", "data/test.csv": "", "data/deep/x": "",
            "table.csv": "", "other.csv": "", "node_modules/m.js": "",
        },
    )  # fmt: skip
    assert sealed_paths(source) == {
        ".gitignore", ".lucidignore", "data", "data/train.csv", "node_modules", "node_modules/m.js", "table.csv",
        "weights", "weights/w.bin",
    }  # fmt: skip


def test_what_is_always_left_out(source: Path) -> None:
    names = [".git/config", ".hg/x", "__pycache__/a.pyc", "p/__pycache__/b.pyc", "c.pyc", ".venv/bin/python",
             "node_modules/x/i.js", ".lucid/state.db", ".pytest_cache/v", ".DS_Store", "a.py~"]  # fmt: skip
    for name in names:
        put(source, name)
    put(source, "myenv/pyvenv.cfg")
    put(source, "myenv/lib/site.py")
    put(source, "env/cartpole.py")  # a source package of that name is no environment
    assert sealed_paths(source) == {"env", "env/cartpole.py", "p"}


def test_git_and_the_state_folder_cannot_be_brought_back(source: Path) -> None:
    write(source, dot_lucidignore="!.git/\n!.lucid/\n!.git/config\n", **{".git/config": "", ".lucid/db": ""})
    assert sealed_paths(source) == {".lucidignore"}


def test_a_folder_to_keep_out_is_kept_out(source: Path) -> None:
    put(source, "home/db.sqlite")
    put(source, "a.py")
    sealed = seal(source, source.parent / "store", keep_out=[source / "home"])
    assert [entry.path for entry in manifest(sealed.digest, source.parent / "store").entries] == ["a.py"]


def test_a_million_ignored_files_are_one_line(source: Path) -> None:
    write(source, dot_gitignore="*.jpg\n")
    for number in range(50):
        put(source, f"images/{number}.jpg", "")
    (row,) = seal(source, source.parent / "store").excluded
    assert (row.path, row.count, row.detail) == ("images/", 50, ".gitignore:1: *.jpg")


@needs_git
def test_tracked_files_are_in_whatever_gitignore_says(source: Path) -> None:
    write(source, dot_gitignore="*.json\nassets/\n", **{"config.json": "{}", "other.json": "{}"})
    write(source, **{"assets/a/logo.txt": "x", "assets/b/new.txt": "x", "assets/junk.txt": "x"})
    git(source, "init", "-q")
    git(source, "add", "-f", "config.json", "assets/a/logo.txt", ".gitignore")
    assert sealed_paths(source) == {".gitignore", "assets", "assets/a", "assets/a/logo.txt", "config.json"}
    write(source, dot_lucidignore="config.json\n")
    assert "config.json" not in sealed_paths(source)


@needs_git
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_is_read(source: Path, version: str) -> None:
    paths = ["a.json", "deep/er/b.json", "x" * 150 + ".json", "caf\udce9.json", "new\nline.json"]
    write(source, dot_gitignore="*.json\n")
    for path in paths:
        put(source, path)
    git(source, "init", "-q")
    git(source, "add", "-f", "-A")
    if version == "3":
        put(source, "later.json")
        git(source, "add", "-f", "-N", "later.json")
        paths.append("later.json")
    git(source, "update-index", "--index-version", version)
    assert {path for path in sealed_paths(source) if path.endswith(".json")} == set(paths)


@needs_git
def test_rules_and_tracking_of_the_repository_around_the_source(source: Path) -> None:
    project = source / "projects" / "one"
    write(source, dot_gitignore="*.ckpt\n/projects/one/out/\n")
    write(project, **{"a.ckpt": "", "b.ckpt": "", "out/x": "", "train.py": ""})
    git(source, "init", "-q")
    git(source, "add", "-f", "projects/one/a.ckpt")
    sealed = seal(project, source.parent / "store")
    found = {entry.path for entry in manifest(sealed.digest, source.parent / "store").entries}
    assert found == {"a.ckpt", "train.py"}
    assert [row.detail for row in sealed.excluded] == [
        "../../.gitignore:1: *.ckpt",
        "../../.gitignore:2: /projects/one/out/",
    ]


@needs_git
def test_a_source_that_git_ignores_is_still_submitted(source: Path) -> None:
    write(source, dot_gitignore="scratch/\n*.bin\n")
    write(source, **{"scratch/t/train.py": "", "scratch/t/w.bin": ""})
    git(source, "init", "-q")
    sealed = seal(source / "scratch/t", source.parent / "store")
    assert sealed.file_count == 2
    assert "itself is ignored" in sealed.warnings[0]


@needs_git
def test_an_index_that_cannot_be_read_is_told(source: Path) -> None:
    write(source, dot_gitignore="*.json\n", **{"a.json": ""})
    git(source, "init", "-q")
    (source / ".git/index").write_bytes(b"DIRC garbage")
    sealed = seal(source, source.parent / "store")
    assert sealed.file_count == 1
    assert "what git tracks is unknown" in sealed.warnings[0]


def test_links_that_leave_are_left_out_and_told(source: Path, tmp_path: Path) -> None:
    put(tmp_path, "outside/secret.txt", "outside")
    put(source, "d/inside.txt", "inside")
    links = {
        "good": "d/inside.txt", "d/up": "../d/inside.txt", "dangling": "nothing/here", "self": "self",
        "loop-a": "loop-b", "loop-b": "loop-a", "dir": "d", "d/root": "..",
        "absolute": str(source / "d/inside.txt"), "leaves": "../outside/secret.txt", "d/deep": "../../outside",
        "via": "d/deep/secret.txt", "sneaky": "d/root/../outside", "climb": "nothing/../../outside",
    }  # fmt: skip
    for name, target in links.items():
        (source / name).symlink_to(target)
    sealed = seal(source, tmp_path / "store")
    kept = {entry.path for entry in manifest(sealed.digest, tmp_path / "store").entries}
    assert kept == {"d", "d/inside.txt", "good", "d/up", "dangling", "self", "loop-a", "loop-b", "dir", "d/root"}
    assert reasons(sealed) == {
        "absolute": ExclusionReason.LINK_ABSOLUTE,
        "leaves": ExclusionReason.LINK_LEAVES_TREE,
        "d/deep": ExclusionReason.LINK_LEAVES_TREE,
        "via": ExclusionReason.LINK_LEAVES_TREE,
        "sneaky": ExclusionReason.LINK_LEAVES_TREE,
        "climb": ExclusionReason.LINK_LEAVES_TREE,
    }
    assert {row.path: row.detail for row in sealed.excluded}["leaves"] == "-> ../outside/secret.txt"


@pytest.mark.timeout(20)
def test_special_files_are_told_and_never_opened(source: Path, tmp_path: Path, monkeypatch) -> None:
    put(source, "a.py")
    os.mkfifo(source / "pipe")
    monkeypatch.chdir(source)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        if os.geteuid() == 0:
            os.mknod(source / "null", 0o600 | 0o020000, os.makedev(1, 3))
        sealed = seal(source, tmp_path / "store")
    kinds = {row.path: row.detail for row in sealed.excluded}
    assert kinds.pop("null", "device") == "device"
    assert kinds == {"pipe": "FIFO", "socket": "socket"}
    assert sealed.file_count == 1


def test_an_ignore_file_that_is_a_link_or_a_pipe_has_no_say(source: Path, tmp_path: Path) -> None:
    put(tmp_path, "rules", "*.py\n")
    (source / ".gitignore").symlink_to(tmp_path / "rules")
    os.mkfifo(source / ".lucidignore")
    put(source, "a.py")
    sealed = seal(source, tmp_path / "store")
    assert sealed.file_count == 1
    assert len(sealed.warnings) == 2


def git(place: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(place), *arguments], check=True, capture_output=True)
