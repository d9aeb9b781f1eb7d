"""Readings that looked right and were not: each kind was met in public code that the reader had not seen before."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucid_pipelines.advisor.metadata import FieldName, JobMetadata
from tests.support_advisor.repos import TRAINING, read

ENVIRONMENT = """
    import argparse, os, torch
    from torchvision import datasets, models
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=float(os.environ.get("LR", 1e-3)))
    parser.add_argument("--epochs", type=int, default=int(os.environ["EPOCHS"]))
    parser.add_argument("--batch-size", type=int, default=int(os.getenv("BATCH") or 32))
    args = parser.parse_args()
    world = int(os.environ["WORLD_SIZE"])
    model = models.resnet18()
    loader = torch.utils.data.DataLoader(datasets.CIFAR10("data"), batch_size=args.batch_size, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        for x, y in loader:
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
"""


def _main(found: JobMetadata) -> tuple[object, ...]:
    names = (FieldName.LEARNING_RATE, FieldName.ITERATIONS, FieldName.BATCH_SIZE, FieldName.GPUS_TOTAL)
    return tuple(found.value(name) for name in names)


def test_defaults_follow_the_environment_that_is_declared(tmp_path: Path) -> None:
    files = {"train.py": ENVIRONMENT}
    assert _main(read(tmp_path, files, "python train.py")) == (0.001, None, 32, 1)
    given = {"LR": "0.5", "EPOCHS": "7", "BATCH": "64"}
    assert _main(read(tmp_path, files, "python train.py", env=given)) == (0.5, 7, 64, 1)
    assert _main(read(tmp_path, files, ["LR=0.5", "EPOCHS=7", "BATCH=64", "python", "train.py"])) == (0.5, 7, 64, 1)
    # What is said on the launch line stands above what the environment sets as a default.
    assert _main(read(tmp_path, files, "python train.py --lr 2 --epochs 3", env=given)) == (2, 3, 64, 1)


def test_one_of_several_processes_that_are_started_by_hand(tmp_path: Path) -> None:
    found = read(tmp_path, {"train.py": ENVIRONMENT}, "python train.py", env={"WORLD_SIZE": "4", "RANK": "0"})
    assert _main(found) == (0.001, None, 128, 4)
    for name in (FieldName.NODES, FieldName.GPUS_PER_NODE):
        assert "WORLD_SIZE" in found.missing[name].reason
    launched = read(tmp_path, {}, "torchrun --nproc_per_node 2 train.py", env={"WORLD_SIZE": "4"})
    assert (launched.value(FieldName.GPUS_PER_NODE), launched.value(FieldName.NODES)) == (2, 1)


@pytest.mark.parametrize("command", ["./run_sim --x", "run_sim --x", "python gone.py", "python -m gone"])
def test_of_a_program_that_is_not_in_the_code_nothing_is_said(tmp_path: Path, command: str) -> None:
    found = read(tmp_path, {"readme.txt": ""}, command)
    assert not found.fields
    assert "not in the code" in found.missing[FieldName.NODES].reason
    assert any("not in the snapshot" in note for note in found.report.notes)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "NaN", "Infinity"])
def test_no_weaker_value_stands_in_for_one_that_is_no_number(tmp_path: Path, value: str) -> None:
    files = {"train.py": TRAINING, "config.yaml": "lr: 0.3\n"}
    found = read(tmp_path, files, f"python train.py --lr={value} --config config.yaml")
    assert found.value(FieldName.LEARNING_RATE) is None
    assert "no usable number" in found.missing[FieldName.LEARNING_RATE].reason


def test_a_count_below_one_is_named_as_the_reason(tmp_path: Path) -> None:
    found = read(tmp_path, {"train.py": TRAINING}, "python train.py --epochs=-4 --batch-size 0")
    assert found.missing[FieldName.ITERATIONS].reason == "epochs = -4: no usable number"
    assert found.missing[FieldName.BATCH_SIZE].reason == "batch_size = 0: no usable number"


LOOP = """
    model = models.resnet18()
    loader = torch.utils.data.DataLoader(datasets.CIFAR10("data"), batch_size=args.batch_size, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        for x, y in loader:
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
HEAD = """
    import argparse, torch
    from torchvision import datasets, models
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=64)
"""


def test_a_type_of_mixed_precision_counts_when_it_is_switched_on(tmp_path: Path) -> None:
    options = """
    parser.add_argument("--amp", action="store_true", default=False)
    parser.add_argument("--amp-dtype", default="float16")
    args = parser.parse_args()
    """
    files = {"train.py": HEAD + options + LOOP}
    assert read(tmp_path, files, "python train.py").value(FieldName.PRECISION) in (None, "fp32")
    assert read(tmp_path, files, "python train.py --amp").value(FieldName.PRECISION) == "fp16"
    assert read(tmp_path, files, "python train.py --amp --amp-dtype bfloat16").value(FieldName.PRECISION) == "bf16"


def test_mixed_precision_of_a_kind_that_the_machine_decides_is_missing(tmp_path: Path) -> None:
    options = """
    parser.add_argument("--mixed_precision", action="store_true", default=True)
    args = parser.parse_args()
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    """
    found = read(tmp_path, {"train.py": HEAD + options + LOOP}, "python train.py")
    assert found.value(FieldName.PRECISION) is None
    assert "more than one kind" in found.missing[FieldName.PRECISION].reason


def test_the_steps_of_a_schedule_are_not_the_length_of_the_job(tmp_path: Path) -> None:
    files = {
        "conf/config.yaml": """
            scheduler: {num_training_steps: 120000, num_warmup_steps: 1000}
            trainer: {max_epochs: 40}
            loader: {batch_size: 32}
            """,
        "train.py": """
            import hydra
            import pytorch_lightning as pl
            @hydra.main(config_path="conf", config_name="config")
            def main(cfg):
                pl.Trainer(**cfg.trainer).fit(None)
            main()
            """,
    }
    found = read(tmp_path, files, "python train.py")
    assert (found.value(FieldName.ITERATIONS), found.value(FieldName.ITERATION_TYPE)) == (40, "epochs")


def test_frames_of_one_observation_are_not_the_length_of_the_job(tmp_path: Path) -> None:
    program = """
        import gym, torch
        class FrameStack:
            def __init__(self, env, num_frames):
                self.env = env
        env = FrameStack(gym.make("CartPole-v1"), 3)
        """
    assert read(tmp_path, {"train.py": program}, "python train.py").value(FieldName.ITERATIONS) is None


def test_a_loop_that_steps_an_environment_counts_its_steps(tmp_path: Path) -> None:
    program = """
        import argparse, gym, jax, optax, tqdm
        parser = argparse.ArgumentParser()
        parser.add_argument("--max_steps", type=int, default=1000000)
        args = parser.parse_args()
        env = gym.make("HalfCheetah-v2")
        tx = optax.adam(learning_rate=3e-4)
        for i in tqdm.tqdm(range(1, args.max_steps + 1)):
            observation, reward, done, info = env.step(0)
            update(observation)
        """
    found = read(tmp_path, {"train.py": program}, "python train.py")
    assert (found.value(FieldName.ITERATIONS), found.value(FieldName.ITERATION_TYPE)) == (1_000_000, "env_steps")


def test_the_trust_coefficient_of_lars_is_no_learning_rate(tmp_path: Path) -> None:
    program = """
        import torch
        from torchvision import models
        class LARS(torch.optim.Optimizer):
            def __init__(self, params, lr, eta=0.001):
                super().__init__(params, dict(lr=lr, eta=eta))
        model = models.resnet50()
        optimizer = LARS(model.parameters(), lr=0)
        batch_size = 2048
        base_lr = batch_size / 256
        for group in optimizer.param_groups:
            group["lr"] = base_lr * unknown()
        """
    found = read(tmp_path, {"train.py": program}, "python train.py")
    assert found.value(FieldName.LEARNING_RATE) is None
    assert found.value(FieldName.OPTIMIZER) == "LARS"


SPAWNING = """
    parser.add_argument("--world-size", type=int, default=1)
    args = parser.parse_args()
    def worker(gpu, per_node, args):
        torch.distributed.init_process_group("nccl", world_size=args.world_size, rank=gpu)
        args.batch_size = int(args.batch_size / args.world_size)
        model = models.resnet18()
        loader = torch.utils.data.DataLoader(datasets.CIFAR10("data"), batch_size=args.batch_size, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
        for epoch in range(args.epochs):
            for x, y in loader:
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    per_node = torch.cuda.device_count()
    args.world_size = per_node * args.world_size
    torch.multiprocessing.spawn(worker, nprocs=per_node, args=(per_node, args))
"""


def test_a_batch_that_is_divided_among_all_nodes_is_that_of_the_job(tmp_path: Path) -> None:
    found = read(tmp_path, {"train.py": HEAD + SPAWNING}, "python train.py --batch-size 4096 --world-size 2")
    assert (found.value(FieldName.BATCH_SIZE), found.value(FieldName.NODES)) == (4096, 2)
    assert found.value(FieldName.BATCH_SIZE_PER_DEVICE) is None


def test_a_batch_whose_loading_was_not_seen_is_not_multiplied_by_devices(tmp_path: Path) -> None:
    program = """
        import argparse, importlib, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("-d", "--devices", type=int)
        parser.add_argument("-b", "--batch-size", type=int, default=64)
        args = parser.parse_args()
        experiment = importlib.import_module("experiments." + unknown()).Exp()
        experiment.launch(args)
        """
    found = read(tmp_path, {"train.py": program}, "python train.py -d 8 -b 64")
    assert found.value(FieldName.BATCH_SIZE) is None
    assert found.value(FieldName.GPUS_PER_NODE) == 8


def test_a_model_laid_out_over_listed_devices_uses_all_that_it_sees(tmp_path: Path) -> None:
    program = """
        import torch
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        memory = {i: "80GB" for i in range(torch.cuda.device_count())}
        model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto", max_memory=memory)
        Trainer(model=model, args=TrainingArguments(output_dir="o", num_train_epochs=1)).train()
        """
    found = read(tmp_path, {"train.py": program}, "python train.py")
    assert found.value(FieldName.GPUS_PER_NODE) is None


@pytest.mark.parametrize("here", ["$(pwd)", "$PWD", "${PWD}", "`pwd`"])
def test_a_path_that_begins_with_the_working_directory(tmp_path: Path, here: str) -> None:
    files = {
        "conf/vit.py": """
            import ml_collections
            def get_config(name):
                config = ml_collections.ConfigDict()
                config.base_lr = 0.03
                config.dataset = name
                return config
            """,
        "train.py": """
            from absl import app, flags
            from ml_collections import config_flags
            config_flags.DEFINE_config_file("config", None)
            def main(_):
                print(flags.FLAGS.config.base_lr)
            app.run(main)
            """,
    }
    words = ["python", "train.py", f"--config={here}/conf/vit.py:cifar10", "--config.pretrained_dir=gs://imagenet21k"]
    found = read(tmp_path, files, words)
    assert found.value(FieldName.LEARNING_RATE) == 0.03
    assert found.value(FieldName.DATASET) == "CIFAR-10"


def test_pictures_that_are_generated_are_not_classified(tmp_path: Path) -> None:
    files = {"README.md": "# Diffusion models made simple\n", "train.py": HEAD.replace("models", "transforms") + LOOP}
    files["train.py"] = files["train.py"].replace("models.resnet18()", "torch.nn.Conv2d(3, 3, 3)")
    files["train.py"] += "    args = parser.parse_args()\n"
    assert read(tmp_path, files, "python train.py").value(FieldName.TASK_TYPE) == "image generation"


def test_what_the_weights_of_a_teacher_were_trained_on_is_not_the_data(tmp_path: Path) -> None:
    files = {"train.py": TRAINING.replace("datasets.CIFAR10", "own.Pictures")}
    command = "python train.py --teacher_model_path /path/edm_imagenet64.pt --pretrained weights/coco.pth"
    assert read(tmp_path, files, command).value(FieldName.DATASET) is None


def test_the_steps_of_a_diffusion_are_not_the_length_of_the_job(tmp_path: Path) -> None:
    program = """
        import torch
        class Diffusion:
            def __init__(self, num_timesteps=40):
                self.num_timesteps = num_timesteps
        diffusion = Diffusion(num_timesteps=40)
        """
    assert read(tmp_path, {"train.py": program}, "python train.py").value(FieldName.ITERATIONS) is None


def test_fields_of_classes_that_are_never_made_are_no_settings(tmp_path: Path) -> None:
    files = {
        "other.py": """
            from dataclasses import dataclass
            @dataclass
            class OtherPolicyConfig:
                max_steps: int = 10000
                batch_size: int = 64
                learning_rate: float = 1e-4
            """,
        "train.py": "import other, torch, parser_of_ours\nparser_of_ours.run()\n",
    }
    found = read(tmp_path, files, "python train.py")
    for name in (FieldName.ITERATIONS, FieldName.BATCH_SIZE, FieldName.LEARNING_RATE):
        assert found.value(name) is None


def test_accumulation_that_is_spoken_of_but_not_read_is_missing(tmp_path: Path) -> None:
    program = """
        import torch, hidden
        class Trainer:
            def __init__(self, gradient_accumulate_every=2):
                self.every = gradient_accumulate_every
        hidden.later(Trainer)
        torch.zeros(1).sum().backward()
        """
    assert read(tmp_path, {"train.py": program}, "python train.py").value(FieldName.GRAD_ACCUMULATION) is None


def test_a_rate_that_is_scaled_in_one_product_is_read(tmp_path: Path) -> None:
    program = """
        import torch
        from torchvision import models
        batch_size = 8192
        base_lr = 0.1 * batch_size / 256
        """
    assert read(tmp_path, {"train.py": program}, "python train.py").value(FieldName.LEARNING_RATE) == pytest.approx(3.2)


def test_steps_of_a_data_pipeline_are_no_datasets(tmp_path: Path) -> None:
    config = """
        data = dict(samples_per_gpu=2, train=dict(type="RepeatDataset", dataset=dict(type="ADE20KDataset",
            pipeline=[dict(type="LoadImageFromFile"), dict(type="Resize"), dict(type="RandomFlip")])))
        """
    program = """
        import argparse
        from mmcv import Config
        parser = argparse.ArgumentParser()
        parser.add_argument("config")
        cfg = Config.fromfile(parser.parse_args().config)
        """
    found = read(tmp_path, {"train.py": program, "config.py": config}, "python train.py config.py")
    assert str(found.value(FieldName.DATASET)).startswith("ADE20K")


def test_a_loader_may_be_named_after_its_data(tmp_path: Path) -> None:
    config = '{"arch": {"type": "MnistModel"}, "data_loader": {"type": "MnistDataLoader", "args": {"batch_size": 128}}}'
    program = "import json\nconfig = json.load(open('config.json'))\n"
    found = read(tmp_path, {"train.py": program, "config.json": config}, "python train.py -c config.json")
    assert found.value(FieldName.DATASET) == "MNIST"
    assert found.value(FieldName.MODEL) == "MnistModel"


def test_synthetic_data_has_no_name(tmp_path: Path) -> None:
    config = "dataset_name: c4/en\nsteps: 10\n"
    program = "import sys, yaml\nconfig = yaml.safe_load(open(sys.argv[1]))\n"
    files = {"train.py": program, "base.yml": config}
    assert read(tmp_path, files, "python train.py base.yml dataset_type=synthetic").value(FieldName.DATASET) is None
    assert read(tmp_path, files, "python train.py base.yml dataset_type=tfds").value(FieldName.DATASET) == "C4"


def test_the_algorithm_is_the_model_of_reinforcement_learning(tmp_path: Path) -> None:
    program = """
        import gym, torch
        class MLP(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 2)
        class SAC:
            def __init__(self, model):
                self.model = model
        model = MLP()
        algorithm: SAC = SAC(model)
        """
    assert read(tmp_path, {"train.py": program}, "python train.py").value(FieldName.MODEL) == "SAC"


def test_a_configuration_that_is_named_by_its_file_as_before_hydra_1(tmp_path: Path) -> None:
    files = {
        "config/train.yaml": "defaults:\n  - agent: sac\nenv: cheetah_run\n",
        "config/agent/sac.yaml": "agent:\n  name: sac\n  params:\n    batch_size: 1024\n",
        "train.py": """
            import hydra, torch
            @hydra.main(config_path="config/train.yaml", strict=True)
            def main(cfg):
                print(cfg.env)
            main()
            """,
    }
    found = read(tmp_path, files, "python train.py env=walker_run")
    assert (found.value(FieldName.DATASET), found.value(FieldName.MODEL)) == ("walker_run", "sac")
    assert found.value(FieldName.BATCH_SIZE_PER_DEVICE) == 1024


def test_processes_of_one_replica_share_a_batch(tmp_path: Path) -> None:
    config = """
        parallelism: {dp: 4, tp: 2, pp: 1}
        tokens: {micro_batch_size: 3, batch_accumulation_per_replica: 1, sequence_length: 4096, train_steps: 2000}
        """
    program = "import sys, yaml, torch\nconfig = yaml.safe_load(open(sys.argv[1]))\n"
    found = read(tmp_path, {"run.py": program, "c.yaml": config}, "torchrun --nproc_per_node=8 run.py c.yaml")
    assert (found.value(FieldName.BATCH_SIZE), found.value(FieldName.BATCH_SIZE_PER_DEVICE)) == (12, 3)


def test_where_results_are_put_says_nothing_of_the_data(tmp_path: Path) -> None:
    extra = '\nCOCO_PATH = ".temp_map_out/coco_eval"\nimport os\ndata_out = os.path.join("x", "coco_eval")\n'
    files = {"train.py": TRAINING.replace("datasets.CIFAR10", "own.Pictures") + extra}
    assert read(tmp_path, files, "python train.py").value(FieldName.DATASET) is None


def test_a_project_that_calls_itself_self_supervised(tmp_path: Path) -> None:
    files = {"README.md": "# VICReg: regularisation for self-supervised learning\n", "main.py": TRAINING}
    files |= {"evaluate.py": TRAINING}
    files = {
        name: text.replace('"data"', '"/data/imagenet"').replace("CIFAR10", "ImageFolder")
        for name, text in files.items()
    }
    assert read(tmp_path, files, "python main.py").value(FieldName.TASK_TYPE) == "self-supervised vision"
    assert read(tmp_path, files, "python evaluate.py").value(FieldName.TASK_TYPE) == "image classification"


def test_a_loop_that_may_go_on_from_a_checkpoint_is_counted_from_its_start(tmp_path: Path) -> None:
    program = TRAINING.replace(
        "for epoch in range(args.epochs):", "for epoch in range(torch.load('last.pt')['epoch'], args.epoch):"
    ).replace('"--epochs"', '"--epoch"')
    found = read(tmp_path, {"train.py": program}, "python train.py")
    assert (found.value(FieldName.ITERATIONS), found.value(FieldName.ITERATION_TYPE)) == (90, "epochs")
