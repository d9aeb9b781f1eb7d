# ruff: noqa: E501 - log lines are as long as the libraries print them
"""Builds whole logs around a culprit's print: start-up, progress, noise, planted lookalikes, echoes, summaries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from tests.support_failures.model import FailureCase, Fault

NOISE = (
    "wandb: WARNING Serializing object of type ndarray that is 1228928 bytes",
    "/opt/conda/lib/python3.10/site-packages/torch/utils/checkpoint.py:31: UserWarning: None of the inputs have requires_grad=True.",
    "2024-05-02 10:00:01 INFO cache: hit 0.91 miss 0.09 evictions {n}",
    "Loading checkpoint shards:  {p}%|####      | {n}/30 [00:1{d}<00:2{d}, 1.2{d}s/it]",
    "Special tokens have been added in the vocabulary, make sure the associated word embeddings are fine-tuned.",
    "[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).",
    "gpu01:4410:4410 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB ib0:10.0.0.{n}<0>",
    "W0502 10:00:01.123 140 warnings.cc:12] autotune results were not loaded",
    "heartbeat: all {n} workers alive",
    "DEBUG requests: retry policy total=5 connect=None",
    "dataset: 0 errors, {n} rows read",
    "val_error=0.{d}{d} best_error=0.{d}{d}",
    "Token indices sequence length is longer than the specified maximum sequence length for this model ({n} > 512).",
    "metrics exporter: scrape took 0.0{d}s",
)
LOOKALIKES = (
    "gpu01:4410:4498 [3] misc/ibvwrap.cc:113 NCCL WARN Call to ibv_query_gid_table failed, falling back to sysfs",
    "data: GET shard-{n} failed with 503 (attempt 1/5), retrying in 2.1s",
    "nvidia-smi: ECC errors corrected volatile total: {n}, uncorrectable: 0",
    "WARNING:root:Failed to import flash_attn, falling back to sdpa",
    "E0502 10:00:01.123 140 cuda_dnn.cc:9342] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",
    "ERROR: could not open telemetry socket, metrics disabled, continuing without them",
    "checkpoint cleanup: rm of step_{n}.pt failed: [Errno 2] No such file or directory (ignored)",
    "loss scaler: gradient overflow, skipping step, reducing loss scale to {n}",
    "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)",
)
HANDLED = (
    """Traceback (most recent call last):
  File "/home/u/data.py", line 40, in safe_load
    im = decode(raw)
ValueError: cannot decode image
WARNING: record {n} skipped after the error above""",
    """ERROR:loader:reading /data/x{n}.jpg failed
Traceback (most recent call last):
  File "/home/u/data.py", line 44, in load
    return Image.open(p)
OSError: image file is truncated (12 bytes not processed)
loader: using the next image instead of it""",
)
STARTUP = (
    "+ hostname\ngpu01",
    "config: lr=0.0003 batch_size=64 seed={n} timeout=1800 max_retries=3",
    "gpu01:4410:4410 [0] NCCL INFO Bootstrap : Using ib0:10.0.0.{n}<0>",
    "Loading dataset from /data/train ...",
    "model has {n} M parameters",
    "building optimizer groups",
)


def _torch_line(step: int, rng: random.Random) -> str:
    return f"[2024-05-02 {10 + step // 3600 % 14:02d}:{step // 60 % 60:02d}:{step % 60:02d}] iteration {step:8d}/ 500000 | loss {6 / (1 + step / 300):.4f} | step_ms {rng.uniform(90, 99):.1f}"


def _jax_line(step: int, rng: random.Random) -> str:
    return f"completed step: {step}, seconds: {rng.uniform(1, 1.2):.3f}, TFLOP/s/device: {rng.uniform(150, 160):.3f}, loss: {6 / (1 + step / 300):.3f}"


def _keras_line(step: int, rng: random.Random) -> str:
    return f"{step}/9000 [=====>........] - ETA: 12:1{step % 10} - loss: {rng.uniform(1, 2):.4f} - accuracy: 0.5{step % 10}"


def _paddle_line(step: int, rng: random.Random) -> str:
    return f"[2024/05/02 10:00:0{step % 10}] ppcls INFO: [Train][Epoch 3/100][Iter: {step}/5005]lr(LinearWarmup): 0.02, CELoss: {rng.uniform(1, 3):.5f}, batch_cost: 0.3s"


def _ray_line(step: int, rng: random.Random) -> str:
    return f"(RayTrainWorker pid=4410, ip=10.2.0.8) step {step} loss {rng.uniform(1, 2):.3f}"


def _mpi_line(step: int, rng: random.Random) -> str:
    return f"[1,0]<stdout>:Iter {step}: {rng.uniform(300, 310):.1f} img/sec per GPU"


PROGRESS: dict[str, Callable[[int, random.Random], str]] = {
    "torch": _torch_line,
    "jax": _jax_line,
    "tf": _keras_line,
    "paddle": _paddle_line,
    "ray": _ray_line,
    "mpi": _mpi_line,
}


def build(fault: Fault, seed: int, *, quirks: Iterable[str] = ()) -> FailureCase:
    """One whole log around a fault.

    Args:
        quirks: ``crlf``, ``k8s_ts``, ``ranks``, ``nonutf8``, ``glued``, ``echo_first``, ``recovered``, ``no_echo``.
    """
    rng = random.Random(f"{fault.name}-{seed}")
    wanted = frozenset(quirks)
    lines = _preamble(fault, rng, wanted)
    body = fault.print_.split("\n")
    culprit = [line.removeprefix(">>") for line in body]
    root = next(i for i, line in enumerate(body) if line.startswith(">>"))
    prefix = "[rank5]: " if "ranks" in wanted and not culprit[0].startswith("[1,") else ""
    echoes = _echoes(fault, rng) if "no_echo" not in wanted else []
    if "echo_first" in wanted and fault.echo == "abort" and echoes:
        lines += echoes[:3]
    if "glued" in wanted and fault.stack != "startup" and culprit[0].startswith("Traceback"):
        lines.append(f"\r 12%|#1        | 120/1000 [00:12<01:30,  9.{rng.randint(10, 99)}it/s]{culprit[0]}")
        first, rest = len(lines), [prefix + line for line in culprit[1:]]
    else:
        first, rest = len(lines) + 1, [prefix + line for line in culprit]
    placed = _with_noise(rest, rng) if not prefix else [(i, line) for i, line in enumerate(rest)]
    offset = len(culprit) - len(rest)
    root_at = first
    for original, line in placed:
        lines.append(line)
        if original is not None and original + offset == root:
            root_at = len(lines)
    last = len(lines)
    lines += echoes
    lines += _summary(fault, rng)
    data = _encode(lines, wanted)
    return FailureCase(
        fault.name, data, fault.category, fault.component, fault.restart, root_at, (first, last), fault.components
    )


def trap(kind: str, seed: int) -> FailureCase:
    """A log in which nothing is to blame: ``cancel``, ``ctrl_c``, ``finished``, ``head_lost``, ``time_limit``, ``preempted``."""
    rng = random.Random(f"{kind}-{seed}")
    fault = Fault(kind, rng.choice(("torch", "jax", "tf")), None, None, False, "")
    lines = _preamble(fault, rng, frozenset())
    if kind == "cancel":
        lines += [
            "slurmstepd: error: *** JOB 88120 ON gpu01 CANCELLED AT 2024-05-02T11:00:00 ***",
            *_echoes(fault, rng),
            *_summary(fault, rng),
        ]
    elif kind == "time_limit":
        lines += [
            "slurmstepd: error: *** JOB 88120 ON gpu01 CANCELLED AT 2024-05-02T11:00:00 DUE TO TIME LIMIT ***",
            *_echoes(fault, rng),
        ]
    elif kind == "preempted":
        lines += [
            "slurmstepd: error: *** JOB 88120 ON gpu01 CANCELLED AT 2024-05-02T11:00:00 DUE TO PREEMPTION ***",
            *_echoes(fault, rng),
        ]
    elif kind == "ctrl_c":
        lines += [
            "^CTraceback (most recent call last):",
            '  File "/home/u/train.py", line 12, in <module>',
            "    main()",
            "KeyboardInterrupt",
        ]
    elif kind == "finished":
        lines += [
            rng.choice(("Training finished in 12345.6 s", "`Trainer.fit` stopped: `max_epochs=10` reached.", "Finished training, saving the final model")),
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>",
            "Traceback (most recent call last):",
            '  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1478, in __del__',
            "    self._shutdown_workers()",
            "AssertionError: can only test a child process",
            "[rank0]:[W ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL.",
            "Error in atexit._run_exitfuncs:",
            "Traceback (most recent call last):",
            '  File "/opt/conda/lib/python3.10/multiprocessing/util.py", line 300, in _run_finalizers',
            "OSError: [Errno 16] Device or resource busy: '/tmp/pymp-x'",
        ]  # fmt: skip
    elif kind == "head_lost":
        lines = [*_echoes(fault, rng)[4:], *_echoes(fault, rng), *_summary(fault, rng)]
    return FailureCase(kind, _encode(lines, frozenset()), None, None, False, None, None)


TRAPS = ("cancel", "ctrl_c", "finished", "head_lost", "time_limit", "preempted")


def _preamble(fault: Fault, rng: random.Random, wanted: frozenset[str]) -> list[str]:
    lines: list[str] = []
    for template in STARTUP:
        lines += _fill(template, rng).split("\n")
    for _ in range(rng.randint(30, 60)):
        lines += _fill(rng.choice(NOISE), rng).split("\n")
        if rng.random() < 0.15:
            lines += _fill(rng.choice(LOOKALIKES), rng).split("\n")
    printer = PROGRESS.get(fault.stack)
    if printer is None:
        return lines
    step = rng.randint(0, 5) * 10
    for i in range(rng.randint(120, 260)):
        step += 1
        lines.append(printer(step, rng))
        if rng.random() < 0.08:
            lines.append(_fill(rng.choice(NOISE), rng))
        if rng.random() < 0.03:
            lines += _fill(rng.choice(LOOKALIKES), rng).split("\n")
        if rng.random() < 0.01:
            lines += _fill(rng.choice(HANDLED), rng).split("\n")
        if "recovered" in wanted and i == 60:
            lines += [
                "[rank2]:[E ProcessGroupNCCL.cpp:607] [Rank 2] NCCL watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error",
                "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
                "[2024-05-02 11:00:00] torch.distributed.elastic.agent: [INFO] [default] worker group failed: restarting (1/3 restarts used)",
                "resumed from /out/ckpt_50.pt",
            ]
    return lines


def _fill(template: str, rng: random.Random) -> str:
    text = template.replace("{n}", str(rng.randint(2, 900))).replace("{p}", str(rng.randint(1, 99)))
    return text.replace("{d}", str(rng.randint(0, 9)))


def _with_noise(lines: list[str], rng: random.Random) -> list[tuple[int | None, str]]:
    placed: list[tuple[int | None, str]] = []
    for i, line in enumerate(lines):
        placed.append((i, line))
        if rng.random() < 0.1:
            placed.append((None, _fill(rng.choice(NOISE), rng)))
    return placed


def _echoes(fault: Fault, rng: random.Random) -> list[str]:
    lines: list[str] = []
    if fault.echo == "none":
        return lines
    ranks = rng.sample(range(8), 4)
    if fault.stack == "jax":
        for _ in ranks:
            lines += [
                "E0502 11:00:00.1 8412 coordination_service_agent.cc:737] Polled an error from coordination service (this can be an error from this or another task).",
                "F0502 11:00:00.2 8412 client.h:77] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died; see the other task logs for more details.",
                "*** Aborted at 1714647600 (unix time) ***",
            ]
        return lines
    for rank in ranks:
        text = "NCCL error: remote process exited or there was a network error, NCCL version 2.20.5"
        if fault.echo == "stall":
            text = "NCCL communicator was aborted"
        lines += [
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] NCCL watchdog thread terminated with exception: {text}",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "Last error:",
            f"socketProgress: Connection closed by remote peer gpu02<{rng.randint(20000, 50000)}>",
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:630] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  [PG 0 (default_pg) Rank {rank}] Process group watchdog thread terminated with exception: {text}",
        ]
        lines += [
            f"frame #{k}: c10::something() + 0x{rng.getrandbits(12):x} (0x7f{rng.getrandbits(40):x} in /opt/lib/libtorch.so)"
            for k in range(6)
        ]
    return lines


def _summary(fault: Fault, rng: random.Random) -> list[str]:
    match fault.launcher:
        case "k8s":
            return ["Warning  BackoffLimitExceeded  1s  job-controller  Job has reached the specified backoff limit"]
        case "none":
            return []
        case _:
            if fault.stack == "mpi":
                return [
                    "--------------------------------------------------------------------------",
                    "Primary job  terminated normally, but 1 process returned",
                    "a non-zero exit code. Per user-direction, the job has been aborted.",
                    "mpirun detected that one or more processes exited with non-zero status, thus causing",
                    "the job to be terminated. The first process to do so was:",
                    f"  Process name: [[31547,1],{rng.randint(0, 7)}]",
                    "  Exit code:    1",
                ]
            return [
                "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4411 closing signal SIGTERM",
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 4413) of binary: /opt/conda/bin/python",
                "Traceback (most recent call last):",
                '  File "/opt/conda/bin/torchrun", line 8, in <module>',
                "    sys.exit(main())",
                '  File "/opt/conda/lib/python3.10/site-packages/torch/distributed/launcher/api.py", line 268, in launch_agent',
                "    raise ChildFailedError(",
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
                "============================================================",
                "train.py FAILED",
                "  exitcode  : 1 (pid: 4413)",
                "============================================================",
                "srun: error: gpu01: task 0: Exited with exit code 1",
            ]


def _encode(lines: list[str], wanted: frozenset[str]) -> bytes:
    ending = "\r\n" if "crlf" in wanted else "\n"
    if "k8s_ts" in wanted:
        lines = [
            f"2024-05-02T1{i // 6000 % 10}:{i // 100 % 60:02d}:{i % 60:02d}.123456789Z stdout F {line}"
            for i, line in enumerate(lines)
        ]
    data = (ending.join(lines) + ending).encode()
    if "nonutf8" in wanted:
        data = data.replace(b"parameters", b"param\xe8tres \xff\xfe").replace(b"Loading dataset", b"\xc3(Loading")
    return data
