"""How frameworks write a training report: each format renders one :class:`Report` into lines.

Written from knowledge of the frameworks' print statements; none of the project's labelled logs is among them.
"""

# ruff: noqa: E501, ISC004  a rendered line is best read whole

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support_tracker.runs import Report, bar, hms, hours, tqdm

Render = Callable[[Report], list[str]]
Steps = Callable[[Report], set[int]]


def _any_step(r: Report) -> set[int]:
    return {r.step, r.step - 1, r.i, r.i - 1, r.epoch * r.n + r.i}


def own_step(r: Report) -> set[int]:
    """Steps counted from 1 or from 0."""
    return {r.step, r.step - 1}


def own_epoch(r: Report) -> set[int]:
    """Epochs counted from 0 or from 1, where only epochs are told."""
    return {r.epoch, r.epoch + 1}


@dataclass(frozen=True)
class Format:
    """A way of writing reports.

    Attributes:
        every: steps between reports.
        steps: which numbers are right as the step.
        time: what a ``step`` takes: ``step`` or ``epoch`` seconds, ``None`` when the log cannot tell.
        losses: right losses, as shares of the run's; empty when no loss is printed.
        redraw: whether states are redrawn with a carriage return instead of written on lines.
        per_epoch: steps of an epoch, where the format needs a special length.
        step_s: seconds per step.
        step_known: whether the log prints a step at all.
        loss_rounding: half of the last printed digit of the loss, where that is coarse.
    """

    name: str
    render: Render
    every: int = 10
    header: tuple[str, ...] = ()
    steps: Steps = _any_step
    time: str | None = "step"
    losses: tuple[float, ...] = (1.0,)
    redraw: bool = False
    per_epoch: int = 500
    epochs: int = 20
    step_s: float = 0.6
    step_known: bool = True
    loss_rounding: float = 0.0


FORMATS: list[Format] = []


def fmt(name: str, **options: object) -> Callable[[Render], Render]:
    def register(render: Render) -> Render:
        FORMATS.append(Format(name, render, **options))  # type: ignore[arg-type]
        return render

    return register


def written_in(module: str) -> list[Format]:
    """The formats that a module holds."""
    return [form for form in FORMATS if form.render.__module__ == module]


def iso(r: Report) -> str:
    return r.at.strftime("%Y-%m-%d %H:%M:%S")


def comma_ms(r: Report) -> str:
    return r.at.strftime("%Y-%m-%d %H:%M:%S,") + f"{r.at.microsecond // 1000:03d}"


def glog(r: Report) -> str:
    return r.at.strftime("I%m%d %H:%M:%S.%f")


# --- sequence models ---------------------------------------------------------------------------------------------
@fmt("fairseq")
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} | INFO | train_inner | epoch {r.epoch + 1:03d}: {r.i:6d} / {r.n} loss={r.loss:.3f}, "
        f"nll_loss={r.loss * 0.8:.3f}, ppl={2**r.loss:.2f}, wps={r.ips * 30:.1f}, ups={1 / r.dt:.2f}, wpb=20872.1, "
        f"bsz=712.5, num_updates={r.step}, lr={r.lr:.6g}, gnorm={r.grad:.3f}, train_wall={r.dt * 10:.0f}, "
        f"gb_free=18.2, wall={r.elapsed:.0f}"
    ]


@fmt("fairseq_json")
def _(r: Report) -> list[str]:
    return [
        f'{iso(r)} | INFO | train_inner | {{"epoch": {r.epoch + 1}, "update": {r.step / r.n:.3f}, '
        f'"loss": "{r.loss:.3f}", "ppl": "{2**r.loss:.2f}", "wps": "{r.ips * 30:.1f}", "ups": "{1 / r.dt:.2f}", '
        f'"wpb": "20872", "bsz": "712.5", "num_updates": "{r.step}", "lr": "{r.lr:.6g}", "gnorm": "{r.grad:.3f}", '
        f'"train_wall": "{r.dt * 10:.0f}", "wall": "{r.elapsed:.0f}"}}'
    ]


@fmt("espnet2", per_epoch=1000)
def _(r: Report) -> list[str]:
    return [
        f"[gpu-7] {comma_ms(r)} (trainer:737) INFO: {r.epoch + 1}epoch:train:{r.i - 9}-{r.i}batch: "
        f"iter_time=1.213e-04, forward_time={r.dt / 3:.3f}, loss_ctc={r.loss * 9:.3f}, loss_att={r.loss * 7:.3f}, "
        f"acc={r.acc:.3f}, loss={r.loss:.3f}, backward_time={r.dt / 3:.3f}, optim_step_time=0.033, "
        f"optim0_lr0={r.lr:.3e}, train_time={r.dt:.3f}"
    ]


@fmt("opennmt_py", every=50, loss_rounding=0.05)
def _(r: Report) -> list[str]:
    return [
        f"[{comma_ms(r)} INFO] Step {r.step}/{r.total}; acc: {100 * r.acc:5.1f}; ppl: {2**r.loss:7.1f}; "
        f"xent: {r.loss:.1f}; lr: {r.lr:.5f}; sents:   15123; bsz: 3011/2781/ 94; "
        f"{r.ips * 40:.0f}/{r.ips * 37:.0f} tok/s;  {r.elapsed:5.0f} sec;"
    ]


@fmt("marian", every=100)
def _(r: Report) -> list[str]:
    return [
        f"[{iso(r)}] Ep. {r.epoch + 1} : Up. {r.step} : Sen. {r.step * 64:,} : Cost {r.loss:.8f} * 1,234,567 @ 4,000 "
        f"after {r.step * 1900:,} : Time {r.dt * 100:.2f}s : {r.ips * 30:.2f} words/s : gNorm {r.grad:.4f}"
    ]


@fmt("sockeye", every=50)
def _(r: Report) -> list[str]:
    return [
        f"[{iso(r)}:INFO:sockeye.training:speedometer] Epoch[{r.epoch}] Batch [{r.step}]\tSpeed: {r.ips:.2f} samples/sec "
        f"{r.ips * 30:.2f} tokens/sec {1 / r.dt:.2f} updates/sec\tcross-entropy={r.loss:.6f}"
    ]


@fmt("allennlp", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"accuracy: {r.acc:.4f}, batch_loss: {r.loss:.4f}, loss: {r.loss:.4f} ||: " + tqdm(r.i, r.n, r.in_epoch_s, r.dt)
    ]


@fmt("speechbrain", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [tqdm(r.i, r.n, r.in_epoch_s, r.dt, postfix=f"train_loss={r.loss:.3g}")]


@fmt("wenet", every=100, per_epoch=4000)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} DEBUG TRAIN Batch {r.epoch}/{r.i} loss {r.loss:.6f} loss_att {r.loss * 0.9:.6f} "
        f"loss_ctc {r.loss * 1.3:.6f} lr {r.lr:.8f} rank 0"
    ]


@fmt("icefall", every=50, per_epoch=2000)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} INFO [train.py:895] (0/8) Epoch {r.epoch + 1}, batch {r.i}, loss[loss={r.loss:.4g}, "
        f"simple_loss={r.loss * 1.1:.4g}, pruned_loss={r.loss * 0.7:.4g}, over 21345.00 frames. ], "
        f"tot_loss[loss={r.loss * 1.02:.4g}, simple_loss={r.loss * 1.12:.4g}, over 4255123.81 frames. ], "
        f"batch size: 97, lr: {r.lr:.2e}, grad_scale: 16.0"
    ]


@fmt("spacy", every=200, per_epoch=1000, time=None, header=(
    "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  ENTS_P  ENTS_R  SCORE ",
    "---  ------  ------------  --------  ------  ------  ------  ------",
))  # fmt: skip
def _(r: Report) -> list[str]:
    return [
        f"{r.epoch:3d}  {r.step:6d}  {r.loss:12.2f}  {r.loss * 9:8.2f}  {70 + 10 * r.acc:6.2f}  {71 + 10 * r.acc:6.2f}  "
        f"{69 + 10 * r.acc:6.2f}  {r.acc:6.2f}"
    ]


@fmt("word_language_model", every=200, per_epoch=2983)
def _(r: Report) -> list[str]:
    return [
        f"| epoch {r.epoch + 1:3d} | {r.i:5d}/{r.n:5d} batches | lr {20 * r.lr / 3e-4:02.2f} | ms/batch {1000 * r.dt:5.2f} | "
        f"loss {r.loss:5.2f} | ppl {2.718**r.loss:8.2f}"
    ]


@fmt("annotated_transformer", every=40, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Epoch Step: {r.step:6d} | Accumulation Step: {r.step // 10:3d} | Loss: {r.loss:6.2f} | "
        f"Tokens / Sec: {r.ips * 100:7.1f} | Learning Rate: {r.lr:6.1e}"
    ]


# --- Paddle, MindSpore, MXNet, Caffe … -----------------------------------------------------------------------------
@fmt("paddle_detection", every=20, per_epoch=1250)
def _(r: Report) -> list[str]:
    return [
        f"[{r.at:%m/%d %H:%M:%S}] ppdet.engine INFO: Epoch: [{r.epoch}] [{r.i:4d}/{r.n}] learning_rate: {r.lr:.6f} "
        f"loss_xy: {r.loss / 3:.6f} loss_wh: {r.loss / 3:.6f} loss: {r.loss:.6f} eta: {hours(r.eta_s)} "
        f"batch_cost: {r.dt:.4f} data_cost: 0.0002 ips: {r.ips:.4f} images/s"
    ]


@fmt("paddle_ocr")
def _(r: Report) -> list[str]:
    return [
        f"[{r.at:%Y/%m/%d %H:%M:%S}] ppocr INFO: epoch: [{r.epoch + 1}/{r.plan.epochs}], global_step: {r.step}, "
        f"lr: {r.lr:.6f}, acc: {r.acc:.6f}, norm_edit_dis: {r.acc:.6f}, loss: {r.loss:.6f}, avg_reader_cost: 0.00123 s, "
        f"avg_batch_cost: {r.dt:.5f} s, avg_samples: 64.0, ips: {r.ips:.5f} samples/s, eta: {hours(r.eta_s)}"
    ]


@fmt("paddle_seg", epochs=1, per_epoch=40000)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} [INFO]\t[TRAIN] epoch: {r.epoch + 1}, iter: {r.step}/{r.total}, loss: {r.loss:.4f}, lr: {r.lr:.6f}, "
        f"batch_cost: {r.dt:.4f}, reader_cost: 0.00032, ips: {r.ips:.4f} samples/sec | ETA {hours(r.eta_s).zfill(8)}"
    ]


@fmt("paddle_nlp_trainer")
def _(r: Report) -> list[str]:
    return [
        f"[{comma_ms(r)}] [    INFO] - loss: {r.loss:.5f}, learning_rate: {r.lr:.3e}, global_step: {r.step}, "
        f"interval_runtime: {r.dt * 10:.4f}, interval_samples_per_second: {r.ips:.3f}, "
        f"interval_steps_per_second: {1 / r.dt:.4f}, epoch: {r.step / r.n:.4f}"
    ]


@fmt("paddle_nlp_old")
def _(r: Report) -> list[str]:
    return [
        f"global step {r.step}, epoch: {r.epoch + 1}, batch: {r.i - 1}, loss: {r.loss:.5f}, accuracy: {r.acc:.5f}, "
        f"speed: {1 / r.dt:.2f} step/s"
    ]


@fmt("paddle_hapi", every=1)
def _(r: Report) -> list[str]:
    return [
        f"step {r.i:4d}/{r.n} [{'=' * (20 * r.i // r.n)}>{'.' * 5}] - loss: {r.loss:.4f} - acc: {r.acc:.4f} - {1000 * r.dt:.0f}ms/step"
    ]


@fmt("mindspore", every=1, per_epoch=1875, step_s=0.02, time=None)
def _(r: Report) -> list[str]:
    return [f"epoch: {r.epoch + 1} step: {r.i}, loss is {r.loss:.8f}"]


@fmt("mindspore_sink", every=100, per_epoch=100, steps=lambda r: {r.epoch + 1, r.step, r.n})
def _(r: Report) -> list[str]:
    return [
        f"epoch: {r.epoch + 1} step: {r.n}, loss is {r.loss:.8f}",
        f"Train epoch time: {r.dt * 100 * 1000:.3f} ms, per step time: {r.dt * 1000:.3f} ms",
    ]


@fmt("mindformers", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} - mindformers[mindformers/core/callback/callback.py:316] - INFO - {{ Epoch:[{r.epoch + 1:3d}/{r.plan.epochs:3d}], "
        f"step:[{r.i:5d}/{r.n:5d}], loss: {r.loss:.3f}, per_step_time: {r.dt * 1000:.0f}ms, lr: {r.lr:.4e}, overflow cond: False, "
        f"loss_scale: 65536.0, global_norm: [{r.grad:.4f}], train_throughput_per_npu: 123.4T"
    ]


@fmt("mxnet_module", every=50, time=None)
def _(r: Report) -> list[str]:
    return [
        f"INFO:root:Epoch[{r.epoch}] Batch [{r.i - 50}-{r.i}]\tSpeed: {r.ips:.2f} samples/sec\taccuracy={r.acc:.6f}\tcross-entropy={r.loss:.6f}"
    ]


@fmt("gluoncv", every=50, losses=(1.0, 0.2))
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} INFO [Epoch {r.epoch}][Batch {r.i - 1}], Speed: {r.ips:.3f} samples/sec, "
        f"RPN_Conf={r.loss / 5:.3f}, RCNN_CrossEntropy={r.loss:.3f}"
    ]


@fmt("caffe", every=100)
def _(r: Report) -> list[str]:
    stamp = f"{glog(r)} 12345"
    return [
        f"{stamp} solver.cpp:239] Iteration {r.step} ({1 / r.dt:.5g} iter/s, {r.dt * 100:.5g}s/100 iters), loss = {r.loss:.6g}",
        f"{stamp} solver.cpp:258]     Train net output #0: loss = {r.loss:.6g} (* 1 = {r.loss:.6g} loss)",
        f"{stamp} sgd_solver.cpp:112] Iteration {r.step}, lr = {r.lr:.4g}",
    ]


@fmt("darknet", every=1)
def _(r: Report) -> list[str]:
    return [
        f" {r.step}: {r.loss:.6f}, {r.loss:.6f} avg loss, {r.lr:.6f} rate, {r.dt:.6f} seconds, {r.step * 64} images, "
        f"{r.eta_s / 3600:.6f} hours left"
    ]


@fmt("chainer", every=100, header=("epoch       iteration   main/loss   main/accuracy  elapsed_time",))
def _(r: Report) -> list[str]:
    return [f"{r.epoch:<10d}  {r.step:<10d}  {r.loss:<10.6g}  {r.acc:<13.6g}  {r.elapsed:<10.6g}"]


# --- TensorFlow, JAX ----------------------------------------------------------------------------------------------
@fmt("tf_estimator", every=100)
def _(r: Report) -> list[str]:
    return [
        f"INFO:tensorflow:global_step/sec: {1 / r.dt:.5g}",
        f"INFO:tensorflow:loss = {r.loss:.7g}, step = {r.step} ({r.dt * 100:.3f} sec)",
    ]


@fmt("tf_slim", every=10)
def _(r: Report) -> list[str]:
    return [f"INFO:tensorflow:global step {r.step}: loss = {r.loss:.4f} ({r.dt:.3f} sec/step)"]


@fmt("tf_object_detection", every=100)
def _(r: Report) -> list[str]:
    stamp = f"{glog(r)} 140735 model_lib_v2.py"
    return [
        f"INFO:tensorflow:Step {r.step} per-step time {r.dt:.3f}s",
        f"{stamp}:705] Step {r.step} per-step time {r.dt:.3f}s",
        "INFO:tensorflow:{'Loss/classification_loss': " + f"{r.loss / 2:.7f},",
        f" 'Loss/localization_loss': {r.loss / 4:.7f},",
        f" 'Loss/regularization_loss': {r.loss / 4:.7f},",
        f" 'Loss/total_loss': {r.loss:.7f},",
        f" 'learning_rate': {r.lr:.8f}}}",
    ]


@fmt("keras2_bar", every=1, redraw=True)
def _(r: Report) -> list[str]:
    head = [f"Epoch {r.epoch + 1}/{r.plan.epochs}\n"] if r.i == 1 else []
    done = 30 * r.i // r.n
    return [
        *head,
        f"{r.i:3d}/{r.n} [{'=' * done}>{'.' * (29 - done)}] - ETA: {hms(r.epoch_eta_s)} - loss: {r.loss:.4f} - accuracy: {r.acc:.4f}",
    ]


@fmt("maxtext", every=1, per_epoch=20000, epochs=1)
def _(r: Report) -> list[str]:
    return [
        f"completed step: {r.step - 1}, seconds: {r.dt:.3f}, TFLOP/s/device: {123 / r.dt:.3f}, "
        f"Tokens/s/device: {8192 / r.dt:.3f}, total_weights: 65536, loss: {r.loss:.3f}"
    ]


@fmt("t5x_clu", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{glog(r)} 139964 logging_writer.py:48] [{r.step}] collection=train accuracy={r.acc:.5f}, "
        f"cross_ent_loss={r.loss:.5f}, learning_rate={r.lr:.6f}, loss={r.loss:.5f}, timing/seconds={100 * r.dt:.4f}, "
        f"timing/seqs_per_second={r.ips:.4f}, timing/steps_per_second={1 / r.dt:.5f}"
    ]


@fmt("flax_absl", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{glog(r)} 139964 train.py:312] train epoch: {r.epoch}, step: {r.step}, loss: {r.loss:.4f}, "
        f"accuracy: {100 * r.acc:.2f}, steps/s: {1 / r.dt:.3f}"
    ]


@fmt("hf_flax", every=50, time=None)
def _(r: Report) -> list[str]:
    return [f"Step... ({r.step} | Loss: {r.loss:.6f}, Learning Rate: {r.lr:.8f})"]


@fmt("levanter", every=1, per_epoch=10000, epochs=1)
def _(r: Report) -> list[str]:
    return [
        f"Progress on:train {r.step}it/{r.total}it rate:{1 / r.dt:.2f}it/s remaining:{hms(r.eta_s)} "
        f"elapsed:{hms(r.elapsed)} postfix:loss={r.loss:.3f}"
    ]


@fmt("trax", every=100, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Step {r.step:6d}: Ran 100 train steps in {r.dt * 100:.2f} secs",
        f"Step {r.step:6d}: train CrossEntropyLoss |  {r.loss:.8f}",
    ]


# --- boosted trees, reinforcement learning ------------------------------------------------------------------------
@fmt("lightgbm", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"[{r.step}]\ttraining's binary_logloss: {r.loss:.6f}\tvalid_1's binary_logloss: {r.loss * 1.1:.6f}"]


@fmt("catboost", every=1)
def _(r: Report) -> list[str]:
    return [
        f"{r.step - 1}:\tlearn: {r.loss:.7f}\ttest: {r.loss * 1.1:.7f}\tbest: {r.loss * 1.1:.7f} ({r.step - 1})\t"
        f"total: {int(r.elapsed // 60)}m {int(r.elapsed % 60)}s\tremaining: {int(r.eta_s // 3600)}h {int(r.eta_s % 3600 // 60)}m {int(r.eta_s % 60)}s"
    ]


@fmt("tianshou", every=10, per_epoch=10000, redraw=True, step_s=0.004)
def _(r: Report) -> list[str]:
    return [
        f"Epoch #{r.epoch + 1}: {100 * r.i // r.n:2d}%|{'#' * (r.i * 10 // r.n):10s}| {r.i}/{r.n} [{hms(r.in_epoch_s)}<{hms(r.epoch_eta_s)}, "
        f"{1 / r.dt:.2f}it/s, env_step={r.step}, len=200, loss={r.loss:.3f}, n/ep=1, n/st=10, rew=200.00]"
    ]


@fmt("rsl_rl", losses=(1 / 9,), every=1, per_epoch=1500, epochs=1, step_s=1.6)
def _(r: Report) -> list[str]:
    return [
        "#" * 80,
        f"                      \x1b[1m Learning iteration {r.step}/{r.total} \x1b[0m                       ",
        "",
        f"                       Computation: {98304 / r.dt:.0f} steps/s (collection: {r.dt * 0.8:.3f}s, learning {r.dt * 0.2:.3f}s)",
        f"               Value function loss: {r.loss / 9:.4f}",
        "                    Surrogate loss: -0.0045",
        "             Mean action noise std: 0.98",
        f"                       Mean reward: {r.acc * 10:.2f}",
        "-" * 80,
        f"                   Total timesteps: {r.step * 98304}",
        f"                    Iteration time: {r.dt:.2f}s",
        f"                        Total time: {r.elapsed:.2f}s",
        f"                               ETA: {r.eta_s:.1f}s",
    ]


@fmt("cleanrl", every=128, per_epoch=100000, step_s=0.001, losses=(), steps=own_step)
def _(r: Report) -> list[str]:
    return [f"global_step={r.step}, episodic_return={r.acc * 100:.1f}", f"SPS: {1 / r.dt:.0f}"]


@fmt("rllib", every=1, step_s=4.0, losses=())
def _(r: Report) -> list[str]:
    return [
        f"agent_timesteps_total: {r.step * 4000}",
        f"date: {r.at:%Y-%m-%d_%H-%M-%S}",
        "done: false",
        f"episode_reward_mean: {r.acc * 100:.2f}",
        "timers:",
        f"  learn_time_ms: {r.dt * 700:.3f}",
        f"time_this_iter_s: {r.dt:.6f}",
        f"time_total_s: {r.elapsed:.6f}",
        f"timesteps_total: {r.step * 4000}",
        f"training_iteration: {r.step}",
        "",
    ]


# --- vision -------------------------------------------------------------------------------------------------------
@fmt("nanodet", every=50, losses=(1.0, 1 / 3))
def _(r: Report) -> list[str]:
    return [
        f"[NanoDet][{r.at:%m-%d %H:%M:%S}]INFO: Train|Epoch{r.epoch + 1}/{r.plan.epochs}|Iter{r.step}({r.i}/{r.n})| mem:5.23G| "
        f"lr:{r.lr:.2e}| loss_qfl:{r.loss / 3:.4f}| loss_bbox:{r.loss / 3:.4f}| loss_dfl:{r.loss / 3:.4f}| "
    ]


@fmt("yolox", every=10, per_epoch=1849, loss_rounding=0.05)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} | INFO     | yolox.core.trainer:261 - epoch: {r.epoch + 1}/{r.plan.epochs}, iter: {r.i}/{r.n}, mem: 5123Mb, "
        f"iter_time: {r.dt:.3f}s, data_time: 0.001s, total_loss: {r.loss:.1f}, iou_loss: {r.loss / 4:.1f}, l1_loss: 0.0, "
        f"conf_loss: {r.loss / 2:.1f}, lr: {r.lr:.3e}, size: 640, ETA: {hours(r.eta_s)}"
    ]


@fmt("mmseg_iter", every=50, epochs=1, per_epoch=160000)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} - mmseg - INFO - Iter [{r.step}/{r.total}]\tlr: {r.lr:.3e}, eta: {hours(r.eta_s)}, time: {r.dt:.3f}, "
        f"data_time: 0.004, memory: 8765, decode.loss_ce: {r.loss * 0.7:.4f}, decode.acc_seg: {r.acc * 100:.4f}, "
        f"aux.loss_ce: {r.loss * 0.3:.4f}, loss: {r.loss:.4f}"
    ]


@fmt("maskrcnn_benchmark", every=20)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} maskrcnn_benchmark.trainer INFO: eta: {hours(r.eta_s)}  iter: {r.step}  loss: {r.loss:.4f} ({r.loss * 1.1:.4f})  "
        f"loss_classifier: {r.loss / 2:.4f} ({r.loss / 1.9:.4f})  time: {r.dt:.4f} ({r.dt * 1.02:.4f})  data: 0.0041 (0.0112)  "
        f"lr: {r.lr:.6f}  max mem: 3456"
    ]


@fmt("detectron1_json", every=20)
def _(r: Report) -> list[str]:
    return [
        f'json_stats: {{"accuracy_cls": "{r.acc:.6f}", "eta": "{hours(r.eta_s)}", "iter": {r.step}, "loss": "{r.loss:.6f}", '
        f'"loss_cls": "{r.loss / 2:.6f}", "lr": "{r.lr:.6f}", "mb_qsize": 64, "mem": 3456, "time": "{r.dt:.6f}"}}'
    ]


@fmt("slowfast_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f'[{r.at:%m/%d %H:%M:%S}][INFO] logging.py: 99: json_stats: {{"_type": "train_iter_ssl", "dt": {r.dt:.5f}, "dt_data": 0.00110, '
        f'"dt_net": {r.dt - 0.0011:.5f}, "epoch": "{r.epoch + 1}/{r.plan.epochs}", "eta": "{hours(r.eta_s)}", "gpu_mem": "11.2G", '
        f'"grad_norm": {r.grad:.5f}, "iter": "{r.i}/{r.n}", "loss": {r.loss:.5f}, "lr": {r.lr:.5f}}}'
    ]


@fmt("openpcdet", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"epochs:  {5 * r.epoch}%|{'█' * 3:10s}| {r.epoch}/{r.plan.epochs} [{hms(r.elapsed)}<10:22:11, 467.2s/it, loss={r.loss:.3f}, lr={r.lr:.6f}]"
        + tqdm(r.i, r.n, r.in_epoch_s, r.dt, label="train", postfix=f"total_it={r.step}")
    ]


@fmt(
    "stylegan",
    header=("Training for 25000 kimg...",),
    every=1,
    time="step",
    step_s=95.0,
    per_epoch=5000,
    epochs=1,
    losses=(),
)
def _(r: Report) -> list[str]:
    return [
        f"tick {r.step:<5d} kimg {r.step * 4.0:<8.1f} time {int(r.elapsed // 3600)}h {int(r.elapsed % 3600 // 60):02d}m {int(r.elapsed % 60):02d}s"
        f"      sec/tick {r.dt:<7.1f} sec/kimg {r.dt / 4:<7.2f} maintenance 0.1    cpumem 4.53   gpumem 10.13  reserved 11.4  augment 0.012"
    ]


@fmt("deeplab_home", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"Epoch {r.epoch + 1}, Itrs {r.step}/{r.total}, Loss={r.loss:.6f}"]


@fmt("pyg", every=1, per_epoch=1, epochs=2000, steps=own_epoch, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Epoch: {r.epoch + 1:03d}, Loss: {r.loss:.4f}, Train: {r.acc:.4f}, Val: {r.acc - 0.05:.4f}, Test: {r.acc - 0.06:.4f}"
    ]


@fmt("dgl", every=1, per_epoch=1, epochs=2000, steps=own_epoch)
def _(r: Report) -> list[str]:
    return [
        f"Epoch {r.epoch:05d} | Time(s) {r.dt:.4f} | Loss {r.loss:.4f} | Accuracy {r.acc:.4f} | ETputs(KTEPS) {12 / r.dt:.2f}"
    ]


# --- large language models ----------------------------------------------------------------------------------------
@fmt("llm_c", every=1, per_epoch=18865, epochs=1)
def _(r: Report) -> list[str]:
    return [
        f"step {r.step:4d}/{r.total} | loss {r.loss:.6f} (+1.23z)| norm {r.grad:.4f} (-0.41z)| lr {r.lr:.2e} | "
        f"{1000 * r.dt:.2f} ms | 45.6% bf16 MFU | {524288 / r.dt:.0f} tok/s"
    ]


@fmt("llm_c_old", every=1)
def _(r: Report) -> list[str]:
    return [f"step {r.step}: train loss {r.loss:.6f} (took {1000 * r.dt:.6f} ms)"]


@fmt("build_nanogpt", every=1)
def _(r: Report) -> list[str]:
    return [
        f"step {r.step:5d} | loss: {r.loss:.6f} | lr {r.lr:.4e} | norm: {r.grad:.4f} | dt: {1000 * r.dt:.2f}ms | tok/sec: {524288 / r.dt:.2f}"
    ]


@fmt("modded_nanogpt", every=1, per_epoch=4578, epochs=1)
def _(r: Report) -> list[str]:
    return [
        f"step:{r.step}/{r.total} train_loss:{r.loss:.4f} train_time:{1000 * r.elapsed:.0f}ms step_avg:{1000 * r.dt:.2f}ms"
    ]


@fmt("nanotron", every=1, per_epoch=1000, epochs=1)
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%m/%d/%Y %H:%M:%S} [INFO|DP=0|PP=0|TP=0|gpu-12]: iteration: {r.step} / {r.total} | consumed_tokens: {r.step * 1.05:.3g}M | "
        f"elapsed_time_per_iteration_ms: {1000 * r.dt:.3g} | tokens_per_sec: {1050 / r.dt:.3g}K | tokens_per_sec_per_gpu: {131 / r.dt:.3g}K | "
        f"global_batch_size: 1.02K | lm_loss: {r.loss:.3g} | lr: {r.lr:.3g} | model_tflops_per_gpu: 123 | grad_norm: {r.grad:.3g}"
    ]


@fmt("olmo", every=10, per_epoch=739328, epochs=1)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)}\tgpu-12:0\tolmo.train:967\tINFO\t[step={r.step}/{r.total},epoch=0]",
        f"    optim/total_grad_norm={r.grad:.4f}",
        f"    train/CrossEntropyLoss={r.loss:.3f}",
        f"    train/Perplexity={2.718**r.loss:.3f}",
        f"    throughput/total_tokens={r.step * 4194304:,}",
        f"    throughput/device/tokens_per_second={8192 / r.dt:,.0f}",
        f"    throughput/device/batches_per_second={1 / r.dt:.4f}",
        "    System/Peak GPU Memory (MB)=41,234",
    ]


@fmt("litgpt", every=4)
def _(r: Report) -> list[str]:
    return [
        f"Epoch {r.epoch + 1} | iter {r.step} step {r.step // 4} | loss train: {r.loss:.3f}, val: n/a | iter time: {1000 * r.dt:.2f} ms (step)"
    ]


@fmt("torchtune", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [f"{r.epoch + 1}|{r.step}|Loss: {r.loss:.5f}: " + tqdm(r.i, r.n, r.in_epoch_s, r.dt)]


@fmt("ms_swift", every=5)
def _(r: Report) -> list[str]:
    return [
        f"{{'loss': {r.loss:.8f}, 'grad_norm': {r.grad:.7f}, 'learning_rate': {r.lr:.2e}, 'memory(GiB)': 23.41, 'train_speed(iter/s)': {1 / r.dt:.6f}, "
        f"'epoch': {r.step / r.n:.2f}, 'global_step/max_steps': '{r.step}/{r.total}', 'percentage': '{100 * r.step / r.total:.2f}%', "
        f"'elapsed_time': '{int(r.elapsed // 3600)}h {int(r.elapsed % 3600 // 60)}m {int(r.elapsed % 60)}s', "
        f"'remaining_time': '{int(r.eta_s // 3600)}h {int(r.eta_s % 3600 // 60)}m {int(r.eta_s % 60)}s'}}"
    ]


@fmt("internlm", every=1)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)}\tINFO training_internlm.py:600 in record_current_batch_training_metrics -- tflops=189.3 step={r.step - 1} loss={r.loss:.7f} "
        f"tgs (tokens/gpu/second)={8192 / r.dt:.2f} lr={r.lr:.7f} loss_scale=65536.0 grad_norm={{'default': {r.grad:.5f}}} micro_num=4 "
        f"num_consumed_tokens={r.step * 1048576} inf_nan_skip_batches=0 num_samples_in_batch=14 largest_length=2048 fwd_bwd_time={r.dt * 0.9:.2f}"
    ]


@fmt("verl", every=1, per_epoch=435, epochs=1, step_s=64.0)
def _(r: Report) -> list[str]:
    return [
        f"(TaskRunner pid=123456) step:{r.step} - global_seqlen/min:27413.000 - actor/entropy_loss:0.331 - actor/pg_loss:{r.loss:.3f} - "
        f"actor/grad_norm:{r.grad:.3f} - actor/lr:{r.lr:.3e} - critic/score/mean:0.512 - response_length/mean:301.2 - timing_s/gen:31.2 - "
        f"timing_s/update_actor:{r.dt * 0.3:.3f} - timing_s/step:{r.dt:.3f} - perf/total_num_tokens:512345 - perf/throughput:{8000 / r.dt:.3f}"
    ]


@fmt("openrlhf", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(
            r.i,
            r.n,
            r.in_epoch_s,
            r.dt,
            label=f"Train epoch [{r.epoch + 1}/{r.plan.epochs}]",
            postfix=f"gpt_loss={r.loss:.3f}, loss_mean={r.loss * 1.01:.3f}, lr={r.lr:.2e}",
        )
    ]


@fmt("lightning_rich", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"\x1b[37mEpoch {r.epoch}/{r.plan.epochs - 1}\x1b[0m \x1b[38;2;98;6;224m{'━' * (20 * r.i // r.n):20s}\x1b[0m \x1b[37m{r.i}/{r.n}\x1b[0m "
        f"\x1b[38;5;245m{hours(r.in_epoch_s)} • {hours(r.epoch_eta_s)}\x1b[0m {1 / r.dt:.2f}it/s v_num: 3.000 train_loss: {r.loss:.3f}"
    ]


@fmt("nemo_tqdm", every=1, redraw=True)
def _(r: Report) -> list[str]:
    left = hms(r.epoch_eta_s)
    return [
        f"Epoch {r.epoch}: : {100 * r.i // r.n:3d}%|{bar(r.i, r.n)}| {r.i}/{r.n} [{hms(r.in_epoch_s)}<{left}, v_num=, "
        f"reduced_train_loss={r.loss:.3g}, global_step={float(r.step)}, consumed_samples={r.step * 64.0}, train_step_timing in s={r.dt:.3g}]"
    ]


@fmt("composer_tqdm", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        tqdm(
            r.i,
            r.n,
            r.in_epoch_s,
            r.dt,
            label=f"train          Epoch {r.epoch:3d}",
            postfix=f"loss/train/total={r.loss:.4f}",
            unit="ba",
        )
    ]


@fmt("kohya", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [tqdm(r.step, r.total, r.elapsed, r.dt, label="steps", postfix=f"avr_loss={r.loss:.3g}")]


@fmt("deepspeed_chat", every=1, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Epoch: {r.epoch} | Step: {r.i - 1} | PPO Epoch: 1 | Actor Loss: {r.loss:.4f} | Critic Loss: {r.loss / 9:.4f} | Unsupervised Loss: 0.0"
    ]


# --- home-made ----------------------------------------------------------------------------------------------------
@fmt("pytorch_tutorial", every=100, time=None)
def _(r: Report) -> list[str]:
    return [f"[{r.epoch + 1}, {r.i:5d}] loss: {r.loss:.3f}"]


@fmt("home_chinese", every=10)
def _(r: Report) -> list[str]:
    return [f"第 {r.epoch + 1} 轮, 步数 {r.i}/{r.n}, 损失: {r.loss:.4f}, 学习率: {r.lr:.6f}, 每步耗时 {r.dt:.3f} 秒"]


@fmt("home_logfmt", every=10)
def _(r: Report) -> list[str]:
    return [
        f"level=info ts={r.at:%Y-%m-%dT%H:%M:%S.%f}Z msg=train step={r.step} loss={r.loss:.5f} lr={r.lr:.3g} tokens_per_s={r.ips * 100:.1f}"
    ]


@fmt("home_json", every=10)
def _(r: Report) -> list[str]:
    return [
        f'{{"event": "train_step", "timestamp": "{r.at:%Y-%m-%dT%H:%M:%S}Z", "step": {r.step}, "max_steps": {r.total}, "loss": {r.loss:.6f}, "lr": {r.lr:.8f}}}'
    ]


@fmt("home_csv", every=10, header=("epoch,step,loss,lr,step_time",))
def _(r: Report) -> list[str]:
    return [f"{r.epoch},{r.step},{r.loss:.6f},{r.lr:.8f},{r.dt:.4f}"]


@fmt("home_dashes", every=20)
def _(r: Report) -> list[str]:
    return [f"Epoch {r.epoch + 1}/{r.plan.epochs} - Batch {r.i}/{r.n} - Loss: {r.loss:.4f} - {r.dt:.3f}s/batch"]


@fmt("home_elapsed", every=50)
def _(r: Report) -> list[str]:
    return [f"[epoch {r.epoch + 1}, iter {r.i}] loss = {r.loss:.4f} (elapsed: {hours(r.elapsed)})"]


@fmt("home_interval", every=100)
def _(r: Report) -> list[str]:
    return [f"{iso(r)} step {r.step} | loss {r.loss:.4f} | {100 * r.dt:.1f}s for 100 steps | lr {r.lr:.2e}"]


@fmt("home_rate", every=25)
def _(r: Report) -> list[str]:
    return [f"iteration {r.step}: loss={r.loss:.4f} lr={r.lr:.2e} ({1 / r.dt:.2f} it/s)"]


@fmt(
    "home_table",
    every=50,
    header=("| epoch | step  |  loss   |   lr     | sec/step |", "|-------|-------|---------|----------|----------|"),
)
def _(r: Report) -> list[str]:
    return [f"| {r.epoch:5d} | {r.step:5d} | {r.loss:7.4f} | {r.lr:.2e} | {r.dt:8.3f} |"]


@fmt("home_epoch_only", every=100, per_epoch=100, steps=own_epoch, time="epoch")
def _(r: Report) -> list[str]:
    return [
        f"Epoch {r.epoch + 1}/{r.plan.epochs}: train_loss={r.loss:.4f}, val_loss={r.loss * 1.1:.4f}, time: {100 * r.dt:.1f}s"
    ]


@fmt("home_rank_lines", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[rank{k}]: {comma_ms(r)} INFO train step: {r.step}/{r.total} loss: {r.loss + k * 0.0001:.4f} step_time: {r.dt:.4f}s"
        for k in range(4)
    ]


@fmt("home_tensor_repr", every=10, time=None)
def _(r: Report) -> list[str]:
    return [f"step {r.step} loss tensor({r.loss:.4f}, device='cuda:0', grad_fn=<NllLossBackward0>)"]


@fmt("home_sentence", every=100)
def _(r: Report) -> list[str]:
    return [f"After {r.step} steps the training loss is {r.loss:.4f}; one step takes {r.dt:.3f} s on average"]


@fmt("accelerate_bare_bar", every=1, redraw=True, losses=(), per_epoch=2000, epochs=1, header=(
    "03/11/2025 09:14:02 - INFO - __main__ - ***** Running training *****",
    "03/11/2025 09:14:02 - INFO - __main__ -   Num examples = 128000",
    "03/11/2025 09:14:02 - INFO - __main__ -   Total optimization steps = 2000",
))  # fmt: skip
def _(r: Report) -> list[str]:
    return [tqdm(r.step, r.total, r.elapsed, r.dt)]


@fmt("fasttext", every=10, redraw=True, step_known=False, time=None)
def _(r: Report) -> list[str]:
    return [
        f"Progress: {100 * r.step / r.total:5.1f}% words/sec/thread: {r.ips * 500:7.0f} lr: {r.lr:9.6f} avg.loss: {r.loss:9.6f} "
        f"ETA: {int(r.eta_s // 3600):3d}h{int(r.eta_s % 3600 // 60):2d}m{int(r.eta_s % 60):2d}s"
    ]


@fmt("parlai", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{r.at:%H:%M:%S} INFO | time:{r.elapsed:.0f}s total_exs:{r.step * 64} total_steps:{r.step} epochs:{r.step / r.n:.2f} time_left:{r.eta_s:.0f}s",
        "    clen  ctpb  ctps  ctrunc  ctrunclen  exps  gnorm  gpu_mem  llen  loss    lr  ltpb  ltps  ppl  token_acc  total_train_updates   ups",
        f"   12.34  5678 12345       0          0 {r.ips:.1f} {r.grad:.3f}    .4321  9.87 {r.loss:.3f} {r.lr:.6f}   631  1234 "
        f"{2.7**r.loss:.2f}      {r.acc:.4f}                 {r.step} {1 / r.dt:.3f}",
    ]
