"""sacct output: broken lines, separators in names, steps, arrays, units, unknown times."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import TraceState
from lucid_pipelines.traces import LoadedTrace, load
from lucid_pipelines.traces.slurm_units import elapsed_s, gpus_of, scaled_number
from tests.support_traces.samples import SLURM_HEADER, slurm_row, write


def loaded(tmp_path: Path, *rows: str, header: str = SLURM_HEADER) -> LoadedTrace:
    trace = load(write(tmp_path, "sacct.txt", [header, *rows]), format="slurm")
    assert trace.balances
    return trace


def test_a_job_with_steps(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slurm_row("7"), slurm_row("7.batch"), slurm_row("7.extern"), slurm_row("7.0"))
    (job,) = trace.jobs
    assert (job.job_id, job.user, job.vc, job.name, job.gpus, job.gpu_type) == ("7", "ann", "gpu", "train", 2.0, "a100")
    assert (job.duration_s, job.queue_s, job.cpus) == (600.0, 10.0, 8.0)
    assert trace.merged == {"job_steps": 3}


@pytest.mark.parametrize("name", ["two\nlines", "ends\n", "four\n\n\nlines", "\nbegins"])
def test_a_name_with_line_ends(tmp_path: Path, name: str) -> None:
    trace = loaded(tmp_path, slurm_row("1"), slurm_row("2", name=name), slurm_row("3"))
    assert {job.job_id: job.name for job in trace.jobs} == {"1": "train", "2": name.strip(), "3": "train"}
    assert trace.repairs == {"lines_joined": name.count("\n")}
    assert trace.quarantined_count == 0


@pytest.mark.parametrize("name", ["a|b", "|", "a|b|c|d", "x|\ny"])
def test_a_name_with_separators(tmp_path: Path, name: str) -> None:
    trace = loaded(tmp_path, slurm_row("1"), slurm_row("2", name=name), slurm_row("3"))
    assert {job.job_id for job in trace.jobs} | {"2"} == {"1", "2", "3"}
    if "\n" not in name:
        assert trace.jobs[1].name == name.strip()
        assert trace.repairs == {"separators_in_text_joined": 1}


def test_a_command_in_the_last_column_may_continue(tmp_path: Path) -> None:
    header = SLURM_HEADER + "|SubmitLine"
    rows = [slurm_row("1") + '|srun bash -c "echo hello &&', 'echo goodbye"', slurm_row("2") + "|sbatch x.sh"]
    trace = loaded(tmp_path, *rows, header=header)
    assert [job.job_id for job in trace.jobs] == ["1", "2"]
    assert trace.repairs == {"lines_joined": 1}


def test_a_truncated_record_does_not_swallow_the_next(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slurm_row("1"), "2|ann|gpu|half", slurm_row("3"), "4|cut off at the end")
    assert [job.job_id for job in trace.jobs] == ["1", "3"]
    assert trace.quarantined_by_reason == {"malformed_row": 2}


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("CANCELLED by 1001", TraceState.CANCELLED),
        ("CANCELLED+", TraceState.CANCELLED),
        ("OUT_OF_ME+", TraceState.FAILED),
        ("NODE_FAIL", TraceState.FAILED),
        ("TIMEOUT", TraceState.FAILED),
        ("PREEMPTED", TraceState.CANCELLED),
        ("CD", TraceState.COMPLETED),
    ],
)
def test_states(tmp_path: Path, word: str, state: TraceState) -> None:
    assert loaded(tmp_path, slurm_row("1", state=word)).jobs[0].state is state


def test_what_is_no_ended_gpu_job(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        slurm_row("1", state="RUNNING", end="Unknown"),
        slurm_row("2_[5-9%2]", state="PENDING", start="Unknown", end="Unknown"),
        slurm_row("3", state="CANCELLED by 7", start="None", end="2024-03-01T10:10:10", elapsed="0"),
        slurm_row("4", gpus=0),
        slurm_row("5", state="SPARKLING"),
        slurm_row("x6"),
    )
    assert trace.jobs == ()
    assert trace.quarantined_by_reason == {
        "not_ended": 2,
        "never_started": 1,
        "no_gpu": 1,
        "unknown_state": 1,
        "malformed_row": 1,
    }


def test_array_tasks_are_jobs_and_components_are_one(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slurm_row("5_1"), slurm_row("5_2"), slurm_row("9+0", gpus=2), slurm_row("9+1", gpus=4))
    assert {job.job_id: job.gpus for job in trace.jobs} == {"5_1": 2.0, "5_2": 2.0, "9": 6.0}
    assert trace.merged == {"components_of_a_job": 1}


def test_attempts_of_a_requeued_job(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        slurm_row("1", state="NODE_FAIL", end="2024-03-01T10:01:10", elapsed="60"),
        slurm_row("1", state="COMPLETED", start="2024-03-01T11:00:00", end="2024-03-01T11:10:00"),
    )
    (job,) = trace.jobs
    assert (job.attempts, job.duration_s, job.state) == (2, 660.0, TraceState.COMPLETED)
    assert trace.merged == {"attempts_of_a_requeued_job": 1}


def test_a_repeated_id_that_is_no_requeue_goes_to_quarantine(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slurm_row("1"), slurm_row("1", user="bob"))
    assert [job.user for job in trace.jobs] == ["ann"]
    assert trace.quarantined_by_reason == {"duplicate_id": 1}


def test_old_columns_and_elapsed(tmp_path: Path) -> None:
    header = "JobID|State|Submit|Start|End|Elapsed|ReqGRES|NNodes|Account|"
    row = "1|COMPLETED|2024-03-01T10:00:00|2024-03-01T10:00:00|2024-03-02T11:00:01|1-01:00:00|gpu:tesla:4|2|lab|"
    trace = loaded(tmp_path, row, header=header)
    (job,) = trace.jobs
    assert (job.gpus, job.gpu_type, job.duration_s, job.vc) == (8.0, "tesla", 90000.0, "lab")


def test_epoch_times(tmp_path: Path) -> None:
    row = slurm_row("1", start="1709287210", end="1709287810").replace("2024-03-01T10:00:00", "1709287200")
    assert loaded(tmp_path, row).jobs[0].queue_s == 10.0


def test_repeated_headers_and_blank_lines(tmp_path: Path) -> None:
    trace = loaded(tmp_path, slurm_row("1"), "", SLURM_HEADER, slurm_row("2"), "", "")
    assert [job.job_id for job in trace.jobs] == ["1", "2"]
    assert trace.quarantined_by_reason == {"repeated_header": 1}


def test_a_column_with_gpus_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="add AllocTRES or ReqTRES"):
        loaded(tmp_path, "1|COMPLETED|a|b|c", header="JobID|State|Submit|Start|End")


@pytest.mark.parametrize(
    ("text", "gpus", "kind"),
    [
        ("billing=8,cpu=64,gres/gpu=8,gres/gpu:a100=8,node=1", 8, "a100"),
        ("cpu=4,gres/gpu:v100=2,gres/gpu:a100=6", 8, "a100"),
        ("gpu:2", 2, None),
        ("gpu:tesla:2", 2, "tesla"),
        ("gpu:tesla:2(S:0-1),craynetwork:1", 2, "tesla"),
        ("gpu", 1, None),
        ("gpu:tesla", 1, "tesla"),
        ("gres:gpu:4", 4, None),
        ("cpu=4,mem=2G", 0, None),
        ("gres/gpu=1.5K", 1500, None),
    ],
)
def test_gpu_counts(text: str, gpus: float, kind: str | None) -> None:
    assert gpus_of(text) == (gpus, kind)


def test_units() -> None:
    assert scaled_number("1.5K") == 1500
    assert scaled_number("8") == 8
    assert scaled_number("eight") != scaled_number("eight")
    assert elapsed_s("2-03:04:05") == 2 * 86400 + 3 * 3600 + 4 * 60 + 5
    assert elapsed_s("00:42") == 42
    assert elapsed_s("00:00:01.5") == 1.5
    assert elapsed_s("INVALID") != elapsed_s("INVALID")
