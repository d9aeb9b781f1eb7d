"""Advice as plain data: what ``lucid advise --json`` prints. Keys are added, never renamed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lucid_pipelines.advisor.estimates import AdvisedEstimate
from lucid_pipelines.advisor.evidence import EvidenceItem
from lucid_pipelines.advisor.fingerprint import SCHEMA_VERSION, Fingerprint
from lucid_pipelines.advisor.metadata import JobMetadata
from lucid_pipelines.advisor.metadata_json import to_json
from lucid_pipelines.domain.similarity import SimilarJobs


def advice_to_json(
    metadata: JobMetadata, mark: Fingerprint, advised: AdvisedEstimate, similar: SimilarJobs | None
) -> dict[str, Any]:
    """Metadata with sources, fingerprint, similar jobs, and the estimate or the reason why there is none."""
    data = to_json(metadata)
    made = advised.estimate
    return {
        **data,
        "values": {name.value: value.value for name, value in metadata.fields.items()},
        "fingerprint": {
            "schema_version": SCHEMA_VERSION,
            "digest": mark.digest,
            "text": mark.text,
            "known_frac": round(mark.known_frac, 3),
        },
        "search": None
        if similar is None
        else {
            "threshold": similar.threshold,
            "k": similar.k,
            "as_of": similar.as_of.isoformat(),
            "total": similar.total_count,
            "eligible": similar.eligible_count,
            "fewer_because": similar.reason,
            "nearest_rejected": similar.nearest_rejected,
        },
        "similar": [_evidence(item) for item in advised.evidence],
        "estimate": None if made is None else asdict(made),
        "fallback": None if advised.fallback is None else {"reason": advised.fallback.value, "detail": advised.detail},
        "modes": [asdict(mode) for mode in advised.modes],
        "profile": None if advised.profile is None else asdict(advised.profile),
        "throughput": [asdict(point) for point in advised.throughput],
    }


def _evidence(item: EvidenceItem) -> dict[str, Any]:
    job = item.job
    return {
        "job_id": job.job_id,
        "similarity": round(item.similarity, 4),
        "weight": round(item.weight, 4),
        "unused": None if item.unused is None else item.unused.value,
        "age_days": round(item.age.total_seconds() / 86_400, 2),
        "outcome": job.outcome.value,
        "duration_s": job.duration_s,
        "ended_at": job.ended_at.isoformat(),
        "gpu_type": job.gpu_type,
        "gpus": job.gpus,
        "software": dict(job.software),
        "profile": None if job.profile is None else asdict(job.profile),
    }
