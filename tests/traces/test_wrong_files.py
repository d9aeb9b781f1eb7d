"""Files that are not what they should be: one clear error, or a counted quarantine."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from lucid_pipelines.domain.errors import InputError, NotFoundError
from lucid_pipelines.traces import load
from tests.support_traces import samples
from tests.support_traces.samples import HELIOS_HEADER, HELIOS_ROWS, write, write_sample

GOOD = HELIOS_ROWS[0]


def test_no_such_file_names_the_nearest(tmp_path: Path) -> None:
    write_sample(tmp_path, "helios")
    with pytest.raises(NotFoundError, match=r"did you mean 'cluster_log\.csv'"):
        load(tmp_path / "cluster_logs.csv")


@pytest.mark.parametrize("data", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("is_gzip", [False, True])
def test_an_empty_file(tmp_path: Path, data: bytes, is_gzip: bool) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(gzip.compress(data) if is_gzip else data)
    with pytest.raises(InputError, match=r"is empty: empty\.csv"):
        load(path)
    with pytest.raises(InputError, match=r"is empty: empty\.csv"):
        load(path, format="helios")


@pytest.mark.parametrize("name", ["helios", "acme", "philly_csv", "slurm", "canonical", "sia", "alibaba_openb"])
def test_a_header_without_rows(tmp_path: Path, name: str) -> None:
    path = write_sample(tmp_path, name)
    path.write_text(path.read_text().splitlines()[0] + "\n\n")
    with pytest.raises(InputError, match="no rows"):
        load(path)


@pytest.mark.parametrize(
    ("was", "now", "missing"),
    [
        ("submit_time", "submittime", "'submit_time' .did you mean 'submittime'"),
        ("gpu_num", "gpus", "'gpu_num'"),
        ("duration", "duraton", "'duration' .did you mean 'duraton'"),
        ("vc", "vcc", "'vc'"),
    ],
)
def test_a_missing_column_names_the_nearest_present_one(tmp_path: Path, was: str, now: str, missing: str) -> None:
    header = ",".join(now if name == was else name for name in HELIOS_HEADER.split(","))
    path = write(tmp_path, "cluster_log.csv", [header, *HELIOS_ROWS])
    for format_name in (None, "helios"):
        with pytest.raises(InputError, match=f"format 'helios': it lacks the column {missing}"):
            load(path, format=format_name)


@pytest.mark.parametrize(
    "text", ["hello world\nthis is no trace\n", "a,b,c\n1,2,3\n", '{"rows": 5}', "[1, 2, 3]", "\x00\x01\x02\n"]
)
def test_an_unknown_format_lists_the_known_ones(tmp_path: Path, text: str) -> None:
    path = tmp_path / "what.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=r"what\.txt"):
        load(path)


def test_an_unknown_format_name_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'philly_json'"):
        load(write_sample(tmp_path, "helios"), format="phily_json")


@pytest.mark.parametrize("keep", [1, 5, 12, 100, -1, -4, -9])
def test_a_truncated_gzip_file(tmp_path: Path, keep: int) -> None:
    rows = [HELIOS_HEADER, *(GOOD.replace("1425511", str(i)) for i in range(2000))]
    data = gzip.compress("\n".join(rows).encode())
    path = tmp_path / "log.csv.gz"
    path.write_bytes(data[:keep])
    with pytest.raises(InputError):
        load(path, format="helios")


def test_a_damaged_gzip_file(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(os.urandom(20_000)))
    data[5000:5010] = b"\x00" * 10
    path = tmp_path / "log.csv.gz"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"log\.csv\.gz"):
        load(path, format="helios")


def test_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes("\n".join((HELIOS_HEADER, GOOD)).encode("utf-16"))
    with pytest.raises(InputError, match="UTF-8"):
        load(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"submit_time": "1969-12-31 23:59:59"}, "negative_time"),
        ({"submit_time": "yesterday"}, "bad_time"),
        ({"submit_time": "now"}, "bad_time"),
        ({"submit_time": ""}, "missing_value"),
        ({"submit_time": "2020-06-09 18:41:02"}, "start_before_submit"),
        ({"end_time": "2020-06-09 18:41:00"}, "end_before_start"),
        ({"start_time": "", "end_time": ""}, "never_started"),
        ({"duration": "-5"}, "negative_duration"),
        ({"queue": "-5"}, "negative_duration"),
        ({"duration": "inf"}, "bad_number"),
        ({"duration": "1e999"}, "bad_number"),
        ({"duration": "ten"}, "bad_number"),
        ({"duration": "1e300"}, "bad_number"),
        ({"queue": "1e11"}, "bad_number"),
        ({"gpu_num": "-1"}, "bad_gpu_count"),
        ({"gpu_num": "1e9"}, "bad_gpu_count"),
        ({"gpu_num": "0"}, "no_gpu"),
        ({"gpu_num": ""}, "missing_value"),
        ({"job_id": ""}, "missing_value"),
        ({"job_id": "1425512"}, "duplicate_id"),
        ({"state": "EXPLODED"}, "unknown_state"),
        ({"state": "SUSPENDED"}, "not_ended"),
        ({"vc": "a,b"}, "malformed_row"),
        ({"vc": '"unclosed'}, "malformed_row"),
        ({"user": "x" * 300_000}, "line_too_long"),
    ],
)
def test_a_row_that_breaks_the_contract_goes_to_quarantine(tmp_path: Path, change: dict[str, str], reason: str) -> None:
    row = dict(zip(HELIOS_HEADER.split(","), GOOD.split(","), strict=True)) | change
    trace = load(write(tmp_path, "log.csv", [HELIOS_HEADER, HELIOS_ROWS[1], ",".join(row.values()), HELIOS_ROWS[2]]))
    assert trace.balances
    assert trace.rows_read == 3
    assert trace.job_count == 2
    assert trace.quarantined_by_reason == {reason: 1}
    found = trace.quarantine.to_dict("records")[0]
    assert found["row_number"] == 3
    assert 0 < len(found["raw"]) <= 500


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = [HELIOS_HEADER, GOOD, HELIOS_ROWS[1].replace("uVMrF", "us\xe9r"), HELIOS_ROWS[2]]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    trace = load(path)
    assert trace.quarantined_by_reason == {"not_utf8": 1}
    assert trace.quarantine["row_number"].tolist() == [3]
    assert trace.job_count == 2


def test_a_header_in_the_middle_of_joined_files(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "log.csv", [HELIOS_HEADER, GOOD, HELIOS_HEADER, HELIOS_ROWS[1]]))
    assert trace.quarantined_by_reason == {"repeated_header": 1}
    assert trace.job_count == 2


def test_quoted_cells_may_hold_separators_and_line_ends(tmp_path: Path) -> None:
    row = HELIOS_ROWS[1].replace("uVMrF", '"a, ""b""\nc"')
    trace = load(write(tmp_path, "log.csv", [HELIOS_HEADER, row, GOOD]))
    assert trace.jobs[1].user == 'a, "b"\nc'
    assert trace.rows_read == trace.job_count == 2


def test_a_stray_quote_costs_its_own_row_only(tmp_path: Path) -> None:
    rows = [GOOD.replace("1425511", str(i)) for i in range(200)]
    rows[50] = rows[50].replace("uXBbc", 'u"Bbc')
    trace = load(write(tmp_path, "log.csv", [HELIOS_HEADER, *rows]))
    assert trace.job_count == 199
    assert trace.quarantined_by_reason == {"malformed_row": 1}


def test_an_endless_line_is_read_with_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with path.open("w") as out:
        out.write(HELIOS_HEADER + "\n" + GOOD + "\n")
        for _ in range(20):
            out.write("x" * 1_000_000)
        out.write("\n" + HELIOS_ROWS[1] + "\n")
    trace = load(path)
    assert trace.job_count == 2
    assert trace.quarantined_by_reason == {"line_too_long": 1}


def test_only_bad_rows_give_an_empty_trace(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "log.csv", [HELIOS_HEADER, "1,2,3", "x"]))
    assert trace.jobs == ()
    assert trace.quarantined_by_reason == {"malformed_row": 2}


def test_a_damaged_cluster_file_beside_the_trace_is_named(tmp_path: Path) -> None:
    path = write_sample(tmp_path, "lucid_artifact")
    write(tmp_path, "vc_config.csv", [",num", "vcefl,many"])
    with pytest.raises(InputError, match=r"vc_config.csv"):
        load(path)


def test_many_bad_rows_keep_their_numbers_and_few_texts(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "log.csv", [HELIOS_HEADER, *(["bad"] * 12_000)]))
    assert trace.quarantined_count == 12_000
    assert int(trace.quarantine["raw"].notna().sum()) == 10_000
    assert trace.quarantine["row_number"].tolist() == list(range(2, 12_002))


def test_kalos_sample_names_are_kept(tmp_path: Path) -> None:
    trace = load(write(tmp_path, "trace_kalos.csv", [samples.KALOS_HEADER, *samples.KALOS_ROWS]))
    assert {job.vc for job in trace.jobs} == {"kalos"}
