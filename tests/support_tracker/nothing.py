"""Logs without any training progress, and noise for those that have some."""

# ruff: noqa: E501  a rendered line is best read whole

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime

from tests.support_tracker.runs import bar, hms, tqdm

Writer = Callable[[random.Random, int], list[str]]
NOTHING: dict[str, Writer] = {}


def nothing(name: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        NOTHING[name] = writer
        return writer

    return register


def stamp(i: int) -> str:
    return f"2025-03-11 {9 + i // 3600:02d}:{i // 60 % 60:02d}:{i % 60:02d}"


@nothing("uvicorn")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f'INFO:     10.0.0.{rng.randrange(9)}:{rng.randrange(40000, 60000)} - "POST /v1/completions HTTP/1.1" 200 OK'
        for _ in range(n)
    ]


@nothing("vllm_server")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"INFO 03-11 09:{i // 60 % 60:02d}:{i % 60:02d} metrics.py:341] Avg prompt throughput: {rng.uniform(50, 500):.1f} tokens/s, "
        f"Avg generation throughput: {rng.uniform(50, 500):.1f} tokens/s, Running: {rng.randrange(9)} reqs, Swapped: 0 reqs, "
        f"Pending: {rng.randrange(4)} reqs, GPU KV cache usage: {rng.uniform(1, 90):.1f}%, CPU KV cache usage: 0.0%"
        for i in range(n)
    ]


@nothing("ffmpeg")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"frame={i * 25:5d} fps= 25 q=28.0 size={i * 256:8d}kB time=00:{i // 60:02d}:{i % 60:02d}.00 bitrate=2097.2kbits/s speed=1.01x"
        for i in range(n)
    ]


@nothing("pytest")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"tests/test_module_{i}.py {'.' * rng.randrange(3, 30)} [{100 * i // n:3d}%]" for i in range(n)]


@nothing("docker_build")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"Step {i}/{n} : RUN pip install package-{i}=={rng.randrange(9)}.{rng.randrange(9)}" for i in range(1, n)]


@nothing("cmake")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"[{100 * i // n:3d}%] Building CXX object src/CMakeFiles/core.dir/file_{i}.cpp.o" for i in range(n)]


@nothing("pip_bars")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ {i * 0.4:.1f}/{n * 0.4:.1f} MB 3.2 MB/s eta 0:00:{i % 60:02d}"
        for i in range(n)
    ]


@nothing("rsync")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"\r  {i * 1234567:,}  {100 * i // n:3d}%   12.3MB/s    0:{i // 60:02d}:{i % 60:02d} (xfr#{i}, to-chk={n - i}/{n})"
        for i in range(n)
    ]


@nothing("git_clone")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"\rReceiving objects: {100 * i // n:3d}% ({i * 100}/{n * 100}), {i * 0.3:.2f} MiB | 3.10 MiB/s"
        for i in range(n)
    ]


@nothing("spark_stages")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"\r[Stage {i // 50}:{'=' * (i % 50)}>{' ' * (50 - i % 50)}({i % 50 * 4} + 16) / 200]" for i in range(n)]


@nothing("etl")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} INFO Processed {i * 1000} documents ({rng.uniform(900, 1100):.1f} docs/s, {rng.uniform(40, 50):.1f} MB/s)"
        for i in range(1, n)
    ]


@nothing("lm_eval")
def _(rng: random.Random, n: int) -> list[str]:
    return ["\r" + tqdm(i, n, i * 0.3, 0.3, label="Running loglikelihood requests") for i in range(1, n)]


@nothing("generation")
def _(rng: random.Random, n: int) -> list[str]:
    return [tqdm(i, n, i * 2.3, 2.3, label="Generating") for i in range(1, n)]


@nothing("diffusion_sampling")
def _(rng: random.Random, n: int) -> list[str]:
    return ["\r" + tqdm(i % 50 + 1, 50, (i % 50) * 0.1, 0.1, label="Sampling") for i in range(n)]


@nothing("embedding")
def _(rng: random.Random, n: int) -> list[str]:
    return [tqdm(i, n, i * 0.2, 0.2, label="Batches") for i in range(1, n)]


@nothing("bare_bar")
def _(rng: random.Random, n: int) -> list[str]:
    return ["\r" + tqdm(i, n, i * 0.2, 0.2) for i in range(1, n)]


@nothing("validation_loop")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Validation: [{i:4d}/{n}]  Time {rng.uniform(0.1, 0.2):.3f}  Loss {rng.uniform(1, 2):.4f}  Acc@1 {rng.uniform(40, 60):.2f}"
        for i in range(n)
    ]


@nothing("test_loop")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Test: [{i:4d}/{n}]  eta: 0:00:{n - i:02d}  loss: {rng.uniform(1, 2):.4f} (1.5)  acc1: {rng.uniform(40, 60):.2f} (50.1)  time: 0.1021  data: 0.0003  max mem: 5120"
        for i in range(n)
    ]


@nothing("quantising")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} INFO Quantizing layer {i % 32 + 1}/32: self_attn.q_proj error {rng.uniform(0.001, 0.1):.5f} time {rng.uniform(1, 2):.2f}s"
        for i in range(n)
    ]


@nothing("molecular_dynamics")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        "           Step           Time",
        f"{100:15d}   {0.2:12.5f}",
        *[
            f"Step {i * 100} Temp {rng.uniform(299, 301):.2f} E_pair -{rng.uniform(4000, 4010):.3f} TotEng -{rng.uniform(3000, 3010):.2f} Press {rng.uniform(-9, 9):.3f}"
            for i in range(n)
        ],
    ]


@nothing("zookeeper")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} INFO [QuorumPeer] Notification: my state:LOOKING; n.sid:{rng.randrange(3)}, n.state:LOOKING, n.leader:{rng.randrange(3)}, n.round:0x{i:x}, n.peerEpoch:0x{rng.randrange(99):x}, epoch={i // 9}"
        for i in range(n)
    ]


@nothing("kafka_offsets")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} INFO consumer group=g1 topic=t partition={rng.randrange(8)} offset={i * 97} lag={rng.randrange(100)} rate={rng.uniform(10, 20):.2f}"
        for i in range(n)
    ]


@nothing("nvidia_smi_loop")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{i // 8:5d}  {i % 8}   {rng.randrange(100):3d}   {rng.randrange(100):3d}    0    0   {rng.randrange(1000, 80000)}"
        for i in range(n)
    ]


@nothing("slurm_wait")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"{stamp(i)} srun: job 665649 queued and waiting for resources, position {max(1, n - i)}" for i in range(n)]


@nothing("data_loader_benchmark")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"dataloader batch {i}/{n}: loaded in {rng.uniform(5, 9):.2f} ms, 64 samples" for i in range(n)]


@nothing("hyperparameters")
def _(rng: random.Random, n: int) -> list[str]:
    keys = [
        "learning_rate",
        "loss",
        "max_steps",
        "num_epochs",
        "batch_size",
        "step_size",
        "warmup_steps",
        "loss_weight",
        "eval_steps",
        "save_steps",
    ]
    return [
        f"  {rng.choice(['model', 'optim', 'train'])}.{rng.choice(keys)}: {rng.choice(['1000', '300', '0.1', 'mse', '1e-4', 'null'])}"
        for _ in range(n)
    ]


@nothing("optuna")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"[I {stamp(i)},123] Trial {i} finished with value: {rng.uniform(0, 1):.6f} and parameters: {{'x': {rng.uniform(-9, 9):.4f}}}. Best is trial {i // 2} with value: 0.0123."
        for i in range(n)
    ]


@nothing("model_summary")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"layers.{i}.attn.q_proj.weight  torch.Size([4096, 4096])  16777216  requires_grad=True" for i in range(n)]


@nothing("checkpoint_saving")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} INFO Saved shard {i}/{n} of model checkpoint (4.{rng.randrange(9)} GB in {rng.uniform(5, 9):.1f}s)"
        for i in range(n)
    ]


@nothing("wget")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{i * 50:6d}K .......... .......... .......... .......... .......... {100 * i // n:2d}% 12.3M {n - i}s"
        for i in range(n)
    ]


@nothing("loading_dots")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        "\r" + f"Loading weights: {100 * i // n:3d}%|{bar(i, n)}| {i}/{n} [{hms(i)}<{hms(n - i)}, 1.01s/it]"
        for i in range(1, n)
    ]


@nothing("ray_status")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"(autoscaler +{i}s) Resized to {rng.randrange(10, 400)} CPUs, {rng.randrange(8, 64)} GPUs." for i in range(n)
    ]


@nothing("hf_evaluation")
def _(rng: random.Random, n: int) -> list[str]:
    rows = ["***** Running Evaluation *****", "  Num examples = 1000", "  Batch size = 8"]
    rows += ["\r" + tqdm(i, n, i * 0.1, 0.1) for i in range(1, n)]
    return [
        *rows,
        "{'eval_loss': 1.23, 'eval_runtime': 12.3, 'eval_samples_per_second': 81.3, 'eval_steps_per_second': 10.2}",
    ]


@nothing("k_means")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"Iteration {i}, inertia {9000 - i * 3.1:.3f}." for i in range(n)]


@nothing("flow_solver")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        line
        for i in range(n)
        for line in (
            f"Time = {i * 0.01:.2f}",
            f"smoothSolver: Solving for Ux, Initial residual = {rng.random():.6f}, Final residual = {rng.random() / 1e3:.3e}, No Iterations {rng.randrange(1, 9)}",
            f"ExecutionTime = {i * 0.4:.2f} s  ClockTime = {int(i * 0.4)} s",
        )
    ]


@nothing("gromacs")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"step {i * 100}, remaining wall clock time: {n - i} s" for i in range(n)]


@nothing("genetic_search")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Generation {i}: best fitness {rng.random():.5f}, mean fitness {rng.random():.5f}, elapsed {i * 2}s"
        for i in range(n)
    ]


@nothing("sampling_chain")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"Chain 1 Iteration: {i * 10:4d} / {n * 10} [{100 * i // n:3d}%]  (Sampling)" for i in range(n)]


@nothing("inference_batches")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"Batch {i}/{n} done in {rng.uniform(1, 2):.3f}s ({rng.uniform(30, 40):.1f} samples/s)" for i in range(n)]


@nothing("keras_predict")
def _(rng: random.Random, n: int) -> list[str]:
    return ["\r" + f"{i}/{n} [=====>......] - ETA: {n - i}s" for i in range(1, n)]


@nothing("migration")
def _(rng: random.Random, n: int) -> list[str]:
    return [f"Migrating batch {i} of {n}: {i * 1000} rows, took {rng.uniform(0.1, 0.3):.3f}s" for i in range(n)]


@nothing("trial_starts")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Trial train_{i:05d} started with configuration: lr={rng.random():.5f} batch_size={rng.choice([16, 32])} epochs=10"
        for i in range(n)
    ]


@nothing("accounting")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{100000 + i} train_job gpu alice COMPLETED 0:0 0{rng.randrange(9)}:1{rng.randrange(9)}:00" for i in range(n)
    ]


@nothing("training_settings")
def _(rng: random.Random, n: int) -> list[str]:
    keys = ["epochs", "max_steps", "loss", "lr", "warmup_iters", "log_every", "steps_per_print"]
    return [
        f"  {rng.choice(['train', 'optim'])}.{rng.choice(keys)}: {rng.choice(['1000', '1000', 'cross_entropy'])}"
        for _ in range(n)
    ]


@nothing("collective_benchmark")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{2 ** (i % 20) * 8:12d} {2 ** (i % 20) * 2:12d}     float     sum      -1 {rng.uniform(10, 900):8.2f} {rng.uniform(0, 99):7.2f} {rng.uniform(0, 190):7.2f}      0"
        for i in range(n)
    ]


@nothing("echoed_command")
def _(rng: random.Random, n: int) -> list[str]:
    return ["+ python train.py --epochs 10 --steps 500 --lr 0.1 --loss mse"] * 5 + [
        f"waiting for lock, attempt {i}" for i in range(n)
    ]


def noise_line(rng: random.Random, at: datetime) -> str:
    """One line of the usual disturbance, unlike the shared ones."""
    return rng.choice(
        (
            f"{at:%Y-%m-%d %H:%M:%S} INFO metrics pushed to gateway in {rng.uniform(1, 9):.1f} ms ({rng.randrange(300)} series)",
            f"node{rng.randrange(9)}:{rng.randrange(9999)}:{rng.randrange(9999)} [{rng.randrange(8)}] NCCL INFO Channel {rng.randrange(32):02d}/0 : 0[0] -> 1[1] via P2P/IPC",
            "UserWarning: Mean of empty slice.",
            f"nfs: server storage{rng.randrange(4)} OK, took {rng.uniform(0, 3):.2f}s",
            f"[tokenizer] cached {rng.randrange(10**6)} pieces ({rng.uniform(0, 100):.1f}%)",
            tqdm(rng.randrange(1, 100), 100, rng.randrange(60), rng.uniform(0.1, 2), label="Validating"),
            f"val: epoch {rng.randrange(9)} loss {rng.uniform(0, 3):.3f} acc {rng.uniform(0, 1):.3f}",
            f"GPU {rng.randrange(8)} | util {rng.randrange(100)}% | {rng.randrange(80)}GiB / 80GiB | {rng.randrange(700)} W",
            f"Saved checkpoint step_{rng.randrange(9999)}.pt ({rng.uniform(1, 9):.1f} GB)",
            f"eviction manager: {rng.randrange(99)} pods, {rng.randrange(9)} pending",
            f"prefetch queue {rng.randrange(64)}/64, wait {rng.uniform(0, 30):.2f} ms",
            "",
        )
    )


@nothing("fresh_sentencepiece")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"unigram_model_trainer.cc(505) LOG(INFO) EM sub_iter={i % 2} size={1_000_000 - 2500 * i} obj={13.2 - i / 900:.4f} num_tokens={2_300_000 + 77 * i} num_tokens/piece={2.1 + i / 999:.5f}"
        for i in range(n)
    ]


@nothing("fresh_optuna")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"[I {stamp(i * 20)},123] Trial {i} finished with value: {rng.random():.6f} and parameters: {{'lr': {rng.random() / 100:.6f}, 'layers': {rng.randrange(2, 9)}}}. Best is trial {i // 3} with value: 0.9312."
        for i in range(n)
    ]


@nothing("fresh_mcmc")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Chain {i % 4 + 1}: Iteration: {100 * (i // 4 + 1)} / {100 * n} [{100 * (i // 4 + 1) // n:3d}%]  (Sampling)"
        for i in range(n)
    ]


@nothing("fresh_fsck")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"verified {i * 250}/75000 files, {rng.uniform(90, 120):.1f} files/s, 0 bad checksums, data loss: 0"
        for i in range(n)
    ]


@nothing("fresh_hpl_bench")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Prog= {100 * i / n:5.2f}% N_left= {20000 - 60 * i} Time= {i * 1.2:.2f} Time_left= {(n - i) * 1.2:.2f} iGF= {rng.uniform(30000, 40000):.2f} GF= 38123.41"
        for i in range(n)
    ]


@nothing("fresh_nccl_tests")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{8 << (i % 28):>13}  {2 << (i % 28):>12}     float     sum      -1    {rng.uniform(20, 9000):.2f}    {rng.uniform(1, 200):.2f}  {rng.uniform(1, 350):.2f}      0    {rng.uniform(20, 9000):.2f}   {rng.uniform(1, 200):.2f}  {rng.uniform(1, 350):.2f}      0"
        for i in range(n)
    ]


@nothing("wild_packets")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} eth{i % 4}: mem loss 0.0 packets lost, rx {1000 * i} tx {900 * i}, step {i} of {n}"
        for i in range(n)
    ]


@nothing("wild_packet_sweep")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"sweep {i}/{n}: sent {1000 * i} received {1000 * i - i % 7} packet loss {rng.random():.2f}% rtt {rng.uniform(0.1, 9):.3f} ms"
        for i in range(n)
    ]


@nothing("wild_trials_with_loss")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"trial {i + 1}/{n} lr={rng.random() / 100:.5f} hidden={rng.choice((64, 128, 256))} loss {rng.uniform(0.3, 2):.4f}"
        for i in range(n)
    ]


@nothing("wild_grid_search")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"[CV {i % 5 + 1}/5; {i // 5 + 1}/{n // 5}] END max_depth={i % 9 + 2}, eta=0.1;, score=(loss={rng.random():.3f}) total time= {rng.uniform(0, 9):.1f}s"
        for i in range(n)
    ]


@nothing("wild_hyperopt_bar")
def _(rng: random.Random, n: int) -> list[str]:
    return [tqdm(i + 1, n, i * 4, 4.2, unit="trial", postfix=f"best loss: {0.9 - i / 900:.6f}") for i in range(n)]


@nothing("wild_finance")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"backtest day {i + 1}/{n}: profit {rng.uniform(-9, 9):.2f} stop loss {rng.uniform(90, 99):.2f} drawdown {rng.random():.3f}"
        for i in range(n)
    ]


@nothing("wild_optical")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"port {i % 36}: insertion loss {rng.uniform(0.1, 0.9):.2f} dB, return loss {rng.uniform(40, 60):.1f} dB"
        for i in range(n)
    ]


@nothing("wild_replication_lag")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i)} replica sync batch {i}/{n} rows={1000 * i} lag={rng.random():.3f}s data_loss=false elapsed {i * 0.7:.1f}s"
        for i in range(n)
    ]


@nothing("wild_solver_iterations")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"KSP iteration {i}: residual norm {1 / (i + 1):.6e}, objective {3 + 1 / (i + 1):.6f}, {rng.uniform(0.1, 0.2):.3f} s/iter"
        for i in range(n)
    ]


@nothing("wild_render_frames")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"Fra:{i} Mem:1312.11M (Peak 1400.10M) | Time:00:{i // 60 % 60:02d}.{i % 60:02d} | Remaining:00:{59 - i % 60:02d}.10 | Rendered {i}/{n} Tiles, Sample {i % 128}/128"
        for i in range(n)
    ]


@nothing("wild_health_probe")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f"{stamp(i * 10)} burn-in pass {i + 1}/{n}: gemm {rng.uniform(600, 700):.1f} TFLOPS, {rng.uniform(40, 80):.0f} C, errors 0, {rng.uniform(9, 11):.2f} s"
        for i in range(n)
    ]


@nothing("wild_evaluation_json")
def _(rng: random.Random, n: int) -> list[str]:
    return [
        f'{{"task": "eval", "batch": {i}, "total": {n}, "loss": {rng.uniform(2, 3):.4f}, "sec": {rng.random():.3f}}}'
        for i in range(n)
    ]
