"""Which dataset a job trains on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lucid_pipelines.advisor.evaluator.flatten import scalars
from lucid_pipelines.advisor.evaluator.values import Lit, Map, Origin, Seq, Value
from lucid_pipelines.advisor.fields.choice import evidence_of, to_field
from lucid_pipelines.advisor.fields.facts import JobFacts, last_name
from lucid_pipelines.advisor.fields.names import DATASET
from lucid_pipelines.advisor.fields.settings_table import Setting, Trust, is_other_phase, normal_name
from lucid_pipelines.advisor.fields.vocabulary import dataset_of, family_of, is_generic, is_placeholder, last_part
from lucid_pipelines.advisor.metadata import FieldName, Missing, SourceKind

_CLEAR = frozenset({"dataset_name", "dataset", "data_set", "dataset_path", "datasets", "task_name", "data_name",
    "mixture_or_task_name", "dataset_id", "env_id", "env", "env_name", "gym_id", "game", "game_name",
    "corpus", "benchmark",
    "train_dataset", "train_dataset_name", "environment"})  # fmt: skip
_NOT_DATA = re.compile(
    r"(token|vocab|merge|bpe|sentencepiece|output|save|log_|cache|model_|ckpt|checkpoint|embedding|pretrained|class|_type$|config|transform|augment|aug_|stats|conda|docker|venv|wandb|project|fold|split|text_col|column|processed|loader_type|feature_|num_|size)"
)
_DATA_WORDS = re.compile(r"data|train|corpus|task|env|root|path|mixture|game|file|split|set$|remote", re.IGNORECASE)
_INNER_KEYS = frozenset(
    {
        "path",
        "name",
        "repo_id",
        "id",
        "dir",
        "root",
        "component",
        "source",
        "target",
        "train",
        "class_path",
        "type",
        "hf_name",
        "dataset_name",
    }
)
_PROCESSING = re.compile(r"process|transform|augment|tokeniz|collat|sampler|loader|pipeline|normal|resize")
_STEPS_OF = re.compile(r"(^|\.)\w*(pipeline|transforms?|collate\w*)\.\d+\.")
"""Steps that data go through, one after the other."""
_KEYED = re.compile(r"(?:^|\.)datasets\.([A-Za-z][\w\-]*)\.")
_LOADERS = frozenset({"load_dataset", "load", "load_from_disk", "builder", "get_dataset", "create_dataset",
    "build_dataset", "make_dataset", "make", "load_data", "make_vec", "make_atari_env", "make_vec_env",
    "fetch_dataset"})  # fmt: skip


@dataclass(slots=True)
class Found:
    """A candidate for the dataset."""

    text: str
    lit: Lit
    confidence_frac: float
    strength: float


def read_dataset(facts: JobFacts) -> None:
    """Fill in ``dataset``."""
    found = [
        *_from_settings(facts),
        *_from_loaders(facts),
        *_from_calls(facts),
        *_from_instances(facts),
        *_from_texts(facts),
        *_from_words(facts),
        *_from_defaults(facts),
    ]
    if not found:
        facts.put(FieldName.DATASET, Missing("no dataset was found"))
        return
    made_up = _synthetic(facts)
    if made_up is not None:
        facts.put(FieldName.DATASET, made_up)
        return
    best = max(found, key=lambda each: each.strength)
    names = list(dict.fromkeys(each.text for each in found if each.strength == best.strength))
    if len(names) > 4:
        facts.put(FieldName.DATASET, Missing(f"a mixture of {len(names)} datasets", (evidence_of(best.lit),)))
        return
    facts.put(FieldName.DATASET, to_field(" + ".join(names), [best.lit], best.confidence_frac))


def _synthetic(facts: JobFacts) -> Missing | None:
    """A launch that asks for made-up data: the name that stands beside it is not used."""
    for setting in facts.table.named("dataset_type", "data_type", "synthetic_data", "use_synthetic_data", "fake_data"):
        value = setting.initial.value
        asked = value is True or str(value).lower() in ("synthetic", "fake", "dummy", "random", "mock")
        if setting.level == 3 and asked:
            return Missing("synthetic data", (evidence_of(setting.initial),))
    return None


def _from_settings(facts: JobFacts) -> list[Found]:
    found: list[Found] = _from_keys(facts)
    wanted: set[str] = set(DATASET)
    for setting in facts.table.settings:
        if not isinstance(setting.initial.value, str) or is_other_phase(setting.path):
            continue
        path = normal_name(setting.path)
        name = _dataset_key(path, wanted)
        if name is None or (_NOT_DATA.search(setting.name) and name not in _CLEAR):
            continue
        candidate = _setting_candidate(setting, name, DATASET.index(name))
        if candidate is not None:
            found.append(candidate)
    return found


_NAMED_LOADER = re.compile(r"(^|\.)(data_?loader|data_?module|train_(data_?)?loader)\.(type|name|_target_|class_path)$")


def _from_loaders(facts: JobFacts) -> list[Found]:
    """``data_loader: {type: MnistDataLoader}``: a loader that is named after its data."""
    found: list[Found] = []
    for setting in facts.table.settings:
        if setting.level >= 2 and isinstance(setting.initial.value, str) and _NAMED_LOADER.search(setting.path):
            known = dataset_of(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", setting.initial.value))
            if known is not None:
                found.append(Found(known.name, setting.initial, 0.85, 64))
    return found


def _from_keys(facts: JobFacts) -> list[Found]:
    """``datasets: {coco_caption: {…}, vg_caption: {…}}``: the keys are the names."""
    names: dict[str, Setting] = {}
    for setting in facts.table.settings:
        match = _KEYED.search(setting.path)
        if match is not None and setting.level >= 2:
            names.setdefault(match.group(1), setting)
    kept = {name: setting for name, setting in names.items() if not is_generic(name) and name not in _INNER_KEYS}
    if not 1 <= len(kept) <= 4:
        return []
    found: list[Found] = []
    for name, setting in kept.items():
        known = dataset_of(name)
        if known is not None:
            found.append(Found(known.name, setting.initial, 0.85, 90))
    return found


def _dataset_key(path: str, wanted: set[str]) -> str | None:
    """The dataset word under which a setting stands: its own name, or ``datasets.0.path``."""
    parts = [part.strip("_") for part in path.split(".")]
    last = parts[-1]
    if last in wanted and not (last in ("path", "name") and len(parts) == 1):
        return last
    inside = set(parts[:-1]) & {"dataset", "datasets", "train_dataset"}
    if len(parts) > 1 and last in _INNER_KEYS and inside and not _PROCESSING.search(path):
        return "dataset"
    if ((len(parts) > 1 and last in _INNER_KEYS) or last.isdigit()) and not _STEPS_OF.search(path):
        for part in reversed(parts[:-1]):
            if part in wanted or part in ("train_dataset", "datamodule", "data_module", "paths"):
                return part if part in wanted else "dataset"
    return None


_DATA_FILE = re.compile(r"\.(jsonl?|csv|tsv|txt|pkl|npz|npy|parquet|h5|hdf5|tfrecord|zip|tar)$", re.IGNORECASE)


def _setting_candidate(setting: Setting, name: str, place: int) -> Found | None:
    text = str(setting.initial.value).strip()
    if not text or len(text) > 300 or "\n" in text:
        return None
    known = dataset_of(text)
    strength = 50 + setting.level * 12 - place / 8 + (6 if name in _CLEAR else 0)
    if setting.trust <= Trust.ASSIGNMENT:
        strength -= 14
    if setting.path.count(".") == 0 and name in _CLEAR:
        strength += 2
    if known is not None:
        return Found(known.name, setting.initial, 0.92 if setting.level >= 2 else 0.85, strength + 16)
    if (
        is_placeholder(text)
        or setting.trust <= Trust.ASSIGNMENT
        or re.fullmatch(r"[\w.]+\.[A-Z]\w+|\w+\.\w+\.[\w.]+", text)
    ):
        return None
    is_hub_name = re.fullmatch(r"[\w.\-]+/[\w.\-]+", text) is not None and not _DATA_FILE.search(text)
    shown = last_part(text) if "/" in text and not is_hub_name else text
    if shown.count(" ") > 3 or len(shown) > 80:
        return None
    if is_generic(shown) or is_generic(shown.rpartition("/")[2]) or re.fullmatch(r"[\d.]+", shown):
        return None
    if name == "task_name" and family_of(shown) is not None:
        return None  # a run that is named after its model
    if name in _CLEAR:
        return Found(shown, setting.initial, 0.85, strength)
    if setting.level >= 2 and name not in ("root", "train", "data_local", "remote"):
        return Found(shown, setting.initial, 0.7, strength - 12)
    return None


def _from_defaults(facts: JobFacts) -> list[Found]:
    """The default of an option that only got a placeholder: it says which data the program is written for."""
    found: list[Found] = []
    for name, lit in facts.trace.declared.items():
        if isinstance(lit.value, str) and _DATA_WORDS.search(name) and not _NOT_DATA.search(normal_name(name)):
            known = dataset_of(lit.value)
            if known is not None:
                found.append(Found(known.name, lit, 0.65, 36))
    return found


def _from_calls(facts: JobFacts) -> list[Found]:
    """``datasets.CIFAR10(…)``, ``load_dataset("wikitext", …)``, ``gym.make("…")``."""
    found: list[Found] = []
    for event in facts.trace.calls[:12_000]:
        last = last_name(event.path)
        where = Origin(SourceKind.CODE, event.site.file, event.site.line)
        if (
            (re.search(r"(^|\.)(datasets?|data|tfds|Planetoid|ogb)\.", event.path) and "()" not in event.path[:-2])
            or "dataset" in last.lower()
            or "DataModule" in last
        ):
            known = dataset_of(last)
            if known is not None:
                found.append(Found(known.name, Lit(event.path, where), 0.88, 58))
        if last in _LOADERS:
            texts = [value for value in event.args[:3] if isinstance(value, Lit) and isinstance(value.value, str)]
            for key in ("path", "name", "dataset", "dataset_name", "id", "data_dir"):
                value = event.kwargs.get(key)
                if isinstance(value, Lit) and isinstance(value.value, str):
                    texts.append(value)
            joined = " ".join(str(text.value) for text in texts)
            known = dataset_of(joined) if joined else None
            split = event.kwargs.get("split")
            phase = str(split.value) if isinstance(split, Lit) else ""
            bonus = -30 if re.search(r"val|test|dev", phase) else 6 if "train" in phase else 0
            if known is not None:
                found.append(Found(known.name, texts[0], 0.88, 60 + bonus))
            elif (
                texts
                and last in ("load_dataset", "make", "make_vec")
                and not is_generic(str(texts[0].value))
                and not is_placeholder(str(texts[0].value))
            ):
                text = str(texts[0].value)
                if last == "load_dataset" or "gym" in event.path:
                    found.append(
                        Found(last_part(text) if text.startswith((".", "/")) else text, texts[0], 0.75, 45 + bonus)
                    )
    return found


def _from_instances(facts: JobFacts) -> list[Found]:
    found: list[Found] = []
    for event in facts.trace.instances[:3_000]:
        name = event.cls.name
        if not re.search(r"data|set$|loader|corpus|env", name, re.IGNORECASE):
            continue
        known = dataset_of(name)
        if known is not None:
            lit = Lit(name, Origin(SourceKind.CODE, event.site.file, event.site.line))
            found.append(Found(known.name, lit, 0.82, 52))
            continue
        for key, value in event.arguments.items():
            if isinstance(value, Lit) and isinstance(value.value, str) and _DATA_WORDS.search(key):
                known = dataset_of(value.value)
                if known is not None:
                    found.append(Found(known.name, value, 0.8, 48))
    return found


_MADE = re.compile(r"(^|[/_.])(eval|out|output|save|logs?|te?mp|results?|pred)(?=[/_.]|$)", re.IGNORECASE)
"""Parts of paths at which a program puts what it makes."""


def _from_texts(facts: JobFacts) -> list[Found]:
    """Paths and names in variables that speak of data."""
    found: list[Found] = []
    for name, assigned in facts.trace.assignments.items():
        if not _DATA_WORDS.search(name) or _NOT_DATA.search(normal_name(name)):
            continue
        for lit in (each.value for each in assigned[:4]):
            if isinstance(lit.value, str) and len(lit.value) < 300 and not _MADE.search(lit.value):
                known = dataset_of(lit.value)
                if known is not None:
                    found.append(Found(known.name, lit, 0.7, 40))
    for event in facts.trace.calls[:8_000]:
        if last_name(event.path) in (
            "read_csv",
            "loadtxt",
            "load",
            "open",
            "read_parquet",
            "glob",
            "memmap",
            "GFile",
            "join",
            "read_table",
        ):
            for value in event.args[:3]:
                if isinstance(value, Lit) and isinstance(value.value, str) and len(value.value) < 300:
                    known = dataset_of(value.value) if not _MADE.search(value.value) else None
                    if known is not None:
                        found.append(Found(known.name, value, 0.72, 38))
    return found


_ELSEWHERE = re.compile(
    r"exp|output|save|log|ckpt|checkpoint|out_dir|pretrain|init_from|restore|teacher|weights|model_path|\.(pth|safetensors)$"
)
"""Words of options whose value names what was, or will be, made of data: not the data."""


_LONE_OPTION = re.compile(r"^--?[A-Za-z][\w.\-]*$")


def _from_words(facts: JobFacts) -> list[Found]:
    """The launch line and the entry's own place, when they name a dataset."""
    found: list[Found] = []
    launch = facts.launch
    args = launch.args if launch is not None else []
    for before, word in zip([None, *args], args, strict=False):
        text = str(word.value)
        if before is not None and _LONE_OPTION.match(str(before.value)) and _ELSEWHERE.search(str(before.value)):
            continue
        # The name of an option is the program's; only its value is the job's.
        said = text.partition("=")[2] if text.startswith("-") else text
        known = dataset_of(said) if said else None
        if known is not None and not _ELSEWHERE.search(text):
            found.append(Found(known.name, word, 0.75, 56 if is_placeholder(text) or "/" in text else 46))
    for word in facts.command_words:
        text = str(word.value)
        if text.endswith((".sh", ".slurm", ".sbatch", ".bash")) and (known := dataset_of(text)) is not None:
            found.append(Found(known.name, word, 0.8, 66))
    if facts.entry is not None:
        known = dataset_of(facts.entry.file)
        if known is not None:
            found.append(
                Found(known.name, Lit(facts.entry.file, Origin(SourceKind.CODE, facts.entry.file, 1)), 0.7, 34)
            )
    return found


def texts_of(value: Value) -> list[str]:
    """All known texts inside a value."""
    if isinstance(value, Map | Seq):
        return [str(lit.value) for _, lit in scalars(value) if isinstance(lit.value, str)]
    return [str(value.value)] if isinstance(value, Lit) and isinstance(value.value, str) else []
