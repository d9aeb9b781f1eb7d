"""What the control loop works with: one bundle, so that every function takes its world as an argument."""

from __future__ import annotations

from dataclasses import dataclass, field

from lucid_pipelines import policies
from lucid_pipelines.clock import SystemClock
from lucid_pipelines.policies import Policy
from lucid_pipelines.policies.registry import settings_of
from lucid_pipelines.ports import Clock, Cluster
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import Store


@dataclass(frozen=True, slots=True)
class System:
    """Settings, state database, cluster, policy and clock of one control plane."""

    settings: Settings
    store: Store
    cluster: Cluster
    policy: Policy
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def of(cls, settings: Settings, store: Store, cluster: Cluster, clock: Clock | None = None) -> System:
        """Build the policy that the settings name.

        Raises:
            NotFoundError: no such policy; the nearest name is given.
        """
        policy = build_policy(settings)
        return cls(settings, store, cluster, policy, clock or SystemClock())


def build_policy(settings: Settings) -> Policy:
    """The policy that the settings name, with the site's fall-back duration where the policy takes one."""
    from_settings = {"fallback_duration_s": settings.scheduling.default_duration_s}
    known = settings_of(settings.scheduling.policy)
    return policies.get(settings.scheduling.policy, **{k: v for k, v in from_settings.items() if k in known})
