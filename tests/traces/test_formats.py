"""Every format: found by its content, read as its contract says, every row accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.domain.trace import TraceJob, TraceState
from lucid_pipelines.traces import FORMATS, detect_format, load
from tests.support_traces import samples
from tests.support_traces.samples import write, write_sample, write_tar


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_gzip", [False, True])
def test_a_sample_is_detected_loaded_and_balanced(tmp_path: Path, name: str, is_gzip: bool) -> None:
    path = write_sample(tmp_path, name, is_gzip=is_gzip)
    assert detect_format(path) == name
    trace = load(path)
    assert trace.format == name
    assert trace.balances
    assert trace.job_count == len(trace.jobs) > 0
    assert [job.submit_s for job in trace.jobs] == sorted(job.submit_s for job in trace.jobs)


@pytest.mark.parametrize("name", FORMATS)
def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path, name)
    before = load(path).jobs
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load(path).jobs == before


def test_helios(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    write(tmp_path, "cluster_gpu_number.csv", ["date,vcJkd,vchbv,total", "2020-06-09,16,64,80", "2020-06-10,24,64,88"])
    trace = load(path)
    assert trace.jobs[1] == TraceJob(
        job_id="1425512",
        user="uVMrF",
        vc="vchbv",
        name="",
        gpus=4.0,
        submit_s=1591728087.0,
        duration_s=249.0,
        state=TraceState.FAILED,
        cpus=16.0,
        start_s=1591728097.0,
        queue_s=10.0,
        end_s=1591728346.0,
    )
    assert trace.quarantined_by_reason == {"no_gpu": 1}
    assert trace.cluster is not None
    assert {vc: trace.cluster.gpus_of(vc) for vc in trace.cluster.virtual_clusters} == {"vcJkd": 24, "vchbv": 64}
    assert "vcpDC" in trace.notes[0]


def test_times_without_an_offset_are_read_in_the_zone_that_is_asked_for(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    as_written, in_china = load(path), load(path, timezone="Asia/Shanghai")
    assert [a.submit_s - b.submit_s for a, b in zip(as_written.jobs, in_china.jobs, strict=True)] == [8 * 3600.0] * 3
    assert [a.duration_s for a in as_written.jobs] == [b.duration_s for b in in_china.jobs]
    with pytest.raises(InputError, match="did you mean 'Asia/Shanghai'"):
        load(path, timezone="Asia/Shangai")


def test_acme_times_with_an_offset_are_converted(tmp_path: Path) -> None:
    trace = load(write_sample(tmp_path, "acme"), timezone="US/Pacific")
    first = trace.jobs[0]
    assert first.submit_s == 1677601102.0  # 2023-02-28 16:18:22 UTC
    assert (first.duration_s, first.queue_s, first.vc, first.name) == (117.0, 32.0, "seren", "Other")
    assert trace.cluster is not None
    assert trace.cluster.gpus == 2288
    assert trace.repairs == {}


def test_acme_kalos_durations_are_end_minus_start(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "trace_kalos.csv", [samples.KALOS_HEADER, *samples.KALOS_ROWS]))
    assert [job.duration_s for job in trace.jobs] == [8.0, 70.0]
    assert trace.repairs == {"recorded_duration_differs_from_times": 2}
    assert trace.cluster is not None
    assert trace.cluster.gpus == 2416


def test_lucid_artifact_with_its_cluster(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "lucid_artifact")
    write(tmp_path, "vc_config.csv", [",num", "vcefl,3", "vc8Gr,4"])
    trace = load(path, start="2020-09-01")
    (job,) = trace.jobs
    assert job.submit_s - 1585699200 == 13_219_232  # the artifact's clock begins on 2020-04-01
    assert (job.model, job.dataset, job.batch_size, job.amp) == ("BERT", "SQuAD", 32, False)
    assert (job.gpu_util_pct, job.memory_util_pct, job.memory_peak_mib) == (99.7, 62.5, 20162.0)
    assert job.workload_source == "recorded"
    assert trace.deselected == {"outside_window": 1}
    assert trace.cluster is not None
    assert trace.cluster.gpus == 56


NODES = ("sn,cpu_milli,memory_mib,gpu,model", "n0,64000,1,2,P100", "n1,64000,1,2,P100", "n2,96000,1,8,G2")


def test_openb_keeps_fractions(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "alibaba_openb")
    write(
        tmp_path,
        "openb_node_list_gpu_node.csv",
        ["sn,cpu_milli,memory_mib,gpu,model", "n0,64000,262144,2,P100", "n1,64000,262144,2,P100", "n2,96000,1,8,G2"],
    )
    trace = load(path)
    assert [job.gpus for job in trace.jobs] == [1.0, 0.46, 8.0]
    assert trace.jobs[1].gpu_type == "V100M16|V100M32"
    assert trace.jobs[1].queue_s == 10.0
    assert [job.state for job in trace.jobs] == [TraceState.CANCELLED, TraceState.COMPLETED, TraceState.FAILED]
    assert trace.quarantined_by_reason == {"never_started": 1, "no_gpu": 1}
    assert not trace.has_calendar
    assert trace.first_submit_at is None
    assert trace.cluster is not None
    assert [(g.nodes, g.gpus_per_node, g.gpu_type) for g in trace.cluster.virtual_clusters["default"]] == [
        (1, 8, "G2"),
        (2, 2, "P100"),
    ]


def test_pai_merges_tasks_and_joins_its_tables(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "alibaba_pai")
    alone = load(path)
    assert alone.jobs[0].submit_s == 990.0
    assert "pai_job_table" in alone.notes[0]
    write(tmp_path, "pai_job_table.csv", samples.PAI_JOB_ROWS)
    write(tmp_path, "pai_group_tag_table.csv", samples.PAI_GROUP_ROWS)
    trace = load(path)
    assert trace.balances
    assert trace.merged == {"further_tasks_of_a_job": 1}
    assert trace.quarantined_by_reason == {"not_ended": 1, "never_started": 1, "negative_time": 1, "no_gpu": 1}
    first, second = trace.jobs
    assert (first.job_id, first.gpus, first.submit_s, first.queue_s, first.duration_s) == (
        "jobA",
        1.0,
        900.0,
        90.0,
        510.0,
    )
    assert (first.user, first.code_fingerprint, first.model) == ("userX", "groupG", "bert")
    assert (second.state, second.model, second.code_fingerprint) == (TraceState.FAILED, None, "groupH")


def test_pai_as_published_in_tar_archives(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "pai_task_table.tar.gz", {"pai_task_table.csv": samples.SAMPLES["alibaba_pai"][1]})
    write_tar(tmp_path / "pai_job_table.tar.gz", {"pai_job_table.csv": "\n".join(samples.PAI_JOB_ROWS)})
    trace = load(path)
    assert trace.format == "alibaba_pai"
    assert trace.jobs[0].user == "userX"
    with pytest.raises(InputError, match="load pai_task_table with this file beside it"):
        detect_format(tmp_path / "pai_job_table.tar.gz")


def test_pai_a_job_with_a_broken_task_is_broken(tmp_path: Path) -> None:
    rows = (*samples.PAI_TASK_ROWS, "jobB,ps,1.0,Terminated,50.0,10.0,600.0,29.3,100.0,MISC")
    trace = load(write(tmp_path, "pai_task_table.csv", rows))
    assert trace.balances
    assert "jobB" not in {job.job_id for job in trace.jobs}
    assert trace.quarantined_by_reason["end_before_start"] == 2


def test_philly_csv_makes_ids_and_says_which_clusters_are_unknown(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "philly_csv")
    write(tmp_path, "philly_vc_nodes.csv", ["vc,node num", "6214e9,64"])
    trace = load(path)
    assert [job.job_id for job in trace.jobs] == ["philly-2", "philly-3"]
    assert trace.jobs[0].user == ""
    assert "7f04ca" in trace.notes[0]


def test_philly_csv_takes_the_names_of_other_published_copies(tmp_path: Path) -> None:
    trace = load(
        write(tmp_path, "p.csv", ["timestamp,gpu_num,run_time,user,new_status", "2017-10-01 00:00:00,4,60,7,Killed"])
    )
    (job,) = trace.jobs
    assert (job.gpus, job.duration_s, job.user, job.state, job.vc) == (4.0, 60.0, "7", TraceState.CANCELLED, "default")


def test_sia_with_and_without_measured_step_times(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "sia")
    by_class = load(path)
    assert by_class.jobs[0].duration_s == pytest.approx(0.3 * 3600 / 6)
    assert "size class" in by_class.notes[0]
    members = {
        "traces/cifar10/scalability-aws.csv": "num_nodes,num_replicas,local_bsz,step_time\n1,4,256,0.5\n1,4,512,0.9\n",
        "traces/cifar10/placements-aws.csv": "placement,local_bsz,step_time\n24,200,0.4\n24,400,0.6\n",
        "traces/cifar10/validation-2048.csv": "progress,iteration,metric\n1,10,0.1\n2,20,0.2\n",
        "traces/cifar10/validation-128.csv": "progress,iteration,metric\n1,99,0.1\n2,990,0.2\n",
    }
    write_tar(tmp_path / "app_traces.tar.gz", members)
    measured = load(path)
    # 2,048 samples on 6 GPUs are 341.3 each: between the two measured step times of 6 replicas.
    step_s = 0.4 + (2048 / 6 - 200) / 200 * 0.2
    assert measured.jobs[0].duration_s == pytest.approx(20 * step_s)
    assert measured.quarantined_by_reason == {"unknown_workload": 1}


def test_gavel_turns_steps_into_seconds(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "gavel")
    trace = load(path)
    assert [job.duration_s for job in trace.jobs] == [100.0, 50.0]
    assert [job.job_id for job in trace.jobs] == ["0e4a51-1", "0e4a51-2"]
    assert (trace.jobs[0].model, trace.jobs[0].batch_size, trace.jobs[1].batch_size) == ("ResNet-18", 32, None)
    assert trace.repairs == {"speed_scaled_from_one_gpu": 1}
    (tmp_path / "oracle_throughputs.json").unlink()
    with pytest.raises(InputError, match=r"oracle_throughputs\.json"):
        load(path)
    other = tmp_path / "elsewhere.json"
    other.write_text(json.dumps({"v100": {"('ResNet-18 (batch size 32)', 1)": {"null": 4.0}}}))
    assert [job.duration_s for job in load(path, profiles=other).jobs] == [250.0]


def test_a_folder_with_one_trace_is_enough(tmp_path: Path) -> None:
    write_sample(tmp_path, "lucid_artifact")
    write(tmp_path, "vc_config.csv", [",num", "vcefl,3"])
    (tmp_path / "info.json").write_text('{"rows": 2}')
    assert load(tmp_path).format == "lucid_artifact"
    write_sample(tmp_path, "helios")
    with pytest.raises(InputError, match="several trace files"):
        load(tmp_path)


def test_a_member_of_an_archive(tmp_path: Path) -> None:
    text = samples.SAMPLES["sia"][1]
    path = write_tar(tmp_path / "workloads.tar.gz", {"a/workload-1.csv": text, "a/workload-2.csv": text})
    assert load(f"{path}::a/workload-2.csv").job_count == 2
    with pytest.raises(InputError, match=r"name one as workloads.tar.gz::MEMBER"):
        load(path)
    with pytest.raises(InputError, match=r"did you mean 'a/workload-1.csv'"):
        load(f"{path}::a/workload1.csv")


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[float] = []
    load(write_sample(tmp_path, "helios"), progress=seen.append)
    assert seen[-1] == 1.0
    assert all(0 <= share <= 1 for share in seen)
