"""Small trace files of every format, as the public ones look."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

HELIOS_HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
HELIOS_ROWS = (
    "1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0",
    "1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:37,2020-06-09 18:45:46,249,10",
    "1425513,uzqls,vcpDC,1,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0",
    "1425514,uzqls,vcpDC,0,1,1,COMPLETED,2020-06-09 18:42:28,2020-06-09 18:42:28,2020-06-09 18:42:30,2,0",
)
ARTIFACT_HEADER = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration,month,dataset,model,batchsize,amp,"
    "speed,gpu_util,gmem_util,gmem"
)
ARTIFACT_ROWS = (
    "700001,u6c708,vcefl,t64_1,1,6,COMPLETED,2020-04-01 00:00:00,60,4,ImageNet,ResNet50,128,1,765.4,99.6,75.5,7992",
    "700002,u6c708,vc8Gr,t64_1,2,6,CANCELLED,2020-09-01 00:00:32,5438,9,SQuAD,BERT,32,0,84.8,99.7,62.5,20162",
)
SEREN_HEADER = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time"
SEREN_ROWS = (
    (
        "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
        "2023-03-01 00:20:51+08:00,117,32,936.0"
    ),
    (
        "5778469,u5907,1,8,128,Other,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,"
        "2023-03-01 01:09:04+08:00,2693,13,21544.0"
    ),
)
KALOS_HEADER = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
    "end_time,fail_time,stop_time,duration,queue,gpu_time"
)
KALOS_ROWS = (
    (
        "dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
        "2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0"
    ),
    (
        "dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,"
        "2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0"
    ),
)
VENUS_HEADER = "job_id,user,gpu_num,cpu_num,node_num,submit_time,duration,state"
VENUS_ROWS = ("0,1,1,1,1,2020-05-27 23:58:26,84,Pass", "1,2,16,64,2,2020-05-28 00:00:00,87,Killed")
PHILLY_HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"
PHILLY_ROWS = ("2017-09-04 10:30:41,2240194.0,8,17921552.0,7f04ca", "2017-09-07 03:58:57,3256045.0,1,3256045.0,6214e9")
OPENB_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
OPENB_ROWS = (
    "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0",
    "openb-pod-0001,6000,12288,1,460,V100M16|V100M32,BE,Succeeded,427061,427161,427071",
    "openb-pod-0002,6000,12288,1,460,,BE,Pending,427061,427161,",
    "openb-pod-0003,6000,12288,0,0,,BE,Failed,427061,427161,427061",
    "openb-pod-0004,6000,12288,8,1000,,LS,Failed,427062,427162,427062",
)
SIA_HEADER = "name,time,application,num_replicas,batch_size"
SIA_ROWS = ("cifar10-0,107,cifar10,6,2048", "bert-1,811.66,bert,12,384")
GAVEL_ROWS = (
    "ResNet-18 (batch size 32)\tpython3 main.py --batch_size 32\t--num_steps\t1\t1000\t0.000000\t1",
    "A3C\tpython3 main.py\t--max-steps\t0\t500\t6.000000\t2",
)
GAVEL_SPEEDS = {"v100": {"ResNet-18 (batch size 32)": {"null": 10.0}, "A3C": {"null": 5.0}}}
PAI_TASK_ROWS = (
    "jobA,worker,2.0,Terminated,1000.0,1500.0,600.0,29.3,50.0,T4",
    "jobA,ps,1.0,Terminated,990.0,1500.0,600.0,29.3,,CPU",
    "jobB,tensorflow,1.0,Failed,2000.0,2100.0,600.0,29.3,100.0,MISC",
    "jobC,tensorflow,1.0,Running,2000.0,,600.0,29.3,100.0,V100",
    "jobD,tensorflow,1.0,Waiting,,,600.0,29.3,100.0,V100",
    "jobE,tensorflow,1.0,Terminated,-5.0,10.0,600.0,29.3,100.0,V100",
    "jobF,tensorflow,1.0,Terminated,5.0,10.0,600.0,29.3,,",
)
PAI_JOB_ROWS = (
    "jobA,i1,userX,Terminated,900.0,1500.0",
    "jobB,i2,userY,Failed,2000.0,2100.0",
    "jobC,i3,userY,Running,1990.0,",
)
PAI_GROUP_ROWS = ("i1,userX,T4,groupG,bert", "i2,userY,,groupH,")
SLURM_HEADER = "JobID|User|Partition|JobName|State|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|AllocCPUS|NNodes"
SLURM_ROW = (
    "{id}|{user}|gpu|{name}|{state}|2024-03-01T10:00:00|{start}|{end}|{elapsed}|"
    "billing=8,cpu=8,gres/gpu:a100={gpus},gres/gpu={gpus},mem=64G,node=1||8|1"
)


def slurm_row(
    job: str,
    *,
    user: str = "ann",
    name: str = "train",
    state: str = "COMPLETED",
    start: str = "2024-03-01T10:00:10",
    end: str = "2024-03-01T10:10:10",
    elapsed: str = "600",
    gpus: int = 2,
) -> str:
    return SLURM_ROW.format(id=job, user=user, name=name, state=state, start=start, end=end, elapsed=elapsed, gpus=gpus)


def philly_job(
    job: str,
    *attempts: tuple[str | None, str | None, int],
    status: str = "Pass",
    submitted: str = "2017-10-07 01:11:39",
) -> dict[str, object]:
    """A job of ``cluster_job_log``; an attempt is start, end, GPUs."""
    return {
        "status": status,
        "vc": "ee9e8c",
        "jobid": job,
        "attempts": [
            {
                "start_time": start,
                "end_time": end,
                "detail": [{"ip": "m47", "gpus": [f"gpu{i}" for i in range(gpus)]}],
            }
            for start, end, gpus in attempts
        ],
        "submitted_time": submitted,
        "user": "ce2f4c",
    }


SAMPLES: Mapping[str, tuple[str, str]] = {
    "helios": ("cluster_log.csv", "\n".join((HELIOS_HEADER, *HELIOS_ROWS)) + "\n"),
    "helios_venus": ("venus.csv", "\n".join((VENUS_HEADER, *VENUS_ROWS)) + "\n"),
    "lucid_artifact": ("cluster_full_log.csv", "\n".join((ARTIFACT_HEADER, *ARTIFACT_ROWS)) + "\n"),
    "philly_csv": ("philly.csv", "\n".join((PHILLY_HEADER, *PHILLY_ROWS)) + "\n"),
    "philly_json": (
        "cluster_job_log",
        json.dumps([philly_job("app_1", ("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8))], indent=4),
    ),
    "acme": ("trace_seren.csv", "\n".join((SEREN_HEADER, *SEREN_ROWS)) + "\n"),
    "alibaba_openb": ("openb_pod_list_default.csv", "\n".join((OPENB_HEADER, *OPENB_ROWS)) + "\n"),
    "alibaba_pai": ("pai_task_table.csv", "\n".join(PAI_TASK_ROWS) + "\n"),
    "sia": ("workload-1.csv", "\n".join((SIA_HEADER, *SIA_ROWS)) + "\n"),
    "gavel": ("0e4a51.trace", "\n".join(GAVEL_ROWS) + "\n"),
    "slurm": ("sacct.txt", "\n".join((SLURM_HEADER, slurm_row("7"), slurm_row("7.batch", name="batch"))) + "\n"),
    "canonical": (
        "ours.csv",
        "job_id,user,gpus,submit_s,duration_s,state\na,u,1,10,20,completed\nb,u,2,11,30,failed\n",
    ),
}


def write(folder: Path, name: str, lines: Sequence[str]) -> Path:
    """A text file of these lines."""
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_sample(folder: Path, name: str, *, is_gzip: bool = False) -> Path:
    """The sample of a format, with the files that it needs beside it."""
    file, text = SAMPLES[name]
    path = folder / (f"{file}.gz" if is_gzip else file)
    path.write_bytes(gzip.compress(text.encode()) if is_gzip else text.encode())
    if name == "gavel":
        (folder / "oracle_throughputs.json").write_text(json.dumps(GAVEL_SPEEDS))
    return path


def write_tar(path: Path, members: Mapping[str, str]) -> Path:
    """A tar.gz archive of text files."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, BytesIO(data))
    return path
