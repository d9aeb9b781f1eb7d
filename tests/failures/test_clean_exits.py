"""A program that ends itself with status 0 fails nobody, however that is written."""

from pathlib import Path

import pytest

from tests.support_failures.reading import diagnosed, progress

HEAD = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 12, in <module>\n    sys.exit(0)\n'
INDEX = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 14, in <module>\n    x[3]\n'
CLEAN = {
    "traceback": HEAD + "SystemExit: 0\n",
    "no status": HEAD + "SystemExit\n",
    "none": HEAD + "SystemExit: None\n",
    "line": "SystemExit: 0\n",
    "click": HEAD + "click.exceptions.Exit: 0\n",
    "typer": HEAD + "typer.Exit\n",
    "notebook": "An exception has occurred, use %tb to see the full traceback.\n\nSystemExit: 0\n",
    "rank": "[rank0]: " + HEAD.strip().replace("\n", "\n[rank0]: ") + "\n[rank0]: SystemExit: 0\n",
    "actor": "(Trainer pid=12) SystemExit: 0\n",
    "generator": HEAD + "GeneratorExit\n",
    "task": "Task exception was never retrieved\nfuture: <Task finished name='Task-1' exception=SystemExit(0)>\n",
    "said": "Process finished with exit code 0\n",
    "then noise": HEAD + "SystemExit: 0\nException ignored in: <function Loader.__del__ at 0x7f>\n" + INDEX
    + "AssertionError: can only test a child process\n",
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_exit_is_a_success(name: str, tmp_path: Path) -> None:
    found = diagnosed(progress(0, 40) + CLEAN[name], tmp_path).to_json()
    assert (found["category"], found["restart"], found["ending"]) == (None, False, "succeeded")


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (INDEX + "IndexError: list index out of range\n" + HEAD + "SystemExit: 0\n", "user_script"),
        (HEAD + "SystemExit: 0\n\nDuring handling of the above exception, another exception occurred:\n\n"
         + INDEX + "IndexError: list index out of range\n", "user_script"),
        ("[rank2]: SystemExit: 0\n[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
         "infrastructure"),
    ],
)  # fmt: skip
def test_a_clean_exit_hides_no_error(text: str, category: str, tmp_path: Path) -> None:
    assert diagnosed(progress(0, 40) + text, tmp_path).to_json()["category"] == category


def test_an_interrupted_program_that_exits_with_0_was_interrupted(tmp_path: Path) -> None:
    text = "KeyboardInterrupt\n\nDuring handling of the above exception, another exception occurred:\n\n"
    found = diagnosed(progress(0, 40) + text + HEAD + "SystemExit: 0\n", tmp_path).to_json()
    assert (found["category"], found["ending"]) == (None, "interrupted")


@pytest.mark.parametrize("status", ["1", "2"])
def test_another_status_is_no_success(status: str, tmp_path: Path) -> None:
    found = diagnosed(progress(0, 40) + HEAD.replace("0)", f"{status})") + f"SystemExit: {status}\n", tmp_path)
    assert found.to_json()["ending"] != "succeeded"
