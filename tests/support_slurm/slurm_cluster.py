"""A real Slurm of our own on one machine: slurmctld, several slurmd with fake GPUs, munged; on loopback, in one folder.

Fake GPUs are character devices (needs root): with plain files Slurm registers them and leaves CUDA_VISIBLE_DEVICES
empty. What was started is stopped again, by its number.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.support_slurm.accounting import Accounting
from tests.support_slurm.ports import free_ports

_SBIN = ":/usr/sbin:/sbin"
_CONF = """\
ClusterName=testbed
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctl_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/munge.socket
CredType=cred/munge
SlurmctldPidFile={root}/state/slurmctld.pid
SlurmdPidFile={root}/state/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
{accounting}
JobCompType=jobcomp/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0,requeue_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
PriorityType=priority/basic
GresTypes={gres_types}
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MinJobAge={min_job_age_s}
InactiveLimit=0
KillWait=3
SlurmctldTimeout=30
SlurmdTimeout={slurmd_timeout_s}
TreeWidth=65533
{more}
NodeName=n[1-{nodes}] NodeAddr=127.0.0.1 NodeHostname=localhost Port=[{port}-{last_port}] CPUs=32 RealMemory=200000 \
Gres={gres} State={node_state}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO DefMemPerCPU=100
"""


class SlurmTestbed:
    """A running cluster.

    Args:
        sharing: ``shards``: every GPU has a type of its own (``gpu:g3:1``) and two shards (``shard:g3:2``);
            ``plain``: GPUs of one type, which Slurm chooses by itself.
        accounting: with slurmdbd and a database.
        min_job_age_s: how long the controller remembers a job that has ended.
        asleep: its nodes are there on demand (State=CLOUD), and none is started; see ``power.py``.
    """

    def __init__(
        self,
        root: Path,
        nodes: int = 4,
        gpus: int = 8,
        *,
        sharing: str = "shards",
        slurmd_timeout_s: int = 8,
        accounting: bool = False,
        min_job_age_s: int = 600,
        asleep: bool = False,
        more: str = "",
        more_after: str = "",
    ) -> None:
        require_slurm()
        self.root, self.node_count, self.gpu_count = root, nodes, gpus
        self._environ = {**os.environ, "PATH": os.environ.get("PATH", "") + _SBIN}
        for name in ("conf", "log", "state", "spool", "gpus", "munge"):
            (root / name).mkdir(parents=True)
        self.conf = root / "conf" / "slurm.conf"
        self._environ["SLURM_CONF"] = str(self.conf)
        for index in range(gpus):
            os.mknod(root / "gpus" / f"nvidia{index}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        self.accounting = Accounting(root) if accounting else None
        self._write(sharing, slurmd_timeout_s, more, min_job_age_s, "CLOUD" if asleep else "UNKNOWN")
        if more_after:
            with self.conf.open("a") as file:
                file.write(more_after)
        try:
            self._start_munge()
            if self.accounting is not None:
                self.accounting.start(self._environ)
            self.start_controller(fresh=True)
            for name in () if asleep else self.nodes:
                self.start_node(name)
            self.wait_up({"idle~"} if asleep else {"idle", "mixed"})
        except BaseException:
            self.close()
            raise

    @property
    def environ(self) -> dict[str, str]:
        """What Slurm's commands need to find it."""
        return {"SLURM_CONF": str(self.conf)}

    @property
    def environ_of_all(self) -> dict[str, str]:
        """The same for its daemons."""
        return dict(self._environ)

    @property
    def nodes(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.node_count + 1)]

    def run(self, *words: str, check: bool = True, timeout_s: float = 20.0) -> str:
        done = subprocess.run(
            words,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

    def wait_up(self, wanted: Collection[str] = ("idle", "mixed"), patience_s: float = 30.0) -> None:
        """Wait until every node can be given work, or has come into one of the wanted states."""
        deadline = time.monotonic() + patience_s
        while True:
            states = dict(
                line.split() for line in self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
            )
            if set(states) == set(self.nodes) and set(states.values()) <= set(wanted):
                return
            assert time.monotonic() < deadline, f"the nodes are {states}: {self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        log = self.root / "log" / "slurmctld.log"
        return log.read_text()[-2000:] if log.exists() else "no log"

    def start_controller(self, *, fresh: bool = False) -> None:
        self.run("slurmctld", *(["-c"] if fresh else []))

    def stop_controller(self) -> None:
        self._stop(self.root / "state" / "slurmctld.pid")

    def kill_controller(self) -> None:
        """SIGKILL: what it has not saved is lost."""
        self._stop(self.root / "state" / "slurmctld.pid", signal.SIGKILL)

    def start_node(self, name: str, *, booted: bool = False) -> None:
        """Start a node's daemon; ``booted``: it says that its machine has just been switched on."""
        (self.root / "spool" / name).mkdir(exist_ok=True)
        self.run("slurmd", "-N", name, *(["-b"] if booted else []))

    def kill_node(self, name: str) -> None:
        """SIGKILL to its daemon; what runs there goes on."""
        self._stop(self.root / "state" / f"slurmd-{name}.pid", signal.SIGKILL)

    def close(self) -> None:
        state = self.root / "state"
        if (state / "slurmctld.pid").exists():
            self.run("scancel", "--signal=KILL", "--full", "--user=root", check=False, timeout_s=5.0)
            self.run("scancel", "--user=root", check=False, timeout_s=5.0)
            deadline = time.monotonic() + 8.0
            while self.run("squeue", "-h", check=False, timeout_s=5.0).strip() and time.monotonic() < deadline:
                time.sleep(0.1)
        for name in self.nodes:
            self._stop(state / f"slurmd-{name}.pid")
        self.stop_controller()
        if self.accounting is not None:
            self.accounting.close()
        self._stop(self.root / "munge" / "munged.pid")
        self._end_orphans()

    def _end_orphans(self) -> None:
        """Step daemons whose slurmd was killed: they carry this cluster's configuration in their environment."""
        needle = f"SLURM_CONF={self.conf}".encode()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                try:
                    name = (folder / "comm").read_text()
                    if name.startswith("slurmstepd") and needle in (folder / "environ").read_bytes().split(b"\0"):
                        os.kill(int(folder.name), signal.SIGKILL)
                except OSError:
                    continue

    def _stop(self, pid_file: Path, number: int = signal.SIGTERM) -> None:
        try:
            pid = int(pid_file.read_text())
            os.kill(pid, number)
        except (OSError, ValueError):
            return
        deadline = time.monotonic() + 10.0
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            if _is_zombie(pid):
                break
            time.sleep(0.02)
        else:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        pid_file.unlink(missing_ok=True)

    def _start_munge(self) -> None:
        folder = self.root / "munge"
        for place in (self.root, folder):
            place.chmod(0o755)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        # A socket's path is at most 107 bytes long, and pytest's folders are deep.
        self.run(
            "munged",
            "--force",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        )

    def _write(self, sharing: str, slurmd_timeout_s: int, more: str, min_job_age_s: int, node_state: str) -> None:
        indices = range(self.gpu_count)
        lines = ["AutoDetect=off"]
        span = f"n[1-{self.node_count}]"
        if sharing == "shards":
            gres = ",".join([f"gpu:g{i}:1" for i in indices] + [f"shard:g{i}:2" for i in indices])
            types = "gpu,shard"
            for kind, count in (("gpu", ""), ("shard", " Count=2")):
                lines += [
                    f"NodeName={span} Name={kind} Type=g{i}{count} File={self.root}/gpus/nvidia{i}" for i in indices
                ]
        else:
            gres, types = f"gpu:a100:{self.gpu_count}", "gpu"
            lines.append(f"NodeName={span} Name=gpu Type=a100 File={self.root}/gpus/nvidia[0-{self.gpu_count - 1}]")
        (self.root / "conf" / "gres.conf").write_text("\n".join(lines) + "\n")
        port = free_ports(self.node_count + 1)
        text = _CONF.format(
            root=self.root,
            ctl_port=port,
            port=port + 1,
            last_port=port + self.node_count,
            nodes=self.node_count,
            gres=gres,
            gres_types=types,
            slurmd_timeout_s=slurmd_timeout_s,
            accounting=self.accounting.lines if self.accounting else "AccountingStorageType=accounting_storage/none",
            min_job_age_s=min_job_age_s,
            node_state=node_state,
            more=more,
        )
        self.conf.write_text(text)


def require_slurm() -> None:
    """Skip where a Slurm of our own cannot run."""
    path = os.environ.get("PATH", "") + _SBIN
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"needs Slurm; install slurmctld slurmd slurm-client munge (missing: {', '.join(missing)})")
    if os.geteuid() != 0:
        pytest.skip("needs root: slurmd starts jobs as other users, and fake GPUs are devices")
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.mknod(Path(folder) / "probe", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except OSError:
            pytest.skip("needs to make device files (fake GPUs); this container forbids it")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def short_folder() -> Path:
    """A folder with a short path, for sockets, into which every user may look."""
    folder = Path(tempfile.mkdtemp(prefix="lsl"))
    folder.chmod(0o755)
    return folder
