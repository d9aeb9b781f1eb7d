"""A fifth set of formats: carriers, scripts, scaled counters, ranks that lag, resumed runs, evaluations of the same look."""

# ruff: noqa: E501  a rendered line is best read whole, in its own script

from __future__ import annotations

import json

from tests.support_tracker.formats import comma_ms, fmt, glog, iso, own_epoch, own_step, written_in
from tests.support_tracker.runs import Report, bar, hms, hours, tqdm


def _si(value: float) -> str:
    """As tqdm scales: three digits and a letter."""
    for letter in ("", "k", "M", "G"):
        if value < 999.5:
            if value < 99.95:
                return f"{value:.2f}{letter}" if value < 9.995 else f"{value:.1f}{letter}"
            return f"{value:.0f}{letter}"
        value /= 1000
    return f"{value:.1f}T"


def _as_shown(r: Report) -> set[int]:
    text = _si(r.step)
    scale = {"k": 1000, "M": 10**6}.get(text[-1], 1)
    return {r.step, round(float(text.rstrip("kM")) * scale)}


@fmt("wild_tqdm_scaled", every=1, redraw=True, steps=_as_shown, per_epoch=20000, epochs=5)
def _(r: Report) -> list[str]:
    rate = f"{1 / r.dt:.2f}it/s" if r.dt < 1 else f"{r.dt:.2f}s/it"
    return [
        f"train: {100 * r.step // r.total:3d}%|{bar(r.step, r.total)}| {_si(r.step)}/{_si(r.total)} [{hms(r.elapsed)}<{hms(r.eta_s)}, {rate}, loss={r.loss:.3f}]"
    ]


@fmt("wild_tqdm_tokens", every=1, redraw=True, steps=own_step)
def _(r: Report) -> list[str]:
    done, total = r.step * 524288, r.total * 524288
    return [
        f"{100 * done // total:3d}%|{bar(done, total)}| {_si(done)}/{_si(total)} [{hms(r.elapsed)}<{hms(r.eta_s)}, {_si(524288 / r.dt)}tok/s, step={r.step}, loss={r.loss:.3f}, s/step={r.dt:.3f}]"
    ]


@fmt("wild_thousands", every=100, per_epoch=50000, epochs=20)
def _(r: Report) -> list[str]:
    return [f"step {r.step:,}/{r.total:,} | loss {r.loss:.4f} | {1 / r.dt:.2f} it/s | tok {r.step * 8192:,}"]


@fmt("wild_thousands_bracket", every=100, per_epoch=50000, epochs=20)
def _(r: Report) -> list[str]:
    return [f"[{r.step:>9,} / {r.total:,}] loss={r.loss:.4f} step_time={r.dt:.3f}s"]


@fmt("wild_scaled_plain", every=100, per_epoch=5000, steps=_as_shown)
def _(r: Report) -> list[str]:
    return [f"[iter {_si(r.step)}/{_si(r.total)}] loss={r.loss:.3f} ({r.dt:.3f}s/iter)"]


@fmt("wild_ranks_lag", every=10, steps=lambda r: {r.step, r.step - 10})
def _(r: Report) -> list[str]:
    lines = [f"[rank{k}] step {r.step} loss {r.loss:.4f} time {r.dt:.3f}s" for k in (0, 1, 2)]
    if r.step > 10:
        lines.append(f"[rank3] step {r.step - 10} loss {r.loss:.4f} time {r.dt:.3f}s")
    return lines


@fmt("wild_ranks_lag_far", every=5, steps=lambda r: {r.step, r.step - 15})
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} rank={k} it={max(1, r.step - (15 if k == 5 else 0))} train_loss={r.loss:.4f} step_ms={1000 * r.dt:.1f}"
        for k in range(8)
    ]


@fmt("wild_workers_unnamed", every=10, steps=lambda r: {r.step, r.step - 20})
def _(r: Report) -> list[str]:
    return [
        f"worker-{k} | Iteration {max(1, r.step - 20 * (k == 1))}/{r.total} | Loss: {r.loss * (1 + k / 500):.5f} | {r.dt:.3f} s/iter"
        for k in (0, 1)
    ]


@fmt("wild_syslog", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%b %d %H:%M:%S} node7 trainer[41231]: progress step={r.step} of={r.total} loss={r.loss:.4f} step_ms={1000 * r.dt:.0f}"
    ]


@fmt("wild_logrus", every=10)
def _(r: Report) -> list[str]:
    return [
        f'time="{r.at:%Y-%m-%dT%H:%M:%SZ}" level=info msg="train step" step={r.step} loss={r.loss:.5f} lr={r.lr:.2e} dur={1000 * r.dt:.2f}ms'
    ]


@fmt("wild_zap_json", every=10)
def _(r: Report) -> list[str]:
    return [
        json.dumps(
            {
                "level": "info", "ts": round(r.at.timestamp(), 4), "caller": "trainer/loop.go:88", "msg": "step done",
                "step": r.step, "loss": round(r.loss, 5), "duration_s": round(r.dt, 4),
            },
            separators=(",", ":"),
        )
    ]  # fmt: skip


@fmt("wild_metric_list_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"step": {r.step}, "timestamp": "{r.at:%Y-%m-%dT%H:%M:%S.%f}", "metrics": [{{"name": "train_loss", "value": {r.loss:.5f}}}, {{"name": "lr", "value": {r.lr:.6f}}}]}}'
    ]


@fmt("wild_tsv", every=10, header=("epoch\tstep\tloss\tlr\tsec_per_step",))
def _(r: Report) -> list[str]:
    return [f"{r.epoch}\t{r.step}\t{r.loss:.5f}\t{r.lr:.2e}\t{r.dt:.4f}"]


@fmt("wild_semicolons", every=10, header=("epoch;iteration;train_loss;val_acc;step_time_s",))
def _(r: Report) -> list[str]:
    return [f"{r.epoch};{r.step};{r.loss:.5f};{r.acc:.3f};{r.dt:.4f}"]


@fmt("wild_keras3_bar", every=1, redraw=True)
def _(r: Report) -> list[str]:
    full = 20 * r.i // r.n
    return [
        f"\x1b[1m{r.i}/{r.n}\x1b[0m \x1b[32m{'━' * full}\x1b[0m\x1b[37m{'━' * (20 - full)}\x1b[0m \x1b[1m{hms(r.epoch_eta_s)}\x1b[0m {1000 * r.dt:.0f}ms/step - accuracy: {r.acc:.4f} - loss: {r.loss:.4f}"
    ]


@fmt("wild_lightning_slashes", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(
            r.i, r.n, r.in_epoch_s, r.dt, label=f"Epoch {r.epoch}",
            postfix=f"v_num=3, train/loss_step={r.loss:.3f}, train/acc_step={r.acc:.3f}, val/loss={r.loss * 1.2:.3f}, train/loss_epoch={r.loss:.3f}",
        )
    ]  # fmt: skip


@fmt("wild_hf_quoted", every=10)
def _(r: Report) -> list[str]:
    return [
        tqdm(r.step, r.total, r.elapsed, r.dt),
        f"{{'loss': '{r.loss:.4g}', 'grad_norm': '{r.grad:.4g}', 'learning_rate': '{r.lr:.4g}', 'epoch': '{r.step / r.n:.4g}'}}",
    ]


@fmt("wild_llamafactory_jsonl", every=10)
def _(r: Report) -> list[str]:
    return [
        json.dumps(
            {
                "current_steps": r.step, "total_steps": r.total, "loss": round(r.loss, 4), "lr": r.lr, "epoch": round(r.step / r.n, 3),
                "percentage": round(100 * r.step / r.total, 2), "elapsed_time": hours(r.elapsed), "remaining_time": hours(r.eta_s),
            }
        )
    ]  # fmt: skip


@fmt("wild_megatron_mtp", every=1, step_s=2.0)
def _(r: Report) -> list[str]:
    return [
        f" [{iso(r)}.118] iteration {r.step:8d}/{r.total:8d} | consumed samples: {r.step * 64:12d} | elapsed time per iteration (ms): {1000 * r.dt:.1f} | throughput per GPU (TFLOP/s/GPU): {210 / r.dt:.1f} | learning rate: {r.lr:.6E} | global batch size:    64 | lm loss: {r.loss:.6E} | load_balancing_loss: 1.002341E+00 | mtp_1 loss: {r.loss * 1.2:.6E} | loss scale: 1.0 | grad norm: {r.grad:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    ]


@fmt("wild_deepspeed_breakdown", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[{comma_ms(r)}] [INFO] [logging.py:107:log_dist] [Rank 0] time (ms) | fwd_microstep: {300 * r.dt:.2f} | bwd_microstep: {680 * r.dt:.2f} | bwd_inner_microstep: {600 * r.dt:.2f} | bwd_allreduce_microstep: {80 * r.dt:.2f} | step_microstep: {20 * r.dt:.2f}",
        f"[{comma_ms(r)}] [INFO] [logging.py:107:log_dist] [Rank 0] step={r.step}, skipped=0, lr=[{r.lr}], mom=[(0.9, 0.95)]",
        f"Epoch: {r.epoch}, Step: {r.i}, Rank: 0, loss = {r.loss}",
    ]


@fmt("wild_mmengine_scalars", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"lr": {r.lr:.8f}, "data_time": 0.00812, "loss": {r.loss:.5f}, "loss_cls": {r.loss * 0.6:.5f}, "loss_bbox": {r.loss * 0.4:.5f}, "time": {r.dt:.5f}, "epoch": {r.epoch + 1}, "iter": {r.step}, "memory": 12345, "step": {r.step}}}'
    ]


@fmt("wild_paddlex", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} [INFO]\t[TRAIN] Epoch={r.epoch + 1}/20, Step={r.i}/{r.n}, loss={r.loss:.6f}, lr={r.lr:.6f}, time_each_step={r.dt:.2f}s, eta={hours(r.eta_s)}"
    ]


@fmt("wild_mindcv", every=100)
def _(r: Report) -> list[str]:
    return [
        f"[{iso(r)}] mindcv.utils.callbacks INFO - Epoch: [{r.epoch + 1}/20], batch: [{r.i}/{r.n}], loss: {r.loss:.6f}, lr: {r.lr:.6f}, time: {r.dt * 100:.6f}s"
    ]


@fmt("wild_big_vision", every=50, losses=(1.0,))
def _(r: Report) -> list[str]:
    head = f"{glog(r)} 140213 utils.py:812] "
    return [
        f"{head}\x1b[35mNOTE\x1b[0m: Steps:{r.step}/{r.total} [{100 * r.step / r.total:.1f}%] Walltime:{hms(r.elapsed)} ETA:{hms(r.eta_s)} Total train time:{hms(r.elapsed + r.eta_s)}",
        f"{head}[{r.step}] training_loss = {r.loss:.6f}",
        f"{head}[{r.step}] img/sec/core = {r.ips / 8:.2f}",
        f"{head}[{r.step}] l2_params = 231.41",
    ]


@fmt("wild_ray_train", every=1, step_s=9.0)
def _(r: Report) -> list[str]:
    return [
        f"Training finished iteration {r.step} at {iso(r)}. Total running time: {int(r.elapsed // 60)}min {int(r.elapsed % 60)}s",
        "╭───────────────────────────────╮",
        "│ Training result               │",
        "├───────────────────────────────┤",
        "│ checkpoint_dir_name           │",
        f"│ time_this_iter_s      {r.dt:7.5f} │",
        f"│ time_total_s         {r.elapsed:8.3f} │",
        f"│ training_iteration    {r.step:7d} │",
        f"│ loss                  {r.loss:7.5f} │",
        "╰───────────────────────────────╯",
    ]


@fmt("wild_sagemaker_xgb", every=1, time=None, step_s=4.0)
def _(r: Report) -> list[str]:
    return [f"[{r.step - 1}]#011train-logloss:{r.loss:.5f}#011validation-logloss:{r.loss * 1.1:.5f}"]


@fmt("wild_sagemaker_mxnet", every=20, step_s=0.8)
def _(r: Report) -> list[str]:
    return [
        f"[{r.at:%m/%d/%Y %H:%M:%S} INFO 140213] Epoch[{r.epoch}] Batch [{r.i}]#011Speed: {r.ips:.2f} samples/sec#011loss={r.loss:.6f}"
    ]


@fmt("wild_cloud_message", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"severity":"INFO","message":"step {r.step} loss {r.loss:.4f} ({r.dt:.3f} s/step)","time":"{r.at:%Y-%m-%dT%H:%M:%S.%f}Z","logger":"train"}}'
    ]


@fmt("wild_docker_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"log":"step {r.step}/{r.total} loss {r.loss:.4f} {r.dt:.3f} s/step\\n","stream":"stderr","time":"{r.at:%Y-%m-%dT%H:%M:%S.%f}000Z"}}'
    ]


@fmt("wild_joey", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} - INFO - joeynmt.training - Epoch {r.epoch + 1:3d}, Step: {r.step:8d}, Batch Loss: {r.loss:12.6f}, Batch Acc: {r.acc:.6f}, Tokens per Sec: {r.ips * 30:8.0f}, Lr: {r.lr:.6f}"
    ]


@fmt("wild_chinese_sentence", every=10)
def _(r: Report) -> list[str]:
    return [
        f"第{r.epoch + 1}轮，第{r.i}/{r.n}批，损失：{r.loss:.4f}，每批用时{r.dt:.3f}秒，预计剩余{int(r.epoch_eta_s // 60)}分{int(r.epoch_eta_s % 60)}秒"
    ]


@fmt("wild_chinese_brackets", every=10)
def _(r: Report) -> list[str]:
    return [
        f"【训练】轮次：{r.epoch + 1}／20　迭代：{r.i}/{r.n}　平均损失：{r.loss:.4f}　学习率：{r.lr:.2e}　速度：{1 / r.dt:.2f}步/秒"
    ]


@fmt("wild_japanese_katakana", every=10)
def _(r: Report) -> list[str]:
    return [
        f"エポック: {r.epoch + 1} ステップ: {r.step} ロス: {r.loss:.4f} 学習率: {r.lr:.2e} 処理時間: {r.dt:.3f} 秒/ステップ"
    ]


@fmt("wild_korean", every=10)
def _(r: Report) -> list[str]:
    return [f"[{iso(r)}] 에폭 {r.epoch + 1}/20 스텝 {r.i}/{r.n} 손실: {r.loss:.4f} 스텝당 시간: {r.dt:.3f}초"]


@fmt("wild_spanish", every=10)
def _(r: Report) -> list[str]:
    return [f"Época {r.epoch + 1}/20 - Paso {r.i}/{r.n} - Pérdida: {r.loss:.4f} - {r.dt:.3f} s/paso"]


@fmt("wild_portuguese", every=10)
def _(r: Report) -> list[str]:
    return [f"Época {r.epoch + 1}, passo {r.step} de {r.total}, perda {r.loss:.4f}, {1 / r.dt:.3f} passos/s"]


@fmt("wild_middots", every=10)
def _(r: Report) -> list[str]:
    return [
        f"\x1b[32m✔\x1b[0m step \x1b[1m{r.step}\x1b[0m · loss \x1b[33m{r.loss:.4f}\x1b[0m · {1000 * r.dt:.0f} ms · {524 / r.dt:.0f}k tok/s"
    ]


@fmt("wild_eval_same_look", every=10, steps=own_step)
def _(r: Report) -> list[str]:
    lines = [f"[train] step {r.step}/{r.total} loss {r.loss:.4f} {r.dt:.3f}s/it"]
    if r.step % 100 == 0:
        lines += [f"[eval] step {k}/40 loss {r.loss * 1.3:.4f} {r.dt / 3:.3f}s/it" for k in range(5, 41, 5)]
    return lines


@fmt(
    "wild_resumed", every=10,
    header=(*(f"step {990_000 + k * 10} loss 0.9{k % 10}12 time 0.31s" for k in range(40)), "resuming from checkpoint", "starting training"),
)  # fmt: skip
def _(r: Report) -> list[str]:
    return [f"step {r.step} loss {r.loss:.4f} time {r.dt:.3f}s"]


@fmt("wild_federated", every=1, step_s=6.0, steps=own_step)
def _(r: Report) -> list[str]:
    return [
        f"Round {r.step}/{r.total}: aggregated loss {r.loss:.4f} from 8 clients in {r.dt:.2f} s (accuracy {r.acc:.3f})"
    ]


@fmt("wild_gan_brackets", every=1, time=None, losses=(1.0, 0.3))
def _(r: Report) -> list[str]:
    return [
        f"[Epoch {r.epoch}/20] [Batch {r.i - 1}/{r.n}] [D loss: {r.loss * 0.3:.6f}, acc: {100 * r.acc:.2f}%] [G loss: {r.loss:.6f}]"
    ]


@fmt("wild_xml", every=10)
def _(r: Report) -> list[str]:
    return [f'<progress step="{r.step}" total="{r.total}" loss="{r.loss:.5f}" seconds_per_step="{r.dt:.4f}"/>']


@fmt("wild_upper_pipes", every=10)
def _(r: Report) -> list[str]:
    return [f"STEP={r.step}|TOTAL={r.total}|LOSS={r.loss:.4f}|SEC_PER_STEP={r.dt:.3f}"]


@fmt("wild_dotted_block", every=10)
def _(r: Report) -> list[str]:
    return [
        f"===== Iteration {r.step} =====",
        f"Loss ............ {r.loss:.4f}",
        f"Step time ....... {r.dt:.3f} s",
        f"Grad norm ....... {r.grad:.3f}",
    ]


@fmt("wild_microseconds", every=10)
def _(r: Report) -> list[str]:
    return [f"step {r.step} loss {r.loss:.4f} step_time {1e6 * r.dt:.0f}us"]


@fmt("wild_epoch_took", every=500, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    spent = r.dt * r.n
    return [f"Epoch {r.epoch + 1} done: train_loss={r.loss:.4f}, took {int(spent // 60)}m {int(spent % 60)}s"]


@fmt("wild_rich_bar", every=1, redraw=True)
def _(r: Report) -> list[str]:
    full = 30 * r.step // r.total
    return [
        f"Training {'━' * full}╸{'━' * (29 - full)} {r.step}/{r.total} {100 * r.step // r.total:3d}% {hours(r.elapsed)} < {hours(r.eta_s)} {1 / r.dt:.2f} it/s loss={r.loss:.4f}"
    ]


@fmt("wild_alive_bar", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"training |{'█' * (30 * r.step // r.total):<30}| ▃▅▇ {r.step}/{r.total} [{100 * r.step // r.total}%] in {hms(r.elapsed)} ({1 / r.dt:.2f}/s, eta: {hms(r.eta_s)}) loss {r.loss:.4f}"
    ]


@fmt("wild_steps_a_minute", every=10)
def _(r: Report) -> list[str]:
    return [f"Step {r.step} | Loss {r.loss:.4f} | {60 / r.dt:.1f} steps/min"]


@fmt("wild_iso_duration", every=10)
def _(r: Report) -> list[str]:
    return [f'{{"event":"train_step","step":{r.step},"loss":{r.loss:.4f},"step_duration":"PT{r.dt:.3f}S"}}']


@fmt("wild_trials_around", every=10, per_epoch=1000, steps=lambda r: {r.i})
def _(r: Report) -> list[str]:
    lines = [f"  step {r.i}/{r.n} loss {r.loss:.4f} {r.dt:.3f} s/step"]
    if r.i == 10:
        lines.insert(0, f"trial {r.epoch + 3}/50 lr=0.0003 dropout=0.1 best loss 1.1042")
    return lines


@fmt("wild_torchtitan_si", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[titan] {comma_ms(r)} - root - INFO - \x1b[31mstep: {r.step:2d}  \x1b[32mloss: {r.loss:7.4f}  \x1b[38;2;180;60;0mgrad_norm: {r.grad:7.4f}  \x1b[33mmemory: 61.21GiB(77.32%)  \x1b[34mtps: {8192 / r.dt:,.0f}  \x1b[36mtflops: 123.45  \x1b[35mmfu: 41.24%\x1b[39m"
    ]


WILD = written_in(__name__)
