"""Trees as plain data: build one on disk, read one back, let Hypothesis invent one."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st


@dataclass(frozen=True)
class File:
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    target: bytes


@dataclass(frozen=True)
class Directory:
    pass


Tree = dict[bytes, File | Link | Directory]


def build(root: Path, tree: Tree) -> Path:
    """Create the tree below ``root``; parents are made as needed."""
    root.mkdir(parents=True, exist_ok=True)
    for path, node in tree.items():
        full = root / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        match node:
            case File():
                full.write_bytes(node.content)
                full.chmod(node.mode)
            case Link():
                os.symlink(node.target, os.fsencode(full))  # noqa: PTH211 - pathlib would tidy it up
            case Directory():
                full.mkdir(exist_ok=True)
    return root


def read(root: Path) -> Tree:
    """The tree below ``root``, directories included."""
    tree: Tree = {}
    for full in root.rglob("*"):
        path = os.fsencode(full.relative_to(root))
        found = full.lstat()
        if stat.S_ISLNK(found.st_mode):
            tree[path] = Link(os.fsencode(os.readlink(full)))  # noqa: PTH115 - pathlib would tidy it up
        elif stat.S_ISDIR(found.st_mode):
            tree[path] = Directory()
        else:
            tree[path] = File(full.read_bytes(), found.st_mode & 0o777)
    return tree


def write(root: Path, **files: str | bytes) -> Path:
    """Text files by name; ``__`` in a name stands for ``/`` and a leading ``dot_`` for a dot."""
    for name, content in files.items():
        put(root, name.replace("__", "/").replace("dot_", "."), content)
    return root


def put(root: Path, path: str, content: str | bytes = "x", mode: int = 0o644) -> Path:
    """One file, its parents made as needed."""
    full = root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(content.encode() if isinstance(content, str) else content)
    full.chmod(mode)
    return full


_PLAIN = st.sampled_from([b"a", b"b", b"train.py", b"data", b"Model", b"model"])
_ODD = st.sampled_from(
    [
        "naïve".encode(),
        "🚀 run".encode(),
        b"new\nline",
        b"tab\tand 'quotes\"",
        b"\xff\xfe",
        b"caf\xe9",
        b"%2e",
        b"-rf",
        b" lead",
        b"trail ",
        b"back\\slash",
        b"*",
        b"#c",
        b"!n",
    ]
)
_ANY = st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_"))
_IGNORED_ENDINGS = (b"~", b".swp", b".pyc", b".pyo", b".pyd")


def _is_harmless(name: bytes) -> bool:
    """Not a name with a meaning to git, to the built-in rules or to the secret rules."""
    return not name.startswith(b".") and not name.lower().endswith(_IGNORED_ENDINGS) and name != b"venv"


names = st.one_of(_PLAIN, _ODD, _ANY).filter(_is_harmless)
contents = st.one_of(
    st.binary(max_size=64),
    st.sampled_from([b"", b"print('hello')\n", bytes(200_000), b"\0" * 70_000 + b"end"]),
)
modes = st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o640, 0o777])


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Trees of files, directories and links that stay inside."""
    tree: Tree = {}
    directories: list[bytes] = [b""]
    for _ in range(draw(st.integers(0, 12))):
        parent = draw(st.sampled_from(directories))
        path = parent + b"/" + draw(names) if parent else draw(names)
        if path in tree:
            continue
        kind = draw(st.sampled_from(["file", "file", "file", "directory", "link"]))
        if kind == "file":
            tree[path] = File(draw(contents), draw(modes))
        elif kind == "directory":
            tree[path] = Directory()
            directories.append(path)
        else:
            up = path.count(b"/")
            tree[path] = Link(b"../" * draw(st.integers(0, up)) + draw(names))
    return tree
