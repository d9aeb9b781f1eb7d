"""Slurm's JSON, as two versions write the same facts: 22.05 as a live one does, 24.11 by its documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

NOT_SET_32, NOT_SET_64 = 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE
SUBMITTED_S = 1_796_010_111
"""When every job here was submitted, in seconds since 1970."""


def job(job_id: int, state: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    """One job as facts, to be written by ``old`` or ``new``."""
    return {
        "job_id": job_id,
        "state": state,
        "flags": [],
        "name": f"job-{job_id}",
        "user": "amber",
        "uid": 0,
        "comment": "",
        "partition": "gpu",
        "qos": "normal",
        "reason": "None",
        "nodes": "n1",
        "gres_detail": ["gpu:g3:1(IDX:3)"],
        "tres_per_node": "gres:gpu:g3:1",
        "exit": (0, 0),
        "start_s": SUBMITTED_S + 1,
        "end_s": SUBMITTED_S + 100,
        "time_limit_min": None,
        "restarts": 0,
        **changes,
    }


def node(name: str, states: Sequence[str] = ("IDLE",), **changes: Any) -> dict[str, Any]:
    """One node as facts."""
    gres = ",".join([f"gpu:g{i}:1" for i in range(8)] + [f"shard:g{i}:2" for i in range(8)])
    return {"name": name, "states": list(states), "gres": gres, "reason": "", "reason_by": None, **changes}


def old_jobs(jobs: Sequence[Mapping[str, Any]]) -> str:
    """``squeue --json`` of 22.05."""
    return json.dumps(
        {"meta": {"Slurm": {"release": "22.05.8"}}, "errors": [], "jobs": [_old_job(one) for one in jobs]}
    )


def new_jobs(jobs: Sequence[Mapping[str, Any]]) -> str:
    """``squeue --json`` of 24.11."""
    meta = {"plugin": {"data_parser": "data_parser/v0.0.42"}, "slurm": {"release": "24.11.3"}}
    return json.dumps({"jobs": [_new_job(one) for one in jobs], "meta": meta, "errors": [], "warnings": []})


def old_nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    """``sinfo --json`` of 22.05."""
    rows = [
        {
            "name": one["name"],
            "state": one["states"][0].lower(),
            "state_flags": [flag.upper() for flag in one["states"][1:]],
            "gres": one["gres"],
            "gres_used": "",
            "partitions": ["gpu"],
            "cpus": 32,
            "boot_time": SUBMITTED_S - 1000,
            "reason": one["reason"],
            "reason_changed_at": 0,
            "reason_set_by_user": one["reason_by"],
        }
        for one in nodes
    ]
    return json.dumps({"meta": {}, "errors": [], "nodes": rows})


def new_nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    """``scontrol show nodes --json`` of 24.11."""
    rows = [
        {
            "name": one["name"],
            "state": [state.upper() for state in one["states"]],
            "gres": one["gres"],
            "gres_used": "",
            "partitions": ["gpu"],
            "cpus": 32,
            "boot_time": _set(SUBMITTED_S - 1000),
            "reason": one["reason"],
            "reason_changed_at": _set(None),
            "reason_set_by_user": one["reason_by"] or "",
        }
        for one in nodes
    ]
    return json.dumps({"nodes": rows, "last_update": _set(SUBMITTED_S), "meta": {}, "errors": [], "warnings": []})


def _old_job(one: Mapping[str, Any]) -> dict[str, Any]:
    code, signal = one["exit"]
    return {
        **_common(one),
        "job_state": one["state"],
        "flags": ["JOB_WAS_RUNNING"],
        "exit_code": (code << 8) | signal,
        "start_time": one["start_s"],
        "end_time": one["end_s"],
        "submit_time": SUBMITTED_S,
        "node_count": 1,
        "restart_cnt": one["restarts"],
        "time_limit": NOT_SET_32 + 1 if one["time_limit_min"] is None else one["time_limit_min"],
        "priority": NOT_SET_64,
    }


def _new_job(one: Mapping[str, Any]) -> dict[str, Any]:
    code, signal = one["exit"]
    limit = one["time_limit_min"]
    return {
        **_common(one),
        "job_state": [one["state"], *one["flags"]],
        "flags": ["JOB_WAS_RUNNING", "USING_DEFAULT_ACCOUNT"],
        "exit_code": {
            "status": ["SIGNALED" if signal else "ERROR" if code else "SUCCESS"],
            "return_code": _set(code),
            "signal": {"id": _set(signal or None), "name": ""},
        },
        "start_time": _set(one["start_s"]),
        "end_time": _set(one["end_s"]),
        "submit_time": _set(SUBMITTED_S),
        "node_count": _set(1),
        "restart_cnt": one["restarts"],
        "time_limit": {"set": limit is not None, "infinite": limit is None, "number": limit or 0},
        "priority": _set(100),
        "hold": False,
    }


def _common(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "job_id": one["job_id"],
        "name": one["name"],
        "user_name": one["user"],
        "user_id": one["uid"],
        "comment": one["comment"],
        "partition": one["partition"],
        "qos": one["qos"],
        "state_reason": one["reason"],
        "nodes": one["nodes"],
        "gres_detail": one["gres_detail"],
        "tres_per_node": one["tres_per_node"],
        "tres_per_job": "",
        "current_working_directory": "/home/amber/code",
        "standard_output": "/home/amber/code/slurm.out",
        "command": "/home/amber/code/train.sh",
        "requeue": False,
    }


def _set(number: int | None) -> dict[str, Any]:
    return {"set": number is not None, "infinite": False, "number": number or 0}
