"""dcgm-exporter's page: what is read, what is not believed, and how it completes NVML's readings."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
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


@pytest.mark.parametrize("filler", ["x", "a=", '="', 'a="b",', '"",', "\\\\", "{", ","])
def test_a_page_that_is_made_to_take_long_is_read_at_once(filler: str) -> None:
    """A label of a megabyte: whoever tries it from every letter on would never come to an end."""
    labels = filler * (1_000_000 // len(filler))
    for text in (labels, labels + '"', '"' + labels + '"', f'UUID="{labels}"', f'{labels},UUID="GPU-h"'):
        parse_dcgm(f"DCGM_FI_DEV_GPU_UTIL{{{text}}} 40\n")


@pytest.mark.parametrize(
    "value", ["1e30", "-1", "-0.5", "+Inf", "-Inf", "nan", "0x10", "1_0_0_0_0_0_0_0_0", "", "4 4 4"]
)
def test_a_value_that_cannot_be_is_unknown(value: str) -> None:
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS")
    found = parse_dcgm("".join(f'{name}{{UUID="GPU-h"}} {value}\n' for name in names)).get("GPU-h")
    assert found is None or (found.gpu_util_pct, found.memory_used_mib, found.xid) == (None, None, None)


def test_a_number_that_may_have_been_cut_is_not_believed() -> None:
    line = 'DCGM_FI_DEV_FB_USED{UUID="GPU-a"} 4096\n'
    assert parse_dcgm(line)["GPU-a"].memory_used_mib == 4096.0
    assert all("GPU-a" not in parse_dcgm(line[:end]) for end in range(len(line)))


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0\0\0\0\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", b"HTTP/9.9 banana\r\n\r\n",
     b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n", b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"drip"],
)  # fmt: skip
def test_an_exporter_that_speaks_nonsense_is_one_that_does_not_answer(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, answer), daemon=True).start()
        source = DcgmSource(f"http://127.0.0.1:{server.getsockname()[1]}/metrics", timeout_s=1.0)
        sample = GpuSample("n1", 0, NOW, "nvml", uuid="GPU-a")
        with pytest.raises(ExternalError, match="dcgm-exporter d"):
            source.complete([sample])


def _serve(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        connection.recv(65536)
        if answer != b"drip":
            connection.sendall(answer)
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(60):
            connection.sendall(b"#")
            time.sleep(0.2)


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for reading in parse_dcgm(text + "\n" + PAGE).values():
        assert reading.gpu_util_pct is None or 0 <= reading.gpu_util_pct <= 100
