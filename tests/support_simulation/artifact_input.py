"""Reads an input of the published artifact's simulator and its own results (format: PEERS.md 1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lucid_pipelines.domain.trace import ClusterSpec, NodeGroup, TraceJob, TraceState
from lucid_pipelines.domain.view import Forecast

BEGIN = pd.Timestamp("2020-09-01")
END = pd.Timestamp("2020-09-26 23:59:00")
ORIGIN = pd.Timestamp("2020-04-01")


@dataclass(frozen=True)
class ArtifactInput:
    jobs: tuple[TraceJob, ...]
    cluster: ClusterSpec
    predictions_qssf: dict[str, float]
    predictions_lucid: dict[str, float]
    forecast: Forecast
    folder: Path

    def result(self, policy: str) -> pd.DataFrame:
        return pd.read_csv(self.folder / f"result_{policy}.csv.gz")


def read_artifact_input(folder: Path) -> ArtifactInput:
    log = pd.read_csv(folder / "cluster_full_log.csv.gz", parse_dates=["submit_time"])
    log = log[log.gpu_num > 0].sort_values("submit_time")  # the artifact's own, unstable sort
    log = log[(log.submit_time >= BEGIN) & (log.submit_time <= END)]
    states = {"COMPLETED": TraceState.COMPLETED, "FAILED": TraceState.FAILED}
    jobs = tuple(
        TraceJob(
            job_id=str(row.job_id),
            user=row.user,
            vc=row.vc,
            name=row.jobname,
            gpus=row.gpu_num,
            submit_s=(row.submit_time - ORIGIN).total_seconds(),
            duration_s=float(row.duration),
            state=states.get(row.state, TraceState.CANCELLED),
            model=row.model,
            dataset=row.dataset,
            batch_size=int(row.batchsize),
            amp=bool(row.amp),
            gpu_util_pct=float(row.gpu_util),
            memory_util_pct=float(row.gmem_util),
            memory_peak_mib=float(row.gmem),
        )
        for row in log.itertuples()
    )
    nodes = pd.read_csv(folder / "vc_config.csv", index_col=0)["num"].to_dict()
    forecast = pd.read_csv(folder / "Venus_throughput_pred.csv.gz", parse_dates=["time"])
    starts = ((forecast.time - ORIGIN).dt.total_seconds()).tolist()
    return ArtifactInput(
        jobs,
        ClusterSpec({vc: (NodeGroup(count, 8, "RTX 3090", 24_576.0),) for vc, count in nodes.items()}),
        _predictions(folder / "Venus_Sept_lgb.csv.gz"),
        _predictions(folder / "Venus_Sept_ebm_weekly_updated.csv.gz"),
        Forecast(starts, forecast.pred_gpu_job.tolist(), forecast.pred_gpu_num.tolist()),
        folder,
    )


def _predictions(path: Path) -> dict[str, float]:
    table = pd.read_csv(path)
    return {str(job_id): float(value) for job_id, value in zip(table.job_id, table.priority, strict=True)}
