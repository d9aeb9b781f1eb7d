"""Tracebacks are put together again through prefixes, noise, glue and other writers."""

from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.failures.records import is_bare_exception
from lucid_pipelines.failures.tracebacks import RecordReader
from lucid_pipelines.logs import normalise
from tests.support_failures.reading import raws, records

PLAIN = """Traceback (most recent call last):
  File "/home/u/train.py", line 3, in main
    loss.backward()
  File "/opt/conda/lib/python3.10/site-packages/torch/_tensor.py", line 9, in backward
    run()
    ^^^^^
RuntimeError: boom: it broke
"""


def test_a_plain_traceback() -> None:
    (record,) = records("hello\n" + PLAIN + "next line\n")
    assert record.text == "RuntimeError: boom: it broke"
    assert (record.first_number, record.number) == (2, 8)
    assert record.exception_type == "RuntimeError"
    assert [frame.is_own_code for frame in record.frames] == [True, False]


def test_noise_of_other_writers_between_the_lines_is_passed_over() -> None:
    lines = PLAIN.splitlines()
    noisy = "\n".join(f"{line}\ndcgm: GPU 2 power 300 W\n2024-01-01 00:00:00 INFO tick" for line in lines[:-1])
    (record,) = records(noisy + "\n" + lines[-1] + "\n")
    assert record.text == "RuntimeError: boom: it broke"
    assert len(record.frames) == 2


def test_two_ranks_interleaved_line_by_line_with_prefixes() -> None:
    other = PLAIN.replace("RuntimeError: boom: it broke", "KeyError: 'x'").splitlines()
    mixed = "".join(f"[rank0]: {a}\n[rank1]: {b}\n" for a, b in zip(PLAIN.splitlines(), other, strict=True))
    found = records(mixed)
    assert {(r.rank, r.text) for r in found} == {(0, "RuntimeError: boom: it broke"), (1, "KeyError: 'x'")}
    assert all(len(r.frames) == 2 for r in found)


def test_two_ranks_interleaved_without_prefixes_give_both_exceptions() -> None:
    other = PLAIN.replace("RuntimeError: boom: it broke", "KeyError: 'x'").splitlines()
    mixed = "".join(f"{a}\n{b}\n" for a, b in zip(PLAIN.splitlines(), other, strict=True))
    assert {r.text for r in records(mixed)} == {"RuntimeError: boom: it broke", "KeyError: 'x'"}


def test_a_header_glued_to_a_progress_bar() -> None:
    text = "\r 12%|#2  | 12/100 [00:01<00:09,  9.1it/s]" + PLAIN
    (record,) = records(text)
    assert (record.first_number, record.number) == (1, 7)


def test_a_chain_keeps_its_earlier_exceptions() -> None:
    text = (
        PLAIN
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + PLAIN.replace("RuntimeError: boom: it broke", "OSError: [Errno 5] Input/output error")
    )
    (record,) = records(text)
    assert record.text.startswith("OSError")
    assert record.chain == ("RuntimeError: boom: it broke",)
    assert record.first_number == 1


def test_a_data_worker_traceback_belongs_to_its_outer_one() -> None:
    inner = PLAIN.replace("Traceback (most", "Original Traceback (most").replace(
        "RuntimeError: boom: it broke", "KeyError: 'd00'"
    )
    text = PLAIN.replace("boom: it broke", "Caught KeyError in DataLoader worker process 0.") + inner
    (record,) = records(text)
    assert record.text == "KeyError: 'd00'"
    assert len(record.frames) == 2


def test_detail_after_an_open_ended_message_belongs_to_it() -> None:
    text = PLAIN.replace("boom: it broke", "NCCL error in: x.cpp:9, unhandled cuda error") + (
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to bind NVLink SHARP memory\n"
        "[rank3]: something of another rank\n"
    )
    (record,) = records(text)
    assert "NVLink SHARP" in record.judged_text
    assert "another rank" not in record.judged_text


def test_a_rich_traceback_in_a_box() -> None:
    text = (
        "╭──── Traceback (most recent call last) ────╮\n"
        "│ /home/u/train.py:12 in main               │\n"
        "│ ❱ 12 │   x = y[9]                         │\n"
        "╰───────────────────────────────────────────╯\n"
        "IndexError: list index out of range\n"
    )
    (record,) = records(text)
    assert record.text == "IndexError: list index out of range"
    assert record.frames[0].file == "/home/u/train.py"


def test_a_traceback_without_its_last_line_is_marked() -> None:
    (record,) = records("\n".join(PLAIN.splitlines()[:-1]) + "\n")
    assert not record.complete


def test_bare_exception_lines() -> None:
    assert is_bare_exception("RuntimeError: cuda runtime error (39)")
    assert is_bare_exception("torch.cuda.OutOfMemoryError: CUDA out of memory")
    assert not is_bare_exception("DCGM: GPU 2 corrected ECC errors since boot: 14")
    assert not is_bare_exception("wandb: Network error (ConnectionError), entering retry loop.")


@given(
    st.lists(st.sampled_from([*PLAIN.splitlines(), "[rank1]: x", "", "noise 1", "\x00", "KeyError: 'a'"]), max_size=60)
)
def test_any_order_of_lines_gives_records_inside_the_log(lines: list[str]) -> None:
    for record in records("\n".join(lines)):
        assert record.first <= record.position < len(lines)
        assert record.number is None or 1 <= record.number <= len(lines)


@given(st.binary(max_size=400))
def test_garbage_never_raises(data: bytes) -> None:
    reader = RecordReader()
    for at, raw in enumerate(raws(data)):
        for line in normalise(raw):
            reader.feed(line, at)
    reader.finish()


def test_ten_thousand_headers_cost_bounded_memory() -> None:
    found = records("Traceback (most recent call last):\n" * 10_000)
    assert len(found) <= 16
