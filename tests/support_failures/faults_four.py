# ruff: noqa: E501 - log lines are as long as the libraries print them
"""A fourth batch: shells, containers, environments, clouds, kernels, and newer wordings; and endings without blame."""

from __future__ import annotations

from collections.abc import Callable

from tests.support_failures.model import Fault

PY = "Traceback (most recent call last):\n"

FAULTS: tuple[Fault, ...] = (
    Fault("conda_env_name", "startup", "user_script", None, False, '''>>EnvironmentNameNotFound: Could not find conda environment: torch21
You can list all discoverable environments with `conda info --envs`.
/var/spool/slurmd/job88120/slurm_script: line 14: python: command not found''', echo="none", launcher="none"),
    Fault("bash_unbound", "startup", "user_script", None, False, '''>>run.sh: line 14: DATA_DIR: unbound variable''', echo="none", launcher="none"),
    Fault("bash_permission", "startup", "user_script", None, False, '''>>/var/spool/slurmd/job88120/slurm_script: line 9: ./launch.sh: Permission denied''', echo="none", launcher="none"),
    Fault("bash_syntax", "startup", "user_script", None, False, '''>>/var/spool/slurmd/job88120/slurm_script: line 22: syntax error near unexpected token `then'
/var/spool/slurmd/job88120/slurm_script: line 22: `if [ $SLURM_PROCID -eq 0 ] then' ''', echo="none", launcher="none"),
    Fault("scatter_assert", "torch", "user_script", None, False, '''>>../aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [12,0,0], thread: [33,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.
../aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [12,0,0], thread: [34,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.
''' + PY + '''  File "/home/u/train.py", line 210, in step
    loss.backward()
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.'''),
    Fault("recursion", "torch", "user_script", None, False, PY + '''  File "/home/u/model.py", line 51, in forward
    return self.forward(x)
  [Previous line repeated 974 more times]
>>RecursionError: maximum recursion depth exceeded while calling a Python object'''),
    Fault("argparse_unknown", "startup", "user_script", None, False, '''usage: train.py [-h] [--lr LR] [--epochs EPOCHS] data
>>train.py: error: unrecognized arguments: --learning_rte 0.1''', echo="none"),
    Fault("omegaconf_key", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 31, in main
    opt = build(cfg.optimzer)
>>omegaconf.errors.ConfigAttributeError: Key 'optimzer' is not in struct
    full_key: optimzer
    object_type=dict'''),
    Fault("ib_completion", "torch", "infrastructure", "network", True, '''>>gpu03:41231:41877 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.2.3<41234> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::1 remoteGids fe80::2 hca mlx5_2
gpu03:41231:41877 [2] NCCL INFO transport/net.cc:1035 -> 6'''),
    Fault("gpfs_stale", "torch", "infrastructure", "storage", True, PY + '''  File "/home/u/data.py", line 61, in __getitem__
    return self.store[key]
>>OSError: [Errno 116] Stale file handle: '/gpfs/data/shard-0131.h5' '''.rstrip()),
    Fault("remote_io", "torch", "infrastructure", "storage", True, PY + '''  File "/home/u/train.py", line 300, in save
    torch.save(state, path)
>>OSError: [Errno 121] Remote I/O error: '/lustre/ckpt/step_1200.pt' '''.rstrip()),
    Fault("cp_full", "torch", "infrastructure", "storage", False, '''>>cp: error writing '/scratch/u/ckpt/step_900.pt': No space left on device''', echo="none", launcher="none"),
    Fault("jax_cudnn_old", "startup", "framework", None, False, '''>>E0502 10:00:01.1 8412 cuda_dnn.cc:454] Loaded runtime CuDNN library: 8.6.0 but source was compiled with: 8.9.4.  CuDNN library needs to have matching major version and equal or higher minor version.
''' + PY + '''  File "/home/u/train.py", line 55, in <module>
    state = init(rng)
jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at the errors above for more details.'''),
    Fault("ray_object_lost", "ray", "infrastructure", "node", True, PY + '''  File "/home/u/tune.py", line 77, in <module>
    ray.get(refs)
>>ray.exceptions.ObjectLostError: Failed to retrieve object 00ffffffffffffffffffffffffffffffffffffff0100000001e1f505. All copies of 00ffffffffffffffffffffffffffffffffffffff0100000001e1f505 have been lost due to node failure. Check cluster logs for more information about the failure.'''),
    Fault("ray_versions", "startup", "framework", None, False, PY + '''  File "/home/u/tune.py", line 12, in <module>
    ray.init(address="auto")
>>RuntimeError: Version mismatch: The cluster was started with:
    Ray: 2.9.0
    Python: 3.10.12
This process on node 10.0.0.2 was started with:
    Ray: 2.8.1
    Python: 3.10.12'''),
    Fault("mpi_ssh_route", "startup", "infrastructure", "network", True, '''>>ssh: connect to host gpu07 port 22: No route to host
--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:
* not finding the required libraries and/or binaries on one or more nodes.''', echo="none", launcher="none", components=("node",)),
    Fault("amdgpu_ring", "torch", "infrastructure", "gpu", True, '''>>[88123.41] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=1234, emitted seq=1236
[88123.42] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!'''),
    Fault("permission_other", "startup", "user_script", None, False, PY + '''  File "/home/u/data.py", line 20, in __init__
    self.file = open(path, "rb")
>>PermissionError: [Errno 13] Permission denied: '/shared/otheruser/data.bin' '''.rstrip()),
    Fault("xid48", "torch", "infrastructure", "gpu", True, '''>>NVRM: Xid (PCI:0000:3b:00): 48, pid=41231, name=python, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 4, subpartition 0.'''),
    Fault("new_oom_wording", "torch", "user_script", None, False, PY + '''  File "/home/u/train.py", line 188, in step
    out = model(x)
>>torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.21 GiB is free. Including non-PyTorch memory, this process has 77.88 GiB memory in use. Of the allocated memory 75.31 GiB is allocated by PyTorch, and 1.02 GiB is reserved by PyTorch but unallocated.'''),
    Fault("tokenizers_old", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/transformers/tokenization_utils_fast.py", line 111, in __init__
    fast_tokenizer = TokenizerFast.from_file(fast_tokenizer_file)
>>Exception: data did not match any variant of untagged enum ModelWrapper at line 12564 column 3'''),
    Fault("malloc_corrupted", "torch", "framework", None, False, '''>>malloc(): corrupted top size
Fatal Python error: Aborted

Thread 0x00007f1a2b3c4d00 (most recent call first):
  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/_utils/collate.py", line 119 in collate'''),
    Fault("ds_hostfile", "startup", "user_script", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/deepspeed/launcher/runner.py", line 231, in _parse_hostfile
    raise ValueError(f"Hostfile contains a bad entry: {line}, unable to proceed with launching")
>>ValueError: Hostfile contains a bad entry: gpu01 slots8, unable to proceed with launching''', echo="none", launcher="none"),
    Fault("sbatch_account", "startup", "user_script", None, False, '''>>sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified''', echo="none", launcher="none"),
    Fault("apptainer_image", "startup", "user_script", None, False, '''>>FATAL:   could not open image /home/u/torch24.sif: failed to retrieve path for /home/u/torch24.sif: lstat /home/u/torch24.sif: no such file or directory''', echo="none", launcher="none"),
    Fault("s3_endpoint", "torch", "infrastructure", "network", False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/botocore/httpsession.py", line 473, in send
    raise EndpointConnectionError(endpoint_url=request.url, error=e)
>>botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3.us-east-1.amazonaws.com/bucket/ckpt/step_1200.pt"''', components=("storage",)),
    Fault("s3_credentials", "startup", "user_script", None, False, PY + '''  File "/home/u/data.py", line 14, in load
    client.download_file(bucket, key, path)
>>botocore.exceptions.NoCredentialsError: Unable to locate credentials'''),
    Fault("machine_check", "torch", "infrastructure", "node", True, '''>>kernel: mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400
kernel: mce: [Hardware Error]: TSC 0 ADDR 3fdd0a2c0 MISC 20
kernel: Kernel panic - not syncing: Fatal machine check'''),
    Fault("fabric_not_up", "startup", "infrastructure", "nvlink", True, PY + '''  File "/home/u/train.py", line 9, in <module>
    torch.cuda.init()
>>RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized''', components=("node", "gpu")),
    Fault("libcudart", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 5, in <module>
    import apex_C
>>ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory'''),
    Fault("loss_nan_stop", "torch", "user_script", None, False, PY + '''  File "/home/u/train.py", line 140, in main
    raise RuntimeError(f"loss is {value}, stopping training")
>>RuntimeError: loss is nan, stopping training'''),
    Fault("checkpoint_shape", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 64, in main
    model.load_state_dict(torch.load(path)["model"])
>>RuntimeError: Error(s) in loading state_dict for Net:
\tsize mismatch for head.weight: copying a param with shape torch.Size([1000, 768]) from checkpoint, the shape in current model is torch.Size([100, 768]).'''),
    Fault("enroot_quota", "startup", "infrastructure", "storage", False, '''>>slurmstepd: error: pyxis: mkdir: cannot create directory '/run/enroot/user-1000': Disk quota exceeded
slurmstepd: error: pyxis: container start failed with error code: 1''', echo="none", launcher="none"),
    Fault("nccl_init_refused", "startup", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 22, in <module>
    dist.init_process_group("nccl")
>>torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (gpu01, 29500).''', components=("node",)),
)  # fmt: skip


def _progress(first: int, count: int) -> str:
    return "".join(f"step {i}/9000 loss {6 / (1 + i / 300):.4f} 0.31 s/it\n" for i in range(first, first + count))


def _clean_end_noisy_tracker() -> str:
    return _progress(8800, 200) + (
        "Training complete. Best checkpoint: /out/best.pt\n"
        "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)\n"
        "wandb: Network error (ConnectTimeout), entering retry loop.\n"
        "Exception in thread NetworkThread:\n"
        + PY
        + '  File "/opt/conda/lib/python3.10/threading.py", line 1016, in _bootstrap_inner\n'
        "    self.run()\n"
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded with url: /graphql\n"
        "wandb: Find logs at: ./wandb/run-20240502/logs\n"
    )


def _sigterm_only() -> str:
    return _progress(100, 200) + "[rank: 0] Received SIGTERM: 15\n[rank: 1] Received SIGTERM: 15\nTerminated\n"


def _early_stop() -> str:
    return _progress(100, 300) + (
        "Monitored metric val_loss did not improve in the last 5 records. Best score: 0.412. Signaling Trainer to stop.\n"
        "Epoch 41: 100%|##########| 900/900 [04:12<00:00, 3.57it/s, v_num=3]\n"
        "Exception ignored in: <function StorageWeakRef.__del__ at 0x7f12>\n"
        + PY
        + '  File "/opt/conda/lib/python3.10/site-packages/torch/multiprocessing/reductions.py", line 38, in __del__\n'
        "TypeError: 'NoneType' object is not callable\n"
    )


def _still_running() -> str:
    return (
        _progress(1, 120)
        + (
            "gpu01:4410:4498 [3] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.5<51234> failed : Software caused connection abort, retrying\n"
            "data: GET shard-12 failed with 503 (attempt 2/5), retrying in 4.2s\n"
            "ERROR:loader:reading /data/x12.jpg failed\n" + PY + '  File "/home/u/data.py", line 44, in load\n'
            "OSError: image file is truncated (12 bytes not processed)\n"
        )
        + _progress(121, 200)
    )


def _elastic_then_done() -> str:
    return (
        _progress(1, 100)
        + (
            "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
            "[2024-05-02 11:00:00] torch.distributed.elastic.agent: [INFO] [default] worker group failed: restarting (1/3 restarts used)\n"
            "resumed from /out/ckpt_90.pt\n"
        )
        + _progress(91, 300)
        + "Finished training, saving the final model\n"
    )


def _pbs_walltime() -> str:
    return _progress(1, 200) + "=>> PBS: job killed: walltime 86412 exceeded limit 86400\n"


def _pod_deleted() -> str:
    return _progress(1, 200) + (
        "Normal   Killing  10s  kubelet  Stopping container trainer\n"
        "rpc error: code = NotFound desc = an error occurred when try to find container\n"
    )


def _lsf_user_kill() -> str:
    return _progress(1, 200) + "TERM_OWNER: job killed by owner.\nExited with exit code 143.\n"


def _expected_errors() -> str:
    return (
        "self-check: raising RuntimeError on purpose ... ok\nself-check: expected error 'CUDA error: invalid device ordinal' was raised ... ok\n"
        + _progress(1, 300)
        + "all 9000 steps done, exit status 0\n"
    )


def _trial_done() -> str:
    return _progress(1, 200) + (
        "Trial train_a completed after 90 iterations at 2024-05-02 11:00:00. Total running time: 1hr 2min\n"
        "(raylet) [2024-05-02 11:00:01 E 123 123] (raylet) worker_pool.cc:640: Some workers of the worker process(123) have not registered within the timeout.\n"
    )


def _last_step_then_clutter() -> str:
    return _progress(1, 100) + (
        "Reached max_steps=9000, stopping.\nERROR:root:could not delete tmp dir: [Errno 39] Directory not empty\n"
    )


def _retried_out_of_memory() -> str:
    return (
        _progress(1, 60)
        + (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
            "caught OOM, halving the batch size to 16 and retrying\n"
        )
        + _progress(61, 200)
        + "Training completed.\n"
    )


ENDINGS: dict[str, Callable[[], str]] = {
    "clean_end_noisy_tracker": _clean_end_noisy_tracker,
    "sigterm_only": _sigterm_only,
    "early_stop": _early_stop,
    "still_running": _still_running,
    "elastic_then_done": _elastic_then_done,
    "pbs_walltime": _pbs_walltime,
    "pod_deleted": _pod_deleted,
    "lsf_user_kill": _lsf_user_kill,
    "expected_errors": _expected_errors,
    "trial_done": _trial_done,
    "last_step_then_clutter": _last_step_then_clutter,
    "retried_out_of_memory": _retried_out_of_memory,
}
"""Logs that blame nobody: finished, cancelled, out of time, recovered, or still going."""
