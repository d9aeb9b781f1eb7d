"""A sixth set of formats, written blind after the fifth was mended: reports of services, layouts of reports, odd units."""

# ruff: noqa: E501  a rendered line is best read whole, in its own script

from __future__ import annotations

from datetime import timedelta

from tests.support_tracker.formats import comma_ms, fmt, glog, iso, own_epoch, own_step, written_in
from tests.support_tracker.runs import Report, hms, hours, tqdm


@fmt("late_verl_console", every=1, step_s=30.0, losses=(1.0,))
def _(r: Report) -> list[str]:
    return [
        f"(TaskRunner pid=41231) step:{r.step} - actor/pg_loss:{r.loss:.3f} - actor/grad_norm:{r.grad:.3f} - actor/lr:{r.lr:.3e} - critic/score/mean:{r.acc:.3f} - response_length/mean:312.4 - timing_s/gen:{r.dt * 0.5:.3f} - timing_s/update_actor:{r.dt * 0.3:.3f} - timing_s/step:{r.dt:.3f} - perf/throughput:{3000 / r.dt:.3f}"
    ]


@fmt("late_trl_grpo", every=1, step_s=4.0, losses=(0.01,))
def _(r: Report) -> list[str]:
    return [
        f"{{'loss': {r.loss / 100:.4f}, 'grad_norm': {r.grad:.4f}, 'learning_rate': {r.lr:.4g}, 'num_tokens': {r.step * 81231.0}, 'completions/mean_length': 213.4, 'rewards/accuracy/mean': {r.acc:.4f}, 'reward': {r.acc:.4f}, 'kl': 0.0012, 'epoch': {r.step / r.n:.2f}}}",
        tqdm(r.step, r.total, r.elapsed, r.dt),
    ]


@fmt(
    "late_unsloth_table",
    every=1,
    time=None,
    header=("Step | Training Loss | reward | reward_std | completion_length | kl",),
)
def _(r: Report) -> list[str]:
    return [f"{r.step} | {r.loss:.6f} | {r.acc:.6f} | 0.412300 | 213.412300 | 0.001234"]


@fmt("late_html_table_text", every=50, time=None, header=("Step\tTraining Loss\tValidation Loss",))
def _(r: Report) -> list[str]:
    return [f"{r.step}\t{r.loss:.6f}\t{r.loss * 1.1:.6f}"]


@fmt("late_axolotl_dict", every=1, step_s=2.0)
def _(r: Report) -> list[str]:
    return [
        f"{{'loss': {r.loss:.4f}, 'grad_norm': {r.grad:.6f}, 'learning_rate': {r.lr:.6g}, 'memory/max_mem_active(gib)': 41.2, 'epoch': {r.step / r.n:.2f}}}",
        f"{100 * r.step // r.total:3d}%|{'#' * (10 * r.step // r.total):<10}| {r.step}/{r.total} [{hms(r.elapsed)}<{hms(r.eta_s)},  {r.dt:.2f}s/it]",
    ]


@fmt("late_maxdiffusion", every=1)
def _(r: Report) -> list[str]:
    return [f"completed step: {r.step}, seconds: {r.dt:.3f}, TFLOP/s/device: {180 / r.dt:.3f}, loss: {r.loss:.3f}"]


@fmt("late_paxml_fiddle", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{glog(r)} 140213 programs.py:512] [PAX STATUS]:  train_step() took {r.dt:f} seconds. step_i: {r.step}, training loss: {r.loss:.6f}"
    ]


@fmt("late_axlearn", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{glog(r)} 133 trainer.py:612] trainer process   0 step {r.step:8d}] loss={r.loss:.6f} aux={{'perplexity': Array(12.3, dtype=float32)}}",
        f"{glog(r)} 133 trainer.py:412] Average step time: {r.dt:f} seconds",
    ]


@fmt("late_equinox_loop", every=100, time="step")
def _(r: Report) -> list[str]:
    return [f"step={r.step - 1}, train_loss={r.loss}, computation time={r.dt}"]


@fmt("late_haiku_logger", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%H:%M:%S.%f} [Learner] Learner Loss = {r.loss:.3f} | Learner Steps = {r.step} | Steps Per Second = {1 / r.dt:.3f}"
    ]


@fmt("late_garage_box", every=1, step_s=20.0, losses=(1.0,), steps=own_step)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} | [ppo] epoch #{r.step} | Saving snapshot...",
        f"{iso(r)} | [ppo] epoch #{r.step} | Time {r.elapsed:.2f} s",
        f"{iso(r)} | [ppo] epoch #{r.step} | EpochTime {r.dt:.2f} s",
        "---------------------------  ---------------",
        f"Evaluation/Iteration          {r.step}",
        f"Policy/LossBefore              {r.loss * 1.01:.6f}",
        f"Policy/Loss                    {r.loss:.6f}",
        f"TotalEnvSteps             {r.step * 4000}",
        "---------------------------  ---------------",
    ]


@fmt("late_pytorch_lightning_simple", every=500, steps=own_epoch, time=None)
def _(r: Report) -> list[str]:
    return [f"Epoch {r.epoch:03d} | train_loss: {r.loss:.4f} | val_loss: {r.loss * 1.1:.4f} | lr: {r.lr:.2e} *"]


@fmt("late_ludwig", every=500, time=None, steps=own_step)
def _(r: Report) -> list[str]:
    return [
        "╒═══════════════════════╤════════════╤══════════════╕",
        "│                       │      train │   validation │",
        "╞═══════════════════════╪════════════╪══════════════╡",
        f"│ loss                  │     {r.loss:.4f} │       {r.loss * 1.1:.4f} │",
        "╘═══════════════════════╧════════════╧══════════════╛",
        f"Finished step {r.step} of {r.total}",
    ]


@fmt(
    "late_fastai_table",
    every=500,
    steps=own_epoch,
    time="epoch",
    header=("epoch     train_loss  valid_loss  accuracy  time    ",),
)
def _(r: Report) -> list[str]:
    return [f"{r.epoch:<10}{r.loss:<12.6f}{r.loss * 1.1:<12.6f}{r.acc:<10.6f}{hms(r.dt * r.n):<8}"]


@fmt("late_yolo_darknet_cn", every=1)
def _(r: Report) -> list[str]:
    return [
        f"第 {r.step} 次迭代，当前损失 = {r.loss:.6f}，平均损失 = {r.loss * 1.02:.6f}，学习率 = {r.lr:.6f}，耗时 = {r.dt:.3f} 秒，已处理 {r.step * 64} 张图片"
    ]


@fmt("late_cn_progress_percent", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[{iso(r)}] 训练进度 {100 * r.step / r.total:.1f}%（{r.step}/{r.total}），loss={r.loss:.4f}，每步 {1000 * r.dt:.0f} 毫秒"
    ]


@fmt("late_jp_brackets", every=10)
def _(r: Report) -> list[str]:
    return [f"[{iso(r)}] 学習 {r.step}/{r.total} イテレーション完了（損失 {r.loss:.4f}、{r.dt:.2f} 秒/イテレーション）"]


@fmt("late_k8s_klog", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{glog(r)}       1 loop.go:114] "Training progress" step={r.step} totalSteps={r.total} loss="{r.loss:.4f}" stepDuration="{1000 * r.dt:.3f}ms"'
    ]


@fmt("late_structlog", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%Y-%m-%dT%H:%M:%S.%fZ} [\x1b[32m\x1b[1minfo     \x1b[0m] \x1b[1mtrain_step                    \x1b[0m \x1b[36mloss\x1b[0m=\x1b[35m{r.loss:.4f}\x1b[0m \x1b[36mstep\x1b[0m=\x1b[35m{r.step}\x1b[0m \x1b[36mtook_s\x1b[0m=\x1b[35m{r.dt:.3f}\x1b[0m"
    ]


@fmt("late_wandb_like", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{{'_step': {r.step}, '_timestamp': {r.at.timestamp():.3f}, '_runtime': {r.elapsed:.3f}, 'train/loss': {r.loss:.5f}, 'trainer/global_step': {r.step}}}"
    ]


@fmt("late_mlflow_lines", every=10)
def _(r: Report) -> list[str]:
    ms = int(r.at.timestamp() * 1000)
    return [f"metric train_loss {ms} {r.loss:.5f} step={r.step}", f"metric step_time_s {ms} {r.dt:.4f} step={r.step}"]


@fmt("late_influx_line", every=10)
def _(r: Report) -> list[str]:
    return [
        f"train,host=node7,rank=0 loss={r.loss:.5f},step={r.step}i,step_time={r.dt:.4f} {int(r.at.timestamp() * 1e9)}"
    ]


@fmt("late_ansible_yaml_inline", every=10)
def _(r: Report) -> list[str]:
    return [f"- {{epoch: {r.epoch}, iter: {r.i}, iters: {r.n}, loss: {r.loss:.4f}, sec_per_iter: {r.dt:.4f}}}"]


@fmt("late_percent_line", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{100 * r.step / r.total:6.2f}% done, step {r.step}, cost={r.loss:.4f}, avg {60 / r.dt:.1f} it/min, ends {r.at + timedelta(seconds=r.eta_s):%H:%M}"
    ]


@fmt("late_min_per_epoch", every=500, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    return [
        f"epoch: {r.epoch + 1:3d}   loss: {r.loss:.4f}   ppl: {2.718 ** min(r.loss, 20):.1f}   {r.dt * r.n / 60:.3f} min/epoch"
    ]


@fmt("late_two_clocks", every=10)
def _(r: Report) -> list[str]:
    utc = r.at - timedelta(hours=8)
    return [f"{r.at:%Y-%m-%dT%H:%M:%S.%f}+08:00 stdout F {utc:%H:%M:%S} INFO step={r.step} loss={r.loss:.4f}"]


@fmt("late_minutes_clock_only", every=50)
def _(r: Report) -> list[str]:
    return [f"[{r.at:%d.%m.%Y %H:%M:%S}] Iteration {r.step}: Trainingsverlust {r.loss:.4f}"]


@fmt("late_comma_decimals", every=10)
def _(r: Report) -> list[str]:
    return [
        f"Schritt {r.step}/{r.total}  Verlust {r.loss:.4f}".replace(".", ",")
        + f"  {r.dt:.3f} s/Schritt".replace(".", ",")
    ]


@fmt("late_eval_between", every=20, steps=own_step)
def _(r: Report) -> list[str]:
    lines = [f"{comma_ms(r)} INFO trainer: step={r.step} loss={r.loss:.4f} lr={r.lr:.2e}"]
    if r.step % 100 == 0:
        lines += [
            f"{comma_ms(r)} INFO evaluator: step={k} loss={r.loss * 1.2:.4f} acc={r.acc:.3f}" for k in range(10, 60, 10)
        ]
    return lines


@fmt("late_warmup_countdown", every=10)
def _(r: Report) -> list[str]:
    return [f"steps left: {r.total - r.step} | done: {r.step} | loss: {r.loss:.4f} | {r.dt:.3f} sec/step"]


@fmt("late_accum_micro", every=1)
def _(r: Report) -> list[str]:
    return [
        *(f"    micro {m}/8 loss {r.loss:.4f}" for m in range(1, 9)),
        f"optimizer step {r.step}/{r.total} | loss {r.loss:.4f} | {r.dt:.3f} s",
    ]


@fmt("late_bars_stacked", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(r.epoch, 20, r.elapsed, r.dt * r.n, label="epochs") + "\x1b[A",
        tqdm(r.i, r.n, r.in_epoch_s, r.dt, label="steps", postfix=f"loss={r.loss:.4f}"),
    ]


@fmt("late_moving_average_only", every=10)
def _(r: Report) -> list[str]:
    return [f"[{r.step:06d}] loss(ema)={r.loss:.4f} t/step={1000 * r.dt:.0f}ms left={hours(r.eta_s)}"]


@fmt("late_ranks_no_name", every=5, steps=lambda r: {r.step, r.step - 5, r.step - 10})
def _(r: Report) -> list[str]:
    return [
        f"it {max(5, r.step - lag)}/{r.total} loss {r.loss * (1 + lag / 5000):.4f} {r.dt:.3f}s/it"
        for lag in (0, 5, 0, 10)
    ]


@fmt("late_spark_ml", every=1, step_s=8.0, steps=own_step)
def _(r: Report) -> list[str]:
    return [f"{r.at:%y/%m/%d %H:%M:%S} INFO XGBoostSpark: [{r.step}]\ttrain-mlogloss:{r.loss:.6f}"]


@fmt("late_catboost_gpu", every=10, step_s=0.4)
def _(r: Report) -> list[str]:
    eta = r.eta_s
    return [
        f"{r.step}:\tlearn: {r.loss:.7f}\ttest: {r.loss * 1.1:.7f}\tbest: {r.loss * 1.1:.7f} ({r.step})\ttotal: {int(r.elapsed // 60)}m {int(r.elapsed % 60)}s\tremaining: {int(eta // 3600)}h {int(eta % 3600 // 60)}m"
    ]


LATE = written_in(__name__)
