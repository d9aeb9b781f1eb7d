"""A fourth set of formats: other libraries, other languages, other layouts, and traps in the meaning of numbers."""

# ruff: noqa: E501, ISC004  a rendered line is best read whole, in its own script

from __future__ import annotations

from datetime import timedelta

from tests.support_tracker.formats import comma_ms, fmt, iso, own_step, written_in
from tests.support_tracker.runs import Report, hms, hours, tqdm


@fmt("fresh_rl_games", every=1, losses=())
def _(r: Report) -> list[str]:
    fps = 32768 / r.dt
    return [
        f"fps step: {fps * 1.6:.0f} fps step and policy inference: {fps * 1.4:.0f} fps total: {fps:.0f} epoch: {r.step}/{r.total} frames: {(r.step - 1) * 32768}"
    ]


@fmt("fresh_rl_games_nothing_else", every=1, losses=())
def _(r: Report) -> list[str]:
    return [f"fps step: {52428 / r.dt:.1f} fps total: {32768 / r.dt:.1f} epoch: {r.step}/{r.total}"]


@fmt("fresh_dreamer", every=100, time=None)
def _(r: Report) -> list[str]:
    return [
        f"\x1b[36m───────────────────── Step {r.step} ─────────────────────\x1b[0m",
        f"episode/score {r.acc * 100:.2f} / episode/length 1000 / train/opt/loss {r.loss:.4g} / train/opt/grad_norm {r.grad:.3g} / replay/size 81920",
    ]


@fmt("fresh_bigdl", every=1, step_s=3.0)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} INFO  DistriOptimizer$:431 - [Epoch {r.epoch + 1} {r.i * 64}/{r.n * 64}][Iteration {r.step}][Wall Clock {r.elapsed:.6f}s] "
        f"Trained 64.0 records in {r.dt:.6f} seconds. Throughput is {64 / r.dt:.5f} records/second. Loss is {r.loss:.6f}. "
        "Sequential5f2's hyper parameters: Current learning rate is 0.01. Current dampening is 1.7976931348623157E308."
    ]


@fmt("fresh_paddle_rec", every=10)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} - INFO - epoch: {r.epoch}, batch_id: {r.i}, auc:{r.acc:.6f}, avg_reader_cost: 0.00182 sec, avg_batch_cost: {r.dt:.5f} sec, avg_samples: 64.00000, ips: {r.ips:.2f} ins/s, loss: {r.loss:.5f}"
    ]


@fmt("fresh_libai", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[{r.at:%m/%d %H:%M:%S} lb.utils.events]:  eta: {hours(r.eta_s)}  iteration: {r.step - 1}/{r.total}  consumed_samples: {r.step * 64}  total_loss: {r.loss:.4g}  lm_loss: {r.loss * 0.9:.4g}  time: {r.dt:.4f} s/iter  data_time: 0.0021 s/iter total_throughput: {r.ips:.2f} samples/s lr: {r.lr:.3g}"
    ]


@fmt("fresh_tf_cnn_benchmarks", every=10, header=("Batch size:  64 global", "Step\tImg/sec\ttotal_loss"))
def _(r: Report) -> list[str]:
    return [f"{r.step}\timages/sec: {r.ips:.1f} +/- 1.2 (jitter = 4.3)\t{r.loss:.3f}"]


@fmt("fresh_physics", every=100, step_s=0.06)
def _(r: Report) -> list[str]:
    return [f"[{r.at:%H:%M:%S}] - [step: {r.step:10d}] loss: {r.loss:10.3e}, time/iteration: {1000 * r.dt:10.3e} ms"]


@fmt("fresh_deepxde", every=1000, time=None, losses=(), per_epoch=200000, epochs=3, step_s=0.01,
     header=("Training model...", "", "Step      Train loss                        Test loss                         Test metric"))  # fmt: skip
def _(r: Report) -> list[str]:
    return [
        f"{r.step:<9d} [{r.loss:.2e}, {r.loss / 3:.2e}]              [{r.loss * 1.1:.2e}, {r.loss / 2.9:.2e}]              [{r.acc:.2e}]"
    ]


@fmt(
    "fresh_scvi",
    losses=(100.0,),
    loss_rounding=0.5,
    every=1,
    redraw=True,
    step_s=3.0,
    per_epoch=400,
    epochs=1,
    steps=own_step,
)
def _(r: Report) -> list[str]:
    return [
        tqdm(
            r.step,
            r.total,
            r.elapsed,
            r.dt,
            label=f"Epoch {r.step}/{r.total}",
            postfix=f"v_num=1, train_loss_step={r.loss * 100:.0f}, train_loss_epoch={r.loss * 100:.0f}",
        )
    ]


@fmt("fresh_gensim", every=1, time=None, losses=(), step_known=False)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} : INFO : EPOCH {r.epoch + 1} - PROGRESS: at {100 * r.i / r.n:.2f}% examples, {812345 + r.i} words/s, in_qsize {15 + r.i % 3}, out_qsize 1"
    ]


@fmt("fresh_word2vec", every=5, time=None, losses=(), step_known=False, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"Alpha: {0.025 * (1 - r.step / (r.total + 1)):.6f}  Progress: {100 * r.step / r.total:.2f}%  Words/thread/sec: {312.45 + r.i % 7:.2f}k  "
    ]


@fmt("fresh_glove", every=1, step_s=12.0, steps=own_step)
def _(r: Report) -> list[str]:
    return [f"{r.at:%m/%d/%y} - {r.at:%I:%M.%S%p}, iter: {r.step:03d}, cost: {r.loss:.6f}"]


@fmt("fresh_llama_cpp", every=1, step_s=12.0)
def _(r: Report) -> list[str]:
    return [
        f"train_opt_callback: iter={r.step:6d} sample={r.step * 2 + 1}/{r.total * 2} sched={min(1.0, r.step / 100):.6f} loss={r.loss:.6f} dt={hours(r.dt).rjust(8, '0')} eta={hours(r.eta_s).rjust(8, '0')} |-------->"
    ]


@fmt("fresh_mlx", every=10)
def _(r: Report) -> list[str]:
    lines = [
        f"Iter {r.step}: Train loss {r.loss:.3f}, Learning Rate {r.lr:.3e}, It/sec {1 / r.dt:.3f}, Tokens/sec {367 / r.dt:.3f}, Trained Tokens {r.step * 367}, Peak mem 12.312 GB"
    ]
    if r.step % 200 == 0:
        lines.append(f"Iter {r.step}: Val loss {r.loss * 1.2:.3f}, Val took 12.313s")
    return lines


@fmt("fresh_gluonts", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [tqdm(r.i, r.n, r.in_epoch_s, r.dt, postfix=f"epoch={r.epoch + 1}/20, avg_epoch_loss={r.loss:.3g}")]


@fmt("fresh_rasa", every=1, redraw=True, step_s=3.0, per_epoch=300, epochs=1, steps=own_step)
def _(r: Report) -> list[str]:
    return [
        tqdm(
            r.step,
            r.total,
            r.elapsed,
            r.dt,
            label="Epochs",
            postfix=f"t_loss={r.loss:.2f}, i_acc={r.acc:.3f}, e_f1=0.612",
        )
    ]


@fmt("fresh_flair", every=50)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)} epoch {r.epoch + 1} - iter {r.i}/{r.n} - loss {r.loss:.8f} - time (sec): {r.in_epoch_s:.2f} - samples/sec: {r.ips:.2f} - lr: {r.lr:.6f} - momentum: 0.000000"
    ]


@fmt("fresh_stanza", every=20)
def _(r: Report) -> list[str]:
    return [
        f"{iso(r)} INFO: {iso(r)}: step {r.step}/{r.total} (epoch {r.epoch + 1}/20), loss = {r.loss:.6f} ({r.dt:.3f} sec/batch), lr: {r.lr:.6f}"
    ]


@fmt("fresh_dinov2", every=10)
def _(r: Report) -> list[str]:
    return [
        f"I{r.at:%Y%m%d %H:%M:%S} 41231 dinov2 helpers.py:102] Training  [{r.step:6d}/{r.total}]  eta: {hours(r.eta_s)}  lr: {r.lr:.4f} ({r.lr * 0.9:.4f})  wd: 0.0412 (0.0409)  mom: 0.9941 (0.9940)  total_loss: {r.loss:.4f} ({r.loss * 1.07:.4f})  dino_local_crops_loss: {r.loss * 0.7:.4f} ({r.loss * 0.72:.4f})  koleo_loss: 0.1120 (0.1190)  time: {r.dt:.6f}  data: 0.000412  max mem: 23412"
    ]


@fmt("fresh_nerfstudio", every=10, losses=(), step_s=0.045,
     header=("Step (% Done)       Train Iter (time)    ETA (time)           Train Rays / Sec", "-" * 84))  # fmt: skip
def _(r: Report) -> list[str]:
    done = f"{r.step} ({100 * r.step / r.total:.2f}%)"
    m, s = divmod(int(r.eta_s), 60)
    return [f"{done:<20}{f'{1000 * r.dt:.3f} ms':<21}{f'{m} m, {s} s':<21}{f'{4096 / r.dt / 1000:.2f} K':<21}"]


@fmt("fresh_opennmt_tf", every=100)
def _(r: Report) -> list[str]:
    return [
        f"{comma_ms(r)}: I runner.py:310] Step = {r.step} ; steps/s = {1 / r.dt:.2f}, source words/s = {r.ips * 30:.0f}, target words/s = {r.ips * 31:.0f} ; Learning rate = {r.lr:.6f} ; Loss = {r.loss:.6f}"
    ]


@fmt("fresh_tesseract", every=100, time=None, losses=(), steps=lambda r: {r.step, r.step * 4, r.step * 4 + 2})
def _(r: Report) -> list[str]:
    return [
        f"At iteration {r.step}/{r.step * 4}/{r.step * 4 + 2}, mean rms={r.loss / 3:.3f}%, delta={r.loss:.3f}%, BCER train={100 - 100 * r.acc:.3f}%, BWER train={110 - 100 * r.acc:.3f}%, skip ratio=0.000%, wrote checkpoint."
    ]


@fmt("fresh_tabnet", every=1, step_s=12.0, steps=own_step)
def _(r: Report) -> list[str]:
    return [f"epoch {r.step:<3d}| loss: {r.loss:.5f} | val_0_auc: {r.acc:.5f} |  {hours(r.elapsed)}s"]


@fmt("fresh_skypilot_prefix", every=10)
def _(r: Report) -> list[str]:
    return [
        f"(worker1, rank=1, pid=41231, ip=10.0.0.5) step {r.step}/{r.total}: loss={r.loss:.4f} step_time={r.dt:.3f}s"
    ]


@fmt("fresh_mpirank_prefix", every=10)
def _(r: Report) -> list[str]:
    return [f"[1,mpirank:0,algo-1]<stdout>:Step {r.step}, Loss {r.loss:.4f}, {1 / r.dt:.2f} steps/sec"]


@fmt("fresh_markdown_table", every=10)
def _(r: Report) -> list[str]:
    head = ["| step | loss | lr | sec/step |", "|-----:|-----:|---:|---------:|"] if r.step % 200 == 10 else []
    return [*head, f"| {r.step} | {r.loss:.4f} | {r.lr:.2e} | {r.dt:.3f} |"]


@fmt("fresh_abbreviated", every=10)
def _(r: Report) -> list[str]:
    return [
        f"s={r.step}/{r.total} l={r.loss:.4f} lr={r.lr:.1e} gn={r.grad:.2f} dt={1000 * r.dt:.0f}ms tok/s={8.192 / r.dt:.1f}k"
    ]


@fmt("fresh_japanese", every=10)
def _(r: Report) -> list[str]:
    return [f"{iso(r)} 学習中 エポック {r.epoch + 1}/20 反復 {r.i}/{r.n} 損失 {r.loss:.4f} 1反復あたり {r.dt:.3f}秒"]


@fmt("fresh_russian", every=10)
def _(r: Report) -> list[str]:
    return [f"{iso(r)} Эпоха {r.epoch + 1}, шаг {r.step}: потери = {r.loss:.4f}, время шага {r.dt:.3f} с"]


@fmt("fresh_german", every=10)
def _(r: Report) -> list[str]:
    return [f"Epoche {r.epoch + 1}/20, Schritt {r.i}/{r.n}, Verlust: {r.loss:.4f}, {r.dt:.3f} s pro Schritt"]


@fmt("fresh_micro_steps", every=1)
def _(r: Report) -> list[str]:
    begin = r.at - timedelta(seconds=r.dt)
    return [
        f"{begin + timedelta(seconds=r.dt * (m + 1) / 4):%H:%M:%S.%f} step {r.step} micro {m + 1}/4 loss {r.loss:.4f} fwd+bwd {1000 * r.dt / 4:.1f} ms"
        for m in range(4)
    ]


@fmt("fresh_ends_in_validation", every=10)
def _(r: Report) -> list[str]:
    lines = [f"train: [{r.i}/{r.n}] loss {r.loss:.4f} time {r.dt:.3f} s/iter"]
    if r.step % 200 == 0:
        lines += [f"valid: [{k}/40] loss {r.loss * 1.3:.4f} time {r.dt / 4:.3f} s/iter" for k in range(10, 41, 10)]
    return lines


@fmt("fresh_two_losses_of_sides", every=10)
def _(r: Report) -> list[str]:
    return [
        f"[{iso(r)}] it {r.step:06d} | train/loss {r.loss:.4f} val/loss {r.loss * 1.25:.4f} best_val {r.loss * 1.24:.4f} | {r.dt:.3f} s/it"
    ]


@fmt("fresh_wall_named_time", every=10)
def _(r: Report) -> list[str]:
    return [f"it={r.step} loss={r.loss:.4f} time={r.elapsed:.1f} eta={r.eta_s:.0f}"]


@fmt("fresh_minutes_total", every=50)
def _(r: Report) -> list[str]:
    return [f"Finished {r.step} of {r.total} updates in {r.elapsed / 60:.2f} min (loss {r.loss:.4f})"]


@fmt("fresh_bar_of_epochs_and_batches", every=1, redraw=True)
def _(r: Report) -> list[str]:
    return [
        f"Epoch [{r.epoch + 1}/20] Batch [{r.i}/{r.n}] ▕{'█' * (20 * r.i // r.n):<20}▏ loss {r.loss:.4f}  {hms(r.in_epoch_s)} elapsed  {hms(r.epoch_eta_s)} left"
    ]


FRESH = written_in(__name__)
