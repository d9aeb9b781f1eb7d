"""Keep an allocation open for a second attempt: the batch job where Slurm itself cannot let two jobs share a GPU.

One file beside ``wrapper.py``, standard library only, Python 3.9 or newer, Linux. Started as::

    python -I -S -X utf8 holder.py WRAPPER SPEC.json

It runs the attempt of SPEC (the host) under WRAPPER, and every other (a guest) that is asked for while it lives, each
with the GPUs of the allocation that it is meant to use. It ends when nobody is left. Beside the host's spec lies

    guests/ID.json    a guest to be started: ``spec`` (its path) and ``positions`` (which of the host's GPUs; null: all)
    guests/door       locked while somebody comes in or the last one leaves
    guests/closed     nobody may come in any more

and in the folder of an attempt whose wrapper died without a record, while the allocation goes on, ``gone.json``.
"""

# Start-up time and Python 3.9 rule out pathlib and contextlib:
# ruff: noqa: PTH118, PTH120, PTH208
from __future__ import annotations

import fcntl
import os
import runpy
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GUESTS, DOOR, CLOSED, GONE = "guests", "door", "closed", "gone.json"
LOOK_S, OBEY_S = 1.0, 6.0
ENTRY_BYTES = 64 * 1024
WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class Holder:
    """Starts wrappers, waits for them, and kills those that do not obey a fence."""

    def __init__(self, wrapper_path: str, spec_path: str) -> None:
        self.wrapper: dict[str, Any] = runpy.run_path(wrapper_path)
        self.wrapper_path, self.spec_path = wrapper_path, spec_path
        self.folder = os.path.join(os.path.dirname(spec_path), GUESTS)
        self.devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.children: dict[int, tuple[subprocess.Popen[bytes], str]] = {}
        self.seen: set[str] = set()
        self.fenced_since: dict[int, float] = {}
        self.status = 0
        self.is_ending = False

    def run(self) -> int:
        """Returns the host's exit status."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        host = self._start(self.spec_path, None)
        while True:
            got = signal.sigtimedwait(WATCHED, LOOK_S)
            if got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
                self.is_ending = True
                for child, _ in self.children.values():
                    child.send_signal(signal.SIGTERM)
            for pid, (child, spec_path) in list(self.children.items()):
                status = child.poll()
                if status is not None:
                    del self.children[pid]
                    self._bury(spec_path, pid in self.fenced_since)
                    if pid == host:
                        self.status = status if status >= 0 else 128 - status
            if not self.is_ending:
                self._let_in()
            self._enforce_fences()
            if not self.children and self._leave():
                return self.status

    def _start(self, spec_path: str, positions: list[int] | None) -> int:
        env = dict(os.environ)
        if positions is not None and self.devices:
            listed = self.devices.split(",")
            env["CUDA_VISIBLE_DEVICES"] = ",".join(listed[i] for i in positions if i < len(listed))
        command = [sys.executable, "-I", "-S", "-X", "utf8", self.wrapper_path, "--foreground", spec_path]
        # It inherits blocked signals, which suits it: it blocks the same ones, and its job none.
        child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
        self.children[child.pid] = (child, spec_path)
        return child.pid

    def _let_in(self) -> None:
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(".json"))
        except OSError:
            return  # the disk is away: those who are here go on
        for name in names:
            if name in self.seen:
                continue
            try:
                entry = self.wrapper["read_json"](os.path.join(self.folder, name), ENTRY_BYTES)
                positions = entry["positions"]
                chosen = None if positions is None else [int(i) for i in positions]
                self._start(str(entry["spec"]), chosen)
                self.seen.add(name)
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.seen.add(name)
                sys.stderr.write(f"holder: {name} cannot be started: {error}\n")

    def _leave(self) -> bool:
        """Close the door, unless somebody has come in meanwhile."""
        try:
            door = os.open(os.path.join(self.folder, DOOR), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(door, fcntl.LOCK_EX)
            if not self.is_ending:
                self._let_in()
            if self.children:
                return False
            os.close(os.open(os.path.join(self.folder, CLOSED), os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError as error:
            sys.stderr.write(f"holder: the door cannot be closed: {error}\n")
        finally:
            os.close(door)
        return True

    def _enforce_fences(self) -> None:
        for pid, (_, spec_path) in self.children.items():
            if not os.path.lexists(os.path.join(os.path.dirname(spec_path), self.wrapper["FENCED"])):
                continue
            since = self.fenced_since.setdefault(pid, time.monotonic())
            if time.monotonic() - since >= OBEY_S:
                table = self.wrapper["process_table"]()
                for process in [*self.wrapper["descendants"](table, pid), table.get(pid)]:
                    if process is not None:
                        self.wrapper["send_signal"](process.pid, process.start_ticks, signal.SIGKILL)

    def _bury(self, spec_path: str, was_fenced: bool) -> None:
        """A wrapper that died without a record: say so, for Slurm's job goes on and tells nobody."""
        folder = os.path.dirname(spec_path)
        if os.path.lexists(os.path.join(folder, self.wrapper["EXIT"])):
            return
        try:
            said = {"at": self.wrapper["iso"](time.time()), "was_fenced": was_fenced}
            self.wrapper["write_json"](folder, GONE, said)
        except OSError as error:
            sys.stderr.write(f"holder: the end of {spec_path} cannot be noted: {error}\n")


def main(argv: list[str]) -> int:
    """See the module's docstring."""
    if sys.version_info < (3, 9):  # noqa: UP036 - nodes have Pythons of their own
        sys.stderr.write("holder: it needs Python 3.9 or newer; this is " + sys.version + "\n")
        return 1
    if len(argv) != 3:
        sys.stderr.write("holder: usage: holder.py WRAPPER SPEC.json\n")
        return 1
    return Holder(argv[1], argv[2]).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
