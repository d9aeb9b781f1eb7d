"""dcgm-exporter's page: what is read, what is not believed, and how it completes NVML's readings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.domain.cluster import GpuSample
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.resources.clusters.dcgm import DcgmSource, parse_dcgm

NOW = datetime(2026, 1, 5, tzinfo=UTC)
PAGE = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0",modelName="H200 \\"X\\" {1}",Hostname="n1"} 40
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-a",modelName="H200"} 12
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 4096 1767571200000
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b"} 140
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b"} NaN
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b"} 79
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-c",GPU_I_ID="3"} 20
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-d"} 20
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-d"} 60
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a"} 1980
"""


def test_values_are_read_by_uuid_and_nonsense_is_unknown() -> None:
    found = parse_dcgm(PAGE)
    a, b, d = found["GPU-a"], found["GPU-b"], found["GPU-d"]
    assert (a.gpu_util_pct, a.memory_util_pct, a.memory_used_mib, a.xid) == (40.0, 12.0, 4096.0, None)
    assert (b.gpu_util_pct, b.memory_used_mib, b.xid) == (None, None, 79)
    assert d.gpu_util_pct is None, "two values for one thing"
    assert "GPU-c" not in found, "a part of a GPU says nothing about the whole"


def test_it_completes_only_what_is_unknown() -> None:
    source = DcgmSource("http://localhost:9400/metrics", fetch=lambda url, timeout_s: PAGE)
    known = GpuSample("n1", 0, NOW, "nvml", 33.0, None, None, uuid="GPU-a")
    other = GpuSample("n1", 1, NOW, "nvml", 1.0, 1.0, 1.0, uuid="GPU-b")
    stranger = GpuSample("n1", 2, NOW, "nvml", uuid="GPU-z")
    completed, same, unknown = source.complete([known, other, stranger])
    assert (completed.gpu_util_pct, completed.memory_used_mib, completed.source) == (33.0, 4096.0, "nvml+dcgm")
    assert same is other and unknown is stranger


def test_nobody_is_asked_when_everything_is_known_and_errors_say_what_is_wrong() -> None:
    def away(url: str, timeout_s: float) -> str:
        raise ExternalError("away")

    source = DcgmSource("http://localhost:9400/metrics", fetch=away)
    known = GpuSample("n1", 1, NOW, "nvml", 1.0, 1.0, 1.0, uuid="GPU-b")
    assert source.complete([known]) == (known,)
    with pytest.raises(ExternalError, match="away"):
        source.complete([GpuSample("n1", 1, NOW, "nvml", uuid="GPU-b")])
    with pytest.raises(InputError, match="http"):
        DcgmSource("file:///etc/passwd")
    with pytest.raises(ExternalError, match="does not answer"):
        DcgmSource("http://127.0.0.1:9/metrics", timeout_s=0.5).readings()


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for reading in parse_dcgm(text + "\n" + PAGE).values():
        assert reading.gpu_util_pct is None or 0 <= reading.gpu_util_pct <= 100
