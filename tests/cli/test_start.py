"""Where the `lucid` command begins."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lucid_pipelines.cli import start
from lucid_pipelines.domain.errors import NotFoundError

_LOADED = """
import sys
sys.argv = ["lucid", "advise", "--help"]
from lucid_pipelines.cli.start import main
try:
    main()
except SystemExit:
    pass
print("loaded", "lucid_pipelines.client" in sys.modules, "lucid_pipelines.cli.main" in sys.modules)
"""


def test_a_tool_starts_without_the_other_commands() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.splitlines()[-1] == "loaded False False"
    assert "lucid advise" in done.stdout


@pytest.mark.parametrize(("words", "status"), [(["jobs", "--nothing"], 2), (["advise", "/nowhere", "--", "x"], 4)])
def test_errors_are_one_line_and_a_status(
    words: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lucid", *words])
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == status
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_of_ours_has_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise NotFoundError("no such thing: x")

    with pytest.raises(SystemExit) as ended:
        start.guarded(fail)
    assert ended.value.code == NotFoundError.exit_code
