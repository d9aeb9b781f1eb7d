"""More logs without any training progress, written blind: they count, they take time, some speak of losses and steps."""

# ruff: noqa: E501  a rendered line is best read whole

from __future__ import annotations

import random

from tests.support_tracker.nothing import NOTHING, nothing, stamp
from tests.support_tracker.runs import hms, tqdm

_BEFORE = len(NOTHING)


@nothing("late_gptq_layers")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Quantizing layer {i // 7 + 1}/{n // 7 + 1}: {('q', 'k', 'v', 'o', 'up', 'gate', 'down')[i % 7]}_proj, loss {rng.random():.6f}, damp 0.01, {rng.uniform(1, 2):.2f} s"
        for i in range(n)
    ]


@nothing("late_pruning_layers")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"layer {i} name mlp.fc{i % 3} mean squared error {rng.random():.5f} sparsity 0.5 time {rng.uniform(0, 2):.2f}"
        for i in range(n)
    ]


@nothing("late_perplexity_eval")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"perplexity : calculating over {n} chunks, n_ctx=512: [{i + 1}]{5 + rng.random():.4f}, ETA {hms((n - i) * 3)}"
        for i in range(n)
    ]


@nothing("late_eval_harness_bar")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        tqdm(i + 1, n, i * 2, 2.1, label="Running loglikelihood requests", postfix=f"nll={rng.uniform(1, 3):.3f}")
        for i in range(n)
    ]


@nothing("late_val_epoch_only")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"[valid] batch {i}/{n} val_loss {rng.uniform(1, 2):.4f} acc {rng.random():.3f} ({rng.random():.3f} s/batch)"
        for i in range(n)
    ]


@nothing("late_score_test_json")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f'{{"split": "test", "index": {i}, "nll": {rng.uniform(1, 3):.4f}, "latency_ms": {rng.uniform(20, 40):.1f}}}'
        for i in range(n)
    ]


@nothing("late_simulation_env")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"sim step {i * 100}/{n * 100} energy {-100 + rng.random():.4f} temperature {300 + rng.random():.2f} {rng.uniform(3, 4):.3f} ms/step"
        for i in range(n)
    ]


@nothing("late_weather_model")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Timing for main: time 2025-03-11_{i // 60 % 24:02d}:{i % 60:02d}:00 on domain   1:    {rng.uniform(2, 3):.5f} elapsed seconds"
        for i in range(n)
    ]


@nothing("late_fem_newton")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Time step {i // 5 + 1} of {n // 5}, Newton iteration {i % 5 + 1}: |r| = {10 ** -(i % 5):.3e}, line search 1.0, {rng.random():.3f} s"
        for i in range(n)
    ]


@nothing("late_scf")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"     iteration #{i % 20 + 1:3d}     ecut=    60.00 Ry     beta= 0.70 total energy = {-88.2 - 1 / (i % 20 + 1):.8f} Ry cpu time {i * 1.3:.1f} secs"
        for i in range(n)
    ]


@nothing("late_batch_scoring")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} INFO scored batch {i + 1} of {n}: 512 rows, {rng.uniform(400, 500):.1f} rows/s, error rate 0.00"
        for i in range(n)
    ]


@nothing("late_data_audit")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"epoch {1741684442 + i * 60} offset {i * 4096} lag {rng.randrange(100)} lost 0" for i in range(n)]


@nothing("late_blockchain")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"INFO [03-11|09:{i // 60 % 60:02d}:{i % 60:02d}.118] Imported new chain segment blocks=1 txs={rng.randrange(200)} mgas=12.{i % 10} elapsed={rng.uniform(50, 90):.3f}ms number={9_000_000 + i} epoch={i // 32}"
        for i in range(n)
    ]


@nothing("late_network_probe")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"[{i:3d}] 64 bytes from 10.0.0.1: icmp_seq={i} ttl=64 time={rng.uniform(0.1, 0.3):.3f} ms" for i in range(n)
    ]


@nothing("late_iperf")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"[  5] {i:5.2f}-{i + 1:5.2f} sec  1.09 GBytes  9.3{i % 10} Gbits/sec  {rng.random():.3f} ms  0/{8000 + i} (0%)  lost"
        for i in range(n)
    ]


@nothing("late_disk_bench")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Jobs: 4 (f=4): [R(4)][{100 * i / n:.1f}%][r={rng.randrange(2000, 3000)}MiB/s][r={rng.randrange(9000)}k IOPS][eta 00m:{60 - i % 60:02d}s]"
        for i in range(n)
    ]


@nothing("late_speech_decode")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"LOG (decode:utt:{i}) Log-like per frame for utterance utt{i:05d} is {-rng.uniform(5, 7):.5f} over {rng.randrange(100, 900)} frames, rtf {rng.random():.3f}"
        for i in range(n)
    ]


@nothing("late_render_blocks")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Rendering view {i + 1}/{n} psnr {rng.uniform(25, 30):.3f} ssim 0.91 ({rng.uniform(20, 30):.1f} ms)"
        for i in range(n)
    ]


@nothing("late_insurance_rows")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"policy {i + 1}/{n} premium {rng.uniform(100, 900):.2f} expected loss {rng.uniform(10, 90):.2f} loss ratio {rng.random():.3f}"
        for i in range(n)
    ]


@nothing("late_checkpoint_convert")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"converting step {i * 100} -> hf: shard {i % 8 + 1}/8 written in {rng.uniform(1, 9):.1f} s (max abs diff 0.0{rng.randrange(1000):03d})"
        for i in range(n)
    ]


@nothing("late_scheduler_of_trainings")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} scheduler: job {i} training queued, epoch 0, position {n - i}, expected step time 0.{rng.randrange(10, 99)} s"
        for i in range(n)
    ]


@nothing("late_wandb_sync")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"wandb: syncing run history: step {i * 50} of {n * 50} ({100 * i // n}%), {rng.uniform(1, 9):.2f} MB/s"
        for i in range(n)
    ]


@nothing("late_model_soup")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"candidate {i + 1}/{n}: held-out loss {rng.uniform(1, 2):.4f}, kept {i // 3} ({rng.uniform(3, 5):.1f} s)"
        for i in range(n)
    ]


@nothing("late_retry_counter")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"rendezvous attempt {i + 1}/{n} failed after {rng.uniform(4, 6):.2f} s, {n - i - 1} left, training has not started"
        for i in range(n)
    ]


@nothing("late_power_meter")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"sample {i} power loss {rng.uniform(10, 20):.2f} W efficiency 0.94 interval 1.0 s" for i in range(n)]


@nothing("late_lr_finder_help")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        "usage: train.py [--steps N] [--loss {mse,ce}] [--lr LR]",
        "  --steps N   number of steps (default: 1000)",
        "  --lr LR     learning rate (default: 0.001)",
    ] * (n // 3)


MORE_NOTHING = list(NOTHING)[_BEFORE:]
