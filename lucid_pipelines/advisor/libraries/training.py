"""Training frameworks that call back into the program: Lightning modules and data modules, trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucid_pipelines.advisor.evaluator.calls import NOT_MODELLED
from lucid_pipelines.advisor.evaluator.values import (
    NONE,
    Cls,
    Func,
    Lit,
    Map,
    Model,
    Native,
    Obj,
    Seq,
    Site,
    Sym,
    Value,
    unknown,
)
from lucid_pipelines.advisor.libraries.command_words import words_of
from lucid_pipelines.advisor.libraries.commands import settings_from_words

if TYPE_CHECKING:
    from lucid_pipelines.advisor.evaluator.machine import Library, Machine

_LIGHTNING = (
    "pytorch_lightning",
    "lightning",
    "lightning.pytorch",
    "lightning.pytorch.trainer",
    "pytorch_lightning.trainer",
)


class LightningTrainer(Model):
    """``Trainer(max_epochs=…, devices=…)``: ``fit`` asks the module for its optimiser and its data."""

    __slots__ = ("settings",)

    def __init__(self, settings: Map) -> None:
        self.settings = settings

    def get(self, machine: Machine, name: str, site: Site) -> Value | None:
        if name in ("fit", "fit_loop"):
            return Native(name, self._fit)
        if name == "world_size":
            size = machine.world.world_size
            return Lit(size, machine.world.origin) if size is not None else _device_product(self.settings, machine)
        if name in ("num_nodes", "accumulate_grad_batches", "max_epochs", "max_steps"):
            return self.settings.items.get(name, NONE if name.startswith("max") else Lit(1))
        if name in ("test", "validate", "predict"):
            return Native(name, lambda m, args, kwargs, at: unknown(name))
        return Sym(f"Trainer().{name}")

    def set(self, machine: Machine, name: str, value: Value) -> bool:
        self.settings.items[name] = value
        return True

    def _fit(self, machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
        parts = [*args, *kwargs.values()]
        for part in parts:
            if isinstance(part, Obj):
                part.attrs.setdefault("trainer", self)
        for part in parts:
            if isinstance(part, Obj):
                for hook in ("prepare_data", "setup", "train_dataloader", "configure_optimizers"):
                    method = part.cls.find(hook)
                    if isinstance(method, Func):
                        given: list[Value] = [Lit("fit")] if hook == "setup" and len(method.node.args.args) > 1 else []
                        machine.call(method.bind(part), given, {}, site)
        return NONE


def _device_product(settings: Map, machine: Machine) -> Value:
    devices = settings.items.get("devices", settings.items.get("gpus"))
    nodes = settings.items.get("num_nodes", Lit(1))
    count = devices.value if isinstance(devices, Lit) else len(devices.items) if isinstance(devices, Seq) else None
    if (
        isinstance(count, int)
        and not isinstance(count, bool)
        and count > 0
        and isinstance(nodes, Lit)
        and isinstance(nodes.value, int)
    ):
        return Lit(count * nodes.value, devices.origin if isinstance(devices, Lit) else None)
    return Sym("world_size", tags=frozenset({"world_size"}))


def lightning_trainer(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``Trainer(…)`` or ``Trainer.from_argparse_args(options, …)`` of Lightning."""
    settings = Map({key: value for key, value in kwargs.items() if key != "**"}, attributes=True, open="**" in kwargs)
    if args and isinstance(args[0], Map):
        # from_argparse_args: the options that the trainer knows.
        for name, value in args[0].items.items():
            if isinstance(name, str) and name not in settings.items:
                settings.items[name] = value
    machine.note_settings("lightning_trainer", settings, site)
    return LightningTrainer(settings)


def save_hyperparameters(machine: Machine, owner: Obj, site: Site) -> Map:
    """What ``self.save_hyperparameters()`` keeps: the constructor's arguments."""
    for event in reversed(machine.trace.instances):
        if event.instance is owner:
            return Map(dict(event.arguments), attributes=True, open=True)
    return Map(attributes=True, open=True)


def hyperparameters(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    frame = machine.caller
    owner = frame.function.bound if frame is not None and frame.function is not None else None
    if isinstance(owner, Obj):
        kept = save_hyperparameters(machine, owner, site)
        if args and isinstance(args[0], Map):
            kept = args[0]
            kept.attributes = True
        owner.attrs["hparams"] = kept
        for name, value in kept.items.items():
            if isinstance(name, str) and name == "kwargs" and isinstance(value, Map):
                kept.items.update(value.items)
                break
    return NONE


def lightning_cli(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``LightningCLI(Model, DataModule)``: options ``--trainer.x``, ``--model.x``, ``--data.x``, ``--config``."""
    settings = Map({"trainer": Map(attributes=True, open=True), "model": Map(attributes=True, open=True),
        "data": Map(attributes=True, open=True), "optimizer": Map(attributes=True, open=True)}, attributes=True,
        open=True)  # fmt: skip
    words = [word for word in words_of(machine) if str(word.value) not in ("fit", "validate", "test", "predict")]
    settings_from_words(machine, settings, words, site, "lightning_cli")
    classes = [
        arg for arg in (*args, kwargs.get("model_class"), kwargs.get("datamodule_class")) if isinstance(arg, Cls)
    ]
    made: list[Value] = []
    for cls in classes:
        is_data = any("DataModule" in base for base in cls.library_bases())
        own = settings.items["data" if is_data else "model"]
        named = own.items if isinstance(own, Map) else {}
        made.append(machine.call(cls, [], {str(key): value for key, value in named.items()}, site))
    trainer = settings.items["trainer"]
    assert isinstance(trainer, Map)
    LightningTrainer(trainer)._fit(machine, made, {}, site)
    return Map({"trainer": LightningTrainer(trainer)}, attributes=True, open=True)


def first_argument(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """Wrappers of networks: what is asked of them is asked of the network."""
    return args[0] if args else kwargs.get("module", kwargs.get("model", NOT_MODELLED))


def prepare(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``accelerator.prepare(model, optimizer, loader)`` gives back what it got."""
    if not args:
        return NOT_MODELLED
    return args[0] if len(args) == 1 else Seq(list(args), "tuple")


def deepspeed_initialize(machine: Machine, args: list[Value], kwargs: dict[str, Value], site: Site) -> Value:
    """``deepspeed.initialize(model=…, config=…)``: the configuration decides optimiser and batch."""
    config = kwargs.get("config") or kwargs.get("config_params")
    if isinstance(config, Map):
        machine.note_settings("deepspeed", config, site)
    model = kwargs.get("model", args[1] if len(args) > 1 else Sym("model"))
    rest = [Sym(f"deepspeed.initialize()[{number}]") for number in range(1, 4)]
    return Seq([model, *rest], "tuple")


def register(library: Library) -> None:
    """Add these models to a library."""
    for prefix in _LIGHTNING:
        library.calls[f"{prefix}.Trainer"] = lightning_trainer
        library.calls[f"{prefix}.Trainer.from_argparse_args"] = lightning_trainer
        library.calls[f"{prefix}.trainer.Trainer"] = lightning_trainer
    library.calls["Trainer.from_argparse_args"] = lightning_trainer
    library.endings["LightningCLI"] = lightning_cli
    for name in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DDP", "FSDP", "fully_shard"):
        library.endings[name] = first_argument
    library.calls["torch.compile"] = library.calls["torch.jit.script"] = first_argument
    library.calls["torch.nn.SyncBatchNorm.convert_sync_batchnorm"] = first_argument
    library.endings["prepare"] = prepare
    library.calls["deepspeed.initialize"] = deepspeed_initialize
    library.endings["save_hyperparameters"] = hyperparameters
