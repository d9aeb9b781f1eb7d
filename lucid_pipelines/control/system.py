"""What the control loop works with: one bundle, so that every function takes its world as an argument."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from lucid_pipelines import policies
from lucid_pipelines.clock import SystemClock
from lucid_pipelines.control import tuned
from lucid_pipelines.control.estimating import Durations
from lucid_pipelines.control.live_advisor import LiveAdvisor
from lucid_pipelines.control.memory import LoopMemory
from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.states import Mode
from lucid_pipelines.policies import Policy
from lucid_pipelines.policies.registry import settings_of
from lucid_pipelines.ports import Clock, Cluster, LanguageModel, Notifier
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class System:
    """Settings, state database, cluster, policy and clock of one control plane.

    Attributes:
        durations: estimates by the duration model in service.
        language_model: asked only where deterministic reading is not sure; ``None`` = none is configured.
        advisor: what past jobs with similar code say of new ones; ``None`` = switched off.
        notifiers: ways to tell people, by the name of their channel; none by default.
    """

    settings: Settings
    store: Store
    cluster: Cluster
    policy: Policy
    clock: Clock = field(default_factory=SystemClock)
    memory: LoopMemory = field(default_factory=LoopMemory, compare=False)
    language_model: LanguageModel | None = None
    notifiers: Mapping[str, Notifier] = field(default_factory=dict)
    durations: Durations = field(default_factory=Durations, compare=False)
    advisor: LiveAdvisor | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        settings: Settings,
        store: Store,
        cluster: Cluster,
        clock: Clock | None = None,
        language_model: LanguageModel | None = None,
        notifiers: Mapping[str, Notifier] | None = None,
        advisor: LiveAdvisor | None = None,
    ) -> System:
        """Build the policy that the settings name.

        Raises:
            NotFoundError: no such policy; the nearest name is given.
        """
        given = clock or SystemClock()
        settings = _within(settings, cluster)
        policy = build_policy(settings, store, given)
        return cls(
            settings,
            store,
            cluster,
            policy,
            given,
            language_model=language_model,
            notifiers=notifiers or {},
            advisor=advisor,
        )


def _within(settings: Settings, cluster: Cluster) -> Settings:
    """The settings, with packing off where the cluster cannot let two jobs share a GPU."""
    if cluster.capabilities.can_pack or settings.modes.pack is Mode.OFF:
        return settings
    return settings.model_copy(update={"modes": settings.modes.model_copy(update={"pack": Mode.OFF})})


def build_policy(settings: Settings, store: Store, clock: Clock) -> Policy:
    """The policy that the settings name, with the numbers of ``numbers_in_force``."""
    return policies.get(settings.scheduling.policy, **numbers_in_force(settings, store, clock))


def numbers_in_force(settings: Settings, store: Store, clock: Clock) -> dict[str, object]:
    """The site's numbers for its policy, and over them the tuned settings that a person applied.

    Tuned settings that the policy cannot be built with (they were made for another) are left out and counted.
    """
    name, given = settings.scheduling.policy, policy_settings(settings)
    chosen = tuned.policy_settings(tuned.applied(store).values, name)
    if not chosen:
        return given
    try:
        policies.get(name, **{**given, **chosen})
    except (LucidError, TypeError) as error:
        _log.error("the tuned settings are not used: %s", error)
        store.counters.add("tuned_settings_refused", now=clock.now())
        return given
    return {**given, **chosen}


def policy_settings(settings: Settings) -> dict[str, object]:
    """The numbers that a site gives its policy."""
    profiling, packing, modes = settings.profiling, settings.packing, settings.modes
    from_settings: dict[str, object] = {
        "fallback_duration_s": settings.scheduling.default_duration_s,
        "pack": modes.pack is not Mode.OFF,
        # What is not to happen by itself is proposed by the loop; the policy must not wait for it.
        "lend": modes.lend is Mode.LIVE,
        "profiler_nodes": profiling.nodes,
        "profile_max_gpus": profiling.max_gpus,
        "profile_window_s": profiling.window_s,
        "busy_window_s": min(profiling.busy_window_s, profiling.window_s),
        "cold_start_window_s": profiling.cold_start_window_s,
        "continue_frac": profiling.continue_frac if profiling.move == "continue" else 0.0,
        "borrow_above_jobs": profiling.borrow_above_jobs,
        "return_below_jobs": profiling.return_below_jobs,
        "max_borrowed_nodes": profiling.max_borrowed_nodes,
        "busy_above_jobs": profiling.busy_above_jobs,
        "busy_max_gpus": profiling.busy_max_gpus,
        "same_user": packing.tenant == "user",
        "memory_margin_frac": packing.memory_margin_frac,
        "min_remaining_s": packing.min_remaining_s,
        "off_below_jobs": packing.off_below_jobs,
        "apathetic_below_jobs": packing.apathetic_below_jobs,
    }
    variant = policies.variant_of(settings.scheduling.policy)
    from_settings = {key: value for key, value in from_settings.items() if key not in variant}
    known = settings_of(settings.scheduling.policy)
    return {key: value for key, value in from_settings.items() if key in known}
