"""Formats of older and rarer frameworks."""

# ruff: noqa: E501  a rendered line is best read whole

from __future__ import annotations

from tests.support_tracker.formats import comma_ms, fmt, glog, iso, own_epoch, written_in
from tests.support_tracker.runs import Report, hours, tqdm


@fmt("rare_pprint_dict", every=50, time=None)
def _(r: Report) -> list[str]:
    return [
        f"{{'step': {r.step},",
        f" 'train/accuracy': {r.acc:.4f},",
        f" 'train/learning_rate': {r.lr:.8f},",
        f" 'train/loss': {r.loss:.5f}}}",
    ]


@fmt("rare_pax", every=100)
def _(r: Report) -> list[str]:
    return [f"{glog(r)} 139964 executors.py:123] [PAX STATUS]: step_i: {r.step}, training loss: {r.loss:.5f}"]


@fmt("rare_sklearn", every=1, time=None, per_epoch=100000)
def _(r: Report) -> list[str]:
    return [f"Iteration {r.step}, loss = {r.loss:.8f}"]


@fmt("rare_torch7", every=10)
def _(r: Report) -> list[str]:
    return [
        f"Epoch: [{r.epoch + 1}][{r.i}/{r.n}]    Time {r.dt:.3f}  Data 0.004  Err {r.loss:1.4f}  top1-%: {100 * r.acc:.2f}"
    ]


@fmt("rare_cntk", every=100, time=None)
def _(r: Report) -> list[str]:
    return [
        f" Minibatch[{r.i - 99:4d}-{r.i:4d}]: loss = {r.loss:.6f} * 6400, metric = {100 - 100 * r.acc:.2f}% * 6400, {r.dt * 100:.3f}s ({r.ips:.1f} samples/s);"
    ]


@fmt("rare_ignite_log", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"Epoch[{r.epoch + 1}] Iteration[{r.i}/{r.n}] Loss: {r.loss:.4f}"]


@fmt("rare_mlperf", every=50)
def _(r: Report) -> list[str]:
    ms = int(r.at.timestamp() * 1000)
    return [
        f':::MLLOG {{"namespace": "", "time_ms": {ms}, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": {r.loss:.5f}, "metadata": {{"file": "train.py", "lineno": 120, "step_num": {r.step}}}}}'
    ]


@fmt("rare_model_garden", every=100)
def _(r: Report) -> list[str]:
    return [
        f"train | step: {r.step:6d} | steps/sec: {1 / r.dt:6.1f} | output: ",
        f"    {{'learning_rate': {r.lr:.6f},",
        f"     'training_loss': {r.loss:.5f}}}",
    ]


@fmt("rare_dllogger", every=20)
def _(r: Report) -> list[str]:
    return [
        f"DLL {iso(r)}.123456 - Epoch: {r.epoch} Iteration: {r.i}  train.loss : {r.loss:.5f}  train.compute_ips : {r.ips:.2f} img/s train.total_ips : {r.ips:.2f} img/s train.lr : {r.lr:.5f} train.compute_time : {r.dt:.5f}"
    ]


@fmt("rare_nvidia_bert", every=1, redraw=False)
def _(r: Report) -> list[str]:
    return [
        f"DLL {iso(r)}.12 - Training Epoch: {r.epoch} Training Iteration: {r.step}  average_loss : {r.loss:.4f}  step_loss : {r.loss:.4f}  learning_rate : {r.lr:.3e}"
    ]


@fmt("rare_tacotron", every=1)
def _(r: Report) -> list[str]:
    return [f"Train loss {r.step} {r.loss:.6f} Grad Norm {r.grad:.6f} {r.dt:.2f}s/it"]


@fmt("rare_waveglow", every=1, time=None, step_known=False, losses=())
def _(r: Report) -> list[str]:
    return [f"{r.step}:\t{r.loss:.9f}"]


@fmt("rare_ssd", every=10)
def _(r: Report) -> list[str]:
    return [f"timer: {r.dt:.4f} sec.", f"iter {r.step} || Loss: {r.loss:.4f} ||"]


@fmt("rare_cyclegan", every=100, losses=())
def _(r: Report) -> list[str]:
    return [
        f"(epoch: {r.epoch + 1}, iters: {r.i}, time: {r.dt:.3f}, data: 0.012) D_A: {r.loss / 10:.3f} G_A: {r.loss / 5:.3f} cycle_A: {r.loss:.3f} idt_A: 0.412"
    ]


@fmt("rare_splatting", every=10, redraw=True)
def _(r: Report) -> list[str]:
    return [tqdm(r.step, r.total, r.elapsed, r.dt, label="Training progress", postfix=f"Loss={r.loss:.7f}")]


@fmt(
    "rare_nerfstudio",
    every=10,
    losses=(),
    header=("Step (% Done)       Train Iter (time)    ETA (time)           Train Rays / Sec", "-" * 80),
    per_epoch=30000,
    epochs=1,
    step_s=0.05,
)
def _(r: Report) -> list[str]:
    return [
        f"{r.step} ({100 * r.step / r.total:.2f}%)         {r.dt * 1000:.3f} ms            {int(r.eta_s // 60)} m, {int(r.eta_s % 60)} s           {4096 / r.dt / 1e3:.2f} K"
    ]


@fmt(
    "rare_rl_games",
    every=1,
    losses=(),
    time=None,
    step_known=False,
    step_s=2.0,
    per_epoch=1000,
    epochs=1,
    steps=lambda r: {r.step, r.step - 1, r.step * 65536},
)
def _(r: Report) -> list[str]:
    return [
        f"fps step: {90000 / r.dt:.0f} fps step and policy inference: {80000 / r.dt:.0f} fps total: {65536 / r.dt:.0f} epoch: {r.step}/{r.total} frames: {r.step * 65536}"
    ]


@fmt("rare_spinningup", every=1, step_s=9.0, steps=lambda r: {r.step, r.step * 4000}, losses=(1.0, 0.1))
def _(r: Report) -> list[str]:
    return [
        "---------------------------------------",
        f"|             Epoch |{r.step:>16d} |",
        f"|      AverageEpRet |{100 * r.acc:>16.3g} |",
        f"| TotalEnvInteracts |{r.step * 4000:>16.3g} |",
        f"|            LossPi |{r.loss / 10:>16.3g} |",
        f"|             LossV |{r.loss:>16.3g} |",
        f"|              Time |{r.elapsed:>16.5g} |",
        "---------------------------------------",
    ]


@fmt("rare_acme", every=100, losses=(1.0, 0.1))
def _(r: Report) -> list[str]:
    return [
        f"[Learner] Critic Loss = {r.loss:.3f} | Learner Steps = {r.step} | Learner Walltime = {r.elapsed:.3f} | Policy Loss = {r.loss / 10:.3f}"
    ]


@fmt("rare_graphgym", every=100, per_epoch=100, steps=own_epoch)
def _(r: Report) -> list[str]:
    return [
        f"train: {{'epoch': {r.epoch}, 'time_epoch': {r.dt * 100:.5f}, 'eta': {r.eta_s:.5f}, 'eta_hours': {r.eta_s / 3600:.5f}, 'loss': {r.loss:.8f}, 'lr': {r.lr:.5f}, 'params': 123456, 'time_iter': {r.dt:.5f}, 'accuracy': {r.acc:.4f}}}",
        f"val: {{'epoch': {r.epoch}, 'time_epoch': 1.20001, 'loss': {r.loss * 1.1:.8f}, 'lr': 0, 'params': 123456, 'time_iter': 0.01200, 'accuracy': {r.acc:.4f}}}",
    ]


@fmt("rare_ogb", every=1, per_epoch=1, epochs=2000, steps=own_epoch, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Run: 01, Epoch: {r.epoch + 1:02d}, Loss: {r.loss:.4f}, Train: {100 * r.acc:.2f}%, Valid: {100 * r.acc - 3:.2f}% Test: {100 * r.acc - 4:.2f}%"
    ]


@fmt("rare_horovod_keras", every=5, per_epoch=100)
def _(r: Report) -> list[str]:
    return [
        f"[1,{k}]<stdout>:Epoch {r.epoch} step {r.i}/{r.n} loss {r.loss:.4f} {1000 * r.dt:.0f}ms/step" for k in range(2)
    ]


@fmt("rare_transformers_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{{'loss': '{r.loss:.4f}', 'grad_norm': '{r.grad:.3f}', 'learning_rate': '{r.lr:.3e}', 'epoch': '{r.step / r.n:.3f}', 'step': '{r.step}', 'elapsed_s': '{r.elapsed:.1f}'}}"
    ]


@fmt("rare_french", every=10)
def _(r: Report) -> list[str]:
    return [f"[{iso(r)}] époque {r.epoch + 1}, itération {r.i}/{r.n}, loss = {r.loss:.4f}, {r.dt:.3f} s/iter"]


@fmt("rare_tree_lines", every=10)
def _(r: Report) -> list[str]:
    return [f"├── step {r.step:>6} │ loss {r.loss:7.4f} │ lr {r.lr:.2e} │ {r.dt * 1e3:6.1f} ms/step"]


@fmt("rare_emoji", every=10)
def _(r: Report) -> list[str]:
    return [
        f"🚀 Epoch {r.epoch + 1}/{r.plan.epochs} | 🔥 Step {r.i}/{r.n} | 📉 Loss: {r.loss:.4f} | ⏱ {r.dt:.2f}s/step"
    ]


@fmt("rare_loguru", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)}.123 | INFO     | trainer.loop:fit:214 - iter={r.step} loss={r.loss:.4f} lr={r.lr:.2e} it/s={1 / r.dt:.3f}"
    ]


@fmt("rare_absl_metrics", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{glog(r)} 281472 trainer.py:88] step={r.step} | train_loss={r.loss:.4f} | steps_per_sec={1 / r.dt:.3f} | mfu=0.41"
    ]


@fmt("rare_go_style", every=10)
def _(r: Report) -> list[str]:
    return [f"{r.at:%Y/%m/%d %H:%M:%S} train.go:77: iteration={r.step} loss={r.loss:.5f} elapsed={r.dt:.4f}s"]


@fmt("rare_two_line_home", every=100)
def _(r: Report) -> list[str]:
    return [
        f"--- epoch {r.epoch + 1}, iteration {r.step} of {r.total} ---",
        f"average loss: {r.loss:.5f}, average time per iteration: {r.dt:.4f} sec, learning rate: {r.lr:.6f}",
    ]


@fmt("rare_moe_llm", every=1)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} step={r.step}/{r.total} lm_loss={r.loss:.4f} aux_loss=0.0123 z_loss=0.0004 loss={r.loss + 0.0127:.4f} tok/s={8192 / r.dt:.0f} step_ms={1000 * r.dt:.1f} gnorm={r.grad:.2f}"
    ]


@fmt("rare_hours_left", every=10)
def _(r: Report) -> list[str]:
    return [f"[{r.step}/{r.total}] loss {r.loss:.4f} | {r.dt:.2f} sec/it | {r.eta_s / 3600:.1f} hours left"]


@fmt("rare_progress_percent", every=10)
def _(r: Report) -> list[str]:
    return [
        f"Training {100 * r.step / r.total:6.2f}% (step {r.step}), loss {r.loss:.4f}, elapsed {hours(r.elapsed)}, remaining {hours(r.eta_s)}"
    ]


RARE = written_in(__name__)
