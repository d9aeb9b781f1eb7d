"""Scheduling policies: one decision core for the simulator, the live pass and shadow mode.

Use in a live pass, with plain lists of records::

    policy = policies.get("lucid", estimator=predict)     # keep it from pass to pass: it keeps its caches
    state = ClusterState.of(inventory.nodes, queued, running)   # lucid_pipelines.placement
    for decision in policy.decide(state.view(now_s)):
        match decision:
            case Start(job_id, placement, reasons): ...   # free GPUs, the job's own
            case Pack(job_id, partner_job_id, placement, reasons): ...   # exactly the partner's GPUs
            case Stop(job_id, cause, requeue, never_pack, reasons): ...
            case Hold(job_id, cause, gpus_needed, gpus_free, ahead_count, blocked_by, reasons): ...

* ``queued`` and ``running`` are ``QueuedJob`` and ``RunningJob`` of ``lucid_pipelines.domain.view``; times are
  seconds since 1970-01-01 UTC. For a live ``RunningJob`` give ``slots=()``: it is found from the placement.
* A view made from lists asks for a ``Hold`` for every job that is not started (``explain=True``): its cause,
  what it needs, what is free, how many are ahead. The simulator turns that off.
* A job's predicted duration is its ``estimate``; a job without one is given to ``estimator`` once. Without
  either a fallback is used and counted in ``policy.fallbacks``.
* Decisions come in the order in which they must be applied. Nothing is lost if one is not: the next view
  still shows the job in the queue, and the policy decides again.
* ``policy.next_pass_s(view)``, asked after the decisions were applied, says when to ask again although nothing
  changes; the same moment means "at once".
* ``lucid`` with a profiler decides for a virtual cluster named ``profiler``: put a job that is to be profiled
  into the queue with ``vc="profiler"``; it is started with ``stage=Stage.PROFILE`` and stopped with
  ``StopCause.PROFILED`` when its window is over, and then belongs into its own virtual cluster's queue with the
  measured ``profile`` and ``sharing_score``. ``policy.profiling.wants(gpus)`` says which jobs are profiled;
  do not send one that the profiler's nodes cannot hold (``ClusterState.can_ever_fit("profiler", gpus)``).
"""

from lucid_pipelines.policies.base import Estimator, Policy
from lucid_pipelines.policies.profiling_rules import ProfilingRules
from lucid_pipelines.policies.registry import get, names, settings_of, variant_of

__all__ = ["Estimator", "Policy", "ProfilingRules", "get", "names", "settings_of", "variant_of"]
