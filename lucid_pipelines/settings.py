"""`lucid.yaml` + environment -> one typed, frozen `Settings` (ARCHITECTURE section 11).

Order of precedence: defaults, then the file, then the environment. Every key can be overridden by
``LUCID__SECTION__KEY=value`` (the value is read as YAML). Unknown keys are errors that name the nearest
valid key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lucid_pipelines.domain.errors import InputError, did_you_mean
from lucid_pipelines.domain.states import Mode

ENV_PREFIX = "LUCID__"
FILE_NAME = "lucid.yaml"


class Section(BaseModel):
    """Base of every section: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StateSettings(Section):
    """Where the state database lives."""

    url: str | None = Field(default=None, description="SQLAlchemy URL; default: SQLite below the home folder.")


class NodeSettings(Section):
    """One declared node: its (virtual) GPUs, and how it is reached where that matters."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    gpus: int = Field(ge=1, le=64)
    vc: str = Field(default="default", min_length=1)
    gpu_type: str = "virtual"
    memory_mib: float = Field(default=24_576.0, gt=0)
    failing_checks: tuple[str, ...] = Field(default=(), description="Diagnosis tests that this virtual node fails.")
    host: str | None = Field(default=None, min_length=1, description="SSH: name or address; default: the node's name.")
    port: int = Field(default=22, ge=1, le=65535, description="SSH.")
    user: str | None = Field(default=None, min_length=1, description="SSH: another user than cluster.ssh.user.")
    internal_host: str | None = Field(default=None, min_length=1, description="SSH: how other nodes reach it.")
    ssh_root: str | None = Field(default=None, min_length=1, description="SSH: another folder than cluster.ssh.root.")


DEFAULT_NODES = (
    NodeSettings(name="node-1", gpus=4, vc="vision"),
    NodeSettings(name="node-2", gpus=4, vc="nlp"),
)


class SshSettings(Section):
    """How nodes are reached; the nodes themselves stand in ``cluster.nodes``."""

    user: str | None = Field(default=None, min_length=1, description="Default: the user of the control plane.")
    key_file: Path | None = Field(default=None, description="Default: the agent's keys and the usual files.")
    known_hosts: tuple[Path, ...] = (Path("~/.ssh/known_hosts"), Path("/etc/ssh/ssh_known_hosts"))
    root: str = Field(default="~/.lucid-node", min_length=1, description="Our folder on every node.")
    python: str = Field(default="python3", min_length=1, description="Python 3.9 or newer on the nodes.")
    connect_timeout_s: float = Field(default=10.0, gt=0)
    call_timeout_s: float = Field(default=60.0, gt=0)
    keepalive_s: float = Field(default=15.0, ge=1)
    parallel: int = Field(default=16, ge=1, le=256, description="Nodes asked at once.")
    unreachable_grace_s: float = Field(default=120.0, gt=0, description="Silence that is not yet a fault.")
    max_checkpoint_mib: float = Field(default=512.0, ge=0, description="Moved for a restart on another node.")


class AdoptSettings(Section):
    """Which held jobs of users are ours to place (``modes.adopt``): one of these must fit."""

    comment: str | None = Field(default="lucid", min_length=1)
    qos: str | None = Field(default=None, min_length=1)
    partition: str | None = Field(default=None, min_length=1)


class SlurmSettings(Section):
    """How jobs are handed to Slurm; nodes and GPUs are read from Slurm itself."""

    conf: Path | None = Field(default=None, description="slurm.conf; default: Slurm's own.")
    bin_dir: Path | None = Field(default=None, description="Where sbatch lies; default: the PATH.")
    partitions: tuple[str, ...] = Field(default=(), description="Whose nodes we place on; each is a VC. Empty: all.")
    account: str | None = None
    qos: str | None = None
    time_limit: str | None = Field(default=None, description="As sbatch --time; default: the partition's.")
    python: str = Field(default="python3", min_length=1, description="Python 3.9 or newer on the nodes.")
    cpus_per_gpu: int | None = Field(default=None, ge=1)
    memory_mib_per_gpu: int | None = Field(default=None, ge=1)
    share: bool = Field(
        default=True, description="Ask for typed shards, where the site has them: pairs become possible."
    )
    submit_as_user: bool = Field(default=False, description="sbatch --uid of the job's user; needs root or SlurmUser.")
    extra: tuple[str, ...] = Field(default=(), description="Further arguments of every sbatch.")
    adopt: AdoptSettings = AdoptSettings()
    command_timeout_s: float = Field(default=30.0, gt=0)
    dead_node_fence_s: float = Field(
        default=300.0, ge=0, description="Silence after which a node's job counts as dead."
    )


class CheckSettings(Section):
    """A site's own diagnosis test: passes when it ends with status 0."""

    command: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(default=300.0, gt=0)


class ClusterSettings(Section):
    """Where jobs run."""

    kind: Literal["local", "ssh", "slurm"] = "local"
    gpus: Literal["auto", "virtual", "real"] = Field(
        default="auto", description="auto: real GPUs where NVML finds some, else the declared virtual ones."
    )
    nodes: tuple[NodeSettings, ...] = DEFAULT_NODES
    default_vc: str | None = Field(default=None, description="VC of a job that names none; default: the first.")
    sample_interval_s: float = Field(default=2.0, gt=0)
    dcgm_url: str | None = Field(default=None, description="dcgm-exporter: asked for what NVML does not tell.")
    warmup_s: float = Field(default=10.0, ge=0, description="A job's first seconds, which its profile leaves out.")
    job_env: dict[str, str] = Field(default_factory=dict, description="What every job's environment begins with.")
    checks: dict[str, CheckSettings] = Field(default_factory=dict, description="Diagnosis tests of the site, by name.")
    ssh: SshSettings = SshSettings()
    slurm: SlurmSettings = SlurmSettings()

    @field_validator("nodes")
    @classmethod
    def _names_once(cls, nodes: tuple[NodeSettings, ...]) -> tuple[NodeSettings, ...]:
        names = [node.name for node in nodes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"node names must differ; twice: {', '.join(twice)}")
        if not nodes:
            raise ValueError("declare at least one node")
        return nodes

    @model_validator(mode="after")
    def _default_vc_exists(self) -> ClusterSettings:
        known = sorted({node.vc for node in self.nodes})
        if self.kind != "slurm" and self.default_vc is not None and self.default_vc not in known:
            raise ValueError(f"default_vc {self.default_vc!r} has no node; known: {', '.join(known)}")
        return self


class SchedulingSettings(Section):
    """The scheduling window and its policy."""

    policy: str = "lucid"
    pass_interval_s: float = Field(default=1.0, gt=0, le=60)
    window_s: float = Field(default=60.0, ge=1, le=600)
    idle_exit_s: float = Field(default=12.0, gt=0)
    record: bool = Field(default=True, description="Keep what the policy saw and decided, so that it can be replayed.")
    max_launch_tries: int = Field(default=3, ge=1)
    default_duration_s: float = Field(
        default=3600.0, gt=0, description="Priority of a job about whose kind nothing is known yet."
    )


class ProfilingSettings(Section):
    """Short first runs on nodes of their own, which show what a job needs (Lucid, section 7)."""

    nodes: int | None = Field(
        default=None,
        ge=0,
        description="Nodes that only profile (Cprof), where none is declared with vc: profiler; "
        "default: one of fifty, so none on a small cluster. Without such nodes jobs are sampled while they run.",
    )
    max_gpus: int = Field(default=8, ge=1, description="Larger jobs are sampled while they run (Nprof).")
    window_s: float = Field(default=200.0, gt=0, description="Longest profiling run (Tprof).")
    busy_window_s: float = Field(default=100.0, gt=0, description="The same while the profiling queue is long.")
    cold_start_window_s: float = Field(default=600.0, gt=0, description="The same for jobs that start slowly.")
    move: Literal["restart", "continue"] = Field(
        default="restart",
        description="restart: a profiled job begins again in the main cluster; "
        "continue: it goes on where it is while enough of the profiling GPUs are left.",
    )
    continue_frac: float = Field(default=0.5, ge=0, le=1, description="Share of profiling GPUs given away like that.")
    borrow_above_jobs: int = Field(default=10, ge=0)
    return_below_jobs: int = Field(default=5, ge=0)
    max_borrowed_nodes: int = Field(default=1, ge=0)
    busy_above_jobs: float | None = Field(
        default=None, ge=0, description="So many predicted jobs per 10 min count as a burst although few wait yet."
    )
    busy_max_gpus: int | None = Field(default=None, ge=1, description="max_gpus during a burst.")
    reuse_days: float = Field(
        default=14.0, ge=0, description="A repeated command starts with a profile of at most this age; 0 = never."
    )


class PackingSettings(Section):
    """Two jobs on one GPU (Lucid, section 8). Whether it is done is set by ``modes``."""

    tenant: Literal["vc", "user"] = Field(default="vc", description="Who may share: jobs of a VC, or of one user.")
    gpu_sharing: Literal["time_slicing", "mps"] = Field(default="time_slicing", description="On real GPUs.")
    mps_pipe_dir: str = Field(default="/tmp/nvidia-mps", description="Where the MPS daemon listens.")
    memory_margin_frac: float = Field(default=0.05, ge=0, lt=1, description="Of a GPU's memory, left free by a pair.")
    min_remaining_s: float = Field(default=60.0, ge=0, description="A partner must be predicted to last so long.")
    off_below_jobs: float = Field(default=2.0, description="Nothing shares below so many predicted jobs per 10 min.")
    apathetic_below_jobs: float = Field(default=2.0, description="Only light pairs below so many.")
    max_bind_tries: int = Field(default=3, ge=1, description="Before a pair that its node contradicts is given up.")
    watch_after_s: float = Field(default=30.0, ge=0, description="A new pair settles for so long before it is judged.")
    min_speed_frac: float = Field(default=0.5, gt=0, lt=1, description="Below it, beside alone, a pair is split.")
    cool_down_s: float = Field(default=600.0, ge=0, description="No new pair on GPUs where one was split before.")


class SubmissionSettings(Section):
    """How new submissions are taken in."""

    batch: int = Field(default=25, ge=1, le=500)
    advise_timeout_s: float = Field(
        default=20.0, gt=0, description="Time box of the advisor for one job, and for a whole batch."
    )


class AdvisorSettings(Section):
    """What past jobs with similar code say of a new one. How far that goes is set by ``modes.advise``."""

    index: str | None = Field(
        default=None, description="URL of the history index (database or redis://); default: history.db in the home."
    )
    embedder: Literal["hash", "server", "bge"] = Field(
        default="hash", description="hash: no weights; server: /v1/embeddings; bge: BGE-m3 in the own environment."
    )
    embedder_url: str | None = Field(default=None, pattern=r"^https?://", description="Of the server, up to /v1.")
    embedder_model: str = Field(default="BAAI/bge-m3", min_length=1)
    embedder_dimension: int = Field(default=1024, ge=1, le=65_536)
    threshold: float | None = Field(
        default=None, ge=-1, le=1, description="T_score, from `lucid history calibrate`; default: the embedder's."
    )
    k: int = Field(default=20, ge=1, le=1000, description="Similar jobs that are looked at.")
    ask_language_model: bool = Field(default=False, description="Ask it for what reading the code leaves open.")
    memory_mib: int = Field(default=1536, ge=256, description="Of the process that reads code.")

    @model_validator(mode="after")
    def _server_has_an_address(self) -> AdvisorSettings:
        if self.embedder == "server" and self.embedder_url is None:
            raise ValueError("the embedder 'server' needs embedder_url")
        return self


class SnapshotSettings(Section):
    """Limits of a code snapshot."""

    max_total_mib: float = Field(default=2048.0, gt=0)
    max_file_mib: float = Field(default=512.0, gt=0)
    max_entries: int = Field(default=100_000, gt=0, description="Files, links and directories together.")


class DagsterSettings(Section):
    """The Dagster instance that `lucid up` runs."""

    host: str = "127.0.0.1"
    port: int = Field(default=3000, ge=1, le=65535)
    storage_url: str | None = Field(default=None, description="PostgreSQL URL; default: SQLite below the home folder.")
    keep_control_runs_h: float = Field(default=6.0, gt=0, description="Runs of the control loop: one a minute.")
    keep_runs_days: float = Field(default=30.0, gt=0)
    warm_runs: bool = Field(default=True, description="Fork runs from a warm process instead of starting Python anew.")


class ModesSettings(Section):
    """How far each automation may go."""

    adopt: Mode = Field(default=Mode.OFF, description="Place jobs that users submitted held to Slurm.")
    restart: Mode = Mode.SHADOW
    isolate: Mode = Mode.SHADOW
    advise: Mode = Field(
        default=Mode.SHADOW, description="Estimates from similar past jobs; shadow: recorded, not used. Not: approve."
    )
    skip_profiling: Mode = Field(
        default=Mode.SHADOW, description="Take the profile of similar past jobs for a new one's. Not: approve."
    )
    pack: Mode = Field(default=Mode.SHADOW, description="Two jobs on one GPU.")
    unpack: Mode = Field(default=Mode.SHADOW, description="Split a pair that runs slowly or unsteadily.")
    lend: Mode = Field(default=Mode.SHADOW, description="Let idle nodes profile while many jobs wait for it.")

    @field_validator("advise", "skip_profiling")
    @classmethod
    def _nobody_is_asked(cls, mode: Mode) -> Mode:
        if mode is Mode.APPROVE:
            raise ValueError("a submission waits for nobody: choose off, shadow or live")
        return mode


class RecoverySettings(Section):
    """Limits of what the failure handler may do by itself; whether it may at all is set by ``modes``."""

    max_restarts_per_job: int = Field(default=5, ge=0)
    max_restarts_per_cause: int = Field(default=3, ge=0)
    max_restarts_per_hour: int = Field(default=20, ge=0, description="Of the whole cluster.")
    backoff_base_s: float = Field(default=30.0, ge=0, description="Wait before a job's first restart; doubles.")
    isolation_h: float = Field(default=24.0, gt=0, description="When an isolation must be decided about again.")
    isolation_quota_nodes: int = Field(default=4, ge=0)
    isolation_quota_frac: float = Field(default=0.10, ge=0, le=1)


class TrackerSettings(Section):
    """How training logs are followed, and when what they say is suspicious. Findings are advice only."""

    interval_s: float = Field(default=30.0, ge=30, description="Between two looks at the logs of running jobs.")
    values_per_look: int = Field(default=8, ge=1, le=64, description="Losses kept of one job and look.")
    keep_values: int = Field(default=5000, ge=100, description="Values kept of each of a job's metrics.")
    ask_after_s: float = Field(
        default=300.0, ge=0, description="How long a job runs before a language model is asked about its log."
    )
    hang_steps: float = Field(default=20.0, gt=1, description="So many usual intervals without a step are suspicious,")
    hang_floor_s: float = Field(default=300.0, gt=0, description="but never less than this,")
    hang_waiting_floor_s: float = Field(
        default=3600.0, gt=0, description="nor than this while it evaluates, saves, compiles or loads."
    )
    straggler_min_ratio: float = Field(default=1.25, gt=1, description="Step time over that of equal jobs elsewhere.")
    straggler_min_peers: int = Field(default=3, ge=2)


class LanguageModelSettings(Section):
    """An optional server that speaks the OpenAI protocol; asked only where the deterministic path is not sure."""

    url: str | None = Field(default=None, pattern=r"^https?://", description="Up to and with /v1; null = none.")
    model: str = Field(default="default", min_length=1, description="The name under which the server serves it.")
    api_key_env: str = Field(
        default="LUCID_LANGUAGE_MODEL_KEY", description="Environment variable that holds the key, if one is needed."
    )


class WebhookSettings(Section):
    """A receiver of JSON by HTTP POST."""

    url: str | None = Field(default=None, pattern=r"^https?://", description="null = off.")
    secret_env: str | None = Field(
        default=None, description="Environment variable with the key of the X-Lucid-Signature header (HMAC-SHA256)."
    )
    allow_private: bool = Field(default=False, description="Allow an address of the own network or machine.")


class SlackSettings(Section):
    """A chat's incoming webhook (Slack, Mattermost, …). Its URL is a secret, so it is read from the environment."""

    url_env: str | None = Field(default=None, description="Environment variable that holds the URL; null = off.")
    allow_private: bool = False


class EmailSettings(Section):
    """An SMTP server that takes mail."""

    host: str | None = Field(default=None, description="null = off.")
    port: int = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password_env: str | None = None
    sender: str = "lucid@localhost"
    to: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _someone_reads_it(self) -> EmailSettings:
        if self.host is not None and not self.to:
            raise ValueError("name at least one address in hooks.email.to")
        return self


OCCASIONS = ("failure", "approval", "isolation", "hang", "straggler", "lag", "reliability")


class HooksSettings(Section):
    """Who is told of what; every channel is off by default."""

    tell: tuple[Literal["failure", "approval", "isolation", "hang", "straggler", "lag", "reliability"], ...] = OCCASIONS
    lag_alarm_s: float = Field(default=120.0, gt=0, description="Wait of the oldest unhandled exit that is an alarm.")
    webhook: WebhookSettings = WebhookSettings()
    slack: SlackSettings = SlackSettings()
    email: EmailSettings = EmailSettings()


class ModelsSettings(Section):
    """What the Update Engine learns from besides this cluster's own history."""

    pairs: Path | None = Field(default=None, description="CSV of measured pair speeds; default: the shipped model.")
    profiles: Path | None = Field(default=None, description="CSV of profiles run alone, with pairs.")

    @model_validator(mode="after")
    def _both_or_none(self) -> ModelsSettings:
        if (self.pairs is None) != (self.profiles is None):
            raise ValueError("give both pairs and profiles, or neither")
        return self


class RetentionSettings(Section):
    """How long rows of the state database are kept."""

    events_days: float = Field(default=90.0, gt=0)
    samples_days: float = Field(default=30.0, gt=0)
    decisions_days: float = Field(default=14.0, gt=0, description="Recorded inputs and decisions of the policy.")


class ReplaySettings(Section):
    """What the `replay` asset replays, week by week; the options of `lucid replay` have the same names."""

    trace: str | None = Field(default=None, description="Any supported trace file; default: a generated month.")
    format: str | None = None
    cluster: Path | None = Field(default=None, description="Cluster file; default: the trace's own, if it tells.")
    predictions: Path | None = None
    forecast: Path | None = None
    pairs: Path | None = None
    profile_table: Path | None = None
    scaling: Path | None = None
    profiles: Path | None = Field(default=None, description="Measured throughputs, for traces without run times.")
    workloads: str | None = Field(default="generated", description="Profile table for jobs without a workload.")
    timezone: str = "UTC"
    seed: int = 0
    policies: tuple[str, ...] = Field(
        default=("fifo", "sjf", "qssf", "tiresias", "lucid"), min_length=1, description="Of `lucid replay-weeks`."
    )
    parallel: int | None = Field(
        default=None, ge=1, description="Partitions computed at once; default: all cores but one."
    )


class Settings(Section):
    """Everything that can be set."""

    home: Path
    state: StateSettings = StateSettings()
    cluster: ClusterSettings = ClusterSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    profiling: ProfilingSettings = ProfilingSettings()
    packing: PackingSettings = PackingSettings()
    submission: SubmissionSettings = SubmissionSettings()
    advisor: AdvisorSettings = AdvisorSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    dagster: DagsterSettings = DagsterSettings()
    modes: ModesSettings = ModesSettings()
    recovery: RecoverySettings = RecoverySettings()
    retention: RetentionSettings = RetentionSettings()
    replay: ReplaySettings = ReplaySettings()
    tracker: TrackerSettings = TrackerSettings()
    hooks: HooksSettings = HooksSettings()
    language_model: LanguageModelSettings = LanguageModelSettings()
    models: ModelsSettings = ModelsSettings()

    @property
    def state_url(self) -> str:
        return self.state.url or f"sqlite:///{self.home / 'state.db'}"

    @property
    def history_index_url(self) -> str:
        """Where the past jobs are that the advisor looks at."""
        return self.advisor.index or f"sqlite:///{self.home / 'history.db'}"

    @property
    def artefacts(self) -> Path:
        """Root of snapshots, job folders, logs and models."""
        return self.home / "artefacts"

    @property
    def snapshots(self) -> Path:
        return self.artefacts / "snapshots"

    @property
    def jobs(self) -> Path:
        return self.artefacts / "jobs"

    @property
    def decisions(self) -> Path:
        """Where the policy's inputs and decisions are recorded."""
        return self.artefacts / "decisions"

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def default_vc(self) -> str:
        chosen = self.cluster
        if chosen.kind == "slurm" and chosen.slurm.partitions:
            return chosen.default_vc or chosen.slurm.partitions[0]
        return chosen.default_vc or chosen.nodes[0].vc


def load_settings(
    home: Path | str | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings of one home folder.

    Args:
        home: state folder; default ``LUCID_HOME``, then ``./.lucid``.
        config: settings file; default ``LUCID_CONFIG``, then ``lucid.yaml`` in the home folder, then in the
            folder that holds the home folder.
        environ: the environment; default that of the process.

    Raises:
        InputError: the file cannot be read, a key is unknown, or a value is out of range.
    """
    env = os.environ if environ is None else environ
    root = Path(home or env.get("LUCID_HOME") or ".lucid").expanduser().absolute()
    path = config or (Path(env["LUCID_CONFIG"]) if env.get("LUCID_CONFIG") else None)
    if path is not None and not path.is_file():
        raise InputError(f"the settings file does not exist; create it or unset LUCID_CONFIG: {path}")
    if path is None:
        path = next((p for p in (root / FILE_NAME, root.parent / FILE_NAME) if p.is_file()), None)
    values = _read(path) if path else {}
    _apply_environment(values, env)
    values.setdefault("home", str(root))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise InputError(_explain(error, path)) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(f"the settings file is not valid YAML; mend it: {path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the settings file cannot be read: {path}: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"the settings file holds sections (a mapping); got {type(loaded).__name__}: {path}")
    return loaded


def _apply_environment(values: dict[str, Any], env: Mapping[str, str]) -> None:
    for name in sorted(env):
        if not name.startswith(ENV_PREFIX):
            continue
        keys = name.removeprefix(ENV_PREFIX).lower().split("__")
        target = values
        for key in keys[:-1]:
            section = target.setdefault(key, {})
            if not isinstance(section, dict):
                raise InputError(f"{key!r} is not a section, so it cannot be overridden by {name}")
            target = section
        try:
            target[keys[-1]] = yaml.safe_load(env[name])
        except yaml.YAMLError as error:
            raise InputError(f"the value of {name} is not valid YAML: {env[name]!r}") from error


def _explain(error: ValidationError, path: Path | None) -> str:
    lines: list[str] = []
    for item in error.errors():
        location = [str(part) for part in item["loc"]]
        dotted = ".".join(location)
        if item["type"] == "extra_forbidden":
            known = _known_keys(location[:-1])
            lines.append(f"unknown key {dotted!r}{did_you_mean(location[-1], known)}")
        else:
            lines.append(f"{dotted}: {item['msg']}; got {item['input']!r}")
    where = str(path) if path else "the environment"
    return f"the settings in {where} cannot be used: " + "; ".join(lines)


def _known_keys(location: list[str]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in location:
        if part.isdigit():
            continue
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        if part == "nodes":
            annotation = NodeSettings
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
