"""Real GPUs, read from a stand-in for the driver's library."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lucid_pipelines.domain.cluster import Gpu, Placement
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import Sight, Telemetry
from lucid_pipelines.resources.clusters import wrapper
from lucid_pipelines.resources.clusters.gpu_reading import GpuReading
from lucid_pipelines.resources.clusters.local import LocalCluster, real_nodes
from lucid_pipelines.resources.clusters.nodes import LocalNode
from lucid_pipelines.resources.clusters.nvml import NvmlSource, NvmlTelemetry, cleanliness
from tests.support_clusters.local_harness import LocalHarness
from tests.support_clusters.nvml_double import NvmlDouble, gpu_line

OPEN = """
from lucid_pipelines.resources.clusters.nvml import NvmlSource
from lucid_pipelines.domain.errors import ExternalError
source = NvmlSource(timeout_s=30)
def show():
    try:
        answer([[r.index, r.uuid, r.gpu_util_pct, r.memory_used_mib, r.problem] for r in source.readings()])
    except ExternalError as error:
        answer(str(error))
"""
CLUSTER = """
import tempfile
from lucid_pipelines.resources.clusters.local import LocalCluster, real_nodes
from lucid_pipelines.resources.clusters.nvml import NvmlSource
source = NvmlSource(timeout_s=5)
cluster = LocalCluster(Path(tempfile.mkdtemp()), real_nodes(source, name="here"), nvml=source)
"""


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> NvmlDouble:
    return NvmlDouble(tmp_path_factory.mktemp("nvml"))


def test_values_are_read_and_nonsense_is_unknown(double: NvmlDouble) -> None:
    double.state(
        "driver 1\n"
        + gpu_line("GPU-a", util=40, mem_util=20, used_mib=4000, pids=(11, 12))
        + gpu_line("GPU-b", util=250, mem_util=101, used_mib=90, total_mib=80, ecc=-1)
    )
    script = "from dataclasses import asdict\nanswer([asdict(r) for r in source.readings()])\n"
    script += "answer([asdict(s) for s in source.sample('n')])\nanswer([asdict(g) for g in source.gpus()])"
    readings, samples, gpus = double.run(OPEN + script)
    good, bad = readings
    assert (good["gpu_util_pct"], good["memory_util_pct"], good["memory_used_mib"]) == (40.0, 20.0, 4000.0)
    assert (good["uuid"], good["gpu_type"], good["process_ids"]) == ("GPU-a", "H200", [11, 12])
    assert (good["ecc_uncorrected"], good["temperature_c"], good["problem"]) == (0, 40, None)
    assert (bad["gpu_util_pct"], bad["memory_util_pct"], bad["memory_used_mib"]) == (None, None, None)
    assert (bad["ecc_uncorrected"], bad["process_ids"], bad["problem"]) == (None, [], None)
    assert [(s["node"], s["gpu_index"], s["source"], s["process_count"]) for s in samples] == [
        ("n", 0, "nvml", 2),
        ("n", 1, "nvml", 0),
    ]
    assert [(g["index"], g["uuid"], g["is_virtual"]) for g in gpus] == [(0, "GPU-a", False), (1, "GPU-b", False)]


def test_a_lost_gpu_stays_known_by_name_and_unknown_in_value(double: NvmlDouble) -> None:
    first = gpu_line("GPU-a") + gpu_line("GPU-b", util=70)
    double.state("driver 1\n" + first)
    lost = "driver 1\\n" + (gpu_line("GPU-a", lost=True) + gpu_line("GPU-b", util=70)).replace("\n", "\\n")
    gone = "driver 1\\n" + gpu_line("GPU-b", util=70).replace("\n", "\\n")
    before, after, unlisted = double.run(OPEN + f'show()\nstate("{lost}")\nshow()\nstate("{gone}")\nshow()')
    assert before == [[0, "GPU-a", 40.0, 4000.0, None], [1, "GPU-b", 70.0, 4000.0, None]]
    assert after == [[0, "GPU-a", None, None, "GPU is lost"], [1, "GPU-b", 70.0, 4000.0, None]]
    by_name = {row[1]: row for row in unlisted}
    assert by_name["GPU-b"][:3] == [0, "GPU-b", 70.0]
    assert by_name["GPU-a"][2:4] == [None, None]
    assert "now belongs to another GPU" in by_name["GPU-a"][4]


def test_gpus_that_change_places_are_recognised(double: NvmlDouble) -> None:
    double.state("driver 1\n" + gpu_line("GPU-a", util=10) + gpu_line("GPU-b", util=90))
    swapped = "driver 2\\n" + (gpu_line("GPU-b", util=90) + gpu_line("GPU-a", util=10)).replace("\n", "\\n")
    before, after = double.run(OPEN + f'show()\nstate("{swapped}")\nshow()')
    assert {row[1]: row[2] for row in before} == {row[1]: row[2] for row in after} == {"GPU-a": 10.0, "GPU-b": 90.0}
    assert [row[1] for row in after] == ["GPU-b", "GPU-a"]


def test_without_a_driver_the_error_says_what_to_do(double: NvmlDouble) -> None:
    double.state("driver 0\n")
    back = "driver 1\\n" + gpu_line("GPU-a").replace("\n", "\\n")
    refused, answered = double.run(OPEN + f'show()\nstate("{back}")\nshow()')
    assert "declare virtual GPUs" in refused
    assert answered == [[0, "GPU-a", 40.0, 4000.0, None]]


def test_a_driver_that_hangs_costs_one_time_limit(double: NvmlDouble) -> None:
    double.state("driver 1\nhang 20\n" + gpu_line("GPU-a"))
    script = "import time\nbegan = time.monotonic()\nshow()\nshow()\nanswer(time.monotonic() - began)\nos._exit(0)"
    first, second, took_s = double.run(
        OPEN.replace("timeout_s=30", "timeout_s=0.5") + script.replace("os._exit", "sys.stdout.flush()\nos._exit")
    )
    assert "did not answer within 0.5 s" in first
    assert second == first
    assert took_s < 15, "twice the time limit and the start of Python, not twice the driver's 20 s"


def test_several_threads_may_ask_at_once(double: NvmlDouble) -> None:
    double.state("driver 1\n" + gpu_line("GPU-a"))
    script = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    answer([[r.uuid for r in readings] for readings in pool.map(lambda _: source.readings(), range(40))])
"""
    assert double.run(OPEN + script) == [[["GPU-a"]] * 40]


def test_a_gpu_whose_number_went_to_another_leaves_the_inventory(double: NvmlDouble) -> None:
    double.state("driver 1\n" + gpu_line("GPU-a") + gpu_line("GPU-b"))
    gone = "driver 2\\n" + gpu_line("GPU-b").replace("\n", "\\n")
    script = f"""
cluster.inventory()
state("{gone}")
node = cluster.inventory().nodes[0]
answer([[[g.index, g.uuid] for g in node.gpus], len(node.usable_gpus)])
answer([[s.gpu_index, s.uuid, s.gpu_util_pct] for s in cluster.sample()])
"""
    inventory, samples = double.run(CLUSTER + script)
    assert inventory == [[[0, "GPU-b"]], 1]
    assert sorted(samples, key=str) == [[0, "GPU-a", None], [0, "GPU-b", 40.0]]


def test_this_machine_as_one_node(double: NvmlDouble) -> None:
    double.state("driver 1\n" + gpu_line("GPU-a", used_mib=300) + gpu_line("GPU-b", used_mib=300, ecc=2))
    dirty = "driver 1\\n" + (gpu_line("GPU-a", pids=(1,)) + gpu_line("GPU-b", lost=True)).replace("\n", "\\n")
    script = f"""
def checks():
    results = [cluster.check("here", test) for test in ("node-health", "nvidia-smi", "gpu-clean")]
    return {{result.test: [result.passed, result.detail] for result in results}}
def node():
    n = cluster.inventory().nodes[0]
    return [n.name, n.condition, [g.uuid for g in n.usable_gpus], [[i.owner, i.reason] for i in n.isolations]]
answer(node())
answer(checks())
state("{dirty}")
answer(node())
answer(checks())
state("driver 0")
answer(node())
answer(cluster.check("here", "gpu-clean").passed)
"""
    clean, passing, hurt, failing, blind, unknown = double.run(CLUSTER + script)
    assert clean == ["here", "ready", ["GPU-a", "GPU-b"], []]
    assert [passing[test][0] for test in ("node-health", "nvidia-smi", "gpu-clean")] == [True, False, True]
    assert "GPU 1 (GPU-b): answers; uncorrectable ECC errors since the driver was loaded: 2" in passing["nvidia-smi"][1]
    assert hurt == ["here", "ready", ["GPU-a"], [["nvml", "GPU is lost"]]]
    assert [failing[test][0] for test in ("node-health", "nvidia-smi", "gpu-clean")] == [False, False, False]
    assert "not ours: [1]" in failing["gpu-clean"][1]
    assert blind[:3] == ["here", "unobserved", []]
    assert unknown is None


def test_a_site_adds_its_own_checks(double: NvmlDouble) -> None:
    double.state("driver 1\n" + gpu_line("GPU-a"))
    script = '''
from lucid_pipelines.resources.clusters.checks import CheckCommand
IB = """CA 'mlx5_0'
	Port 1:
		State: Down
		Physical state: Polling
		Rate: 400
"""
commands = {
    "ok": CheckCommand(("sh", "-c", "echo fine")),
    "bad": CheckCommand(("sh", "-c", "echo broken; exit 3")),
    "slow": CheckCommand(("sh", "-c", "sleep 30 & sleep 30"), timeout_s=0.2),
    "none": CheckCommand(("no-such",)),
    "dcgmi-diag-2": CheckCommand(("echo", "nothing that DCGM prints")),
    "ib-status": CheckCommand(("printf", "%s", IB)),
}
cluster = LocalCluster(Path(tempfile.mkdtemp()), real_nodes(source, name="here"), nvml=source, check_commands=commands)
answer({t: [c.passed, c.detail] for t in [*commands, "okk"] for c in [cluster.check("here", t)]})
'''
    found = double.run(CLUSTER + script)[0]
    assert found["ok"] == [True, "fine\n"]
    assert found["bad"] == [False, "broken\n"]
    assert found["slow"][0] is None
    assert "0.2 s" in found["slow"][1]
    assert found["none"][0] is None
    assert "did you mean 'ok'?" in found["okk"][1]
    assert found["dcgmi-diag-2"][0] is None, "a status of 0 with nothing that can be read proves nothing"
    assert found["ib-status"][0] is False, "the tool's own words outrank its status"


def _nvml_harness(tmp_path: Path, double: NvmlDouble) -> LocalHarness:
    """A cluster whose wrappers see the stand-in; this process does not."""
    harness = LocalHarness(tmp_path)
    base_env = {**harness.options.base_env, **double.environment}
    node = LocalNode("node-1", (Gpu(0, "GPU-a", "H200", 143_771.0), Gpu(1, "GPU-b", "H200", 143_771.0)))
    harness.options = replace(harness.options, base_env=base_env)
    harness.cluster = harness.local = LocalCluster(
        tmp_path / "cluster", [node], nvml=NvmlSource(), options=harness.options
    )
    return harness


def test_the_wrapper_samples_its_own_gpus_by_name(tmp_path: Path, double: NvmlDouble) -> None:
    double.state("driver 1\n" + gpu_line("GPU-a", util=10) + gpu_line("GPU-b", util=90, used_mib=5000))
    harness = _nvml_harness(tmp_path, double)
    attempt = harness.start("sleep 30", placement=Placement.of({"node-1": [1]}))
    samples = harness.folder(attempt) / wrapper.SAMPLES
    harness.wait(lambda: samples.exists() and samples.read_text().count("90.0") >= 3, "samples are taken")
    double.state("driver 2\n" + gpu_line("GPU-b", util=80, used_mib=6000) + gpu_line("GPU-a", util=10))
    harness.wait(lambda: samples.read_text().count("80.0") >= 3, "the driver's restart is survived")
    harness.cluster.stop(attempt, 0.5, "test")
    profile = harness.wait_end(attempt).profile
    assert profile is not None
    assert profile.source == "nvml"
    assert profile.gpu_util_pct is None or 80 <= profile.gpu_util_pct <= 90
    assert profile.memory_peak_mib in (None, 6000.0)
    rows = [json.loads(line)["gpus"] for line in samples.read_text().splitlines()]
    assert {row[0][0] for row in rows} == {1}
    assert {row[0][1] for row in rows} <= {None, 90.0, 80.0}


def test_a_hanging_driver_does_not_keep_a_job_from_being_stopped(tmp_path: Path, double: NvmlDouble) -> None:
    double.state("driver 1\nhang 30\n" + gpu_line("GPU-a"))
    harness = _nvml_harness(tmp_path, double)
    attempt = harness.start("sleep 30")
    time.sleep(0.3)
    harness.cluster.stop(attempt, 0.5, "test")
    record = harness.wait_end(attempt)
    assert record.reason == "stopped"
    assert record.profile is not None
    assert record.profile.gpu_util_pct is None


def test_a_job_on_real_gpus_runs_where_the_driver_is_missing(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    node = LocalNode("node-1", (Gpu(0, "GPU-a"),))
    harness.cluster = LocalCluster(tmp_path / "cluster", [node], nvml=NvmlSource(), options=harness.options)
    record = harness.finish("sleep 0.3")
    assert (record.exit_code, harness.see(next(iter(harness.requests))).sight) == (0, Sight.EXITED)
    assert record.profile is not None
    assert (record.profile.gpu_util_pct, record.profile.memory_peak_mib) == (None, None)


def test_real_gpus_need_a_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="NVML"):
        LocalCluster(tmp_path, [LocalNode("here", (Gpu(0, "GPU-a"),))])


def test_the_source_is_the_telemetry_port() -> None:
    assert isinstance(NvmlTelemetry(NvmlSource(), "here"), Telemetry)


@pytest.mark.parametrize(
    ("pids", "used_mib", "ours", "is_clean"),
    [
        ((), 600.0, (), True),
        ((), 5_000.0, (), False),
        ((7,), 600.0, (), False),
        ((7,), 70_000.0, (7,), True),
        ((7, 8), 70_000.0, (7,), False),
        (None, 600.0, (), None),
        ((), None, (), None),
    ],
)
def test_a_gpu_is_clean_when_only_ours_is_on_it(
    pids: tuple[int, ...] | None, used_mib: float | None, ours: tuple[int, ...], is_clean: bool | None
) -> None:
    reading = GpuReading(3, "GPU-a", "H200", 143_771.0, used_mib, process_ids=pids)
    verdict = cleanliness(reading, frozenset(ours))
    assert (verdict.gpu_index, verdict.is_clean) == (3, is_clean)
    assert verdict.detail


def test_without_nvml_there_is_no_real_node(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(NvmlSource):
        def gpus(self, readings: Sequence[GpuReading] | None = None) -> tuple[Gpu, ...]:
            return ()

    with pytest.raises(ExternalError, match="declare virtual"):
        real_nodes(Empty())
