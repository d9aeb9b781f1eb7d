"""Slurm's power saving, with nodes that a test puts to sleep and wakes by hand."""

from __future__ import annotations

from pathlib import Path

SUSPEND_AFTER_S, SUSPEND_TIMEOUT_S = 3, 3
"""Slurm looks every few seconds, so that a node sleeps some ten seconds after its last job."""


class PowerSaving:
    """Programs for ``SuspendProgram`` and ``ResumeProgram`` that only write down for whom they were called."""

    def __init__(self, folder: Path, resume_timeout_s: int) -> None:
        self._woken = folder / "woken"
        folder.mkdir(parents=True)
        for name in ("asleep", "woken"):
            program = folder / f"{name}.sh"
            program.write_text(f'#!/bin/sh\necho "$1" >> {folder / name}\n')
            program.chmod(0o755)
        self.lines = (
            f"SuspendProgram={folder}/asleep.sh\nResumeProgram={folder}/woken.sh\n"
            f"SuspendTime={SUSPEND_AFTER_S}\nSuspendTimeout={SUSPEND_TIMEOUT_S}\nSuspendRate=0\n"
            f"ResumeTimeout={resume_timeout_s}\nResumeRate=0\nPrivateData=cloud\n"
        )

    def woken(self) -> list[str]:
        """Every list of nodes that Slurm wanted woken, in its own notation."""
        return self._woken.read_text().split() if self._woken.exists() else []
