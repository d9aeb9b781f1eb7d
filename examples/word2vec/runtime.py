"""What a program needs from where it runs: a place for checkpoints, the load of its GPU, a pace.

The same file lies in every example, so that each folder can be submitted by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np

Arrays = dict[str, np.ndarray]

_KEPT = 2


def checkpoint_dir() -> Path:
    """Where checkpoints go: ``$LUCID_CHECKPOINT_DIR``, or ``checkpoints`` when started by hand."""
    folder = Path(os.environ.get("LUCID_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save_checkpoint(step: int, arrays: Arrays) -> Path:
    """Write a checkpoint beside its place, flush it and rename it; the two newest are kept.

    A checkpoint is a folder ``step-<number>`` with ``state.npz`` and the marker ``COMPLETE``, which names the files
    and their sizes.
    """
    final = checkpoint_dir() / f"step-{step:08d}"
    building = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    with (building / "state.npz").open("wb") as stream:
        np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType] - names are never allow_pickle
        stream.flush()
        os.fsync(stream.fileno())
    facts = {"step": step, "files": {"state.npz": (building / "state.npz").stat().st_size}}
    with (building / "COMPLETE").open("w") as stream:
        json.dump(facts, stream)
        stream.flush()
        os.fsync(stream.fileno())
    shutil.rmtree(final, ignore_errors=True)
    building.rename(final)
    for old in sorted(checkpoint_dir().glob("step-*"))[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def load_checkpoint() -> tuple[int, Arrays] | None:
    """Step and arrays of the newest complete checkpoint, or ``None``; incomplete ones are passed over aloud."""
    for folder in sorted(checkpoint_dir().glob("step-*"), reverse=True):
        try:
            facts = json.loads((folder / "COMPLETE").read_text())
            for name, size in facts["files"].items():
                if (folder / name).stat().st_size != size:
                    raise ValueError(f"{name} has the wrong size")
            with np.load(folder / "state.npz") as stored:
                return int(facts["step"]), dict(stored)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            print(f"Checkpoint {folder.name} is not complete ({error}); trying an older one", flush=True)
    return None


def declare_gpu_load(gpu_util_pct: float, memory_util_pct: float, memory_used_mib: float) -> None:
    """Say what this program would ask of a GPU; only where GPUs are virtual and ``$LUCID_GPU_LOAD`` is set."""
    target = os.environ.get("LUCID_GPU_LOAD")
    if not target:
        return
    load = {
        "gpu_util_pct": gpu_util_pct,
        "memory_util_pct": memory_util_pct,
        "memory_used_mib": memory_used_mib,
    }
    building = Path(f"{target}.{os.getpid()}")
    building.write_text(json.dumps(load))
    building.replace(target)


class Pace:
    """Spreads the steps over a given time, as the step time of a GPU would."""

    def __init__(self, seconds: float, steps: int) -> None:
        self._interval_s = seconds / max(steps, 1)
        self._due_s = time.monotonic()

    def step(self) -> None:
        """Wait until the next step is due."""
        self._due_s += self._interval_s
        time.sleep(max(0.0, self._due_s - time.monotonic()))
