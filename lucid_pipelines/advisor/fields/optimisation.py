"""Learning rate, optimiser and numeric precision."""

from __future__ import annotations

import re

from lucid_pipelines.advisor.evaluator.trace import CallEvent
from lucid_pipelines.advisor.evaluator.values import Cls, Lit, Sym, Value
from lucid_pipelines.advisor.fields.choice import (
    Pick,
    as_number,
    evidence_of,
    formula_of,
    kind_of,
    named_root,
    pick_setting,
    pick_to_field,
    positive_number,
    refused_value,
    root_names,
    roots,
    to_field,
)
from lucid_pipelines.advisor.fields.facts import JobFacts, last_name
from lucid_pipelines.advisor.fields.names import (
    DEVICE_BATCH,
    GLOBAL_BATCH,
    LEARNING_RATE,
    LEARNING_RATE_AVOID,
    OPTIMIZER,
    PLAIN_BATCH,
)
from lucid_pipelines.advisor.fields.operations import computed_values, operations
from lucid_pipelines.advisor.fields.settings_table import Trust, normal_name
from lucid_pipelines.advisor.metadata import Evidence, FieldName, FieldValue, Missing, SourceKind

OPTIMIZERS: dict[str, str] = {
    "adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop", "rmsproptf": "RMSprop", "adagrad": "Adagrad",
    "adadelta": "Adadelta",
    "adafactor": "Adafactor", "adamax": "Adamax", "nadam": "NAdam", "radam": "RAdam", "lamb": "LAMB", "lars": "LARS",
    "lion": "Lion", "novograd": "NovoGrad", "asgd": "ASGD", "sparseadam": "SparseAdam", "lbfgs": "LBFGS",
    "fusedadam": "FusedAdam", "fusedlamb": "FusedLAMB", "fusedsgd": "FusedSGD", "deepspeedcpuadam": "DeepSpeedCPUAdam",
    "adamw8bit": "AdamW8bit", "adam8bit": "Adam8bit", "pagedadamw": "PagedAdamW", "pagedadamw8bit": "PagedAdamW8bit",
    "decoupledadamw": "DecoupledAdamW", "decoupledsgdw": "DecoupledSGDW", "scaledadam": "ScaledAdam", "muon": "Muon",
    "sophia": "Sophia", "sophiag": "SophiaG", "adabelief": "AdaBelief", "ranger": "Ranger", "ranger21": "Ranger21",
    "shampoo": "Shampoo", "soap": "SOAP", "adan": "Adan", "prodigy": "Prodigy", "galoreadamw": "GaLoreAdamW",
    "adamp": "AdamP", "sgdp": "SGDP", "sgdw": "SGDW", "yogi": "Yogi", "came": "CAME", "madgrad": "MADGRAD",
    "distributedfusedadam": "DistributedFusedAdam", "hybridadam": "HybridAdam", "cpuadam": "CPUAdam",
    "schedulefreeadamw": "AdamWScheduleFree", "adamwschedulefree": "AdamWScheduleFree", "adam_mini": "Adam-mini",
    "adamwscale": "AdamWScale", "rprop": "Rprop", "tfadamw": "AdamW", "adamweightdecay": "AdamWeightDecay",
    "adamweightdecayoptimizer": "AdamWeightDecay", "bertadam": "BertAdam", "openaiadam": "OpenAIAdam",
}  # fmt: skip
"""Optimisers by their name in lower case."""
_LIBRARY_RATES = {
    "Adam": 1e-3,
    "AdamW": 1e-3,
    "RMSprop": 1e-2,
    "Adagrad": 1e-2,
    "Adadelta": 1.0,
    "Adamax": 2e-3,
    "NAdam": 2e-3,
    "RAdam": 1e-3,
}
_PREFIXES = ("torch.optim.", "optim.", "torch.optim.adamw.", "torch.optim.adam.", "torch.optim.sgd.")


def read_optimisation(facts: JobFacts) -> None:
    """Fill in learning rates, optimiser and precision."""
    sinks = optimiser_calls(facts)
    _read_rate(facts, sinks)
    _read_optimizer(facts, sinks)
    facts.put(FieldName.PRECISION, _precision(facts))


def optimiser_name(text: str) -> str | None:
    """The usual spelling of an optimiser's name; ``None`` when it is none."""
    plain = re.sub(r"[^a-z0-9]", "", text.lower().removesuffix("optimizer") if len(text) > 12 else text.lower())
    return OPTIMIZERS.get(plain)


def optimiser_calls(facts: JobFacts) -> list[tuple[str, CallEvent, Value | None]]:
    """Constructions of optimisers in the order of the program: name, call, learning rate."""
    found: list[tuple[str, CallEvent, Value | None]] = []
    for event in facts.trace.calls:
        name = optimiser_name(last_name(event.path))
        if name is None or event.path.endswith(".step"):
            continue
        rate = next(
            (event.kwargs[key] for key in ("lr", "learning_rate", "base_lr", "lrate") if key in event.kwargs), None
        )
        if rate is None and len(event.args) > 1 and ("optim" in event.path or "keras" not in event.path):
            rate = event.args[1]
        if rate is None and ("keras" in event.path or "optax" in event.path) and event.args:
            rate = event.args[0]
        found.append((name, event, rate))
    for event in facts.trace.instances:
        name = optimiser_name(event.cls.name)
        if name is not None:
            rate = event.arguments.get("lr") or event.arguments.get("learning_rate")
            found.append((name, CallEvent(event.cls.name, [], dict(event.arguments), event.site), rate))
    return found


# ---------------------------------------------------------------------- learning rate


def _read_rate(facts: JobFacts, sinks: list[tuple[str, CallEvent, Value | None]]) -> None:
    told = pick_setting(facts.table, LEARNING_RATE, _rate, avoid=LEARNING_RATE_AVOID, avoid_path=_OTHER_NETWORK)
    if isinstance(told, Pick) and _is_factor(told.lit):
        told = Missing("the rate is a product; only the factor of the batch was read", (evidence_of(told.lit),))
    used = [
        (rate, event) for _, event, rate in sinks if isinstance(rate, Lit) and positive_number(rate.value) is not None
    ]
    if isinstance(told, Pick) and told.setting is not None and told.setting.level >= 2 and not _overruled(told, used):
        _agree(facts, told, used)
        return
    if used:
        _from_use(facts, used)
        return
    compiled = _keras_rate(facts)
    if compiled is not None:
        facts.put(FieldName.LEARNING_RATE, compiled)
        return
    if isinstance(told, Pick):
        facts.put(FieldName.LEARNING_RATE, pick_to_field(told))
        _note_scaled_by_batch(facts, told.lit)
        return
    if isinstance(told, Missing):
        facts.put(FieldName.LEARNING_RATE, told)
        return
    if "lr" in facts.trace.overwritten:
        facts.put(FieldName.LEARNING_RATE, Missing("the program sets the learning rate while it trains"))
        return
    refused = refused_value(facts.table, LEARNING_RATE)
    facts.put(FieldName.LEARNING_RATE, refused or _library_rate(sinks) or Missing("no learning rate was found"))


def _is_factor(rate: Lit) -> bool:
    """``base_lr = batch_size / 256``: computed from the batch and from no rate; ``0.1 * batch_size / 256`` is one."""
    names = {normal_name(root.origin.name) for root in roots(rate) if root.origin is not None and root.origin.name}
    is_scaled = any(isinstance(root.value, float) and 0 < root.value < 1 for root in roots(rate))
    return bool(names & _BATCH_NAMES) and not names & set(LEARNING_RATE) and not is_scaled


_OTHER_NETWORK = re.compile(r"(disc|critic|teacher|warmup|finetune|(^|[._])d_|[._]d[._])")


def _rate(value: object) -> float | int | None:
    """A learning rate: a positive number below 100; ``lin_0.001`` and ``!!float 1e-3`` count as the number."""
    if isinstance(value, str) and (
        match := re.fullmatch(r"(?:lin|linear|const|constant|cos|cosine)[_:]?(\d[\d.eE\-+]*)", value.strip())
    ):
        value = match.group(1)
    number = as_number(value)
    return number if number is not None and 0 < number < 100 else None


def _agree(facts: JobFacts, told: Pick, used: list[tuple[Lit, CallEvent]]) -> None:
    """A rate that is said at launch or in a configuration, checked against what the optimiser gets."""
    facts.put(FieldName.LEARNING_RATE, pick_to_field(told))
    for rate, _ in used:
        source = {id(root) for root in roots(rate)}
        if rate.value != told.value and any(root.value == told.value for root in roots(rate)) and source:
            facts.put(
                FieldName.EFFECTIVE_LEARNING_RATE, to_field(float(str(rate.value)), [rate], 0.85, formula_of(rate))
            )
            return
    _note_scaled(facts, told)
    _note_scaled_by_batch(facts, told.lit)


def _overruled(told: Pick, used: list[tuple[Lit, CallEvent]]) -> bool:
    """Whether the optimiser gets something that is said at least as strongly and does not come from ``told``."""
    if not used or any(root.value == told.value for rate, _ in used for root in roots(rate)):
        return False
    return all(kind_of(rate).rank >= kind_of(told.lit).rank for rate, _ in used)


def _note_scaled_by_batch(facts: JobFacts, base: Lit) -> None:
    """``lr * batch_size * world_size / 256`` kept under some name or passed to a schedule."""
    if FieldName.EFFECTIVE_LEARNING_RATE in facts.found or not isinstance(base.value, int | float):
        return
    for value in computed_values(facts.trace):
        if not isinstance(value, Lit) or not isinstance(value.value, int | float) or value.value == base.value:
            continue
        names = root_names(value)
        if not (names & set(LEARNING_RATE) and names & _BATCH_NAMES):
            continue
        symbols = {symbol for symbol, _, _ in operations(value)}
        if "*" in symbols and 0 < value.value < 100 and any(root.value == base.value for root in roots(value)):
            facts.put(FieldName.EFFECTIVE_LEARNING_RATE, to_field(float(value.value), [value], 0.8, formula_of(value)))
            return


_BATCH_NAMES = frozenset({*PLAIN_BATCH, *DEVICE_BATCH, *GLOBAL_BATCH, "bs", "eff_batch_size"})


def _note_scaled(facts: JobFacts, told: Pick) -> None:
    """A rate that the program scales later, e.g. by the batch."""
    setting = told.setting
    if setting is None or setting.final is None or setting.final is setting.initial:
        return
    final = setting.final
    if (
        isinstance(final.value, int | float)
        and final.value != told.value
        and final.value > 0
        and any(root.value == told.value for root in roots(final))
    ):
        facts.put(FieldName.EFFECTIVE_LEARNING_RATE, to_field(float(final.value), [final], 0.85, formula_of(final)))


def _from_use(facts: JobFacts, used: list[tuple[Lit, CallEvent]]) -> None:
    main = _main_rates(used)
    base = [(named_root(rate, LEARNING_RATE), rate) for rate, _ in main]
    values = {(lit or rate).value for lit, rate in base}
    if len(values) > 1:
        firsts = [(lit or rate) for lit, rate in base]
        evidence = tuple(evidence_of(lit) for lit in firsts[:4])
        if _is_pair(used):
            lit, rate = base[0]
            facts.put(
                FieldName.LEARNING_RATE,
                to_field(float(str((lit or rate).value)), [lit or rate], 0.7, "of the first optimiser"),
            )
            return
        facts.put(FieldName.LEARNING_RATE, Missing("several optimisers with different learning rates", evidence))
        return
    lit, rate = base[0]
    source = lit or rate
    value = positive_number(source.value)
    assert value is not None
    facts.put(FieldName.LEARNING_RATE, to_field(value, [source], 0.9, formula_of(source)))
    if lit is not None and lit.value != rate.value:
        facts.put(FieldName.EFFECTIVE_LEARNING_RATE, to_field(float(str(rate.value)), [rate], 0.85, formula_of(rate)))
    else:
        _note_scaled_by_batch(facts, source)


def _main_rates(used: list[tuple[Lit, CallEvent]]) -> list[tuple[Lit, CallEvent]]:
    """Without the optimisers of discriminators, critics and temperatures."""
    main = [
        (rate, event)
        for rate, event in used
        if not any(
            LEARNING_RATE_AVOID.search(normal_name(root.origin.name))
            for root in roots(rate)
            if root.origin is not None and root.origin.name
        )
    ]
    return main or used


def _is_pair(used: list[tuple[Lit, CallEvent]]) -> bool:
    """Generator and discriminator: the first optimiser is the main one."""
    return len({event.site for _, event in used}) == 2


def _keras_rate(facts: JobFacts) -> FieldValue | None:
    """``model.compile("adagrad", …)``: the library's default rate."""
    for event in facts.calls("compile"):
        given = event.args[0] if event.args else event.kwargs.get("optimizer")
        name = optimiser_name(str(given.value)) if isinstance(given, Lit) and isinstance(given.value, str) else None
        if (
            name is not None
            and name in _LIBRARY_RATES
            and isinstance(given, Lit)
            and "keras" in " ".join(facts.trace.imports)
        ):
            return to_field(1e-3 if name != "SGD" else 1e-2, [given], 0.7, "default of the library", SourceKind.LIBRARY)
    return None


def _library_rate(sinks: list[tuple[str, CallEvent, Value | None]]) -> FieldValue | None:
    """An optimiser of torch that is made without a rate uses the library's default."""
    for name, event, rate in sinks:
        if rate is None and event.path.startswith(_PREFIXES) and name in _LIBRARY_RATES and "**" not in event.kwargs:
            lit = Lit(_LIBRARY_RATES[name], None)
            return to_field(_LIBRARY_RATES[name], [lit], 0.7, f"default of {event.path}", SourceKind.LIBRARY)
    return None


# ---------------------------------------------------------------------- optimiser


def _read_optimizer(facts: JobFacts, sinks: list[tuple[str, CallEvent, Value | None]]) -> None:
    told = pick_setting(facts.table, OPTIMIZER, _optimizer_text)
    nested = _nested_optimizer(facts)
    if not (isinstance(told, Pick) and told.setting is not None and told.setting.level == 3) and nested is not None:
        facts.put(FieldName.OPTIMIZER, nested)
        return
    if isinstance(told, Pick) and told.setting is not None and told.setting.level >= 2:
        facts.put(FieldName.OPTIMIZER, pick_to_field(told))
        return
    names = {name for name, _, rate in sinks if not (isinstance(rate, Lit) and rate.value == 0 and len(sinks) > 1)}
    if len(names) == 1:
        name, event, _ = next(sink for sink in sinks if sink[0] in names)
        facts.put(
            FieldName.OPTIMIZER,
            FieldValue(
                name,
                SourceKind.CODE,
                0.9,
                (Evidence(SourceKind.CODE, event.site.file, event.site.line, None, event.path),),
            ),
        )
        return
    if isinstance(told, Pick):
        facts.put(FieldName.OPTIMIZER, pick_to_field(told))
        return
    for event in facts.calls("compile"):
        given = event.args[0] if event.args else event.kwargs.get("optimizer")
        name = optimiser_name(str(given.value)) if isinstance(given, Lit) else None
        if name is not None and isinstance(given, Lit):
            facts.put(FieldName.OPTIMIZER, to_field(name, [given], 0.9))
            return
    reason = "several optimisers" if len(names) > 1 else "no optimiser was found"
    facts.put(FieldName.OPTIMIZER, Missing(reason))


_NESTED = re.compile(
    r"(^|\.)(optim|optimizer|optimizers|optim_wrapper\.optimizer|opt|optimiser|optimizer_kwargs|optim_kwargs|opt_kwargs)\.(type|name|_target_|class_path|_component_|_name_|_name|class_name|init_args\.type|optimizer)$"
)


def _nested_optimizer(facts: JobFacts) -> FieldValue | None:
    """``optimizer: {type: AdamW, …}`` and its kin in configurations."""
    for setting in facts.table.settings:
        in_code = setting.name == "class_name" and setting.trust > Trust.ASSIGNMENT
        if setting.level < 2 and setting.container != "deepspeed" and not in_code:
            continue
        if not isinstance(setting.initial.value, str) or not _NESTED.search(setting.path):
            continue
        name = _optimizer_text(setting.initial.value)
        if name is not None:
            return to_field(name, [setting.initial], 0.92)
    return None


def _optimizer_text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip().rpartition(".")[2]
    known = optimiser_name(text)
    if known is not None:
        return known
    # adamw_torch, adamw_bnb_8bit, paged_adamw_32bit: the library's own spelling is kept.
    if re.fullmatch(
        r"(paged_)?(adamw|adam|sgd|lion|adafactor|adagrad|rmsprop|lamb|galore|apollo|muon)(_\w+)?", text.lower()
    ):
        if text.lower() in ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused"):
            return "AdamW"
        return text
    return None


def optimiser_of(value: Value) -> str | None:
    """The optimiser that a class or symbol is, by its name."""
    if isinstance(value, Cls):
        return optimiser_name(value.name)
    return optimiser_name(last_name(value.path)) if isinstance(value, Sym) else None


# ---------------------------------------------------------------------- precision


_BF16 = re.compile(r"bf16|bfloat16", re.IGNORECASE)
_FP16 = re.compile(r"fp16|float16|\bhalf\b|(^|[^0-9])16(-mixed|-true)?($|[^0-9])|amp_fp16", re.IGNORECASE)
_FP32 = re.compile(r"fp32|float32|^32(-true)?$|^no$", re.IGNORECASE)


def _precision(facts: JobFacts) -> FieldValue | Missing:
    launch = facts.launch
    if launch is not None and launch.mixed_precision is not None:
        kind = _precision_of(launch.mixed_precision.value)
        if kind is not None:
            return to_field(kind, [launch.mixed_precision], 0.93)
    for level in (3, 2, 1):
        found = _flags(facts, level) or _named_precision(facts, level)
        if found is not None:
            return found
        if level == 2:
            seen = _autocast(facts)
            if seen is not None:
                return seen
    off = [
        setting for name in ("fp16", "bf16") for setting in facts.table.named(name) if setting.trust >= Trust.INSTANCE
    ]
    if len({setting.name for setting in off}) == 2 and all(setting.initial.value is False for setting in off):
        return to_field("fp32", [setting.initial for setting in off[:2]], 0.8)
    if _speaks_of_lower(facts):
        return Missing("lower precision is spoken of, but whether it is used was not seen")
    if _mentions_lower(facts) and not _switched_off(facts):
        return Missing("the program speaks of lower precision, but whether it is used was not seen")
    if facts.complete and (optimiser_calls(facts) or facts.calls("DataLoader", "fit", "backward")):
        imports = facts.trace.imports
        if "torch" in imports or "tensorflow" in imports or "keras" in imports:
            return to_field("fp32", [], 0.75, "no lower precision in the program", SourceKind.LIBRARY)
    return Missing("no precision was found")


_UNSPECIFIC = ("amp", "use_amp", "enable_amp", "amp_enable", "mixed_precision")
"""Switches that say that precision is lowered, but not to what."""


def _kind_of_mixed(facts: JobFacts, switch: Lit) -> FieldValue | Missing:
    """What ``--amp`` means: the type that stands beside it, else torch's own, unless the program knows both."""
    for setting in facts.table.named("amp_dtype", "amp_type", "autocast_dtype", "mixed_precision_dtype"):
        kind = _precision_of((setting.final or setting.initial).value)
        if kind is not None and setting.trust > Trust.ASSIGNMENT:
            return to_field(kind, [switch, setting.initial], 0.88)
    if switch.origin is not None and switch.origin.name is not None and facts.mentions(_BF16):
        return Missing("mixed precision is switched on; the program knows more than one kind", (evidence_of(switch),))
    return to_field("fp16", [switch], 0.85)


def _flags(facts: JobFacts, level: int) -> FieldValue | Missing | None:
    """``--bf16``, ``fp16: true``, ``--amp``, ``fp16.enabled``."""
    for name, kind in (("bf16", "bf16"), ("use_bf16", "bf16"), ("fp16", "fp16"), ("use_fp16", "fp16"), ("fp16_run",
        "fp16"), ("half", "fp16"), ("amp", "fp16"), ("use_amp", "fp16"), ("enable_amp", "fp16"), ("amp_enable",
        "fp16"), ("mixed_precision", "fp16"), ("half_precision", "fp16"), ("enabled", "")):  # fmt: skip
        for setting in facts.table.named(name):
            if setting.level != level or (setting.trust <= Trust.ASSIGNMENT and level > 1):
                continue
            path = normal_name(setting.path)
            if name == "enabled":
                kind = (
                    "bf16"
                    if re.search(r"(bf16|bfloat16)\.enabled$", path)
                    else "fp16"
                    if re.search(r"fp16\.enabled$", path)
                    else ""
                )
                if not kind:
                    continue
            value = (setting.final or setting.initial).value
            if value is True and name in _UNSPECIFIC:
                return _kind_of_mixed(facts, setting.initial)
            if value is True or (
                name not in ("mixed_precision", "enabled", "amp", "half")
                and (value == 1 or (str(value).lower() in ("auto", "true") and name in ("bf16",)))
            ):
                return to_field(kind, [setting.initial], 0.9)
    return None


def _named_precision(facts: JobFacts, level: int) -> FieldValue | None:
    for name in (
        "precision",
        "mixed_precision",
        "mixed_precision_param",
        "dtype",
        "torch_dtype",
        "train_dtype",
        "amp_dtype",
        "compute_dtype",
        "param_dtype",
        "model_dtype",
        "fp16_or_bf16",
    ):
        for setting in facts.table.named(name):
            if setting.level != level or (setting.trust <= Trust.ASSIGNMENT and level > 1):
                continue
            if name == "amp_dtype" and _is_off(facts):
                continue
            kind = _precision_of((setting.final or setting.initial).value)
            if kind is not None and not (kind == "fp32" and name not in ("precision", "mixed_precision", "dtype")):
                if kind == "fp32" and name == "dtype" and facts.table.named("mixed_precision_param"):
                    continue
                return to_field(kind, [setting.initial], 0.85 if level == 1 else 0.9)
    return None


def _precision_of(value: object) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    text = str(value)
    if _BF16.search(text):
        return "bf16"
    if _FP16.search(text):
        return "fp16"
    return "fp32" if _FP32.search(text) else None


_LOWER = re.compile(r"(^|_)(fp16|bf16|float16|bfloat16|half|amp|mixed_precision)(_|$)")


def _speaks_of_lower(facts: JobFacts) -> bool:
    """Whether something that is named after a lower precision is switched on."""
    for setting in facts.table.settings:
        value = (setting.final or setting.initial).value
        if _LOWER.search(setting.name) and value not in (None, False, 0, "", "no", "none", "O0", "fp32", "float32"):
            return True
    return False


_MENTION = re.compile(r"bfloat16|float16|autocast|GradScaler|bf16|fp16|mixed_precision|\.half\(\)")


def _mentions_lower(facts: JobFacts) -> bool:
    """Whether a module that was walked through speaks of lower precision."""
    return facts.mentions(_MENTION)


def _is_off(facts: JobFacts) -> bool:
    """Whether the switch beside a type of mixed precision is off: then the type is not used."""
    switches = [setting for setting in facts.table.named(*_UNSPECIFIC) if setting.trust > Trust.ASSIGNMENT]
    return bool(switches) and all((setting.final or setting.initial).value is False for setting in switches)


def _switched_off(facts: JobFacts) -> bool:
    """Whether a switch that is named after a lower precision is off."""
    return any(
        _LOWER.search(setting.name)
        and (setting.final or setting.initial).value in (False, None, "no", "fp32", "float32", "O0")
        for setting in facts.table.settings
    )


def _autocast(facts: JobFacts) -> FieldValue | None:
    """``torch.autocast(dtype=…)`` and ``GradScaler(enabled=…)`` in the walked program."""
    for event in facts.trace.calls:
        last = last_name(event.path)
        if last not in ("autocast", "GradScaler") or event.path.startswith("either"):
            continue
        enabled = event.kwargs.get("enabled")
        if last == "GradScaler" and enabled is None:
            # A scaler that is always made says nothing: what runs in lower precision is said by autocast.
            continue
        if isinstance(enabled, Lit) and not enabled.value:
            continue
        if isinstance(enabled, Sym):
            continue
        dtype = event.kwargs.get("dtype")
        kind = "bf16" if isinstance(dtype, Sym) and "bfloat16" in dtype.path else "fp16"
        device = event.kwargs.get("device_type", event.args[0] if event.args else None)
        if isinstance(device, Lit) and device.value == "cpu":
            continue
        if (isinstance(dtype, Sym) and dtype.path == "either") or (isinstance(dtype, Sym) and "float32" in dtype.path):
            continue
        where = Evidence(SourceKind.CODE, event.site.file, event.site.line, None, event.path)
        return FieldValue(kind, SourceKind.CODE, 0.85, (where,))
    return None
