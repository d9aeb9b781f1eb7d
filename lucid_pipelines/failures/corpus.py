"""The text model's training lines: our own templates with slots filled, never a site's log."""

from __future__ import annotations

import hashlib
import random
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from lucid_pipelines.domain.errors import InputError

_SLOT = re.compile(r"\{(\w+)\}")
_WORDS = tuple(
    """encoder tokens images labels hidden_size optimizer adapter vocab sampler projector rotary router warmup bias
    batch_fn collator attn_mask rope_theta lora_alpha expert_count tile_size cache_dir num_frames""".split()  # noqa: SIM905
)
_MODULES = ("flash_attn_2_cuda", "fused_adam", "apex_C", "torch_scatter", "xformers_ext", "custom_ops", "amp_C")
_FILES = ("model.safetensors", "train-00017.parquet", "ckpt_800.pt", "ops.cu", "shard.tar", "config.json", "vocab.txt")
_LEADS = ("", "", "", "RuntimeError: ", "ERROR ", "[rank{rank}]: ", "Exception: ", "E ", "{time} ERROR ", "fatal: ")


@dataclass(frozen=True, slots=True)
class CorpusLine:
    """One training line.

    Attributes:
        template: number of its template within its family.
    """

    text: str
    label: str
    family: str
    template: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """All training lines of one version.

    Attributes:
        digest: content address of the templates that they came from.
    """

    version: str
    digest: str
    lines: tuple[CorpusLine, ...]


def build_corpus(seed: int = 11, variants: int = 8, document: str | None = None) -> Corpus:
    """Fill the templates, ``variants`` times each, in a reproducible way.

    Raises:
        InputError: the template file is not valid.
    """
    text = document if document is not None else shipped_templates()
    rng = random.Random(seed)
    try:
        parsed = tomllib.loads(text)
        lines = [
            CorpusLine(_filled(text, rng, lead=i > 0 and row["label"] != "harmless"), row["label"], row["name"], k)
            for row in parsed["family"]
            for k, text in enumerate(row["lines"])
            for i in range(variants)
        ]
        version = str(parsed["version"])
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise InputError(f"the corpus file is not valid: {error}") from error
    return Corpus(version, hashlib.sha256(text.encode()).hexdigest(), tuple(lines))


def shipped_templates() -> str:
    """The template file that is shipped."""
    return (files("lucid_pipelines.failures") / "corpus.toml").read_text("utf-8")


def _filled(template: str, rng: random.Random, *, lead: bool) -> str:
    text = (rng.choice(_LEADS) if lead else "") + template
    return _SLOT.sub(lambda match: _value(match[1], rng), text)


def _value(slot: str, rng: random.Random) -> str:
    match slot:
        case "path":
            return f"/{rng.choice(('mnt', 'scratch', 'data', 'work'))}/{rng.choice(_WORDS)}/{rng.choice(_FILES)}"
        case "host":
            return f"{rng.choice(('node', 'gpu', 'worker-', 'cn', 'host'))}{rng.randint(1, 400)}"
        case "ip":
            return ".".join(str(rng.randint(1, 254)) for _ in range(4))
        case "gpu":
            return str(rng.randint(0, 15))
        case "rank" | "n":
            return str(rng.randint(1, 512))
        case "big":
            return str(rng.randint(10_000, 9_000_000_000))
        case "hex":
            return f"0x{rng.getrandbits(40):x}"
        case "pid":
            return str(rng.randint(300, 99_999))
        case "port":
            return str(rng.randint(1024, 65_000))
        case "mod":
            return rng.choice(_MODULES)
        case "file":
            return rng.choice(_FILES)
        case "dim":
            return str(rng.choice((7, 32, 77, 256, 768, 1024, 4096, 32000)))
        case "gib":
            return f"{rng.uniform(0.1, 80):.2f}"
        case "time":
            return f"2024-0{rng.randint(1, 9)}-{rng.randint(10, 28)} {rng.randint(10, 23)}:{rng.randint(10, 59)}:07"
        case "name":
            return rng.choice(_WORDS)
        case _:
            raise InputError(f"the corpus has a slot of an unknown kind: {slot!r}")
