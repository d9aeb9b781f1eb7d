# ruff: noqa: E501 - log lines are as long as the libraries print them
"""The first true error, told from echoes, survivors, lookalikes and teardown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucid_pipelines.failures.vocabulary import Category, Ending
from tests.support_failures.reading import located, progress, raws, scanned

TB = 'Traceback (most recent call last):\n  File "/home/u/train.py", line 3, in main\n    step()\n'
KEY_ERROR = TB + "KeyError: 'labels'\n"
ECC = TB + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
HEAD = "".join(f"loading part {name}\n" for name in ("a", "b", "c", "d", "e", "f")) + progress(1, 40)
ABORT = (
    "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] NCCL watchdog thread terminated with exception: NCCL error: remote "
    "process exited or there was a network error, NCCL version 2.20.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "Last error:\nsocketProgress: Connection closed by remote peer gpu02<47033>\n"
    "[rank3]:[E ProcessGroupNCCL.cpp:630] [Rank 3] To avoid data inconsistency, we are taking the entire process down.\n"
)
TIMEOUT = (
    "[rank1]:[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800100 milliseconds before timing out.\n"
)
SUMMARY = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\n"
    "  exitcode  : 1 (pid: 12)\nsrun: error: gpu01: task 0: Exited with exit code 1\n"
)


def text_of(log: str) -> str | None:
    root = located(log).root
    return root.record.text if root is not None else None


def test_an_echo_in_front_of_the_error_is_not_the_error() -> None:
    assert text_of(HEAD + ABORT + KEY_ERROR + ABORT * 3 + SUMMARY) == "KeyError: 'labels'"


def test_time_outs_of_waiting_ranks_are_symptoms_of_the_one_that_died() -> None:
    noise = "".join(f"cache hit 0.{i % 9} of {i * 37 % 91}\n" for i in range(60))
    assert text_of(HEAD + KEY_ERROR + noise + TIMEOUT * 8 + ABORT + SUMMARY) == "KeyError: 'labels'"


def test_a_time_out_alone_is_the_first_symptom() -> None:
    found = located(HEAD + TIMEOUT * 3 + ABORT + SUMMARY)
    assert found.root is not None and found.root.verdict.family_name == "collective-timeout"
    assert (found.ending, found.strength) == (Ending.FAILED, 1)


def test_an_error_that_the_job_outlived_is_set_aside() -> None:
    found = located(HEAD + ECC + progress(41, 30) + KEY_ERROR + SUMMARY)
    assert found.root is not None and found.root.record.text == "KeyError: 'labels'"
    assert any("survived" in a.why for a in found.set_aside)


@pytest.mark.parametrize("between", ["", progress(41, 1)], ids=["at once", "one step later"])
def test_a_handled_error_just_before_a_worker_dies_is_set_aside_with_its_announcement(between: str) -> None:
    handled = "ERROR:loader:reading /data/x7.jpg failed\n" + TB + "OSError: image file is truncated\n"
    gone = TB + "RuntimeError: DataLoader worker (pid(s) 44, 45) exited unexpectedly\n"
    found = located(HEAD + handled + "loader: using the next image instead of it\n" + between + gone + ABORT)
    assert found.root is not None and "exited unexpectedly" in found.root.record.text
    # Without that death the "handled" error is all that explains the end.
    found = located(HEAD + handled + "loader: using the next image instead of it\n" + ABORT)
    assert found.root is not None and found.root.record.number is not None and found.root.record.number <= 55


def test_an_error_that_the_program_says_it_handled_is_set_aside() -> None:
    handled = TB + "ValueError: bad image\nWARNING: sample 12 skipped after the error above\n"
    startup = "".join(f"building module {c}\n" for c in "abcdefghijklmnopqrstuvwxyz")
    found = located(startup + handled + startup + KEY_ERROR)
    assert found.root is not None and found.root.record.text == "KeyError: 'labels'"
    assert any("handled" in a.why for a in found.set_aside)


def test_a_sentence_about_skipping_does_not_excuse_the_error_that_ended_the_job() -> None:
    assert text_of(HEAD + TB + "ValueError: bad image\nWARNING: the batch will be skipped\n") == "ValueError: bad image"


def test_a_long_stretch_of_ordinary_output_parts_an_early_error_from_the_fatal_one() -> None:
    startup = "".join(f"building module {a}{b}\n" for a in "abcdef" for b in "uvwxyz")
    assert text_of("begin\n" * 5 + TB + "ImportError: optional part\n" + startup + KEY_ERROR) == "KeyError: 'labels'"


def test_buffered_output_written_after_the_error_does_not_excuse_it() -> None:
    assert text_of(HEAD + KEY_ERROR + progress(41, 30)) == "KeyError: 'labels'"


def test_a_restart_before_a_second_failure() -> None:
    restarted = "[INFO] [default] worker group failed: restarting (1/3 restarts used)\nresumed from /out/step_40.pt\n"
    assert text_of(HEAD + ABORT + restarted + progress(41, 40) + KEY_ERROR + SUMMARY) == "KeyError: 'labels'"


def test_time_decides_when_lines_stand_out_of_order() -> None:
    later = "2024-05-02 05:14:09 ERROR " + "kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus\n"
    earlier = "2024-05-02 05:06:01 ERROR OSError: [Errno 116] Stale file handle: '/data/a'\n"
    found = located(HEAD + later + earlier)
    assert found.root is not None and "Stale file handle" in found.root.record.text
    assert found.times_disagree


def test_place_decides_when_there_are_no_times() -> None:
    a, b = "OSError: [Errno 116] Stale file handle: '/data/a'\n", "OSError: [Errno 28] No space left on device\n"
    assert text_of(HEAD + a + b) == a.strip()
    assert text_of(HEAD + b + a) == b.strip()


def test_hardware_behind_a_symptom_is_the_cause() -> None:
    symptom = TB + "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    xid = "NVRM: Xid (PCI:0000:9b:00): 79, pid=3, GPU has fallen off the bus.\n"
    found = located(HEAD + symptom + xid + ABORT)
    assert found.root is not None and found.root.verdict.family_name == "gpu-bus"


def test_a_cause_in_a_watchdog_line_is_a_cause() -> None:
    line = ABORT.splitlines()[0].replace(
        "NCCL error: remote process exited or there was a network error, NCCL version 2.20.5",
        "CUDA error: uncorrectable NVLink error detected during the execution",
    )
    found = located(HEAD + line + "\n" + ABORT)
    assert found.root is not None and found.root.verdict.family_name == "nvlink-error"


@pytest.mark.parametrize(
    ("end", "ending"),
    [
        ("slurmstepd: error: *** STEP 8.0 ON gpu01 CANCELLED AT 2024-05-02T11:00:00 ***\n" + ABORT, Ending.CANCELLED),
        ("slurmstepd: error: *** JOB 8 ON gpu01 CANCELLED AT 2024-05-02T11:00:00 DUE TO TIME LIMIT ***\n", Ending.TIME_LIMIT),
        ("slurmstepd: error: *** JOB 8 ON g1 CANCELLED AT 2024-05-02T11:00:00 DUE TO PREEMPTION ***\n", Ending.PREEMPTED),
        ("^C" + TB + "KeyboardInterrupt\n", Ending.INTERRUPTED),
        ("received SIGTERM, saving a checkpoint\n", Ending.TERMINATED),
        ("Training completed.\n" + ABORT, Ending.SUCCEEDED),
        ("{'train_runtime': 812.1, 'epoch': 3.0}\nException ignored in: <function X.__del__>\n" + KEY_ERROR, Ending.SUCCEEDED),
    ],
)  # fmt: skip
def test_endings_that_nobody_is_to_blame_for(end: str, ending: Ending) -> None:
    assert located(HEAD + end).ending is ending


def test_a_cancellation_after_the_error_is_a_consequence() -> None:
    cancel = "slurmstepd: error: *** STEP 8.0 ON gpu01 CANCELLED AT 2024-05-02T11:00:00 ***\n"
    assert located(HEAD + KEY_ERROR + cancel).ending is Ending.FAILED


def test_a_node_failure_is_no_cancellation() -> None:
    line = "slurmstepd: error: *** STEP 8.0 ON g1 CANCELLED AT 2024-05-02T11:00:00 DUE TO NODE FAILURE ***\n"
    found = located(HEAD + line)
    assert found.root is not None and found.root.verdict.family_name == "node-fail"


def test_a_cheerful_word_before_an_uncaught_error_is_not_success() -> None:
    assert text_of(HEAD + "training of experiment is done, best so far 0.0\n" + KEY_ERROR) == "KeyError: 'labels'"


def test_a_log_that_begins_in_the_middle_of_a_failure_names_nobody() -> None:
    found = located(ABORT * 4 + SUMMARY)
    assert (found.ending, found.root, found.head_lost) == (Ending.ROOT_LOST, None, True)


def test_a_log_without_any_error_explains_nothing() -> None:
    assert located(HEAD).ending is Ending.UNKNOWN


def test_an_empty_log() -> None:
    assert located("").ending is Ending.UNKNOWN
    assert scanned("").line_count == 0


def test_non_utf8_lines_are_counted() -> None:
    assert scanned(b"caf\xe9\nok\n\xff\xfe error here\n").undecodable >= 1


PIECES = st.sampled_from(
    [ABORT, TIMEOUT, SUMMARY, KEY_ERROR, ECC, progress(1, 6), "plain\n", "\r\n", "Training completed.\n"]
)


@settings(max_examples=60)
@given(st.lists(PIECES, max_size=12))
def test_the_root_is_always_a_line_of_the_log(pieces: list[str]) -> None:
    log = "".join(pieces)
    found = located(log)
    if found.root is not None:
        assert found.root.record.number is not None
        line = raws(log)[found.root.record.number - 1].data.decode()
        assert found.root.record.text[:20] in line


@settings(max_examples=60)
@given(st.binary(max_size=600))
def test_garbage_never_raises(data: bytes) -> None:
    located(data)


@settings(max_examples=20)
@given(st.integers(1, 30))
def test_more_echoes_never_move_the_root(count: int) -> None:
    assert text_of(HEAD + KEY_ERROR + ABORT * count + SUMMARY) == "KeyError: 'labels'"


STARTUP = "".join(f"loading part {a}{b}\n" for a in "abcdef" for b in "uvw")


def test_a_logger_that_writes_its_name_before_every_line_of_a_traceback() -> None:
    carrier = "2024-05-02 10:00:0{} ERROR trainer[12]: "
    lines = (TB + "KeyError: 'labels'").splitlines()
    log = "".join(carrier.format(i) + line + "\n" for i, line in enumerate(lines))
    assert text_of(HEAD + log + SUMMARY) == "KeyError: 'labels'"


def test_a_whole_traceback_in_one_json_line() -> None:
    line = '{"level": "ERROR", "msg": "Traceback (most recent call last):\\n  File \\"/home/u/t.py\\", line 3, in main\\n    f()\\nKeyError: \'labels\'", "rank": 3}\n'
    found = located(HEAD + line + '{"level": "INFO", "msg": "closing"}\n')
    assert found.root is not None and found.root.record.text == "KeyError: 'labels'"
    assert found.root.record.frames[0].file == "/home/u/t.py"


def test_a_traceback_that_only_the_launchers_summary_holds() -> None:
    summary = (
        "train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  time      : 2024-05-02_11:00:00\n"
        "  traceback : Traceback (most recent call last):\n"
        '    File "/opt/conda/lib/python3.10/site-packages/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 346, in wrapper\n'
        '      return f(*args, **kwargs)\n    File "/home/u/train.py", line 10, in main\n      step()\n  ValueError: boom\n'
    )
    assert text_of(HEAD + summary) == "ValueError: boom"


def test_a_native_program_that_says_why_it_ends() -> None:
    log = (
        HEAD
        + "terminate called after throwing an instance of 'std::runtime_error'\n  what():  cannot parse shard 3\nAborted (core dumped)\n"
    )
    assert text_of(log) == "what():  cannot parse shard 3"


def test_a_java_exception() -> None:
    log = (
        STARTUP
        + 'Exception in thread "main" java.lang.IllegalStateException: executor pool is empty\n\tat org.x.Main.run(Main.java:3)\n'
    )
    assert "executor pool is empty" in (text_of(log) or "")


def test_a_remark_of_the_shell_yields_to_an_uncaught_error() -> None:
    remark = "/etc/profile.d/x.sh: line 3: module: command not found\n"
    assert text_of(STARTUP + remark + KEY_ERROR) == "KeyError: 'labels'"
    assert text_of(STARTUP + "slurm_script: line 14: torchrunn: command not found\n") is not None


@pytest.mark.parametrize(
    "line",
    [
        "[[31547,1],0]: A high-performance Open MPI point-to-point messaging module was unable to find any relevant network interfaces",
        "/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory",
        "E0000 00:00:1714647600.123456 140 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",
        "Warning  FailedScheduling  5m  default-scheduler  0/12 nodes are available: 8 Insufficient nvidia.com/gpu",
        "Warning  Unhealthy  3m  kubelet  Readiness probe failed: HTTP probe failed with statuscode: 503",
        "srun: warning: can't honor --ntasks-per-node set to 8",
        "WARNING: There was an error initializing an OpenFabrics device.",
        "INFO: NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7 set",
        "Setting ds_accelerator to cuda (auto detect), async_io: please install the libaio-dev package with apt",
        "ERROR: Could not find a version of optional package foo, ignored",
        "2024-05-02 10:10:10.1: E tensorflow/compiler/xla/stream_executor/cuda/cuda_blas.cc:1518] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered",
        "kernel: mce: [Hardware Error]: CPU 3: corrected error, no action required",
    ],
)
def test_known_lookalikes_at_start_up_are_not_the_cause(line: str) -> None:
    assert text_of(STARTUP + line + "\n" + KEY_ERROR) == "KeyError: 'labels'"


def test_a_warning_of_the_same_fault_yields_to_the_error_and_another_error_does_not_outweigh_it() -> None:
    warning = (
        "[W CUDAGuardImpl.h:115] Warning: CUDA warning: uncorrectable ECC error encountered (function destroyEvent)\n"
    )
    assert (text_of(HEAD + warning + ECC) or "").startswith("RuntimeError")
    assert (text_of(HEAD + warning + KEY_ERROR) or "").startswith("[W")


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: bad prompt 'NCCL error: unhandled system error; Xid 79 GPU has fallen off the bus'",
        "AssertionError: expected 'CUDA error: uncorrectable ECC error encountered' in the output",
        "KeyError: 'NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.'",
    ],
)
@pytest.mark.parametrize("traceback", [TB, ""])
def test_a_value_that_is_quoted_in_an_error_of_the_code_accuses_no_hardware(message: str, traceback: str) -> None:
    root = located(HEAD + traceback + message + "\n").root
    assert root is not None and root.record.text == message
    assert root.verdict.family is None or root.verdict.family.category is Category.USER_SCRIPT
