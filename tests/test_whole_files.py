"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lucid_pipelines.whole_files import whole_file, write_whole


def test_a_file_appears_whole_and_its_folder_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    write_whole(path, "[1]")
    write_whole(path, "[2]")
    assert path.read_text() == "[2]"
    assert [entry.name for entry in path.parent.iterdir()] == ["b.json"]


def test_an_error_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_whole(path, "old")
    with pytest.raises(ZeroDivisionError), whole_file(path, is_durable=True) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and [entry.name for entry in tmp_path.iterdir()] == ["b.json"]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    with whole_file(path) as first, whole_file(path) as second:
        first.write_text("first")
        second.write_text("second")
        assert first != second
    assert path.read_text() == "first", "the one that ended later"


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_whole(path, json.dumps([0] * 50_000))
    endless = (
        "import itertools, json, sys; from pathlib import Path; from lucid_pipelines.whole_files import write_whole\n"
        "for number in itertools.count(): write_whole(Path(sys.argv[1]), json.dumps([number] * 50_000))"
    )
    for delay_s in (0.0, 0.05, 0.11):
        before = path.stat().st_mtime_ns
        writer = subprocess.Popen([sys.executable, "-c", endless, str(path)])
        while path.stat().st_mtime_ns == before:
            assert writer.poll() is None
            time.sleep(0.01)
        time.sleep(delay_s)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert len(set(json.loads(path.read_text()))) == 1


def test_what_a_killed_writer_left_is_removed_a_day_later(tmp_path: Path) -> None:
    kill_self = (
        "import os, signal, sys; from pathlib import Path; from lucid_pipelines.whole_files import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as half: half.touch(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", kill_self, str(tmp_path / "old.json")], check=False)
    (left,) = tmp_path.iterdir()
    own = tmp_path / ".a.user.tmp"
    own.touch()
    write_whole(tmp_path / "b.json", "1")
    assert left.exists(), "its writer may still be at work"
    for path in (left, own):
        os.utime(path, (time.time() - 90_000,) * 2)
    write_whole(tmp_path / "b.json", "2")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".a.user.tmp", "b.json"]
