"""Odd files, names and launch lines: each ends in time, and says what was left out or what to do."""

from __future__ import annotations

import json
import os
import resource
import socket
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.history_file import Refused, read_lines
from lucid_pipelines.advisor.metadata import FieldName, JobMetadata
from lucid_pipelines.advisor.metadata_json import to_json
from lucid_pipelines.advisor.source_tree import SourceTree
from lucid_pipelines.advisor.target import find_target
from lucid_pipelines.cli.main import app
from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.similarity import PastJob
from tests.support_advisor.repos import TRAINING, write

TIME_BOX_S = 8.0
MEMORY_MIB = 700
COMMAND = ("python", "train.py", "--epochs", "5")


def _read(root: Path, *command: str) -> JobMetadata:
    started, peak_kib = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = extract_metadata(root, LaunchDescription(command or COMMAND), ExtractionLimits(wall_s=TIME_BOX_S))
    assert time.process_time() - started < TIME_BOX_S
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib  # other tests' peak is not ours
    assert grown_kib < MEMORY_MIB * 1024
    return found


def _is_read(found: JobMetadata) -> bool:
    values = [found.value(name) for name in (FieldName.ITERATIONS, FieldName.LEARNING_RATE, FieldName.BATCH_SIZE)]
    return values == [5, 0.1, 256]


BESIDE = {
    "constants": (
        "a = [1]\na = [a] * 10**9\nb = 10**10**10\nc = 'x' * 10**10\nd = (1,) * 10**9\ne = b'x' * 10**10\n"
        "f = list(range(10**12))\ng = {i: i for i in range(10**9)}\nh = [0] * 10**8\nh = h * 10\ni = '%s' * 10**8\n"
        "j = int('9' * 10**6)\nk = sum(range(10**12))\nl = ''.join(['ab'] * 10**9)\nm = str(10**100000)\n"
        "n = 2**100000000\no = 'a'.ljust(10**10)\np = 'a'.zfill(10**10)\nq = 'aa'.replace('a', 'b' * 10**9)\n"
        "r = pow(3, 10**9)\nimport numpy as np\ns = np.zeros((10**9, 10**9))\nt = 'a\\t'.expandtabs(10**10)\n"
    ),
    "regular expressions": (
        "import re, fnmatch\nm = re.match(r'(a+)+$', 'a' * 60 + 'b')\nn = re.sub(r'(x+x+)+y', '', 'x' * 80)\n"
        "k = re.fullmatch('(a|aa)+', 'a' * 90 + 'c')\nre.compile('(' * 5000)\nfnmatch.fnmatch('a' * 200, '*a' * 40)\n"
    ),
    "a hundred thousand lines": "\n".join(f"def f{n}(x):\n    return x + {n}" for n in range(50_000)),
    "a table of two megabytes": "\n".join(f'v{n} = {{"a": {n}, "b": [{n}, {n}]}}' for n in range(50_000)),
    "brackets": "x = " + "(" * 300 + "1" + ")" * 300,
    "many brackets": "x = " + "[" * 100_000 + "]" * 100_000,
    "signs": "x = " + "-" * 100_000 + "1",
    "negations": "x = " + "not " * 50_000 + "1",
    "a zero byte": "x = 1\n" * 9_000 + "\0\n",
}


@pytest.mark.parametrize("name", list(BESIDE))
def test_a_hostile_module_does_not_hide_the_job(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"train.py": "import beside\n" + TRAINING, "beside.py": BESIDE[name]})
    assert _is_read(_read(tmp_path))


def test_imports_in_circles_and_in_a_long_chain(tmp_path: Path) -> None:
    files = {"a.py": "from b import *\nimport c\n", "b.py": "from c import *\nimport a\n", "c.py": "from a import *\n"}
    files |= {f"chain/m{n}.py": f"from chain.m{(n + 1) % 600} import *\nv{n} = 1\n" for n in range(600)}
    write(tmp_path, {"train.py": "import a\nfrom chain.m0 import *\n" + TRAINING, **files})
    assert _is_read(_read(tmp_path))


def test_pipes_sockets_and_names_that_differ_in_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"train.py": "import pipe, sock, utils, Utils\n" + TRAINING, "utils.py": "lr = 1\n"})
    write(tmp_path, {"Utils.py": "lr = 2\n", "TRAIN.py": "lr = 3\n"})
    os.mkfifo(tmp_path / "pipe.py")
    monkeypatch.chdir(tmp_path)  # a socket's path may be no longer than 107 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock.py")
        assert _is_read(_read(tmp_path))


def test_a_submodule_that_was_not_fetched(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "import lib.net\n" + TRAINING, "lib/.git": "gitdir: /etc\n", ".gitmodules": "[x]\n"})
    assert _is_read(_read(tmp_path))
    assert SourceTree(tmp_path).read_text("lib/.git/config") is None


def test_names_that_are_no_text(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"caf\xe9")
    write(root, {"train.py": TRAINING})
    for name in (b"/caf\xe9\xff.py", b"/\xed\xa0\x80.yaml"):
        Path(os.fsdecode(bytes(root) + name)).write_text("lr: 3\n", encoding="utf-8")
    assert _is_read(_read(root, *COMMAND, "--name", os.fsdecode(b"\xe9\xff")))


def test_what_is_no_unicode_can_be_stored_and_shown(tmp_path: Path) -> None:
    entry = os.fsdecode(b"tr\xe9.py")
    (tmp_path / entry).write_text(TRAINING, encoding="utf-8")
    data = os.fsdecode(b"caf\xe9_data")
    found = _read(tmp_path, "python", entry, "--epochs", "5", "--dataset", data)
    assert found.value(FieldName.DATASET) == "caf?_data"
    json.dumps(to_json(found), ensure_ascii=False).encode("utf-8")
    gone = _read(tmp_path, "python", os.fsdecode(b"gone\xe9.py"))
    json.dumps(to_json(gone), ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize(
    ("encoding", "is_read"), [("utf-8-sig", True), ("utf-16", False), ("utf-32", False), ("latin-1", True)]
)
def test_source_in_another_encoding(tmp_path: Path, encoding: str, is_read: bool) -> None:
    """Python runs no source in UTF-16: it is left out, and counted."""
    (tmp_path / "train.py").write_bytes(TRAINING.encode(encoding))
    found = _read(tmp_path)
    assert _is_read(found) is is_read
    assert bool(found.report.skipped) is not is_read


def test_folders_that_cannot_be_listed_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"closed/a.py": "", "train.py": TRAINING})
    real = os.scandir

    class Fails:
        """A listing that fails on the way, as one over a network or below ``/proc`` does."""

        def __enter__(self) -> Fails:
            return self

        def __exit__(self, *_: object) -> None: ...

        def __iter__(self) -> Fails:
            return self

        def __next__(self) -> object:
            raise PermissionError(13, "denied")

    monkeypatch.setattr(os, "scandir", lambda path: Fails() if str(path).endswith("closed") else real(path))
    tree = SourceTree(tmp_path)
    assert sorted(tree.walk()) == ["train.py"]
    assert not tree.is_file("closed/a.py")
    assert tree.skipped["folder cannot be listed"] == 2


LINES = {
    "ten thousand options": (*COMMAND, *(f"--x{n}={n}" for n in range(10_000))),
    "ten thousand files": (*COMMAND, *["a/b.yaml"] * 10_000),
    "a long word": (*COMMAND, "--note", "x" * 100_000),
    "a long text": ("python train.py --epochs 5 " + "$(echo a) " * 10_000,),
    "an open quote": ("python train.py --epochs 5 --name 'abc",),
    "an open quote in a shell": ("bash", "-c", 'python train.py --epochs 5 --name "abc'),
    "braces": ("python train.py " + "{a,b}" * 24 + " {1..999999999} --epochs 5",),
    "loops of a shell": ("for i in $(seq 1 1000000000); do X=$X$X; done; python train.py --epochs 5",),
    "an endless loop of a shell": ("X=a; while true; do X=$X$X; done; python train.py --epochs 5",),
    "a fork bomb": (":(){ :|:& };: ; python train.py --epochs 5",),
}


@pytest.mark.parametrize("name", list(LINES))
def test_strange_launch_lines_are_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"train.py": TRAINING})
    assert _is_read(_read(tmp_path, *LINES[name]))


@pytest.mark.parametrize(
    "command", [("bash", "-c"), ("$(" * 2_000 + "python train.py" + ")" * 2_000,), ("bash", "a.sh"), ("",), ("--",)]
)
def test_lines_that_start_nothing_say_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    write(tmp_path, {"a.sh": "bash b.sh\n", "b.sh": "source a.sh\nbash a.sh\n"})
    found = _read(tmp_path, *command)
    assert not found.fields
    assert found.report.notes


def test_a_number_that_a_shell_would_never_finish(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    found = _read(tmp_path, "python train.py --epochs $((9**9**9**9))")
    assert found.value(FieldName.ITERATIONS) is None
    assert found.value(FieldName.LEARNING_RATE) == 0.1


def _advise(*words: str) -> str:
    return CliRunner().invoke(app, ["advise", *words], terminal_width=200).output


def test_what_a_person_may_get_wrong_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    os.mkfifo(tmp_path / "pipe")
    assert "Put -- before the command" in _advise(str(tmp_path), "python", "train.py", "--epochs", "5")
    assert "Put --" not in _advise("--nope", str(tmp_path), "--", "python", "train.py")
    for path in ("/dev/null", str(tmp_path / "pipe")):
        with pytest.raises(InputError, match="a folder or a file"):
            find_target(Path(path))
    done = CliRunner().invoke(app, ["advise", str(tmp_path), "--", "  "])
    assert isinstance(done.exception, InputError)
    assert "after --" in str(done.exception)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"duration_s": 9e99}, "in seconds, at most ten years"),
        ({"ended_at": "2020-01-01"}, "before it was submitted"),
        ({"gpus": -3}, "whole number of GPUs"),
        ({"gpus": 1.5}, "whole number of GPUs"),
    ],
)
def test_past_jobs_that_cannot_be_are_refused(change: dict[str, object], why: str) -> None:
    job = {"job_id": "q", "fingerprint": "model: x", "gpus": 1, "outcome": "completed", "duration_s": 5.0}
    job |= {"submitted_at": "2026-01-01", "ended_at": "2026-01-02"}
    good, bad = list(read_lines([json.dumps(job), json.dumps(job | change)]))
    assert isinstance(good, PastJob)
    assert isinstance(bad, Refused)
    assert why in bad.why


@pytest.mark.parametrize("folder", ["/etc", "nowhere", ".."])
def test_a_command_starts_inside_the_code(tmp_path: Path, folder: str) -> None:
    write(tmp_path / "code", {"train.py": TRAINING})
    done = CliRunner().invoke(app, ["advise", "--workdir", folder, str(tmp_path / "code"), "--", *COMMAND])
    assert isinstance(done.exception, InputError)


@pytest.mark.parametrize("role", ["setup.cfg", "setup.py", "pyproject.toml", "c.toml", "README.md", "requirements.txt"])
@pytest.mark.parametrize("text", ["\n", "a.", '"', " ", "a=", "["])
def test_one_mark_two_million_times_over_costs_no_time(tmp_path: Path, role: str, text: str) -> None:
    write(tmp_path, {"train.py": TRAINING})
    (tmp_path / role).write_text(text * (1_900_000 // len(text)), encoding="utf-8")
    _read(tmp_path, "mytool", "--config", "c.toml")
    _read(tmp_path, "python", "train.py", "--config", "c.toml")
