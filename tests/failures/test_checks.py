# ruff: noqa: E501 - tables are as wide as the tools print them
"""Parsers of real tools' output."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.failures.checks import (
    CheckStatus,
    is_foreign_drain_reason,
    parse_dcgmi_diag,
    parse_df,
    parse_ibstat,
    parse_metrics,
    parse_nccl_tests,
    parse_nvidia_smi_csv,
)

NCCL = """# nThread 1 nGpus 8 minBytes 8388608 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       2097152     float     sum      -1    160.1   52.40   91.70      0    159.8   52.49   91.86      0
    16777216       4194304     float     sum      -1    234.4   71.58  125.26      {wrong}    233.9   71.73  125.53      0
    33554432       8388608     float     sum      -1    371.0   90.44  158.27    N/A    370.2   90.64  158.62    N/A
# Out of bounds values : {wrong} {ok}
# Avg bus bandwidth    : 125.2
#
# Collective test concluded: all_reduce_perf
"""


def test_nccl_tests_table() -> None:
    good = parse_nccl_tests(NCCL.format(wrong=0, ok="OK"))
    assert (good.row_count, good.average_bus_gbps, good.peak_bus_gbps, good.wrong_values) == (3, 125.2, 158.62, 0)
    assert good.is_ok
    assert not parse_nccl_tests(NCCL.format(wrong=0, ok="OK"), min_bus_gbps=180).is_ok
    bad = parse_nccl_tests(NCCL.format(wrong=12, ok="FAILED"))
    assert bad.wrong_values == 12 and not bad.is_ok


def test_a_run_of_nccl_tests_that_died_is_not_ok() -> None:
    cut = "\n".join(NCCL.format(wrong=0, ok="OK").splitlines()[:7]) + "\ngpu01: Test NCCL failure common.cu:1005\n"
    report = parse_nccl_tests(cut)
    assert report.average_bus_gbps is None and not report.is_ok


def test_nccl_tests_json() -> None:
    document = {
        "config": {},
        "devices": [],
        "results": [{"size": 8}],
        "out_of_bounds": {"count": 0, "okay": True},
        "average_bus_bandwidth": {"bandwidth": 183.2, "okay": True},
    }
    assert parse_nccl_tests(json.dumps(document)).is_ok
    document["out_of_bounds"] = {"count": 2, "okay": False}
    assert not parse_nccl_tests(json.dumps(document)).is_ok


def dcgm4(status: str) -> str:
    result = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 3, "status": status}
    if status == "Fail":
        result["warnings"] = [{"warning": "GPU 3 had uncorrectable errors", "error_id": 9, "error_severity": 2}]
    test = {"name": "memory", "results": [{**result, "entity_id": 2, "status": "Pass", "warnings": []}, result]}
    test["test_summary"] = {"status": status}
    return json.dumps(
        {
            "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [test]}]},
            "metadata": {"version": "4.2.3", "Driver Version Detected": "550.1"},
        }
    )


def test_dcgmi_diag_of_version_4() -> None:
    failed = parse_dcgmi_diag("Successfully ran diagnostic\n" + dcgm4("Fail"))
    assert (failed.failed_gpus, failed.passed, failed.version) == ((3,), False, "4.2.3")
    assert failed.tests[0].warnings == ("GPU 3 had uncorrectable errors",)
    assert parse_dcgmi_diag(dcgm4("Pass")).passed is True


def test_dcgmi_diag_of_version_3() -> None:
    document = {
        "DCGM GPU Diagnostic": {
            "test_categories": [
                {
                    "category": "Deployment",
                    "tests": [
                        {"name": "Denylist", "results": [{"gpu_ids": "0,1,2,3", "status": "PASS"}]},
                        {"name": "PCIe", "results": [{"gpu_ids": "2", "status": "FAIL", "warnings": "link width 8"}]},
                        {"name": "Memory", "results": [{"gpu_ids": "0,1", "status": "SKIP"}]},
                    ],
                }
            ],
            "version": "3.3.5",
        }
    }
    report = parse_dcgmi_diag(json.dumps(document))
    assert report.failed_gpus == (2,)
    assert [test.status for test in report.tests] == [CheckStatus.PASS, CheckStatus.FAIL, CheckStatus.SKIP]


def test_a_diagnosis_that_could_not_be_run_proves_nothing() -> None:
    document = {"DCGM Diagnostic": {"test_categories": [], "runtime_error": "Unable to connect to host engine"}}
    report = parse_dcgmi_diag(json.dumps(document))
    assert report.passed is None and report.runtime_error is not None


def test_metrics_without_blank_values() -> None:
    page = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",modelName="NVIDIA H100 \\"80GB\\""} 98
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-bb"} 79
DCGM_FI_DEV_MEMORY_TEMP{gpu="1",UUID="GPU-bb"} 9223372036854775794
DCGM_FI_PROF_DRAM_ACTIVE{gpu="1"} NaN
garbage
"""
    found = parse_metrics(page)
    assert [(m.name, m.gpu_index, m.value) for m in found] == [
        ("DCGM_FI_DEV_GPU_UTIL", 0, 98.0),
        ("DCGM_FI_DEV_XID_ERRORS", 1, 79.0),
    ]


def test_nvidia_smi_csv() -> None:
    text = """index, name, ecc.errors.uncorrected.volatile.total, memory.used [MiB], temperature.gpu
0, NVIDIA A100-SXM4-80GB, 0, 71000 MiB, 55
1, NVIDIA A100-SXM4-80GB, 3, [N/A], [Unknown Error]
"""
    rows = parse_nvidia_smi_csv(text)
    assert rows[0].number("memory.used") == 71000.0
    assert rows[1].number("ecc.errors.uncorrected.volatile.total") == 3.0
    assert rows[1].number("memory.used") is None and rows[1].number("temperature.gpu") is None


def test_ibstat() -> None:
    text = """CA 'mlx5_0'
    CA type: MT4129
    Number of ports: 1
    Port 1:
        State: Active
        Physical state: LinkUp
        Rate: 400
CA 'mlx5_1'
    Port 1:
        State: Down
        Physical state: Polling
        Rate: 10
"""
    ports = parse_ibstat(text)
    assert [(p.device, p.is_up, p.rate_gbps) for p in ports] == [("mlx5_0", True, 400.0), ("mlx5_1", False, 10.0)]


def test_df() -> None:
    text = (
        "Filesystem Size Used Avail Use% Mounted on\n/dev/sda1 3.5T 3.5T 0 100% /mnt/out\ntmpfs 1G 0 1G 1% /dev/shm\n"
    )
    assert parse_df(text) == {"/mnt/out": 1.0, "/dev/shm": 0.01}


def test_a_drain_reason_of_somebody_else_is_left_alone() -> None:
    assert is_foreign_drain_reason("NHC: check_hw_ib failed", "lucid:")
    assert not is_foreign_drain_reason("lucid: gpu suspected", "lucid:")
    assert not is_foreign_drain_reason(None, "lucid:") and not is_foreign_drain_reason("none", "lucid:")


PARSERS = (parse_nccl_tests, parse_dcgmi_diag, parse_metrics, parse_nvidia_smi_csv, parse_ibstat, parse_df)


@pytest.mark.parametrize("parser", PARSERS[:2] + PARSERS[3:])
@pytest.mark.parametrize("text", ["", "command not found", "{}", "[1, 2]", "{", '{"DCGM Diagnostic": 3}'])
def test_other_texts_are_refused(parser: object, text: str) -> None:
    assert callable(parser)
    with pytest.raises(InputError):
        parser(text)


@given(st.sampled_from(PARSERS), st.text(max_size=200))
def test_no_text_breaks_a_parser(parser: object, text: str) -> None:
    assert callable(parser)
    with contextlib.suppress(InputError):
        parser(text)
