"""The manifest's canonical form, links by rule, reading single files, and the archive."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.snapshots import DirectoryEntry, FileEntry, LinkEntry, Manifest, read_file, seal, write_archive
from lucid_pipelines.snapshots.links import leaves_tree
from lucid_pipelines.snapshots.manifests import parse_manifest
from lucid_pipelines.snapshots.paths import display, quote, to_bytes, to_text, unquote
from tests.support_snapshots.trees import Tree, build, put, read, trees

_SHA = "0" * 64


@given(st.binary(max_size=60))
def test_every_name_survives_quoting(raw: bytes) -> None:
    text = to_text(raw)
    assert to_bytes(unquote(quote(text))) == raw
    assert quote(text).isascii() and " " not in quote(text) and "\n" not in quote(text)
    shown = display(raw)
    assert shown.encode("utf-8").decode() == shown and shown.isprintable()


@pytest.mark.parametrize("spelling", ["a%2fb", "a b", "%41", "é", "a%"])
def test_a_name_has_one_spelling(spelling: str) -> None:
    with pytest.raises(ValueError, match="canonical"):
        unquote(spelling)


def test_the_digest_is_the_hash_of_lines_that_any_tool_can_make() -> None:
    manifest = Manifest.of([FileEntry("b c", 0o755, 3, _SHA), LinkEntry("l", "b c"), DirectoryEntry("a")])
    expected = (
        '{"format":"lucid-snapshot","version":1}\n'
        '{"path":"a","type":"dir"}\n'
        f'{{"mode":"755","path":"b%20c","sha256":"{_SHA}","size":3,"type":"file"}}\n'
        '{"path":"l","target":"b%20c","type":"link"}\n'
    )
    assert manifest.encoded.decode() == expected
    assert manifest.digest == "sha256:" + hashlib.sha256(expected.encode()).hexdigest()
    assert parse_manifest(manifest.encoded) == manifest


_F = '{"mode":"644","path":"%s","sha256":"' + _SHA + '","size":1,"type":"file"}'


@pytest.mark.parametrize(
    "lines",
    [
        [_F % "../x"],
        [_F % "/etc/passwd"],
        [_F % "a/../../x", '{"path":"a","type":"dir"}'],
        [_F % "a/b"],
        [_F % "b", _F % "a"],
        [_F % "a", _F % "a"],
        [_F % "a", _F % "a/b"],
        ['{"path":"l","target":"../..","type":"link"}'],
        ['{"path":"l","target":"/etc","type":"link"}'],
        ['{"path":"l","target":"d","type":"link"}', _F % "l/x"],
        ['{"path":"x","type":"socket"}'],
        [_F.replace("644", "4755") % "a"],
        [_F.replace("644", "0644") % "a"],
        [_F.replace("1,", "-1,") % "a"],
        [_F.replace('":"644', '": "644') % "a"],
        [_F % "a%00b"],
        [_F % ""],
        ["nonsense"],
        ["[]"],
    ],
)
def test_a_manifest_that_could_do_harm_is_not_read(lines: list[str]) -> None:
    data = "\n".join(['{"format":"lucid-snapshot","version":1}', *lines, ""]).encode()
    with pytest.raises(ValueError, match=r"."):
        parse_manifest(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_manifest(data)


_STEPS = st.sampled_from(["a", "b", "..", ".", "l1", "l2", ""])
_TARGETS = st.lists(_STEPS, min_size=1, max_size=5).map("/".join)


@given(st.dictionaries(st.sampled_from(["l1", "l2", "a/l1", "a/b/l2", "b/l1"]), _TARGETS, min_size=1))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_the_kernel_agrees_that_a_kept_link_stays_inside(links: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "root"
        for directory in ("a/a", "a/b/a", "b/a", "b/b"):
            (root / directory).mkdir(parents=True)
        made = {}
        for path, target in links.items():
            if target and not target.startswith("/"):
                (root / path).symlink_to(target)
                made[path] = target
        for path in made:
            if leaves_tree(path, made):
                continue
            try:
                real = (root / path).resolve(strict=True)
            except (OSError, RuntimeError):
                continue  # dangling or a loop
            assert real == root or root in real.parents


@given(tree=trees())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_the_archive_is_the_snapshot(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        source = build(here / "source", tree)
        digest = seal(source, here / "store").digest
        one, two = io.BytesIO(), io.BytesIO()
        write_archive(digest, here / "store", one)
        write_archive(digest, here / "store", two)
        assert one.getvalue() == two.getvalue()
        one.seek(0)
        (here / "out").mkdir()
        with tarfile.open(fileobj=one, encoding="utf-8", errors="surrogateescape") as archive:
            archive.extractall(here / "out", filter="fully_trusted")
        assert read(here / "out") == read(source)


def test_single_files_can_be_read_and_nothing_else(tmp_path: Path) -> None:
    put(tmp_path / "s", "pkg/train.py", "print('hello')")
    (tmp_path / "s/link.py").symlink_to("pkg/train.py")
    digest = seal(tmp_path / "s", tmp_path / "store").digest
    assert read_file(digest, tmp_path / "store", "pkg/train.py", 1000) == b"print('hello')"
    assert read_file(digest, tmp_path / "store", "pkg/train.py", 5) == b"print"
    with pytest.raises(NotFoundError, match=r"did you mean 'pkg/train\.py'"):
        read_file(digest, tmp_path / "store", "pkg/trian.py", 10)
    for path in ("link.py", "pkg", "../store/format", "/etc/passwd", os.fspath(tmp_path / "s/pkg/train.py")):
        with pytest.raises(NotFoundError):
            read_file(digest, tmp_path / "store", path, 10)
