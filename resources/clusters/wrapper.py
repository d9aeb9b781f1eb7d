"""Run one attempt of a job on this machine and write down how it ended.

One file, standard library only, Python 3.9 or newer, Linux. Started as::

    python -I -S -X utf8 wrapper.py [--foreground | --rank] SPEC.json

With ``--foreground`` it supervises in the same process and ends as the command did, for the batch job of a
resource manager; with ``--rank`` it becomes one task of a command that runs on several nodes. Otherwise it takes
the attempt's lock, detaches a supervisor into a session of its own and, once the command runs (or has proved
impossible to run), prints one line ``{"state": STATE}`` and ends with status 0. STATE is ``started``,
``spawn_failed``, ``stopped`` or ``fenced`` (recorded, never run) or ``already`` (this attempt was started before,
or another wrapper holds it). Any other status means that nothing was started.

The attempt's folder afterwards (JSON unless said otherwise):

    spec.json      what to run; written by the launcher, read only
    lock           held exclusively (flock) while the supervisor lives: the truth about liveness
    started.json   who runs it (pids with start ticks, boot id) and since when; written before the command runs
    stop.json      a request to stop; written by the launcher
    fenced         its presence forbids any start for ever and ends what runs; written by the launcher
    output.log     stdout and stderr, written by the job itself
    gpu_load.json  what the job says that it asks of virtual GPUs (optional, written by the job)
    exit_note      facts that the job declares (optional, written by the job: JSON object or key=value lines)
    samples.jsonl  GPU samples, thinned by half whenever there are 1,024 of them
    exit.reserve   bytes kept back so that a full disk still yields an exit record
    rank-N.json    how rank N of a job on several nodes ended
    exit.json      how it ended; appears once, complete
    wrapper.log    anything that went wrong in this program

**When an attempt ends.** The attempt lasts until its main process ends. What that process leaves behind
(children, daemons, processes that carry its ``LUCID_ATTEMPT_ID``) is then sent TERM, after a grace period
KILL, and counted in the exit record, which is written last: a GPU is free only when nobody uses it any more.
"""

# Start-up time and Python 3.9 rule out pathlib, contextlib, typing and zip(strict=):
# ruff: noqa: PTH103, PTH104, PTH108, PTH110, PTH113, PTH116, PTH118, PTH123, PTH208, SIM105, B905, UP045
from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # the real flag would import typing, which costs more than the rest of the start-up
    from collections.abc import Callable, Iterable
    from typing import Any, Optional

    Reading = tuple[int, Optional[float], Optional[float], Optional[float]]
    Sample = tuple[float, list[Reading]]

FORMAT = 1
SPEC, LOCK, STARTED, STOP, FENCED = "spec.json", "lock", "started.json", "stop.json", "fenced"
LOG, LOAD, NOTE, SAMPLES = "output.log", "gpu_load.json", "exit_note", "samples.jsonl"
RANK = "rank-"
EXIT, RESERVE, OWN_LOG = "exit.json", "exit.reserve", "wrapper.log"
MARKER = "LUCID_ATTEMPT_ID"

RESERVE_BYTES = 64 * 1024
NOTE_BYTES, NOTE_FACTS, FACT_CHARS, DETAIL_CHARS = 16 * 1024, 32, 1024, 2048
LOAD_BYTES = 64 * 1024
KEPT_SAMPLES, STEADY_SAMPLES, FROZEN_SAMPLES = 1024, 3, 20
STEADY_POINTS, VALID_FRAC, IDLE_PCT = 15.0, 0.8, 0.5
SETTLE_S, STEP_S, KILL_PATIENCE_S = 0.2, 0.05, 30.0
WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(argv: list[str]) -> int:
    """Start the attempt that ``argv[1]`` describes; see the module's docstring for what is printed."""
    if sys.version_info < (3, 9) or not sys.platform.startswith("linux"):
        return _refuse("it needs Linux and Python 3.9 or newer; this is " + sys.platform + " " + sys.version)
    foreground, rank = argv[1:2] == ["--foreground"], argv[1:2] == ["--rank"]
    if len(argv) != (3 if foreground or rank else 2):
        return _refuse("usage: wrapper.py [--foreground | --rank] SPEC.json")
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # pipes and files must not take the numbers of stdio
        pass
    os.close(fd)
    with open(argv[-1], encoding="utf-8") as file:
        spec = json.load(file)
    if spec["format"] != FORMAT:
        return _refuse(f"it reads specs of format {FORMAT}; got {spec['format']}")
    if rank:
        return _run_rank(spec)
    if spec.get("launcher"):
        spec["command"] = [*spec["launcher"], argv[-1]]
    folder = spec["attempt_dir"]
    lock = take_lock(folder)
    if lock is None or _present(folder, EXIT) or _present(folder, STARTED):
        return _answer({"state": "already"})
    reserve = reserve_record(folder)
    for name, reason in ((FENCED, "fenced"), (STOP, "stopped")):
        if _present(folder, name):
            write_exit(spec, unstarted_record(spec, reason, "before it started"), reserve)
            return _answer({"state": reason})
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    log = os.open(os.path.join(folder, LOG), flags, 0o644)
    if foreground:
        return _run_here(spec, reserve, log)
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        status = 70
        try:
            os.setsid()
            os.chdir("/")
            _redirect(folder)
            Supervisor(spec, reserve, log, writer).run()
            status = 0
        except BaseException:  # noqa: BLE001 - the last words of a detached process belong into its log
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(lock)  # the supervisor holds the same lock
    os.close(writer)
    answer = _read_all(reader)
    if not answer:
        return _refuse("it ended before the command ran; see " + os.path.join(folder, OWN_LOG))
    said = json.loads(answer)
    return _refuse(said["error"]) if "error" in said else _answer(said)


def _run_here(spec: dict[str, Any], reserve: int, log: int) -> int:
    """Stay until the command has ended, and end as it did: for the batch job of a resource manager.

    The supervisor is a child that this process guards: should it be killed, its job's processes fall to this
    one, which kills them, so that no job outlives its attempt on a node that nobody else can look at. Should
    this one be killed, the supervisor is sent TERM.
    """
    _redirect(spec["attempt_dir"])
    _become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            _call_prctl(1, signal.SIGTERM)  # when the guard dies
            if os.getppid() == guard:
                _reader, writer = os.pipe()  # kept open: what is told there has no listener
                supervisor = Supervisor(spec, reserve, log, writer)
                supervisor.run()
                status = supervisor.status
        finally:
            os._exit(status)
    os.close(log)
    ended = None
    while ended is None:
        got = signal.sigwaitinfo(WATCHED)
        if got.si_signo in (signal.SIGTERM, signal.SIGINT):
            os.kill(child, signal.SIGTERM)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == child:
                ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            if pid == 0:
                break
    give_up = time.monotonic() + KILL_PATIENCE_S
    while time.monotonic() < give_up:
        left = [process for process in descendants(process_table(), guard) if process.state not in "ZX"]
        if not left:
            break
        _kill(left)
        time.sleep(STEP_S)
    return ended


def _run_rank(spec: dict[str, Any]) -> int:
    """One task of a job on several nodes: run the command in the environment of this node's rank.

    How it ended goes into a file of the rank's own, because the launcher only tells the worst exit code of all.
    """
    node = os.environ.get("SLURMD_NODENAME", "")
    if node not in spec["ranks"]:
        return _refuse(f"this node is not in the placement: {node!r}")
    ours = spec["ranks"][node]
    env = {**os.environ, **ours, "LUCID_NODE": node}
    if not spec.get("keep_devices"):
        env["CUDA_VISIBLE_DEVICES"] = spec["devices"][node]
    command = spec["user_command"]
    child = os.fork()
    if child == 0:
        try:
            os.execvpe(command[0], command, env)
        except OSError as error:
            fault = explain_fault(f"exec:{error.errno}:{command[0]}", {**spec, "command": command})
            _refuse(fault[1])
            os._exit(fault[0] or 126)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: send_signal(child, ticks, number))
    ticks = _own(child).start_ticks
    status = os.waitpid(child, 0)[1]
    by_signal = os.WIFSIGNALED(status)
    code = None if by_signal else os.WEXITSTATUS(status)
    record = {"node": node, "exit_code": code, "signal": os.WTERMSIG(status) if by_signal else None}
    try:
        write_json(spec["attempt_dir"], RANK + ours["NODE_RANK"] + ".json", {**record, "ended_at": iso(time.time())})
    except OSError as error:
        _refuse("the end of rank " + ours["NODE_RANK"] + " cannot be recorded: " + str(error))
    return 128 + os.WTERMSIG(status) if by_signal else os.WEXITSTATUS(status)


def failed_rank(folder: str) -> tuple[int, dict[str, Any]] | None:
    """Number and record of the rank that failed first; ``None`` when none did, or none says so."""
    found = []
    for name in os.listdir(folder):
        if name.startswith(RANK) and name.endswith(".json"):
            try:
                record = read_json(os.path.join(folder, name), NOTE_BYTES)
                if record["exit_code"] != 0:
                    found.append((str(record["ended_at"]), int(name[len(RANK) : -len(".json")]), record))
            except (OSError, ValueError, KeyError):
                continue
    return min(found)[1:] if found else None


class Supervisor:
    """Runs the command, watches it, ends what it leaves, writes the record."""

    def __init__(self, spec: dict[str, Any], reserve: int, log: int, report: int) -> None:
        self.spec = spec
        self.folder = spec["attempt_dir"]
        self.reserve, self.log, self.report = reserve, log, report
        self.me = os.getpid()
        self.my_ticks = _own(self.me).start_ticks
        self.pid = 0
        self.started_at = 0.0
        self.stop: dict[str, Any] | None = None
        self.stop_seen_ns = 0
        self.kill_at: float | None = None
        self.kill_pause_s = STEP_S
        self.killed = False
        self.asked: set[tuple[int, int]] = set()
        self.sampler: Sampler | None = None
        self.status = 0

    def run(self) -> None:
        is_subreaper = _become_subreaper()
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        try:
            fault = self._start(is_subreaper)
        except OSError as error:  # nothing runs and nothing is recorded: the launcher may try again
            self._say({"error": "cannot start the attempt: " + str(error)})
            self.status = 71
            return
        os.close(self.log)
        if fault is not None:
            os.waitpid(self.pid, 0)
            exit_code, detail = explain_fault(fault, self.spec)
            record = self._record("spawn_failed", exit_code, None, time.time(), detail)
            write_exit(self.spec, record, self.reserve)
            self._say({"state": "spawn_failed"})
            self.status = exit_code or 72
            return
        self._say({"state": "started"})
        self.sampler = Sampler(self.spec, self.folder, self.started_at)
        info = self._watch()
        ended_at = time.time()
        found, killed, survived = self._end_leftovers()
        usage = os.wait4(self.pid, 0)[2]
        by_signal = info.si_code != os.CLD_EXITED
        self.status = 128 + info.si_status if by_signal else info.si_status
        record = self._record(
            "exited" if self.stop is None else "stopped",
            None if by_signal else info.si_status,
            info.si_status if by_signal else None,
            ended_at,
            self._detail(info.si_status if by_signal else None, survived),
        )
        first = failed_rank(self.folder) if self.spec.get("ranks") and self.stop is None else None
        if first is not None:
            record["exit_code"], record["signal"] = first[1]["exit_code"], first[1]["signal"]
            record["detail"] = f"rank {first[0]} on {first[1]['node']} failed first"
        if _present(self.folder, FENCED):
            record["reason"] = "fenced"
        record["leftovers"] = {"found": found, "killed": killed, "survived": survived}
        record["cpu_s"] = round(usage.ru_utime + usage.ru_stime, 3)
        record["max_rss_mib"] = round(usage.ru_maxrss / 1024, 1)
        write_exit(self.spec, record, self.reserve)

    def _start(self, is_subreaper: bool) -> str | None:
        """Fork the command, record it, let it go. Returns why it could not be executed, if so.

        The child waits at a gate until ``started.json`` is on disk, so that no command ever runs unrecorded;
        if this process dies first, the gate closes and the child ends without running anything.
        """
        env = job_environment(self.spec, self.folder)
        gate, opener = os.pipe()
        fault, teller = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(opener)
                os.close(fault)
                _become_command(self.spec, env, self.log, gate, teller)
            finally:
                os._exit(125)
        os.close(gate)
        os.close(teller)
        self.started_at = time.time()
        try:
            write_json(
                self.folder,
                STARTED,
                {
                    "format": FORMAT,
                    "attempt_id": self.spec["attempt_id"],
                    "wrapper": {"pid": self.me, "start_ticks": self.my_ticks},
                    "main": {"pid": self.pid, "start_ticks": _own(self.pid).start_ticks},
                    "boot_id": boot_id(),
                    "is_subreaper": is_subreaper,
                    "started_at": iso(self.started_at),
                },
            )
        except OSError:
            os.close(opener)
            os.waitpid(self.pid, 0)
            raise
        os.write(opener, b"1")
        os.close(opener)
        told = _read_all(fault)
        return told.decode("utf-8", "surrogateescape") if told else None

    def _watch(self) -> os.waitid_result:
        """Sample, obey stop requests and adopt orphans until the main process has ended (left unreaped)."""
        interval_s = float(self.spec["sample_interval_s"])
        next_tick = time.monotonic()
        while True:
            until = next_tick if self.kill_at is None else min(next_tick, self.kill_at)
            got = signal.sigtimedwait(WATCHED, max(0.0, until - time.monotonic()))
            info = self._reap()
            if info is not None:
                if self.stop is None and signal.SIGTERM in {*signal.sigpending(), got.si_signo if got else 0}:
                    self.stop = {"reason": None}  # both were told, and the job was faster
                return info
            now = time.monotonic()
            if got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._begin_stop(now, {"reason": None})
            if now >= next_tick:
                if self._stop_requested():
                    self._begin_stop(now, {})
                if not self.killed and _present(self.folder, FENCED):
                    self._begin_stop(now, {"reason": "fenced"})
                if self.sampler is not None:
                    self.sampler.take()
                next_tick = now + interval_s
            if self.kill_at is not None and now >= self.kill_at:
                self.killed = True
                self.kill_at = now + self.kill_pause_s
                self.kill_pause_s = min(5.0, 2 * self.kill_pause_s)  # one that hangs in the kernel may take long
                _kill([_own(self.pid), *self._family()])  # it first: else it may still say how its children ended

    def _reap(self) -> os.waitid_result | None:
        """Bury adopted orphans; return the main process's end without burying it (its number stays ours)."""
        while True:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if info is None or info.si_pid == self.pid:
                return info
            os.waitpid(info.si_pid, os.WNOHANG)

    def _stop_requested(self) -> bool:
        try:
            return os.stat(os.path.join(self.folder, STOP)).st_mtime_ns != self.stop_seen_ns
        except OSError:
            return False

    def _begin_stop(self, now: float, stop: dict[str, Any]) -> None:
        """TERM to everybody and a deadline; a later request can only bring the deadline forward."""
        grace_s = float(self.spec["grace_s"])
        try:
            path = os.path.join(self.folder, STOP)
            self.stop_seen_ns = os.stat(path).st_mtime_ns
            stop = {**stop, **read_json(path, 65536)}
            grace_s = float(stop.get("grace_s", grace_s))
        except (OSError, ValueError, TypeError):
            pass  # a bare signal, or a request that a full disk cut short: stop with the job's own grace
        if _present(self.folder, FENCED):
            grace_s = 0.0  # somebody else may be started in its place
        deadline = now + max(0.0, grace_s if math.isfinite(grace_s) else 0.0)
        if self.stop is None:
            self.stop = stop
            self._terminate([*self._family(), _own(self.pid)])
            self.kill_at = deadline
            return
        self.stop.update({key: value for key, value in stop.items() if value is not None})
        if self.kill_at is not None and not self.killed:
            self.kill_at = min(self.kill_at, deadline)

    def _end_leftovers(self) -> tuple[int, int, int]:
        """TERM, grace, KILL for whatever outlived the main process: how many found, killed, survived."""
        settled = time.monotonic() + SETTLE_S  # helpers that end with their parent are not leftovers
        family = self._family()
        while family and time.monotonic() < settled:
            time.sleep(STEP_S / 5)
            family = self._family()
        found = {(p.pid, p.start_ticks) for p in family}
        killed: set[tuple[int, int]] = set()
        if self.kill_at is None:
            grace_s = min(float(self.spec["grace_s"]), float(self.spec["leftover_grace_s"]))
            self.kill_at = time.monotonic() + max(0.0, grace_s)
        give_up = max(self.kill_at, time.monotonic()) + KILL_PATIENCE_S
        while family and time.monotonic() < give_up:
            if time.monotonic() < self.kill_at:
                self._terminate(family)
            else:
                _kill(family)
                killed.update((p.pid, p.start_ticks) for p in family)
            got = signal.sigtimedwait(WATCHED, STEP_S)
            if got is not None and got.si_signo == signal.SIGTERM:
                self.kill_at = 0.0
            family = self._family()
            found.update((p.pid, p.start_ticks) for p in family)
        return len(found), len(killed), len(family)

    def _terminate(self, processes: list[Process]) -> None:
        """TERM, once to each."""
        for process in processes:
            if (process.pid, process.start_ticks) not in self.asked:
                self.asked.add((process.pid, process.start_ticks))
                send_signal(process.pid, process.start_ticks, signal.SIGTERM)
                send_signal(process.pid, process.start_ticks, signal.SIGCONT)  # a stopped one hears no TERM

    def _family(self) -> list[Process]:
        """Living processes of this attempt but the main one; buries dead orphans on the way."""
        table = process_table()
        family = descendants(table, self.me)
        for process in family:
            if process.state == "Z" and process.ppid == self.me and process.pid != self.pid:
                os.waitpid(process.pid, os.WNOHANG)
        known = {process.pid for process in family} | {self.me}
        younger = [p for p in table.values() if p.pid not in known and p.start_ticks >= self.my_ticks]
        family += marked(younger, self.spec["attempt_id"])
        return [p for p in family if p.state not in "ZX" and p.pid != self.pid]

    def _record(
        self, reason: str, exit_code: int | None, by_signal: int | None, ended_at: float, detail: str | None
    ) -> dict[str, Any]:
        declared, problem = read_note(os.path.join(self.folder, NOTE))
        return {
            "format": FORMAT,
            "attempt_id": self.spec["attempt_id"],
            "reason": reason,
            "exit_code": exit_code,
            "signal": by_signal,
            "started_at": iso(self.started_at),
            "ended_at": iso(ended_at),
            "detail": None if detail is None else detail[:DETAIL_CHARS],
            "stop": self.stop,
            "profile": None if self.sampler is None else self.sampler.profile(),
            "declared": declared,
            "declared_problem": problem,
        }

    def _detail(self, by_signal: int | None, survived: int) -> str | None:
        said = []
        if self.stop is not None:
            asked = self.stop.get("reason")
            said.append(f"stopped on request: {asked}" if asked else "stopped: the wrapper was sent SIGTERM")
            if self.killed:
                said.append("killed when the grace period was over")
        elif by_signal is not None:
            said.append(f"ended by signal {_signal_name(by_signal)}, which was not sent through its wrapper")
        if survived:
            said.append(f"{survived} of its processes survive SIGKILL and may still hold GPUs")
        return "; ".join(said) or None

    def _say(self, answer: dict[str, Any]) -> None:
        try:
            os.write(self.report, json.dumps(answer).encode())
        except OSError:
            pass  # whoever asked is gone; the records tell the rest
        os.close(self.report)


class Process:
    """One line of ``/proc/PID/stat``."""

    __slots__ = ("pgrp", "pid", "ppid", "session", "start_ticks", "state")

    def __init__(self, pid: int, state: str, ppid: int, pgrp: int, session: int, start_ticks: int) -> None:
        self.pid, self.state, self.ppid = pid, state, ppid
        self.pgrp, self.session, self.start_ticks = pgrp, session, start_ticks


def read_process(pid: int) -> Process | None:
    """The process with this number; ``None`` when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return Process(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))
    except (OSError, IndexError):
        return None


def process_table() -> dict[int, Process]:
    """Every process that can be seen, by number."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(table: dict[int, Process], ancestor: int) -> list[Process]:
    """Children, grandchildren and so on of a process, dead ones included."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process)
    family = list(children.get(ancestor, ()))
    for process in family:  # grows while it is walked
        family += children.get(process.pid, ())
    return family


def marked(processes: Iterable[Process], attempt_id: str, marker: str = MARKER) -> list[Process]:
    """Those whose environment carries the attempt's id; unreadable ones are somebody else's."""
    needle = b"\0" + f"{marker}={attempt_id}".encode() + b"\0"
    found = []
    for process in processes:
        try:
            with open(f"/proc/{process.pid}/environ", "rb") as file:
                if needle in b"\0" + file.read():
                    found.append(process)
        except OSError:
            continue
    return found


def send_signal(pid: int, start_ticks: int, number: int) -> bool:
    """Signal exactly this process; ``False`` when it is gone, its number is reused, or it may not be signalled."""
    try:
        handle = os.pidfd_open(pid)
    except AttributeError:
        handle = None
    except OSError as error:
        if error.errno != errno.ENOSYS:
            return False
        handle = None
    try:
        process = read_process(pid)  # with the handle open the number cannot change its owner any more
        if process is None or process.start_ticks != start_ticks or process.state in "ZX":
            return False
        if handle is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
        return True
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)


def boot_id() -> str:
    """The kernel's name for the time since the last boot: process numbers mean nothing beyond it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def take_lock(folder: str) -> int | None:
    """The attempt's lock as a descriptor, or ``None`` when another process holds it."""
    fd = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def job_environment(spec: dict[str, Any], folder: str) -> dict[str, str]:
    """What the command finds in its environment: node, then job, then what only we may say."""
    named, begun = set(spec["inherit_env"]), tuple(name[:-1] for name in spec["inherit_env"] if name.endswith("*"))
    env = {name: value for name, value in os.environ.items() if name in named or (begun and name.startswith(begun))}
    env["PYTHONUNBUFFERED"] = "1"
    env.update(spec["env"])
    devices = os.environ.get("CUDA_VISIBLE_DEVICES") if spec.get("keep_devices") else None
    env.update(
        {
            "CUDA_VISIBLE_DEVICES": devices or spec["cuda_visible_devices"],
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order in which NVML counts; CUDA's own is another
            "LUCID_JOB_ID": spec["job_id"],
            MARKER: spec["attempt_id"],
            "LUCID_ATTEMPT_NUMBER": str(spec["attempt_number"]),
            "LUCID_NODE": spec["node"],
            "LUCID_PLACEMENT": json.dumps(spec["placement"]),
            "LUCID_OUTPUT_DIR": spec["output_dir"],
            "LUCID_CHECKPOINT_DIR": spec["checkpoint_dir"],
            "LUCID_EXIT_NOTE": os.path.join(folder, NOTE),
            "LUCID_GPU_LOAD": os.path.join(folder, LOAD),
        }
    )
    return env


def explain_fault(fault: str, spec: dict[str, Any]) -> tuple[int | None, str]:
    """Turn ``stage:errno:path`` into an exit code as of a shell and a sentence for the user."""
    stage, number, path = fault.split(":", 2)
    code = int(number)
    name = spec["command"][0]
    if stage == "chdir":
        said = {errno.ENOENT: "does not exist", errno.ENOTDIR: "is not a directory", errno.EACCES: "may not be entered"}
        return None, f"the working directory {said.get(code, os.strerror(code))}: {path!r}"
    if stage != "exec":
        return None, f"the command could not be started ({stage}): {os.strerror(code)}"
    if code in (errno.ENOENT, errno.ENOTDIR):
        if os.path.exists(os.path.join(spec["cwd"], path)):
            return 126, f"the interpreter in the first line of the command does not exist: {name!r}"
        where = "no such file" if "/" in name else "it is in no directory of the job's PATH"
        return 127, f"command not found, {where}: {name!r}"
    if code == errno.EACCES:
        return 126, f"the command is not executable; mark it (chmod +x) or name its interpreter: {name!r}"
    if code == errno.ENOEXEC:
        return 126, f"the command is not a program and has no #! line; name its interpreter: {name!r}"
    return 126, f"the command could not be executed: {os.strerror(code)}: {name!r}"


class Sampler:
    """Takes GPU samples, keeps a bounded number of them in memory and on disk, sums them up."""

    def __init__(self, spec: dict[str, Any], folder: str, started_at: float) -> None:
        self.source = spec["telemetry"]
        self.warmup_s = float(spec["warmup_s"])
        self.started_at = started_at
        self.path = os.path.join(folder, SAMPLES)
        self.samples: list[Sample] = []
        self.taken, self.stride, self.write_errors = 0, 1, 0
        self.peak_mib: float | None = None
        interval_s = float(spec["sample_interval_s"])
        self.read: Callable[[], list[Reading]] | None = None
        if self.source == "nvml":
            self.read = NvmlReader(allocated_gpus(spec), interval_s).latest
        elif self.source == "declared":
            self.read = LoadReader(folder, spec["gpus"], spec.get("declared_load")).latest

    def take(self) -> None:
        if self.read is None:
            return
        readings = self.read()
        used = [reading[3] for reading in readings if reading[3] is not None]
        self.peak_mib = max([*used, *([] if self.peak_mib is None else [self.peak_mib])], default=None)
        self.taken += 1
        if (self.taken - 1) % self.stride:
            return
        self.samples.append((time.time(), readings))
        try:
            if len(self.samples) < KEPT_SAMPLES:
                self._write(self.samples[-1:], os.O_APPEND)
            else:
                self.samples = self.samples[::2]
                self.stride *= 2
                self._write(self.samples, os.O_TRUNC)
        except OSError:
            self.write_errors += 1  # a full disk: the summary is kept in memory

    def _write(self, samples: list[Sample], mode: int) -> None:
        lines = [json.dumps({"at": round(at, 3), "gpus": readings}) + "\n" for at, readings in samples]
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | mode, 0o644)
        try:
            os.write(fd, "".join(lines).encode())
        finally:
            os.close(fd)

    def profile(self) -> dict[str, Any]:
        summary = summarise(self.samples, self.started_at + self.warmup_s, measured=self.source != "declared")
        if summary["memory_peak_mib"] is not None:
            summary["memory_peak_mib"] = self.peak_mib
        return {**summary, "source": self.source, "taken": self.taken, "write_errors": self.write_errors}


def summarise(samples: list[Sample], steady_from: float, measured: bool = False) -> dict[str, Any]:
    """What the GPUs were asked for once the job was warm. Unknown is ``None``.

    Samples before ``steady_from`` (seconds since 1970) and those before utilisation first came near the
    median of its later half are warm-up. A metric is unknown when there are too few samples, when more than
    a fifth of its values are missing or invalid, or, for utilisations, when the mean of the two halves of the
    window differ by more than 15 points. A job that never used its GPUs in the window has not begun: unknown, not
    small. Readings of a real GPU that do not move at all are a driver's that has stopped to look: unknown, with the
    memory. Memory is a maximum and includes warm-up.

    Args:
        measured: the readings come from a driver, not from a declaration, which may well be constant.
    """
    window = [sample for sample in samples if sample[0] >= steady_from]
    levels = [_mean([r[1] for r in readings]) for _, readings in window]
    later = sorted(level for level in levels[len(levels) // 2 :] if level is not None)
    if later:
        middle = later[len(later) // 2]
        near = (i for i, level in enumerate(levels) if level is not None and abs(level - middle) <= STEADY_POINTS)
        window = window[next(near, 0) :]
    columns = [[_mean([r[i] for r in readings]) for _, readings in window] for i in (1, 2, 3)]
    known = [[value for value in column if value is not None] for column in columns]
    enough = [len(k) >= max(STEADY_SAMPLES, VALID_FRAC * len(window)) for k in known]
    steady = [ok and _is_steady(values) for ok, values in list(zip(enough, known))[:2]]
    peaks = [r[3] for _, readings in samples for r in readings if r[3] is not None]
    problem = None
    if not all(enough):
        problem = "missing" if len(window) >= STEADY_SAMPLES else "too_few"
    elif not all(steady):
        problem = "unsteady"
    elif (_mean(known[0]) or 0.0) < IDLE_PCT:
        problem = "idle"
    stands_still = problem is None and measured and _stands_still(window)
    if stands_still:  # what has not moved yet may still do; until then it is not known, and not packed
        problem = "frozen" if len(window) >= FROZEN_SAMPLES else "too_few"
    is_active = problem != "idle" and not stands_still
    return {
        "gpu_util_pct": _mean(known[0]) if steady[0] and is_active else None,
        "memory_util_pct": _mean(known[1]) if steady[1] and steady[0] and is_active else None,
        "memory_peak_mib": max(peaks) if enough[2] and problem != "frozen" else None,
        "unknown_because": problem,
        "window_s": round(window[-1][0] - window[0][0], 3) if window else None,
        "sample_count": len(window),
    }


class LoadReader:
    """What the job declares that it asks of virtual GPUs: its load file, else the launcher's declaration."""

    def __init__(self, folder: str, gpus: list[dict[str, Any]], declared: dict[str, Any] | None) -> None:
        self.path = os.path.join(folder, LOAD)
        self.indices = [int(gpu["index"]) for gpu in gpus]
        self.limits = [gpu.get("memory_mib") for gpu in gpus]
        self.declared = declared

    def latest(self) -> list[Reading]:
        """One reading for each GPU. A file that cannot be understood makes every value unknown."""
        load: Any = self.declared
        try:
            load = read_json(self.path, LOAD_BYTES)
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            load = None
        by_gpu = load.get("gpus") if isinstance(load, dict) else None
        readings = []
        for index, limit in zip(self.indices, self.limits):
            own = by_gpu.get(str(index)) if isinstance(by_gpu, dict) else load
            values = own if isinstance(own, dict) else {}
            readings.append(
                (
                    index,
                    within(values.get("gpu_util_pct"), 100.0),
                    within(values.get("memory_util_pct"), 100.0),
                    within(values.get("memory_used_mib"), limit),
                )
            )
        return readings


def allocated_gpus(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The spec's GPUs with the devices that the resource manager gave for them, where it is the one who chooses."""
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if spec.get("keep_devices") else []
    if len(devices) != len(spec["gpus"]):
        return spec["gpus"]
    found = []
    for gpu, device in zip(spec["gpus"], devices):
        number = int(device) if device.isdigit() else gpu["index"]
        found.append({**gpu, "number": number, "uuid": device if device.startswith("GPU-") else gpu.get("uuid")})
    return found


class NvmlReader:
    """Reads real GPUs in a thread of its own: a driver that hangs must not keep a job from being stopped."""

    def __init__(self, gpus: list[dict[str, Any]], interval_s: float) -> None:
        import _thread
        import ctypes

        self.ctypes = ctypes
        self.gpus = gpus
        self.interval_s = interval_s
        self.unknown: list[Reading] = [(int(gpu["index"]), None, None, None) for gpu in gpus]
        self.slot: tuple[float, list[Reading]] = (-math.inf, self.unknown)
        _thread.start_new_thread(self._loop, ())

    def latest(self) -> list[Reading]:
        """The newest readings; unknown when the newest are older than three intervals."""
        at, readings = self.slot
        return readings if time.monotonic() - at <= 3 * self.interval_s else self.unknown

    def _loop(self) -> None:
        while True:
            try:
                library = self.ctypes.CDLL("libnvidia-ml.so.1")
                while library.nvmlInit_v2() == 0:
                    readings = [self._read(library, gpu) for gpu in self.gpus]
                    self.slot = (time.monotonic(), readings)
                    if all(reading[1] is None for reading in readings):
                        library.nvmlShutdown()  # a restarted driver answers only to those who start afresh
                    time.sleep(self.interval_s)
            except OSError:
                pass  # no driver (yet): the slot grows old, which reads as unknown
            time.sleep(self.interval_s)

    def _read(self, library: Any, gpu: dict[str, Any]) -> Reading:
        c = self.ctypes
        index = int(gpu["index"])
        handle, rates, memory = c.c_void_p(), (c.c_uint * 2)(), (c.c_ulonglong * 3)()
        if gpu.get("uuid"):  # numbers may change with a driver restart, names do not
            found = library.nvmlDeviceGetHandleByUUID(c.c_char_p(gpu["uuid"].encode()), c.byref(handle))
        else:
            found = library.nvmlDeviceGetHandleByIndex_v2(c.c_uint(gpu.get("number", index)), c.byref(handle))
        if found != 0:
            return (index, None, None, None)
        has_rates = library.nvmlDeviceGetUtilizationRates(handle, rates) == 0
        has_memory = library.nvmlDeviceGetMemoryInfo(handle, memory) == 0
        total_mib = memory[0] / 1048576
        return (
            index,
            within(rates[0], 100.0) if has_rates else None,
            within(rates[1], 100.0) if has_rates else None,
            within(memory[2] / 1048576, total_mib) if has_memory else None,
        )


def within(value: Any, limit: float | None) -> float | None:
    """The value as a number from 0 to ``limit``; anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or number < 0 or (limit is not None and number > limit):
        return None
    return number


def read_note(path: str) -> tuple[dict[str, str], str | None]:
    """Facts that the job declared about its end, cut to size, and why some were not taken. Untrusted."""
    try:
        text = read_bytes(path, NOTE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError) as error:
        return {}, "the exit note cannot be used: " + str(error)[:200]
    try:
        pairs = json.loads(text)
        pairs = list(pairs.items()) if isinstance(pairs, dict) else []
    except (ValueError, RecursionError):
        pairs = [line.split("=", 1) for line in text.splitlines() if "=" in line]
    facts = {}
    for key, value in pairs[:NOTE_FACTS]:
        value = value if isinstance(value, str) else json.dumps(value)
        facts[_printable(key.strip())[:64]] = _printable(value.strip())[:FACT_CHARS]
    problem = f"only {NOTE_FACTS} of {len(pairs)} facts were taken" if len(pairs) > NOTE_FACTS else None
    if not pairs and text.strip():
        problem = "the exit note is neither a JSON object nor key=value lines"
    return facts, problem


def unstarted_record(spec: dict[str, Any], reason: str, detail: str) -> dict[str, Any]:
    """The exit record of an attempt whose command never ran and never will."""
    return {
        "format": FORMAT,
        "attempt_id": spec["attempt_id"],
        "reason": reason,
        "exit_code": None,
        "signal": None,
        "started_at": None,
        "ended_at": iso(time.time()),
        "detail": reason + " " + detail,
    }


def write_exit(spec: dict[str, Any], record: dict[str, Any], reserve: int) -> None:
    """Let ``exit.json`` appear, complete, in bytes that were set aside; retries while the disk refuses."""
    folder = spec["attempt_dir"]
    record["released_at"] = iso(time.time())
    data = _encode(record)
    if len(data) > RESERVE_BYTES:
        data = _encode({**record, "declared": {}, "declared_problem": "too large to keep", "stop": None})
    give_up = time.monotonic() + float(spec["disk_retry_s"])
    wait_s = STEP_S
    while True:
        try:
            if not _present(folder, RESERVE):  # the job removed it, perhaps with the whole folder
                os.makedirs(folder, exist_ok=True)
                reserve = os.open(os.path.join(folder, RESERVE), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            os.pwrite(reserve, data, 0)
            os.ftruncate(reserve, len(data))
            os.fsync(reserve)
            os.rename(os.path.join(folder, RESERVE), os.path.join(folder, EXIT))
            _sync_folder(folder)
            return
        except OSError as error:
            if time.monotonic() >= give_up:
                sys.stderr.write("the exit record cannot be written: " + str(error) + "\n")
                raise
            time.sleep(wait_s)
            wait_s = min(5.0, 2 * wait_s)


def write_json(folder: str, name: str, content: dict[str, Any]) -> None:
    """Let a file appear complete or not at all."""
    path = os.path.join(folder, name)
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    try:
        os.write(fd, _encode(content))
        os.fsync(fd)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    _sync_folder(folder)


def read_bytes(path: str, limit: int) -> bytes:
    """A small regular file that somebody else may have written.

    Raises:
        OSError: it is missing, a link, or cannot be read.
        ValueError: it is not a regular file, or larger than ``limit`` bytes.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("not a regular file: " + path)
        data = os.read(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise ValueError(f"larger than {limit} bytes: {path}")
    return data


def read_json(path: str, limit: int) -> dict[str, Any]:
    """As ``read_bytes``, as a JSON object; ``ValueError`` when it is none."""
    try:
        content = json.loads(read_bytes(path, limit))
    except RecursionError:
        content = None
    if not isinstance(content, dict):
        raise ValueError("not a JSON object: " + path)
    return content


def iso(seconds: float) -> str:
    """Seconds since 1970 as UTC with microseconds."""
    whole = math.floor(seconds)
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return f"{clock}.{int((seconds - whole) * 1e6):06d}+00:00"


def _become_command(spec: dict[str, Any], env: dict[str, str], log: int, gate: int, teller: int) -> None:
    stage, path = "setup", ""
    try:
        os.setsid()
        for number in signal.valid_signals():
            if signal.getsignal(number) == signal.SIG_IGN:  # Python ignores some; the job must not inherit that
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        if not os.read(gate, 1):
            os._exit(125)
        stage, path = "chdir", spec["cwd"]
        os.chdir(path)
        stage = "exec"
        name = spec["command"][0]
        folders = [None] if "/" in name else env.get("PATH", os.defpath).split(os.pathsep)
        refused: OSError | None = None
        for folder in folders:
            path = name if folder is None else os.path.join(folder, name)
            try:
                os.execve(path, spec["command"], env)
            except (FileNotFoundError, NotADirectoryError) as error:
                refused = refused or error
            except PermissionError as error:
                if folder is None or os.path.isfile(path):
                    refused = error
        raise refused or FileNotFoundError(errno.ENOENT, "")
    except OSError as error:
        told = f"{stage}:{error.errno}:{path}"
        os.write(teller, told.encode("utf-8", "surrogateescape")[:4096])


def _become_subreaper() -> bool:
    """Orphans of the job become our children instead of vanishing from sight (Linux, prctl 36)."""
    return _call_prctl(36, 1)


def _call_prctl(option: int, value: int) -> bool:
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).prctl(option, int(value), 0, 0, 0) == 0
    except (ImportError, OSError, AttributeError):
        return False


def _kill(processes: Iterable[Process]) -> None:
    for process in processes:
        send_signal(process.pid, process.start_ticks, signal.SIGKILL)


def _own(pid: int) -> Process:
    process = read_process(pid)
    if process is None:
        raise OSError(errno.ESRCH, "/proc does not show one of our own processes; is it mounted?", str(pid))
    return process


def reserve_record(folder: str) -> int:
    fd = os.open(os.path.join(folder, RESERVE), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    os.posix_fallocate(fd, 0, RESERVE_BYTES)
    return fd


def _redirect(folder: str) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    own = os.open(os.path.join(folder, OWN_LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    for source, target in ((nothing, 0), (nothing, 1), (own, 2)):
        os.dup2(source, target, inheritable=False)
    os.close(nothing)
    os.close(own)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _encode(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _present(folder: str, name: str) -> bool:
    return os.path.lexists(os.path.join(folder, name))


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(math.fsum(known) / len(known), 4) if known else None


def _is_steady(values: list[float]) -> bool:
    half = len(values) // 2
    first, second = _mean(values[:half]), _mean(values[half:])
    return first is None or second is None or abs(first - second) <= STEADY_POINTS


def _stands_still(window: list[Sample]) -> bool:
    """Whether no reading has moved. A GPU that is full all the time may well stand still, and is no small job."""
    first = window[0][1]
    if any(readings != first for _, readings in window):
        return False
    return any(reading[1] is not None and reading[1] < 100.0 for reading in first)


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _answer(answer: dict[str, Any]) -> int:
    try:
        os.write(1, json.dumps(answer).encode() + b"\n")
    except OSError:
        pass  # whoever asked is gone; the records tell the rest
    return 0


def _refuse(reason: str) -> int:
    try:
        os.write(2, ("wrapper: " + reason + "\n").encode("utf-8", "backslashreplace"))
    except OSError:
        pass
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
