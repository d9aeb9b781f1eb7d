"""Ten thousand small files and large ones: memory stays flat, unchanged trees are not read again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lucid_pipelines.snapshots import materialise, seal
from tests.support_processes import run
from tests.support_snapshots.trees import put

_MEMORY = """
import resource, sys
from pathlib import Path
from lucid_pipelines.snapshots import materialise, seal, verify
rss = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = rss()
sealed = seal(Path(sys.argv[1]), Path(sys.argv[2]))
verify(sealed.digest, Path(sys.argv[2]))
materialise(sealed.digest, Path(sys.argv[2]), Path(sys.argv[3]))
print(rss() - before)
"""


def test_memory_does_not_grow_with_the_size_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with (tmp_path / "s/data.bin").open("wb") as stream:
        for block in range(4):
            stream.seek(block * (75 << 20))
            stream.write(bytes([block + 1]) * (1 << 20))
        stream.truncate(300 << 20)
    grown_mib = int(run(_MEMORY, tmp_path / "s", tmp_path / "store", tmp_path / "out"))
    assert grown_mib < 24  # a few chunks of 1 MiB and the interpreter's own arenas


@pytest.mark.slow
def test_ten_thousand_files(tmp_path: Path) -> None:
    for number in range(10_000):
        put(tmp_path / "s", f"pkg{number % 100}/m{number}.py", f"value = {number}\n" * 40)
    newest_s = max(path.stat().st_ctime for path in (tmp_path / "s").rglob("*"))
    time.sleep(max(0.0, newest_s + 2.1 - time.time()))  # younger files are read again on purpose

    first = seal(tmp_path / "s", tmp_path / "store")
    second = seal(tmp_path / "s", tmp_path / "store")
    assert (first.file_count, second.new_bytes, second.rehashed_count) == (10_000, 0, 0)
    assert first.digest == second.digest
    made = materialise(first.digest, tmp_path / "store", tmp_path / "out")
    assert (made.file_count, sum(path.is_file() for path in (tmp_path / "out").rglob("*"))) == (10_000, 10_000)
