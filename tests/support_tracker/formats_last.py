"""A seventh set, written blind after the sixth was mended: newer trainers, other tongues, other runtimes."""

# ruff: noqa: E501  a rendered line is best read whole, in its own script

from __future__ import annotations

import json

from tests.support_tracker.formats import comma_ms, fmt, iso, own_epoch, own_step, written_in
from tests.support_tracker.runs import Report, bar, hms, hours, tqdm


@fmt("last_nanochat", every=1)
def _(r: Report) -> list[str]:
    return [
        f"step {r.step:05d}/{r.total:05d} ({100 * r.step / r.total:.2f}%) | loss: {r.loss:.6f} | lrm: 1.00 | dt: {1000 * r.dt:.2f}ms | tok/sec: {524288 / r.dt:,.0f} | mfu: 47.12 | total time: {r.elapsed / 60:.2f}m"
    ]


@fmt("last_prime_rl", every=1, step_s=12.0, losses=(0.01,))
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%H:%M:%S} \x1b[32mSUCCESS\x1b[0m Step {r.step} | Time: {r.dt:.2f}s | Loss: {r.loss / 100:.4f} | Entropy: 0.3121 | Grad. Norm: {r.grad:.4f} | LR: {r.lr:.2e} | Throughput: {90000 / r.dt:.0f} tokens/s | MFU: 21.2% | Peak Mem.: 61.2 GiB"
    ]


@fmt("last_slime", every=1, step_s=20.0, losses=(0.01,), time=None)
def _(r: Report) -> list[str]:
    return [
        f"(MegatronTrainRayActor pid=41231) step {r.step - 1}: {{'train/loss': {r.loss / 100}, 'train/pg_loss': {r.loss / 101}, 'train/entropy_loss': 0.31, 'train/grad_norm': {r.grad}, 'train/lr-pg_0': 1e-06, 'train/step': {r.step - 1}}}"
    ]


@fmt("last_areal", every=1, step_s=20.0, losses=(0.01,))
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%Y%m%d-%H:%M:%S}.{r.at.microsecond // 1000:03d} master worker INFO: Epoch {r.epoch + 1}/20 Step {r.i}/{r.n} Train step {r.step}/{r.total} done. Time consumption: {r.dt:.3f}s. Total time consumption: {r.elapsed:.3f}s. loss: {r.loss / 100:.5f}."
    ]


@fmt("last_nemo2", every=10)
def _(r: Report) -> list[str]:
    return [
        f"Training epoch 0, iteration {r.step - 1}/{r.total - 1} | lr: {r.lr:.4g} | global_batch_size: 64 | global_step: {r.step - 1} | peak_memory_usage: 61231 | reduced_train_loss: {r.loss:.4g} | train_step_timing in s: {r.dt:.4g} | consumed_samples: {r.step * 64}"
    ]


@fmt("last_ai_toolkit", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"my_lora: {100 * r.step // r.total:3d}%|{bar(r.step, r.total)}| {r.step}/{r.total} [{hms(r.elapsed)}<{hms(r.eta_s)}, {f'{r.dt:5.2f}s/it' if r.dt >= 1 else f'{1 / r.dt:5.2f}it/s'}, lr: {r.lr:.1e} loss: {r.loss:.3e}]"
    ]


@fmt("last_flow", every=50)
def _(r: Report) -> list[str]:
    return [f"Iter: {r.step} | FM loss: {r.loss:.4f} | {r.dt:.3f}s/iter"]


@fmt("last_detr_log_txt", every=500, time=None, steps=own_epoch)
def _(r: Report) -> list[str]:
    return [
        json.dumps(
            {
                "train_lr": r.lr, "train_class_error": 31.2, "train_loss": round(r.loss, 6), "train_loss_ce": round(r.loss / 3, 6),
                "test_class_error": 33.1, "test_loss": round(r.loss * 1.1, 6), "epoch": r.epoch, "n_parameters": 41302368,
            }
        )
    ]  # fmt: skip


@fmt("last_train_and_valid_parts", every=500, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    return [
        f"[Epoch {r.epoch:03d}] train: loss={r.loss:.4f} acc={r.acc:.3f} | valid: loss={r.loss * 1.2:.4f} acc={r.acc - 0.02:.3f} | {r.dt * r.n:.1f}s"
    ]


@fmt("last_julia_meter", every=10, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Progress: {100 * r.step // r.total:3d}%|{'█' * (40 * r.step // r.total):<40}|  ETA: {hours(r.eta_s)}",
        f"  step:  {r.step}",
        f"  loss:  {r.loss:.6f}",
    ]


@fmt("last_burn", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"[Train - Epoch {r.epoch + 1} - Iteration {r.i}] Loss {r.loss:.3f} | Accuracy {100 * r.acc:.2f} %"]


@fmt("last_candle", every=500, time=None, steps=own_epoch)
def _(r: Report) -> list[str]:
    return [f"{r.epoch + 1:4d} train loss: {r.loss:8.5f} test acc: {100 * r.acc:5.2f}%"]


@fmt("last_mpi_plain", every=10)
def _(r: Report) -> list[str]:
    return [f"[1,0]<stdout>:Step {r.step} loss {r.loss:.4f} ({r.dt:.3f} s/step)"]


@fmt("last_ort", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"Train Loss: {r.loss:.4f}, Step: {r.step}/{r.total}, learning rate: {r.lr:.2e}"]


@fmt("last_gaudi", every=10)
def _(r: Report) -> list[str]:
    return [
        tqdm(r.step, r.total, r.elapsed, r.dt),
        f"{{'loss': {r.loss:.4f}, 'grad_norm': {r.grad:.4f}, 'learning_rate': {r.lr:.4g}, 'epoch': {r.step / r.n:.2f}, 'memory_allocated (GB)': 41.2, 'max_memory_allocated (GB)': 61.3, 'total_memory_available (GB)': 94.62}}",
    ]


@fmt("last_chinese_fullwidth_pipes", every=10)
def _(r: Report) -> list[str]:
    return [f"迭代 {r.step}/{r.total} ｜ 损失 {r.loss:.4f} ｜ 单步耗时 {1000 * r.dt:.0f} 毫秒 ｜ 学习率 {r.lr:.2e}"]


@fmt("last_french_commas", every=10)
def _(r: Report) -> list[str]:
    text = f"perte = {r.loss:.4f} ; temps par itération : {r.dt:.3f} s"
    return [f"Itération {r.step}/{r.total} : " + text.replace(".", ",")]


@fmt("last_italian", every=10)
def _(r: Report) -> list[str]:
    return [f"Passo {r.step} di {r.total} — perdita {r.loss:.4f} — {r.dt:.3f} secondi/passo"]


@fmt("last_polish", every=10)
def _(r: Report) -> list[str]:
    return [f"Krok {r.step}/{r.total}, strata: {r.loss:.4f}, czas kroku: {r.dt:.3f} s"]


@fmt("last_vietnamese", every=10)
def _(r: Report) -> list[str]:
    return [f"Bước {r.step}/{r.total} | mất mát: {r.loss:.4f} | {r.dt:.3f} giây/bước"]


@fmt("last_quoted_csv", every=10, header=('"step","loss","lr","sec_per_step"',))
def _(r: Report) -> list[str]:
    return [f'"{r.step}","{r.loss:.5f}","{r.lr:.2e}","{r.dt:.4f}"']


@fmt("last_go_durations", every=10)
def _(r: Report) -> list[str]:
    m, s = divmod(int(r.eta_s), 60)
    return [f"step={r.step} loss={r.loss:.4f} step_duration={1000 * r.dt:.1f}ms eta={m // 60}h{m % 60}m{s}s"]


@fmt("last_compose_nodes_lag", every=5, steps=lambda r: {r.step, r.step - 10})
def _(r: Report) -> list[str]:
    return [
        f"trainer-{k}  | {comma_ms(r)} step {max(1, r.step - 10 * (k == 2))}/{r.total} loss {r.loss:.4f} {r.dt:.3f}s/step"
        for k in (1, 2)
    ]


@fmt("last_home_arrow_bar", every=10, redraw=True)
def _(r: Report) -> list[str]:
    full = 20 * r.step // r.total
    return [
        f"[{'=' * full}>{' ' * (19 - full)}] {100 * r.step // r.total}% ({r.step}/{r.total}) loss: {r.loss:.4f} ETA {hms(r.eta_s)} {1 / r.dt:.2f} steps/s"
    ]


@fmt("last_eval_column", every=10, steps=own_step)
def _(r: Report) -> list[str]:
    lines = [f"train | step {r.step:6d} | loss {r.loss:.4f} | {1000 * r.dt:.0f} ms/step"]
    if r.step % 50 == 0:
        lines.append(f"eval  | step {r.step:6d} | loss {r.loss * 1.2:.4f} | {250 * r.dt:.0f} ms/step")
    return lines


@fmt("last_val_every_step", every=10, losses=(1.0,))
def _(r: Report) -> list[str]:
    return [f"[{iso(r)}] iter {r.step} train {r.loss:.4f} val {r.loss * 1.2:.4f} ({r.dt:.3f} s/iter)"]


@fmt("last_loss_components_sum", every=10)
def _(r: Report) -> list[str]:
    return [
        f"it: {r.step} ({r.dt:.3f} s/it) total: {r.loss:.4f} = rgb {r.loss * 0.7:.4f} + depth {r.loss * 0.2:.4f} + reg {r.loss * 0.1:.4f}"
    ]


@fmt("last_seconds_ago", every=10)
def _(r: Report) -> list[str]:
    return [f"T+{r.elapsed:.1f}s step {r.step} loss {r.loss:.4f}"]


LAST = written_in(__name__)
