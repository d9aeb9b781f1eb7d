"""Hostile and huge snapshots end within the time box, in bounded memory, without leaving the root."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucid_pipelines.advisor.box import BoxLimits, extract_boxed, extract_forked
from lucid_pipelines.advisor.configs.json_text import parse_json
from lucid_pipelines.advisor.configs.yaml_text import ConfigTextError, parse_yaml
from lucid_pipelines.advisor.description import ExtractionLimits, LaunchDescription
from lucid_pipelines.advisor.evaluator.parsing import parse
from lucid_pipelines.advisor.extract import extract_metadata
from lucid_pipelines.advisor.metadata import FieldName
from lucid_pipelines.advisor.source_tree import SourceTree
from lucid_pipelines.domain.errors import ExternalError, InputError
from tests.support_advisor.repos import TRAINING, read, write

TIME_BOX_S = 8.0


def _reads_the_job(root: Path, command: str = "python train.py --epochs 5") -> float:
    """The job beside the hostile parts is still read right; returns the seconds it took."""
    started = time.monotonic()
    found = extract_metadata(root, LaunchDescription(command.split()), ExtractionLimits(wall_s=TIME_BOX_S))
    assert found.value(FieldName.ITERATIONS) == 5
    assert found.value(FieldName.LEARNING_RATE) == 0.1
    assert found.value(FieldName.BATCH_SIZE) == 256
    return time.monotonic() - started


def test_a_sparse_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "import weights, table\n" + TRAINING})
    for name in ("weights.py", "table.json", "config.yaml"):
        with (tmp_path / name).open("wb") as handle:
            handle.truncate(1 << 30)
    assert _reads_the_job(tmp_path, "python train.py --epochs 5 --config config.yaml table.json") < TIME_BOX_S


def test_a_binary_named_py_is_no_module(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "import native\n" + TRAINING})
    (tmp_path / "native.py").write_bytes(b"\x7fELF\0\0\0" + os.urandom(4096))
    _reads_the_job(tmp_path)


def test_links_that_lead_out_or_in_circles_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"secret.yaml": "lr: 0.77\nepochs: 99\n", "stolen.py": "lr = 0.77\n"})
    root = write(tmp_path / "root", {"train.py": TRAINING, "a/x.txt": ""})
    (root / "config.yaml").symlink_to(outside / "secret.yaml")
    (root / "stolen.py").symlink_to(outside / "stolen.py")
    (root / "a" / "loop").symlink_to(root)
    (root / "self.py").symlink_to(root / "self.py")
    (root / "up").symlink_to("..")
    tree = SourceTree(root)
    assert tree.read_text("config.yaml") is None
    assert tree.read_text("up/outside/secret.yaml") is None
    assert tree.read_text("../outside/secret.yaml") is None
    assert not tree.is_file("self.py")
    assert sorted(tree.walk()) == ["a/x.txt", "train.py"] or "config.yaml" in set(tree.walk())
    _reads_the_job(root, "python train.py --epochs 5 --config config.yaml")
    assert tree.skipped["leads outside the snapshot"] >= 2


@pytest.mark.parametrize("name", [".env", "id_rsa", "credentials.json", "key.pem", "sub/secrets.yaml", ".git/config"])
def test_secrets_are_never_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "token: x\n"})
    tree = SourceTree(tmp_path)
    assert tree.read_text(name) is None
    assert sum(tree.skipped.values()) == 1


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    os.mkfifo(tmp_path / "config.yaml")
    tree = SourceTree(tmp_path)
    assert tree.read_text("config.yaml") is None
    assert tree.read_text("/dev/zero") is None
    _reads_the_job(tmp_path, "python train.py --epochs 5 --config config.yaml /dev/zero")


def test_many_files_are_listed_within_bounds(tmp_path: Path) -> None:
    write(tmp_path, {"code/train.py": TRAINING})
    for folder in range(4):
        (tmp_path / f"data{folder}").mkdir()
        for number in range(1_500):
            (tmp_path / f"data{folder}" / f"{number}.txt").touch()
    assert _reads_the_job(tmp_path) < TIME_BOX_S
    tree = SourceTree(tmp_path)
    assert len(list(tree.walk())) == 6_001


def test_billion_laughs_cost_nothing(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    laughs = "\n".join(lines) + "\n"
    program = (
        "import yaml, sys\n"
        "from omegaconf import OmegaConf\n"
        "from easydict import EasyDict\n"
        "from hyperpyyaml import load_hyperpyyaml\n"
        "c = EasyDict(yaml.safe_load(open('laughs.yaml')))\n"
        "d = OmegaConf.merge(OmegaConf.load('laughs.yaml'), c)\n"
        "e = load_hyperpyyaml(open('laughs.yaml'), {})\n"
        "same = c == d\n"
    )
    write(tmp_path, {"train.py": program + TRAINING, "laughs.yaml": laughs})
    assert _reads_the_job(tmp_path, "python train.py --epochs 5 laughs.yaml") < TIME_BOX_S


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000,
        "{a: " * 3_000,
        "- " * 20_000 + "x",
        "x: &a [*a]\n",
        "? ? ? ? a",
        "%TAG ! x\n---\n!x",
        "\t- a",
        "a: *nowhere",
    ],
)
def test_strange_yaml_ends_in_a_value_or_a_typed_error(text: str) -> None:
    try:
        parse_yaml(text, "x.yaml")
    except ConfigTextError as error:
        assert "x.yaml" in str(error)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5_000, '"' + "\\" * 9_999, "[1,,2]", "", "nul", '{"a" 1}'])
def test_strange_json_ends_in_a_typed_error(text: str) -> None:
    with pytest.raises(ConfigTextError):
        parse_json(text, "x.json")


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["1"] * 60_000),
        "(" * 4_000 + ")" * 4_000,
        "a" + ".b" * 30_000,
        "f" + "(1)" * 30_000,
        "lambda: " * 4_000 + "1",
        "\n".join(" " * n + "if x:" for n in range(400)) + "\n" + " " * 400 + "pass",
        "def f(:\n" * 2_000,
        "\x00\x01\x02",
        "print 'old'\nexec 'x'\nraise E, 'm'\ntry:\n    pass\nexcept E, e:\n    pass\n",
    ],
)
def test_strange_python_ends_quickly(text: str) -> None:
    started = time.monotonic()
    parse(text)
    assert time.monotonic() - started < TIME_BOX_S


BOMBS = {
    "endless loop": "while True:\n    pass\n",
    "counting up": "n = 0\nwhile n < 10**12:\n    n += 1\n",
    "endless recursion": "def f(n):\n    return f(n + 1)\nf(0)\n",
    "double recursion": "def f(n):\n    return f(n - 1) + f(n - 1)\nf(10**6)\n",
    "big power": "x = 9 ** 9 ** 9 ** 9\ny = 1 << 10**9\n",
    "big text": "x = 'a' * 10**10\ny = '%0999999999d' % 1\nz = '{:>999999999}'.format(1)\nw = f'{1:>999999999}'\n",
    "doubling text": (
        "s = 'ab' * 100\n"
        "kept = []\n"
        "for i in range(255):\n"
        "    for j in range(255):\n"
        "        s = s + s\n"
        "        kept.append(s + str(i))\n"
    ),
    "doubling list": (
        "a = [0] * 100\n"
        "kept = []\n"
        "for i in range(255):\n"
        "    for j in range(255):\n"
        "        kept.append(a + [i])\n"
        "    a = a + a\n"
    ),
    "nested comprehension": (
        "x = [[[[i * j * k * m for i in range(200)] for j in range(200)] for k in range(200)] for m in range(200)]\n"
    ),
    "nested maps": (
        "d = {}\n"
        "for i in range(255):\n"
        "    d = {'a': d, 'b': d, 'c': dict(d), **d}\n"
        "for k, v in d.items():\n"
        "    print(k, v)\n"
    ),
    "unknown branches": "import os, lib\n"
    + "\n".join(f"if lib.x{n}():\n    v{n} = {n}\nelse:\n    v{n} = -{n}" for n in range(3_000))
    + "\n",
    "branches that call": (
        "import lib\ndef f(n):\n    if lib.x(n):\n        return f(n + 1)\n    else:\n        return f(n + 2)\nf(0)\n"
    ),
    "self import": "from train import *\nimport train\n",
    "deep attributes": "x = lib" + ".a" * 300 + "\n",
    "decorated storm": "def d(f):\n    return d(d(f))\n@d\ndef g():\n    pass\n",
    "exec of itself": "exec(open(__file__).read())\nexec(open('train.py').read())\n",
    "getattr loop": "class A:\n    def __getattr__(self, n):\n        return getattr(self, n + 'x')\nA().y\n",
    "setattr loop": "class A:\n    def __setattr__(self, n, v):\n        self.x = v\nA().y = 1\n",
    "iterator loop": "class A:\n    def __iter__(self):\n        return self\nlist(A())\n[x for x in A()]\n",
    "class cycle": "class A:\n    pass\nA.b = A\nA.b.b.b.c = A\nx = {'a': A}\nx['x'] = x\nprint(x)\nlist(x)\n",
    "dangerous calls": (
        "import os, shutil, subprocess\n"
        "shutil.rmtree('/')\n"
        "os.system('rm -rf /')\n"
        "subprocess.run(['rm', '-rf', '/'])\n"
        "open('made', 'w').write('x')\n"
        "__import__('os').remove('train.py')\n"
    ),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_program_that_would_never_end_is_left_in_time(tmp_path: Path, name: str) -> None:
    write(
        tmp_path,
        {
            "bomb.py": BOMBS[name],
            "train.py": TRAINING.replace("import torch\n", "import torch\nimport bomb\nbomb.x\n", 1),
        },
    )
    started = time.monotonic()
    found = extract_metadata(
        tmp_path, LaunchDescription(["python", "train.py"]), ExtractionLimits(wall_s=TIME_BOX_S, steps=60_000)
    )
    assert time.monotonic() - started < TIME_BOX_S
    assert found.report.steps <= 60_001
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bomb.py", "train.py"]
    # What cannot be followed is missing or read from what stands before it; it is never made up.
    assert found.value(FieldName.ITERATIONS) in (None, 90)


def test_a_bomb_as_the_entry_itself(tmp_path: Path) -> None:
    for name, text in BOMBS.items():
        folder = tmp_path / name.replace(" ", "_")
        found = read(
            folder, {"train.py": text}, "python train.py", limits=ExtractionLimits(wall_s=TIME_BOX_S, steps=30_000)
        )
        assert found.value(FieldName.ITERATIONS) is None, name


def test_the_box_kills_what_takes_too_much_memory(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    with pytest.raises(ExternalError, match=r"without an answer|time box"):
        extract_boxed(tmp_path, LaunchDescription(["python", "train.py"]), BoxLimits(wall_s=5, memory_mib=24))


def test_the_box_gives_the_same_answer(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    launch = LaunchDescription(["python", "train.py", "--lr", "0.5"], gpus=1)
    boxed = extract_boxed(tmp_path, launch)
    plain = extract_metadata(tmp_path, launch)
    assert dict(boxed.fields) == dict(plain.fields)
    assert dict(boxed.missing) == dict(plain.missing)


def test_a_fork_of_this_process_gives_the_same_answer(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": TRAINING})
    launch = LaunchDescription(["python", "train.py", "--lr", "0.5"], gpus=1)
    forked = extract_forked(tmp_path, launch)
    assert dict(forked.fields) == dict(extract_metadata(tmp_path, launch).fields)
    with pytest.raises(InputError, match="folder"):
        extract_forked(tmp_path / "nowhere", launch)


@pytest.mark.parametrize(
    "bomb", ["while True: pass", "x = []\nwhile True: x += [bytearray(1 << 24)]", "raise SystemExit(0)"]
)
def test_a_fork_that_goes_wild_is_ended_in_time(tmp_path: Path, bomb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if hostile code had found a way into the reader: the walls around it stand."""
    write(tmp_path, {"train.py": TRAINING})

    def wild(*_: object) -> object:
        exec(bomb, {})
        raise AssertionError("unreachable")

    monkeypatch.setattr("lucid_pipelines.advisor.extract.extract_metadata", wild)
    monkeypatch.setattr("lucid_pipelines.advisor.box.START_ALLOWANCE_S", 0.5)
    started = time.monotonic()
    with pytest.raises(ExternalError, match=r"without an answer|time box"):
        extract_forked(tmp_path, LaunchDescription(["python", "train.py"]), BoxLimits(wall_s=1, memory_mib=300))
    assert time.monotonic() - started < 30


def test_the_box_names_a_wrong_root(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        extract_boxed(tmp_path / "nowhere", LaunchDescription(["python", "train.py"]))


def test_a_notebook_with_large_outputs(tmp_path: Path) -> None:
    cell = {
        "cell_type": "code",
        "source": ["%matplotlib inline\n", "EPOCHS = 7\n", "!pip install x\n"],
        "outputs": [{"data": {"image/png": "A" * 3_000_000}}],
    }
    train = {"cell_type": "code", "source": "model.fit(x, y, epochs=EPOCHS, batch_size=32)", "outputs": []}
    (tmp_path / "run.ipynb").write_text(json.dumps({"cells": [cell, train], "nbformat": 4}))
    found = extract_metadata(tmp_path, LaunchDescription(["run.ipynb"]))
    assert found.value(FieldName.ITERATIONS) == 7
    assert found.value(FieldName.BATCH_SIZE) == 32


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.text(max_size=300))
def test_any_text_as_yaml_json_or_python_is_survived(text: str) -> None:
    for parser in (lambda: parse_yaml(text, "f"), lambda: parse_json(text, "f")):
        with contextlib.suppress(ConfigTextError):
            parser()
    parse(text)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30), max_size=8
    )
)
def test_any_launch_line_is_survived(words: list[str], tmp_path: Path) -> None:
    found = extract_metadata(tmp_path, LaunchDescription(words))
    assert found.value(FieldName.BATCH_SIZE) is None or words
