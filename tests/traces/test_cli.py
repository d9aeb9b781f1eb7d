"""``lucid traces``: convert, describe, generate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucid_pipelines.cli.traces import app
from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.domain.trace import ClusterSpec
from lucid_pipelines.traces import load
from tests.support_traces.samples import write, write_sample

RUNNER = CliRunner()


def run_json(*arguments: object) -> dict[str, object]:
    result = RUNNER.invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_generate_describe_convert(tmp_path: Path) -> None:
    made = run_json("generate", tmp_path / "t.csv.gz", "--seed", 3, "--jobs", 800, "--cluster-out", tmp_path / "c.yaml")
    assert made["synthetic"] is True
    assert made["jobs"] == 800
    spec = ClusterSpec.from_yaml((tmp_path / "c.yaml").read_text())
    assert load(tmp_path / "t.csv.gz").cluster == spec
    described = run_json("describe", tmp_path / "t.csv.gz", "--vc", "vc01")
    assert described["is_synthetic"] is True
    converted = run_json(
        "convert",
        tmp_path / "t.csv.gz",
        tmp_path / "t.parquet",
        "--from",
        "2024-01-10",
        "--to",
        "2024-01-20",
        "--vc",
        "vc01",
    )
    assert converted["rows_read"] == 800
    left_out = converted["deselected"]
    assert isinstance(left_out, dict)
    assert converted["jobs"] == 800 - sum(left_out.values()) == load(tmp_path / "t.parquet").job_count


def test_convert_writes_the_quarantine_and_the_cluster(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "lucid_artifact")
    write(tmp_path, "vc_config.csv", [",num", "vcefl,3", "vc8Gr,4"])
    with path.open("a") as out:
        out.write("broken\n")
    result = run_json(
        "convert", path, tmp_path / "o.csv", "--quarantine", tmp_path / "q.csv", "--cluster-out", tmp_path / "c.yaml"
    )
    assert result["quarantined_by_reason"] == {"malformed_row": 1}
    assert (tmp_path / "q.csv").read_text() == "row_number,reason,raw\n4,malformed_row,broken\n"
    assert ClusterSpec.from_yaml((tmp_path / "c.yaml").read_text()).gpus == 56


def test_an_unknown_cluster_is_said(tmp_path: Path) -> None:
    result = run_json(
        "convert", write_sample(tmp_path, "helios"), tmp_path / "o.csv", "--cluster-out", tmp_path / "c.yaml"
    )
    assert result["cluster_out"] is None
    assert "no cluster" in str(result["notes"])
    assert not (tmp_path / "c.yaml").exists()


def test_human_output_counts_everything(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    result = RUNNER.invoke(app, ["convert", str(path), str(tmp_path / "o.csv"), "--workloads", "generated"])
    assert "wrote 3 jobs" in result.stdout
    assert "quarantined: 1 no_gpu" in result.stdout
    assert "Final states" in RUNNER.invoke(app, ["describe", str(path)]).stdout


def test_errors_are_ours(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    result = RUNNER.invoke(app, ["describe", str(path), "--format", "helius"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'helios'" in str(result.exception)


def test_a_trace_is_not_replaced_by_what_is_made_of_it(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    before = path.read_bytes()
    for more in ([str(path)], [str(tmp_path / "o.csv"), "--quarantine", str(path)]):
        result = RUNNER.invoke(app, ["convert", str(path), *more])
        assert isinstance(result.exception, InputError)
        assert "another file" in str(result.exception)
    same = RUNNER.invoke(app, ["convert", str(path), str(tmp_path / "o.csv"), "--quarantine", str(tmp_path / "o.csv")])
    assert "a file of its own" in str(same.exception)
    assert path.read_bytes() == before


def test_tables_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "helios")
    (tmp_path / "file").touch()
    result = RUNNER.invoke(
        app, ["convert", str(path), str(tmp_path / "o.csv"), "--quarantine", str(tmp_path / "file" / "q.csv")]
    )
    assert isinstance(result.exception, ExternalError)
    assert "cannot be written" in str(result.exception)


def test_a_trace_that_tells_no_cluster_gets_one_that_fits_its_load(tmp_path: Path) -> None:
    trace, out, cluster = write_sample(tmp_path, "helios"), tmp_path / "out.csv", tmp_path / "cluster.yaml"
    told = run_json("convert", trace, out, "--cluster-out", cluster)
    notes = told["notes"]
    assert told["cluster_out"] is None and isinstance(notes, list) and "--fit-load" in notes[-1]
    sizes: list[int] = []
    for load_frac in (0.1, 1):
        run_json("convert", trace, out, "--cluster-out", cluster, "--fit-load", load_frac, "--gpus-per-node", 4)
        spec = ClusterSpec.from_yaml(cluster.read_text())
        assert {group.gpus_per_node for groups in spec.virtual_clusters.values() for group in groups} == {4}
        sizes.append(spec.gpus)
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("wrong", [["--fit-load", "0.5"], ["--gpus-per-node", "4"]])
def test_what_makes_a_cluster_needs_a_file_for_it(tmp_path: Path, wrong: list[str]) -> None:
    trace, out = write_sample(tmp_path, "helios"), tmp_path / "out.csv"
    with pytest.raises(InputError, match="--cluster-out"):
        RUNNER.invoke(app, ["convert", str(trace), str(out), *wrong], catch_exceptions=False)
    assert not out.exists()


def test_a_fitted_cluster_has_the_gpus_that_the_trace_tells(tmp_path: Path) -> None:
    made, out, cluster = tmp_path / "t.csv", tmp_path / "o.csv", tmp_path / "c.yaml"
    run_json("generate", made, "--jobs", 100, "--vcs", 2)
    run_json("convert", made, out, "--cluster-out", cluster, "--fit-load", 0.5)
    own = load(made).cluster
    assert own is not None
    kinds = [
        {(group.gpu_type, group.gpu_memory_mib) for its in spec.virtual_clusters.values() for group in its}
        for spec in (own, ClusterSpec.from_yaml(cluster.read_text()))
    ]
    assert kinds[0] == kinds[1] and len(kinds[0]) == 1 and None not in next(iter(kinds[0]))


@pytest.mark.parametrize("command", [("convert", "--fit-load"), ("generate", "--load")])
def test_a_load_is_a_share_and_the_option_is_named(tmp_path: Path, command: tuple[str, str]) -> None:
    trace, out = write_sample(tmp_path, "helios"), tmp_path / "out.csv"
    files = [trace, out] if command[0] == "convert" else [out]
    for wrong in ("70", "0"):
        told = RUNNER.invoke(app, [command[0], *map(str, files), command[1], wrong])
        assert told.exit_code == 2 and not out.exists()
        assert f"value for '{command[1]}'" in told.output
