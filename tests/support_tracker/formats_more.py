"""More formats: scripts that people write for themselves, and frameworks that are seldom seen."""

# ruff: noqa: E501, ISC004  a rendered line is best read whole

from __future__ import annotations

from tests.support_tracker.formats import Render, comma_ms, fmt, iso, own_epoch, written_in
from tests.support_tracker.runs import Report, bar, hms, hours, tqdm


@fmt("more_colon_pairs", every=10)
def _(r: Report) -> list[str]:
    return [f"Epoch:{r.epoch + 1} Iter:{r.i}/{r.n} Loss:{r.loss:.4f} LR:{r.lr:.2e} Time:{r.dt:.3f}"]


@fmt("more_pipes", every=20)
def _(r: Report) -> list[str]:
    return [
        f"Ep {r.epoch + 1:02d}/{r.plan.epochs} | It {r.i:04d}/{r.n} | loss {r.loss:.3f} | acc {r.acc:.3f} | {r.dt * 1e3:.1f} ms/it"
    ]


@fmt("more_arrow", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"[Train] epoch={r.epoch} batch={r.i} -> loss: {r.loss:.5f}, grad: {r.grad:.3f}"]


@fmt("more_batch_of", every=10)
def _(r: Report) -> list[str]:
    return [f"{comma_ms(r)} - trainer - INFO - Epoch {r.epoch + 1}: batch {r.i} of {r.n}, mean loss {r.loss:.4f}"]


@fmt("more_update", every=5)
def _(r: Report) -> list[str]:
    return [f"update {r.step} | train loss {r.loss:.4f} | {r.ips * 128:.0f} tokens/s | {r.dt:.3f}s/update"]


@fmt("more_global_step_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"global_step": {r.step}, "train/loss": {r.loss:.6f}, "train/lr": {r.lr:.8f}, "perf/step_time_ms": {1000 * r.dt:.2f}, '
        f'"perf/tokens_per_sec": {r.ips * 100:.1f}}}'
    ]


@fmt("more_nested_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"ts": "{r.at:%Y-%m-%dT%H:%M:%S.%f}", "level": "info", "data": {{"iteration": {r.step}, "metrics": {{"loss": {r.loss:.6f}, "acc": {r.acc:.4f}}}}}}}'
    ]


@fmt("more_pretty_json", every=50)
def _(r: Report) -> list[str]:
    return [
        "{",
        f'    "epoch": {r.epoch},',
        f'    "step": {r.step},',
        f'    "loss": {r.loss:.6f},',
        f'    "step_time_sec": {r.dt:.4f}',
        "}",
    ]


@fmt("more_yaml_block", every=50)
def _(r: Report) -> list[str]:
    return [f"step: {r.step}", f"  loss: {r.loss:.5f}", f"  lr: {r.lr:.6f}", f"  sec_per_step: {r.dt:.4f}", ""]


@fmt("more_tuple", every=10)
def _(r: Report) -> list[str]:
    return [f"({r.epoch}, {r.i}/{r.n}) loss={r.loss:.4f} t={r.dt:.3f}s"]


@fmt("more_percent_of_epoch", every=10)
def _(r: Report) -> list[str]:
    return [
        f"Epoch [{r.epoch + 1}/{r.plan.epochs}] {100 * r.i / r.n:5.1f}% step {r.i:4d}/{r.n} loss {r.loss:.4f} eta {hours(r.epoch_eta_s)} ({r.dt:.3f} s/step)"
    ]


@fmt("more_ignite", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"Epoch [{r.epoch + 1}/{r.plan.epochs}]: [{r.i}/{r.n}] {100 * r.i // r.n:3d}%|{bar(r.i, r.n)}, loss={r.loss:.3f} [{hms(r.in_epoch_s)}<{hms(r.epoch_eta_s)}]"
    ]


@fmt("more_catalyst", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(
            r.i,
            r.n,
            r.in_epoch_s,
            r.dt,
            label=f"{r.epoch + 1}/{r.plan.epochs} * Epoch (train)",
            postfix=f"loss={r.loss:.3f}, lr={r.lr:.3e}, momentum=0.900",
        )
    ]


@fmt("more_fastai_bar", every=1, redraw=True, step_known=False, time=None, losses=())
def _(r: Report) -> list[str]:
    return [
        f" |{'█' * (40 * r.i // r.n):-<40}| {100 * r.i / r.n:.2f}% [{r.i}/{r.n} {hms(r.in_epoch_s)}<{hms(r.epoch_eta_s)} {r.loss:.4f}]"
    ]


@fmt("more_nnunet", every=250, per_epoch=250, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    stamp = f"{r.at:%Y-%m-%d %H:%M:%S.%f}: "
    return [
        stamp,
        stamp + f"Epoch {r.epoch}",
        stamp + f"Current learning rate: {r.lr:.5f}",
        stamp + f"train_loss {r.loss:.4f}",
        stamp + f"val_loss {r.loss * 1.1:.4f}",
        stamp + f"Pseudo dice [{r.acc:.4f}, {r.acc:.4f}]",
        stamp + f"Epoch time: {r.dt * 250:.2f} s",
    ]


@fmt("more_monai", every=1, time=None)
def _(r: Report) -> list[str]:
    return [f"{r.i}/{r.n}, train_loss: {r.loss:.4f}"]


@fmt("more_segmentation_bar", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(r.i, r.n, r.in_epoch_s, r.dt, label="train", postfix="").replace("train:", "train:").rstrip("]")
        + f", dice_loss - {r.loss:.4f}, iou_score - {r.acc:.3f}]"
    ]


@fmt("more_tf1_home", every=100)
def _(r: Report) -> list[str]:
    return [f"step = {r.step}, loss = {r.loss:.5f} ({r.ips:.1f} examples/sec; {r.dt:.3f} sec/batch)"]


@fmt("more_deepvoice", every=1)
def _(r: Report) -> list[str]:
    return [f"Step {r.step:7d} [{r.dt:.3f} sec/step, loss={r.loss:.5f}, avg_loss={r.loss:.5f}]"]


@fmt("more_coqui", every=25)
def _(r: Report) -> list[str]:
    return [
        f"\x1b[1m   --> TIME: {iso(r)} -- STEP: {r.i}/{r.n} -- GLOBAL_STEP: {r.step}\x1b[0m",
        f"     | > loss: {r.loss:.5f}  ({r.loss * 1.01:.5f})",
        f"     | > grad_norm: {r.grad:.5f}  ({r.grad:.5f})",
        f"     | > current_lr: {r.lr:.8f} ",
        f"     | > step_time: {r.dt:.4f}  ({r.dt:.5f})",
        "     | > loader_time: 0.0102  (0.01121)",
    ]


@fmt("more_vits", every=200, per_epoch=200, steps=own_epoch, time="epoch", losses=())
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)}\tmodel\tINFO\tTrain Epoch: {r.epoch + 1} [{100 * r.i / r.n:.0f}%]",
        f"{comma_ms(r)}\tmodel\tINFO\t[{r.loss}, {r.loss / 2}, {r.loss / 3}, {r.step}, {r.lr}]",
    ]


@fmt("more_rnnlm", every=100)
def _(r: Report) -> list[str]:
    return [f"{r.step} mini-batches, elapsed {hours(r.elapsed)}, train cost {r.loss:.4f}, lr {r.lr:.5f}"]


@fmt("more_took", every=1)
def _(r: Report) -> list[str]:
    return [f"iter {r.step} took {r.dt:.4f}s, loss {r.loss:.4f}"]


@fmt("more_step_in", every=1)
def _(r: Report) -> list[str]:
    return [f"Finished step {r.step}/{r.total} in {r.dt * 1e3:.1f}ms: loss={r.loss:.4f}"]


@fmt("more_minutes", every=1, step_s=180.0, per_epoch=100000, epochs=1)
def _(r: Report) -> list[str]:
    return [f"{iso(r)} INFO global batch {r.step}: loss {r.loss:.4f}, {r.dt / 60:.2f} min/batch"]


@fmt("more_iters_per_min", every=20)
def _(r: Report) -> list[str]:
    return [f"train | iter {r.step} | loss {r.loss:.4f} | {60 / r.dt:.1f} iters/min"]


@fmt("more_ips_named", every=20)
def _(r: Report) -> list[str]:
    return [f"[{r.step:06d}] loss={r.loss:.4f} steps_per_sec={1 / r.dt:.3f} samples_per_sec={r.ips:.1f}"]


@fmt("more_megatron_like", every=1)
def _(r: Report) -> list[str]:
    return [
        f" iteration {r.step:8d}/{r.total:8d} | consumed samples: {r.step * 64:12d} | consumed tokens: {r.step * 131072:16d} | "
        f"elapsed time per iteration (s): {r.dt:.2f} | learning rate: {r.lr:.3E} | lm loss: {r.loss:.6E} | samples per second: {r.ips:.3f} | TFLOPs: 123.45 |"
    ]


@fmt("more_colossal_titan", every=1)
def _(r: Report) -> list[str]:
    return [
        f"[{iso(r)}] colossalai - INFO: [Epoch {r.epoch}/{r.plan.epochs}][step {r.i}/{r.n}] Loss:{r.loss:.4f}, LR:{r.lr:.3g}, Step time:{r.dt:.3f}s, TGS: {r.ips:.2f}"
    ]


@fmt("more_hydra_prefix", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[{comma_ms(r)}][__main__][INFO] - [train] epoch: {r.epoch} step: {r.step} loss: {r.loss:.4f} time: {r.dt:.3f} s/step"
    ]


@fmt("more_k8s_prefix", every=10)
def _(r: Report) -> list[str]:
    return [f"{r.at:%Y-%m-%dT%H:%M:%S.%f}000Z step {r.step} loss {r.loss:.4f}"]


@fmt("more_ray_prefix", every=10)
def _(r: Report) -> list[str]:
    return [
        f"\x1b[36m(RayTrainWorker pid=123{k}, ip=10.0.0.{k})\x1b[0m epoch={r.epoch} step={r.step} loss={r.loss:.4f} step_time={r.dt:.3f}"
        for k in range(2)
    ]


@fmt("more_srun_labels", every=10)
def _(r: Report) -> list[str]:
    return [f"{k}: step {r.step} | loss {r.loss:.4f} | {r.dt * 1e3:.0f} ms" for k in range(4)]


@fmt("more_torchrun_default", every=10)
def _(r: Report) -> list[str]:
    return [f"[default{k}]:{iso(r)} step={r.step} loss={r.loss:.4f}" for k in range(8)]


@fmt("more_mpi_stdout", every=10)
def _(r: Report) -> list[str]:
    return [f"[1,{k}]<stdout>:Epoch {r.epoch} Step #{r.i}\tLoss: {r.loss:.6f}\tSec/step: {r.dt:.4f}" for k in range(2)]


@fmt("more_epoch_summary", every=300, per_epoch=300, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} epoch {r.epoch + 1:3d} done, train loss {r.loss:.4f} valid loss {r.loss * 1.1:.4f} acc {r.acc:.3f}"
    ]


@fmt("more_epoch_dashes", every=300, per_epoch=300, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    return [
        f"Epoch: {r.epoch + 1:02} | Time: {int(r.dt * 300) // 60}m {int(r.dt * 300) % 60}s",
        f"\tTrain Loss: {r.loss:.3f} | Train PPL: {2.7**r.loss:7.3f}",
        f"\t Val. Loss: {r.loss * 1.1:.3f} |  Val. PPL: {2.8**r.loss:7.3f}",
    ]


@fmt("more_boxed", every=50)
def _(r: Report) -> list[str]:
    return [
        "+---------------+-----------+",
        f"| step          | {r.step:9d} |",
        f"| train/loss    | {r.loss:9.4f} |",
        f"| time/step (s) | {r.dt:9.4f} |",
        "+---------------+-----------+",
    ]


@fmt("more_rl_table", every=1, step_s=5.0, losses=(1.0,))
def _(r: Report) -> list[str]:
    return [
        "--------------------------------------",
        f"| EpRewMean         | {r.acc * 100:<16.3g} |",
        f"| Iteration         | {r.step:<16d} |",
        f"| PolicyLoss        | {r.loss:<16.3g} |",
        f"| TimeElapsed       | {r.elapsed:<16.6g} |",
        f"| TimestepsSoFar    | {r.step * 2048:<16d} |",
        "--------------------------------------",
    ]


@fmt("more_whitespace_table", every=100, header=("    step      epoch       loss         lr   ms/step",))
def _(r: Report) -> list[str]:
    return [f"{r.step:8d} {r.epoch:10d} {r.loss:10.4f} {r.lr:10.2e} {1000 * r.dt:9.1f}"]


@fmt("more_chinese_bracket", every=10)
def _(r: Report) -> list[str]:
    return [
        f"【训练】第{r.epoch + 1}轮 第{r.i}步/共{r.n}步 损失：{r.loss:.4f} 学习率：{r.lr:.6f} 速度：{1 / r.dt:.2f} 步/秒"
    ]


@fmt("more_lora_sd", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(r.step, r.total, r.elapsed, r.dt, label="Steps", postfix=f"loss={r.loss:.4f}, lr={r.lr:.2e}")
        .replace("it/s", "steps/s")
        .replace("s/it", "s/steps")
    ]


@fmt("more_two_bars", every=1, redraw=True)
def _(r: Report) -> list[str]:
    outer = f"Epochs:  {100 * r.epoch // r.plan.epochs:2d}%|{bar(r.epoch, r.plan.epochs)}| {r.epoch}/{r.plan.epochs} [{hms(r.elapsed)}<{hms(r.eta_s)}, {r.dt * r.n:.2f}s/it]"
    return [
        outer + "\n\r" + tqdm(r.i, r.n, r.in_epoch_s, r.dt, label="Iterations", postfix=f"loss={r.loss:.3f}") + "\x1b[A"
    ]


@fmt("more_lines_with_eval", every=10)
def _(r: Report) -> list[str]:
    rows = [f"step {r.step}: loss {r.loss:.4f} ({r.dt:.3f} s)"]
    if r.step % 100 == 0:
        rows += [f"eval batch {k}/20: loss {r.loss * 1.2:.4f} (0.100 s)" for k in range(1, 21)]
        rows.append(f"eval done: mean loss {r.loss * 1.2:.4f}")
    return rows


@fmt("more_hf_with_eval_bars", every=1, redraw=True, losses=(1.0, 0.98, 1.02), per_epoch=3000, epochs=1)
def _(r: Report) -> list[str]:
    rows = [tqdm(r.step, r.total, r.elapsed, r.dt)]
    if r.step % 10 == 0:
        rows.append(
            f"{{'loss': {r.loss:.4f}, 'grad_norm': {r.grad:.4f}, 'learning_rate': {r.lr:.6f}, 'epoch': {r.step / r.n:.2f}}}\n"
        )
        rows.append(tqdm(r.step, r.total, r.elapsed, r.dt))
    if r.step % 50 == 0:
        rows += [tqdm(k, 40, k * 0.1, 0.1) for k in range(1, 41)]
        rows.append(
            f"\n{{'eval_loss': {r.loss * 1.1:.4f}, 'eval_runtime': 4.01, 'eval_samples_per_second': 99.8, 'eval_steps_per_second': 9.98, 'epoch': {r.step / r.n:.2f}}}\n"
        )
    return rows


@fmt("more_lightning_with_val", every=1, redraw=True, per_epoch=120)
def _(r: Report) -> list[str]:
    rows = [tqdm(r.i, r.n, r.in_epoch_s, r.dt, label=f"Epoch {r.epoch}", postfix=f"v_num=3, train_loss={r.loss:.3f}")]
    if r.ends_epoch:
        rows += ["\n" + tqdm(k, 30, k * 0.05, 0.05, label="Validation DataLoader 0") for k in range(1, 31)]
    return rows


MORE = written_in(__name__)
__all__ = ["MORE", "Render"]
