from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.meaning import Meaning, Role, meaning, tokens_of, unit_scale_s
from lucid_pipelines.tracker.phase import Phase, phase_of


def of(text: str, index: int = 0) -> Meaning:
    return meaning(RecordParser().parse(text).shape.fields[index])


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("global_step: 5", Role.STEP),
        ("num_updates=5", Role.STEP),
        ("total optimization steps = 5", Role.TOTAL_STEPS),
        ("max_steps: 5", Role.TOTAL_STEPS),
        ("Epoch: 5", Role.EPOCH),
        ("num_epochs: 5", Role.TOTAL_EPOCHS),
        ("consumed samples: 5", Role.ITEMS),
        ("iter_time: 0.5s", Role.STEP_TIME),
        ("elapsed time per iteration (ms): 5.5", Role.STEP_TIME),
        ("avg_batch_cost: 0.5 s", Role.STEP_TIME),
        ("ms/batch 12.5", Role.STEP_TIME),
        ("sec/tick 95.5", Role.STEP_TIME),
        ("time: 0.5", Role.TIME),
        ("took 0.5s", Role.TIME),
        ("epoch time: 55.5 s", Role.EPOCH_TIME),
        ("elapsed: 55.5", Role.ELAPSED),
        ("eta: 1:02:03", Role.REMAINING),
        ("data_time: 0.5", Role.PART_TIME),
        ("backward_time=0.5", Role.PART_TIME),
        ("steps_per_second: 2.5", Role.STEP_RATE),
        ("ups=2.5", Role.STEP_RATE),
        ("CurrSamplesPerSec=25.5", Role.ITEM_RATE),
        ("tok/sec: 123.5", Role.ITEM_RATE),
        ("throughput per GPU (TFLOP/s/GPU): 340.1", Role.FLOP_RATE),
        ("write throughput 693 MB/s", Role.BYTE_RATE),
        ("loss: 1.5", Role.LOSS),
        ("cross-entropy=2.3", Role.LOSS),
        ("loss_scale: 65536", Role.OTHER),
        ("model.loss_type: 1000", Role.OTHER),
        ("loss_pkts=1", Role.OTHER),
        ("step_clk=1715MHz", Role.OTHER),
        ("warmup_steps: 100", Role.OTHER),
        ("save_steps: 100", Role.OTHER),
        ("learning_rate: 0.1", Role.LEARNING_RATE),
        ("gnorm=1.2", Role.GRADIENT),
        ("batch size: 97", Role.BATCH_SIZE),
        ("max mem: 5120", Role.MEMORY),
        ("acc: 0.5", Role.METRIC),
        ("每步耗时 0.5 秒", Role.STEP_TIME),
        ("速度：2.5 步/秒", Role.STEP_RATE),
    ],
)
def test_roles(text: str, role: Role) -> None:
    assert of(text).role is role


def test_losses_are_weighed() -> None:
    plain, total, train, part, averaged = (
        of(f"{name}: 1.5").weight for name in ("loss", "total_loss", "train_loss", "loss_bbox", "avg_loss")
    )
    assert plain > total > train > averaged > part


def test_scope_of_a_name() -> None:
    assert of("val_loss: 1.5").is_evaluation
    assert of("train/loss: 1.5").is_training
    assert not of("loss: 1.5").is_evaluation
    assert of("RunningAvgSamplesPerSec=2.5").is_averaged


def test_units_become_seconds() -> None:
    assert of("time 329.92ms").scale_s == pytest.approx(1e-3)
    assert of("iter time (s): 3.5").scale_s == 1.0
    assert of("12.3 min/batch").scale_s == 60.0
    assert of("60.0 iters/min").scale_s == 60.0
    assert of("time: 0.5").scale_s is None
    assert (unit_scale_s("hours"), unit_scale_s("parsecs")) == (3600.0, None)


def test_words_of_names() -> None:
    assert tokens_of("RunningAvgSamplesPerSec") == ["running", "avg", "samples", "per", "sec"]
    assert tokens_of("每步耗时") == ["每步", "耗时"]


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("Train: [1/10] loss 2.5", Phase.TRAINING),
        ("step: 5 loss: 2.5", Phase.NEUTRAL),
        ("Test: [ 10/98] loss 2.5 acc 3.5", Phase.EVALUATION),
        ("Validation DataLoader 0: 100%|██████████| 40/40 [00:06<00:00,  6.12it/s]", Phase.EVALUATION),
        ("[eval] val_loss: 1.5 (135 batches, 53.6s)", Phase.EVALUATION),
        ("Epoch 1 | valid | step 5 | loss 0.3", Phase.EVALUATION),
        ("epoch: 5 loss: 0.5 val: 0.7 test: 0.6", Phase.NEUTRAL),
        ("100/100 - 41ms/step - loss: 1.6 - val_loss: 1.9", Phase.NEUTRAL),
        ("Downloading shards:  74%|██████ | 25/30 [00:52<00:28, 2.81s/it]", Phase.TRANSFER),
        ("  1.17G/2.41G [29:24<31:14, 663kB/s]", Phase.TRANSFER),
        ("Map (num_proc=16):  50%|█████     | 11/23 [30:51<30:38, 623.42 examples/s]", Phase.PREPARATION),
        ("[343/400] /usr/local/cuda/bin/nvcc -c flash.cu", Phase.BUILD),
        ("Generating: 10%|█ | 5/50 [00:01<00:09, 5.0it/s]", Phase.SAMPLING),
        ("gpu4: util 80% mem 54836MiB temp 75C", Phase.MONITOR),
        ("heartbeat rank=0 alive uptime=1785s", Phase.MONITOR),
    ],
)
def test_phases(text: str, phase: Phase) -> None:
    assert phase_of(RecordParser().parse(text).shape) is phase


@given(st.text(max_size=80))
def test_any_name_has_a_meaning(name: str) -> None:
    for field in RecordParser().parse(name + ": 1.5").shape.fields:
        assert 0.0 <= meaning(field).weight <= 1.0
