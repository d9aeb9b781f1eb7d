# ruff: noqa: E501 - messages are as long as the libraries print them
"""Who is to blame, and how sure the answer is."""

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import NotFoundError
from lucid_pipelines.failures.allocator import memory_held_by_others
from lucid_pipelines.failures.classify import Source, Thresholds, classify
from lucid_pipelines.failures.diagnosis import diagnose_logs
from lucid_pipelines.failures.vocabulary import Category, Component, Ending
from tests.support_failures.reading import diagnosed, located, progress, tools

HEAD = "".join(f"loading {name}\n" for name in "abcdef") + progress(1, 30)
OWN = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in main\n    run()\n'
LIBRARY = (
    OWN + '  File "/opt/conda/lib/python3.10/site-packages/transformers/trainer.py", line 9, in __init__\n    f()\n'
)


def test_the_same_words_mean_a_misfit_inside_a_package_and_a_bug_in_own_code(tmp_path: Path) -> None:
    error = "TypeError: Accelerator.__init__() got an unexpected keyword argument 'dispatch_batches'\n"
    inside = diagnosed(HEAD + LIBRARY + error, tmp_path).classified
    outside = diagnosed(HEAD + OWN + error, tmp_path).classified
    assert (inside.category, inside.source) == (Category.FRAMEWORK, Source.TRACEBACK)
    assert outside.category is Category.USER_SCRIPT


def test_none_without_an_attribute_is_a_bug_wherever_it_is_raised(tmp_path: Path) -> None:
    error = "AttributeError: 'NoneType' object has no attribute 'shape'\n"
    assert diagnosed(HEAD + LIBRARY + error, tmp_path).classified.category is Category.USER_SCRIPT


def test_a_full_disk_beside_a_failed_write_forbids_the_restart(tmp_path: Path) -> None:
    error = OWN + "RuntimeError: PytorchStreamWriter failed writing file data/1: file write failed\n"
    found = diagnosed(HEAD + "df: /mnt/out 3.5T used 3.5T avail 0 100%\n" + error, tmp_path)
    assert found.classified.family is not None and found.classified.family.name == "disk-full"
    assert (found.classified.component, found.is_restart_advised) == (Component.STORAGE, False)


def test_a_lost_handle_after_a_launch_failure_says_hardware(tmp_path: Path) -> None:
    error = OWN + "RuntimeError: CUDA error: unspecified launch failure\n"
    lost = "nvidia-smi: Unable to determine the device handle for GPU0000:3D:00.0: Unknown Error\n"
    with_evidence = diagnosed(HEAD + error + lost, tmp_path)
    without = diagnosed(HEAD + error, tmp_path)
    assert with_evidence.classified.component is Component.GPU and with_evidence.is_restart_advised
    assert without.classified.category is Category.FRAMEWORK and not without.is_restart_advised


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("CUDA out of memory. Tried to allocate 32.00 MiB. GPU 2 has a total capacity of 63.42 GiB of which 27.31 MiB is free. Including non-PyTorch memory, this process has 63.39 GiB memory in use.", False),
        ("CUDA out of memory. Tried to allocate 512.00 MiB. GPU 2 has a total capacity of 79.15 GiB of which 21.31 MiB is free. Process 311820 has 77.02 GiB memory in use. Including non-PyTorch memory, this process has 2.09 GiB memory in use.", True),
        ("CUDA out of memory. Tried to allocate 2.11 GiB (GPU 6; 39.45 GiB total capacity; 37.14 GiB already allocated; 1.60 GiB free; 37.30 GiB reserved in total by PyTorch)", False),
        ("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 39.45 GiB total capacity; 1.20 GiB already allocated; 5.19 MiB free; 1.30 GiB reserved in total by PyTorch)", True),
        ("CUDA out of memory. Tried to allocate 70.00 GiB. GPU 2 has a total capacity of 79.15 GiB of which 78.31 GiB is free. this process has 0.50 GiB memory in use.", False),
        ("OOM when allocating tensor with shape[128,512,56,56]", False),
        ("", False),
    ],
)  # fmt: skip
def test_who_holds_the_memory(text: str, others: bool) -> None:
    assert memory_held_by_others(text) is others


def test_what_no_rule_knows_is_judged_by_its_words_and_never_restarted_unless_sure(tmp_path: Path) -> None:
    line = "E0302 10:00:00.1 12 rt.cc:9] accelerator 3 reported an uncorrectable fault in its memory, unit is offline\n"
    found = diagnosed(HEAD + line, tmp_path)
    assert found.classified.source in (Source.TEXT_MODEL, Source.RULE)
    assert found.classified.category is Category.INFRASTRUCTURE


def test_below_the_threshold_the_answer_is_unknown() -> None:
    where = located(HEAD + "ERROR: flumox of the quandle exceeded snorf\n")
    sure = classify(where, tools().rules, tools().model, Thresholds(category=0.0))
    unsure = classify(where, tools().rules, tools().model, Thresholds(category=0.99))
    assert sure.category is not None and unsure.category is None
    assert "a person should look" in unsure.reasons[0]
    assert classify(where, tools().rules, None).category is None


def test_a_killed_process_that_left_no_word_is_most_often_out_of_memory(tmp_path: Path) -> None:
    log = HEAD + "srun: error: gpu01: task 3: Killed\nERROR: failed (exitcode: -9) local_rank: 3 (pid: 12)\n"
    found = diagnosed(log, tmp_path)
    assert found.classified.category is Category.USER_SCRIPT
    assert found.classified.confidence < 0.6 and not found.is_restart_advised


def test_blameless_endings_have_no_category(tmp_path: Path) -> None:
    found = diagnosed(HEAD + "slurmstepd: error: *** JOB 8 ON g1 CANCELLED AT 2024-05-02T11:00:00 ***\n", tmp_path)
    assert (found.ending, found.classified.category, found.is_restart_advised) == (Ending.CANCELLED, None, False)


def test_the_first_error_of_several_rank_logs_by_time(tmp_path: Path) -> None:
    for rank, (clock, text) in enumerate((("11:05:00", "KeyError: 'b'"), ("11:04:00", "KeyError: 'a'"))):
        prefix = f"2024-05-02 {clock} "
        body = "".join(f"{prefix}{line}\n" for line in ("ERROR something", ""))
        (tmp_path / f"rank_{rank}.log").write_text(HEAD + body + OWN + text + "\n" + f"2024-05-02 {clock} ERROR ecc\n")
    late, early = tmp_path / "rank_0.log", tmp_path / "rank_1.log"
    late.write_text(HEAD + "2024-05-02 11:05:00 OSError: [Errno 5] Input/output error: '/a'\n")
    early.write_text(HEAD + "2024-05-02 11:04:00 OSError: [Errno 116] Stale file handle: '/b'\n")
    found = diagnose_logs([late, early], tools())
    assert found.file == str(early)
    assert found.root_rank == 1


def test_a_rank_with_a_cause_outweighs_ranks_with_symptoms(tmp_path: Path) -> None:
    symptom, cause = tmp_path / "rank_0.log", tmp_path / "rank_1.log"
    symptom.write_text(HEAD + "RuntimeError: Connection reset by peer\n")
    cause.write_text(HEAD + OWN + "KeyError: 'a'\n")
    assert diagnose_logs([symptom, cause], tools()).root_text == "KeyError: 'a'"


def test_a_rank_whose_log_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    cause = tmp_path / "rank1.log"
    cause.write_text("Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nKeyError: 'a'\n")
    found = diagnose_logs([tmp_path / "rank0.log", cause], tools())
    assert found.root_text == "KeyError: 'a'" and "1 other log(s) could not be read" in found.advice
    with pytest.raises(NotFoundError):
        diagnose_logs([tmp_path / "rank0.log"], tools())
