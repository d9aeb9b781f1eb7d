"""What a named number means: step, loss, time per step … from the words of its name and its unit."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lucid_pipelines.tracker import vocabulary as words
from lucid_pipelines.tracker.records import Field, Kind


class Role(StrEnum):
    """What a number of a log is."""

    STEP = "step"
    TOTAL_STEPS = "total_steps"
    EPOCH = "epoch"
    TOTAL_EPOCHS = "total_epochs"
    ITEMS = "items"
    STEP_TIME = "step_time"
    TIME = "time"
    """A time of which the name alone does not say whether it is one step's, an interval's or a sum."""
    EPOCH_TIME = "epoch_time"
    ELAPSED = "elapsed"
    REMAINING = "remaining"
    PART_TIME = "part_time"
    STEP_RATE = "step_rate"
    ITEM_RATE = "item_rate"
    BYTE_RATE = "byte_rate"
    FLOP_RATE = "flop_rate"
    LOSS = "loss"
    METRIC = "metric"
    LEARNING_RATE = "learning_rate"
    GRADIENT = "gradient"
    BATCH_SIZE = "batch_size"
    MEMORY = "memory"
    SHARE = "share"
    UNNAMED = "unnamed"
    OTHER = "other"


class Meaning(NamedTuple):
    """Role of a field and how sure its words are.

    Attributes:
        weight: 0 to 1; among fields of one role the heavier one is meant.
        is_evaluation: the name says that the value is of an evaluation (``val_loss``).
        is_training: the name says that the value is of training (``train_loss``).
        scale_s: factor to seconds of a time, ``None`` when no unit is given.
        noun: what a rate or a counter counts (``samples``), ``""`` when not said.
        is_averaged: the name says that it is an average over more than the last step.
    """

    role: Role
    weight: float = 0.0
    is_evaluation: bool = False
    is_training: bool = False
    scale_s: float | None = None
    noun: str = ""
    is_averaged: bool = False


@lru_cache(maxsize=16_384)
def meaning(field: Field) -> Meaning:
    """Work out what a field means from its name, qualifier and unit alone."""
    tokens = tokens_of(field.name)
    bag = frozenset(tokens)
    unit = field.unit.replace(" ", "")
    is_evaluation = bool(bag & words.EVALUATION)
    is_training = bool(bag & words.TRAINING)
    found = (
        _by_unit(field, bag, unit)
        or _by_rate_name(field, bag, tokens)
        or _ordinary(field, bag)
        or _loss(tokens, bag)
        or _error(field, bag)
        or _time(field, bag, unit)
        or _counter(field, bag)
        or _score(field, bag)
        or _initial(field)
    )
    if found is None:
        found = Meaning(Role.OTHER if field.name else Role.UNNAMED)
    return found._replace(is_evaluation=is_evaluation, is_training=is_training, is_averaged=bool(bag & words.AVERAGED))


def tokens_of(name: str) -> list[str]:
    """``RunningAvgSamplesPerSec`` → running, avg, samples, per, sec; words of other languages by what they mean."""
    tokens: list[str] = []
    for token in _TOKEN.findall(name):
        if token[0] > "\u2fff":
            tokens += _UNSPACED.findall(token) or [token]
        else:
            tokens.append(token.lower())
    return [word for token in tokens for word in words.FOREIGN.get(token, token).split()]


def unit_scale_s(unit: str) -> float | None:
    """Factor from a unit of time to seconds; ``None`` for anything else."""
    return _SCALE_S.get(unit.lower().strip())


_OTHER = "\u00c0-\u024f\u0370-\u052f\u1e00-\u1eff"
"""Letters with accents, Greek, Cyrillic."""
_TOKEN = re.compile(
    rf"[A-Za-z]*[{_OTHER}][A-Za-z{_OTHER}]*|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    r"|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]+"
)
_UNSPACED = re.compile("|".join(words.UNSPACED))
_SCALE_S: dict[str, float] = {}
for _names, _factor in (
    ("ns nanosecond nanoseconds", 1e-9),
    ("us µs μs microsecond microseconds", 1e-6),
    ("ms msec msecs millisecond milliseconds 毫秒", 1e-3),
    ("s sec secs second seconds t 秒", 1.0),
    ("sekund sekunde sekunden sekundy sekunder seconde secondes segundo segundos secondo secondi seconden", 1.0),
    ("saniye giây sn с сек секунд секунда секунды", 1.0),
    ("min mins minute minutes m 分钟 分", 60.0),
    ("h hr hrs hour hours 小时", 3600.0),
    ("d day days 天", 86_400.0),
):
    _SCALE_S.update(dict.fromkeys(_names.split(), _factor))

_TIME_PER = re.compile(
    rf"^(?P<time>[a-zµμ{_OTHER}]+|秒|毫秒)(?:/|per)(?P<count>\d*)(?P<noun>[A-Za-z_{_OTHER}]+|[步轮])"
)
_RATE = re.compile(
    r"^(?P<noun>[A-Za-z_]*|[\u4e00-\u9fff]+)(?:/|per)(?:s|sec|secs|second|seconds|min|秒)(?:/|$)", re.IGNORECASE
)
_BYTES = re.compile(r"^(?:[kKMGT]i?)?[bB](?:ytes?|its?)?$")
_FLOPS = re.compile(r"flops?", re.IGNORECASE)
_SIZE_UNIT = re.compile(r"^[kKMGT]i?[Bb]$")
_AROUND_TIME = frozenset(["in", "for", "after", "over", "took", "takes", "takes about", "within", "done", "finished"])
_NORM = re.compile(r"(?:^|[ _-])l[12]$")
_STEP_NOUNS = words.STEP - {"up", "timestep", "timesteps"}


def _by_unit(field: Field, bag: frozenset[str], unit: str) -> Meaning | None:
    named = field.name.replace(" ", "") if "/" in field.name else ""
    for text in (unit, field.qualifier.replace(" ", ""), named):
        if not text or len(text) > 40:
            continue
        if _FLOPS.search(text):
            return Meaning(Role.FLOP_RATE, 1.0, noun=text)
        if match := _RATE.match(text):
            return _rate(match["noun"], bag, per_minute="/min" in text.lower())
        short = text is named and field.name[:1] in "mhdt" and field.name[1:2] == "/"
        if (match := _TIME_PER.match(text)) and match["time"] in _SCALE_S and not short:
            return _time_per(match["noun"], match["count"], _SCALE_S[match["time"]], bag)
    if unit in ("%", "％"):
        return Meaning(Role.SHARE)
    if _SIZE_UNIT.match(unit) or _SIZE_UNIT.match(field.qualifier):
        return Meaning(Role.MEMORY)
    return None


def _rate(noun: str, bag: frozenset[str], *, per_minute: bool) -> Meaning:
    if _BYTES.match(noun) and noun not in ("b",):
        return Meaning(Role.BYTE_RATE, 1.0, noun=noun)
    parts = tokens_of(noun)
    scale = 60.0 if per_minute else 1.0
    if not bag.isdisjoint(words.PART - {"sample"}) and not parts:
        return Meaning(Role.OTHER)
    if parts and parts[-1] in _STEP_NOUNS:
        return Meaning(Role.STEP_RATE, 1.0, scale_s=scale, noun=parts[-1])
    if parts and parts[-1] in words.EPOCH:
        return Meaning(Role.OTHER)
    return Meaning(Role.ITEM_RATE, 0.9 if parts else 0.6, scale_s=scale, noun=parts[-1] if parts else "")


def _time_per(noun: str, count: str, scale_s: float, bag: frozenset[str]) -> Meaning:
    parts = tokens_of(noun)
    if not parts or (count and count != "1") or not bag.isdisjoint(words.PART - {"sample"}):
        return Meaning(Role.OTHER)
    if parts[0] in _STEP_NOUNS:
        return Meaning(Role.STEP_TIME, 1.0, scale_s=scale_s)
    if parts[0] in words.EPOCH:
        return Meaning(Role.EPOCH_TIME, 1.0, scale_s=scale_s)
    return Meaning(Role.OTHER)


def _by_rate_name(field: Field, bag: frozenset[str], tokens: list[str]) -> Meaning | None:
    name = field.name.lower()
    if _FLOPS.search(name) or "mfu" in bag or "hfu" in bag:
        return Meaning(Role.FLOP_RATE if "flop" in name else Role.METRIC, 1.0, noun="flops")
    if "per" in tokens:
        at = tokens.index("per")
        before, after = tokens[:at], tokens[at + 1 :]
        if after and after[0] in words.SECOND and before:
            noun = before[-1]
            if noun in _SCALE_S and noun not in ("m", "h", "d"):
                return None
            return _rate(noun, bag, per_minute=False)
        if after and before and before[-1] in _SCALE_S and after[0] in _STEP_NOUNS:
            return _time_per(after[0], "", _SCALE_S[before[-1]], bag)
    if match := re.search(r"([a-z_]+)/(?:s|sec|secs|second)(?:/|\b)", name):
        return _rate(match[1], bag, per_minute=False)
    if bag & words.RATE and not bag & (
        words.LEARNING_RATE | {"learning", "drop", "decay", "dropout", "hit", "error", "success"}
    ):
        if bag & words.STEP_RATE_NAMES:
            return Meaning(Role.STEP_RATE, 0.8, scale_s=1.0, noun="updates")
        if bag & {"ep", "eps"} and not bag & (words.RATE - {"eps"}):
            return None
        if "rate" in bag and not field.unit:
            return None
        nouns = [t for t in tokens if t in words.ITEMS]
        return Meaning(Role.ITEM_RATE, 0.7, scale_s=1.0, noun=nouns[0] if nouns else "")
    return None


def _ordinary(field: Field, bag: frozenset[str]) -> Meaning | None:
    if bag & words.LEARNING_RATE or {"learning", "rate"} <= bag:
        return Meaning(Role.LEARNING_RATE, 1.0)
    if bag == {"rate"}:
        return Meaning(Role.LEARNING_RATE, 0.4)
    if bag & words.BATCH_SIZE or ("size" in bag and bag & {"batch", "minibatch", "microbatch"}):
        return Meaning(Role.BATCH_SIZE, 1.0 if bag & {"global", "gbs", "bsz"} else 0.6)
    is_loss = bool(bag & words.LOSS) or {"cross", "entropy"} <= bag or any(t.endswith("loss") for t in bag)
    if bag & words.GRADIENT and not is_loss and not bag & (words.STEP | {"bucket", "buckets"}):
        return Meaning(Role.GRADIENT, 1.0)
    if bag & words.MEMORY and not is_loss:
        return Meaning(Role.MEMORY)
    if bag & words.METRIC and not is_loss:
        return Meaning(Role.METRIC, 0.5)
    return None


def _loss(tokens: list[str], bag: frozenset[str]) -> Meaning | None:
    core = {t for t in bag if t in words.LOSS or t.endswith("loss") or t.startswith("损失")}
    if {"cross", "entropy"} <= bag:
        core |= {"cross", "entropy"}
    if bag == {"learn"}:
        return Meaning(Role.LOSS, 0.5)
    if not core or bag & (words.NOT_VALUE - {"function"} if "value" in bag else words.NOT_VALUE):
        return None
    if "cost" in core and bag & (words.PART | words.PER_STEP | words.TIME) and len(core) == 1:
        return None
    # A "loss value" is the loss; a "value loss" is that of a value function.
    filler = words.LOSS_FILLER | ({"value"} if tokens[-1] == "value" else frozenset())
    rest = bag - core - filler - words.EVALUATION - {t for t in bag if t.isdigit()}
    plain = bool(core & {"loss", "损失", "损失值", "losses"})
    if plain and len(core) > 1 and not rest:
        weight = 0.85
    elif rest:
        weight = 0.7 if plain else 0.55
    elif bag == core:
        weight = 1.0 if plain else 0.75
    else:
        weight = (0.93 if bag & words.LOSS_AVERAGED else 0.97) if plain else 0.72
        if "total" in bag and plain:
            weight = 0.99
    if tokens[-1].isdigit():
        weight -= 0.1
    if core <= {"mse", "mae", "rmse", "cost", "objective", "objf", "elbo"}:
        weight = min(weight, 0.6)
    return Meaning(Role.LOSS, weight)


def _error(field: Field, bag: frozenset[str]) -> Meaning | None:
    """``Err 2.31``: a measure of error, if it is a decimal and its name says nothing else."""
    if field.integral:
        return None
    is_measure = bag & words.ERROR and bag <= words.ERROR | words.LOSS_FILLER | words.EVALUATION
    is_norm = _NORM.search(field.name) is not None and bool(bag & (words.TRAINING | words.EVALUATION))
    return Meaning(Role.LOSS, 0.5) if is_measure or is_norm else None


def _time(field: Field, bag: frozenset[str], unit: str) -> Meaning | None:
    scale = unit_scale_s(unit)
    qualifier = field.qualifier.lower().strip()
    if scale is None and qualifier in _SCALE_S:
        scale = _SCALE_S[qualifier]
    named = bool(bag & words.TIME) or (bag and bag <= {"t", "avg", "mean"})
    costs = "cost" in bag and bag & (words.PER_STEP | words.PART)
    if scale is None and not (named or costs or bag & words.REMAINING) and field.kind is not Kind.DURATION:
        return None
    if scale is None and (
        marks := [t for t in tokens_of(field.name) if t in _SCALE_S and t not in ("t", "m", "d", "h")]
    ):
        scale = _SCALE_S[marks[-1]]
    if bag & words.REMAINING:
        return Meaning(Role.REMAINING, 1.0, scale_s=scale)
    if bag & words.PART - {"optimization"}:
        return Meaning(Role.PART_TIME, 0.5, scale_s=scale)
    per_step = bag & words.PER_STEP
    if bag & {"epoch", "epochs"} and not per_step - {"per"}:
        return Meaning(Role.EPOCH_TIME, 0.9, scale_s=scale)
    if bag & words.ELAPSED and not per_step:
        return Meaning(Role.ELAPSED, 0.9, scale_s=scale)
    if per_step - {"per"} and (named or scale is not None or "cost" in bag):
        if bag & words.ITEMS - words.STEP:
            return Meaning(Role.OTHER)
        known = words.TIME | words.SECOND | words.PER_STEP | words.LOSS_FILLER | words.AVERAGED | {"cost", "ms", "last"}
        return Meaning(Role.STEP_TIME, 0.9 if bag <= known else 0.6, scale_s=scale)
    if not field.name:
        return Meaning(Role.TIME, 0.3, scale_s=scale)
    if scale is not None and bag <= _AROUND_TIME:
        return Meaning(Role.TIME, 0.4, scale_s=scale)
    if named:
        interval = bool(bag & {"took", "takes", "in"}) or qualifier == "s/it"
        return Meaning(Role.TIME, 0.5 if interval else 0.7, scale_s=scale)
    return Meaning(Role.OTHER)


def _counter(field: Field, bag: frozenset[str]) -> Meaning | None:
    name = field.name
    if field.kind is Kind.FRACTION and "/" in name:
        bag = frozenset(tokens_of(name.split("/")[0]))
    elif "/" in name and len(parts := name.split("/")) >= 2 and tokens_of(parts[-1]):
        last = frozenset(tokens_of(parts[-1]))
        if last & (words.STEP | words.EPOCH):
            bag = last
    bag = frozenset(t for t in bag if not t.isdigit())
    if bag <= words.DONE and field.explicit and field.integral:
        return Meaning(Role.STEP, 0.5, noun="step")
    core = bag - words.COUNTER_FILLER - words.TOTAL
    if not bag or bag & words.NOT_COUNTER:
        return None
    totals = bag & words.TOTAL
    if core and core <= words.STEP | words.EPOCH and core & words.STEP and core & words.EPOCH:
        core -= words.EPOCH
    if core and core <= words.STEP:
        planned = bag & {"optimization", "optimisation", "总"} and "total" in bag
        if bag & {"max", "maximum", "target"} or planned:
            return Meaning(Role.TOTAL_STEPS, 0.9)
        weight = max(_STEP_WEIGHTS.get(t, 0.9) for t in core)
        if bag & {"global", "全局", "gstep", "globalstep"}:
            weight = 1.0
        elif totals - {"num"}:
            weight = min(weight, 0.55)
        return Meaning(Role.STEP, weight, noun=next(iter(sorted(core))))
    if core and core <= words.EPOCH:
        if bag & {"max", "maximum", "num", "total", "target"}:
            return Meaning(Role.TOTAL_EPOCHS, 0.9)
        return Meaning(Role.EPOCH, 0.9 if core != {"ep"} else 0.7)
    if core and core <= {"micro", "step", "steps", "batch", "batches", "microbatch", "microstep"}:
        return Meaning(Role.STEP, 0.3, noun="micro")
    if core and core <= words.ITEMS | {"k", "m"}:
        return Meaning(Role.ITEMS, 0.6, noun=next(iter(sorted(core))))
    return None


def _score(field: Field, bag: frozenset[str]) -> Meaning | None:
    """``train 2.31 val 2.40``: measured on either set, be it a loss or an accuracy."""
    is_decimal = field.kind is Kind.NUMBER and not field.integral and not field.unit
    return Meaning(Role.METRIC, 0.4) if is_decimal and bag and bag <= words.EVALUATION | words.TRAINING else None


def _initial(field: Field) -> Meaning | None:
    """``e=3 i=120/500 l=2.31``: names cut down to their first letter, said of numbers that look the part."""
    if not field.explicit or field.unit or field.free:
        return None
    name, counts = field.name.lower(), field.integral
    if name == "l" and not counts and field.kind is Kind.NUMBER:
        return Meaning(Role.LOSS, 0.5)
    if counts and (name == "i" or (name == "s" and field.kind is Kind.FRACTION)):
        return Meaning(Role.STEP, 0.5, noun="step")
    return Meaning(Role.EPOCH, 0.5) if counts and name == "e" else None


_STEP_WEIGHTS = {
    "update": 0.85, "updates": 0.85, "up": 0.75, "upd": 0.75, "batch": 0.75, "batches": 0.75, "minibatch": 0.7,
    "minibatches": 0.7, "mb": 0.6, "ba": 0.7, "round": 0.6, "rounds": 0.6, "boosting": 0.6, "timestep": 0.5,
    "timesteps": 0.5, "it": 0.8, "its": 0.8, "tick": 0.4, "批次": 0.75, "批": 0.7,
}  # fmt: skip
