"""The advisor of a replay: hash embedder, index in memory, one of its own for every policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lucid_pipelines.advisor.advising import Advisor, AdvisorSettings, vector_space
from lucid_pipelines.advisor.estimates import EstimateRules
from lucid_pipelines.advisor.replaying import PLAIN_WEIGHTS, AdvisorEstimator
from lucid_pipelines.domain.trace import TraceJob
from lucid_pipelines.resources.advisors import STANDALONE
from lucid_pipelines.resources.embedders.hashing import HashEmbedder
from lucid_pipelines.resources.history_index.memory import MemoryIndex
from lucid_pipelines.simulation.estimators import HistoryEstimator


def replay_estimator(policy: str, jobs: Sequence[TraceJob], history: Iterable[TraceJob] = ()) -> AdvisorEstimator:
    """Similar jobs for one policy's replay; where they say nothing, the estimator that the policy has without them.

    Args:
        policy: ``standalone`` takes the mean of the best three, as in the paper; others the weighed estimate.
        history: jobs that ended before the replay begins, for the other estimator.
    """
    has_code = any(job.code_fingerprint is not None for job in jobs)
    embedder = HashEmbedder() if has_code else HashEmbedder(weights=PLAIN_WEIGHTS)
    settings = AdvisorSettings(embedder.default_threshold, rules=EstimateRules())
    settings = replace(settings, use_paper_rule=policy == STANDALONE)
    advisor = Advisor(embedder, MemoryIndex(vector_space(embedder)), settings)
    return AdvisorEstimator(advisor, jobs, HistoryEstimator(history))
