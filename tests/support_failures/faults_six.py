# ruff: noqa: E501 - log lines are as long as the libraries print them
"""A sixth batch, written after the fifth was mended and scored before anything else was."""

from __future__ import annotations

from collections.abc import Callable

from tests.support_failures.model import Fault
from tests.support_failures.reading import UNCAUGHT, ended, progress

PY = "Traceback (most recent call last):\n"
MAIN = PY + '  File "/home/u/train.py", line 88, in main\n'
_SITE = "/opt/conda/lib/python3.10/site-packages"

FAULTS: tuple[Fault, ...] = (
    Fault("flax_scope", "jax", "user_script", None, False, MAIN + '''    y = model.apply({"params": p}, x)
>>flax.errors.ScopeParamShapeError: Initializer expected to generate shape (512, 1024) but got shape (512, 2048) instead for parameter "kernel" in "/Dense_3".''', launcher="none"),
    Fault("jax_while_type", "jax", "user_script", None, False, MAIN + '''    carry = jax.lax.while_loop(cond, body, carry)
>>TypeError: body_fun output and input must have identical types, got
ShapedArray(float32[8]) and ShapedArray(bfloat16[8]).''', launcher="none"),
    Fault("tpu_ici_timeout", "jax", "infrastructure", "network", True, MAIN + '''    state = step(state)
>>jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: ICI link between chip (0,1,2) and chip (0,2,2) did not come up; the slice cannot be formed''', launcher="none", components=("nvlink", "gpu")),
    Fault("xla_autotune_ptx", "jax", "framework", None, False, MAIN + '''    out = f(x)
>>jaxlib.xla_extension.XlaRuntimeError: INTERNAL: ptxas exited with non-zero error code 65280, output: ptxas fatal   : Value 'sm_100' is not defined for option 'gpu-name' ''', launcher="none"),
    Fault("tf_savedmodel_sig", "startup", "user_script", None, False, MAIN + '''    fn = loaded.signatures["serve"]
>>KeyError: 'serve' ''', echo="none", launcher="none"),
    Fault("tf_collective_peer", "tf", "infrastructure", "node", True, '''>>E0502 11:00:00.000000 4413 coordination_service_agent.cc:281] Heartbeat to task /job:worker/replica:0/task:3 failed: host gpu17 is down (EHOSTDOWN)
''' + MAIN + '''    model.fit(ds)
tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: worker 3 has gone away''', launcher="none", components=("network",)),
    Fault("paddle_flag_unknown", "startup", "user_script", None, False, MAIN + '''    paddle.set_flags({"FLAGS_fraction_gpu_memory": 0.9})
>>ValueError: (NotFound) Flag FLAGS_fraction_gpu_memory cannot set its value through this function.''', echo="none", launcher="none"),
    Fault("ray_env_setup", "startup", "user_script", None, False, MAIN + '''    ray.init(runtime_env=env)
>>ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.
Could not create the actor because its associated runtime env failed to be created: pip install returned 1: ERROR: No matching distribution found for nosuchpkg==9.9''', echo="none", launcher="none", ),
    Fault("ray_pg_timeout_user", "ray", "user_script", None, False, MAIN + '''    trainer.fit()
ray.exceptions.RayTaskError(ValueError): ray::train_fn() (pid=4413, ip=10.0.0.4)
  File "/home/u/loop.py", line 31, in train_fn
    raise ValueError("fold must be between 0 and 4")
>>ValueError: fold must be between 0 and 4''', echo="none", launcher="none"),
    Fault("pmix_lib", "startup", "framework", None, False, '''>>srun: error: Couldn't find the specified plugin name for mpi/pmix_v4 looking at all files
srun: error: cannot create mpi context for mpi/pmix_v4
srun: error: Invalid MPI type 'pmix_v4', --mpi=list for acceptable types''', echo="none", launcher="none"),
    Fault("verbs_qp_fatal", "mpi", "infrastructure", "network", True, '''>>mlx5: gpu07: got completion with error: 00000000 syndrome 0x15 TRANSPORT_RETRY_EXC_ERR wr_id 0x0 remote lid 17
[gpu07:41211] *** An error occurred in MPI_Allreduce''', echo="none", launcher="mpirun"),
    Fault("hip_oom_new", "torch", "user_script", None, False, MAIN + '''    out = self.attn(x)
>>torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB. GPU 2 has a total capacity of 63.98 GiB of which 412.00 MiB is free.'''),
    Fault("amd_xgmi_retrain", "torch", "infrastructure", "nvlink", True, '''>>kernel: amdgpu 0000:c1:00.0: amdgpu: XGMI WAFL link 3 uncorrectable error, link retraining failed
''' + MAIN + '''    dist.all_reduce(g)
RuntimeError: HIP error: unspecified launch failure''', components=("gpu",)),
    Fault("npu_op_missing", "torch", "framework", None, False, MAIN + '''    y = torch.fft.rfft(x)
>>RuntimeError: Could not run 'aten::_fft_r2c' with arguments from the 'npu' backend. This could be because the operator doesn't exist for this backend'''),
    Fault("k8s_gpu_insufficient", "startup", "user_script", None, False, '''>>Error creating: pods "trainer-0" is forbidden: exceeded quota: team-a, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=16''', echo="none", launcher="none"),
    Fault("k8s_bad_entry", "startup", "user_script", None, False, '''>>Error: failed to start container "trainer": Error response from daemon: OCI runtime create failed: exec: "python3.12": executable file not found in $PATH: unknown''', echo="none", launcher="k8s"),
    Fault("kubelet_disk_mount", "startup", "infrastructure", "storage", True, '''>>Warning  FailedMount  5s  kubelet  MountVolume.MountDevice failed for volume "pvc-9d" : rpc error: code = DeadlineExceeded desc = context deadline exceeded''', echo="none", launcher="k8s"),
    Fault("slurm_nodes_down_mid", "torch", "infrastructure", "node", True, '''>>slurmctld: error: Nodes gpu17 not responding, setting DOWN
srun: error: Node failure on gpu17
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.''', echo="stall", launcher="none"),
    Fault("slurm_assoc_limit", "startup", "user_script", None, False, '''>>sbatch: error: AssocMaxSubmitJobLimit
sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)''', echo="none", launcher="none"),
    Fault("vast_stale", "torch", "infrastructure", "storage", True, MAIN + '''    with open(shard, "rb") as f:
>>OSError: [Errno 116] Stale file handle: '/vast/lm/shard_0091.bin' '''),
    Fault("gpfs_unmounted", "torch", "infrastructure", "storage", True, '''>>kernel: mmfs: Error 217 unmounted file system gpfs0: lost contact with quorum nodes
''' + MAIN + '''    torch.save(state, path)
FileNotFoundError: [Errno 2] No such file or directory: '/gpfs/u/run/ckpt_900.pt.tmp' ''', echo="none"),
    Fault("tmp_full_wandb", "torch", "infrastructure", "storage", False, '''>>wandb: ERROR Error while calling W&B API: [Errno 28] No space left on device
''' + MAIN + '''    wandb.log(metrics)
OSError: [Errno 28] No space left on device'''),
    Fault("s3_nosuchkey", "startup", "user_script", None, False, MAIN + '''    s3.download_file(bucket, key, dst)
>>botocore.errorfactory.NoSuchKey: An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.''', echo="none", launcher="none"),
    Fault("s3_checksum", "torch", "infrastructure", "network", True, MAIN + '''    reader.read()
>>botocore.exceptions.ResponseStreamingError: An error occurred while reading from response stream: ('Connection broken: IncompleteRead(1048576 bytes read, 7340032 more expected)', IncompleteRead(1048576 bytes read))''', components=("storage",)),
    Fault("chat_template", "startup", "user_script", None, False, MAIN + '''    text = tok.apply_chat_template(msgs)
>>jinja2.exceptions.TemplateError: Conversation roles must alternate user/assistant/user/assistant/...''', echo="none", launcher="none"),
    Fault("loader_shm", "torch", "user_script", None, False, MAIN + '''    for batch in loader:
>>RuntimeError: DataLoader worker (pid 4413) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.'''),
    Fault("omegaconf_missing", "startup", "user_script", None, False, MAIN + '''    lr = cfg.optim.lr
>>omegaconf.errors.MissingMandatoryValue: Missing mandatory value: optim.lr
    full_key: optim.lr''', echo="none", launcher="none"),
    Fault("toml_decode", "startup", "user_script", None, False, MAIN + '''    cfg = tomllib.load(f)
>>tomllib.TOMLDecodeError: Expected '=' after a key in a key/value pair (at line 3, column 9)''', echo="none", launcher="none"),
    Fault("assert_world", "startup", "user_script", None, False, '''  File "/home/u/megatron/parallel_state.py", line 210, in initialize_model_parallel
    raise RuntimeError(
>>RuntimeError: world_size (24) is not divisible by 16'''.replace("  File", PY + "  File", 1), echo="none"),
    Fault("flash_attn_abi", "startup", "framework", None, False, PY + f'''  File "{_SITE}/flash_attn/flash_attn_interface.py", line 10, in <module>
    import flash_attn_2_cuda as flash_attn_cuda
>>ImportError: {_SITE}/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs''', echo="none", launcher="none"),
    Fault("nccl_lib_old", "startup", "framework", None, False, PY + f'''  File "{_SITE}/torch/__init__.py", line 367, in <module>
    from torch._C import *
>>ImportError: {_SITE}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume''', echo="none", launcher="none"),
    Fault("reward_nan", "torch", "user_script", None, False, MAIN + '''    probs = torch.multinomial(p, 1)
>>RuntimeError: probability tensor contains either `inf`, `nan` or element < 0'''),
    Fault("license_gurobi", "startup", "user_script", None, False, MAIN + '''    m = gp.Model()
>>gurobipy.GurobiError: License expired 2025-12-31''', echo="none", launcher="none"),
    Fault("xid95", "torch", "infrastructure", "gpu", True, '''>>kernel: NVRM: Xid (PCI:0000:9b:00): 95, pid=4413, name=python, Uncontained ECC error, SRAM
''' + MAIN + '''    loss.backward()
RuntimeError: CUDA error: an illegal memory access was encountered'''),
    Fault("gpu_fell_off_msg", "torch", "infrastructure", "gpu", True, '''>>kernel: NVRM: GPU at PCI:0000:9b:00: GPU has fallen off the bus.
''' + MAIN + '''    x = y.to("cuda:3")
RuntimeError: CUDA error: unspecified launch failure'''),
    Fault("edac_uncorrectable", "torch", "infrastructure", "node", True, '''>>kernel: EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x12fa offset:0x0)
./run.sh: line 12:  4413 Bus error               (core dumped) python train.py''', echo="none"),
    Fault("nic_flap", "torch", "infrastructure", "network", True, '''>>kernel: mlx5_core 0000:5e:00.0 ens1np0: Link down
''' + MAIN + '''    dist.barrier()
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3187, unhandled system error'''),
    Fault("user_value_in_quotes", "torch", "user_script", None, False, MAIN + '''    label = CLASSES[name]
>>KeyError: 'NVRM: Xid 79, GPU has fallen off the bus' '''),
    Fault("user_raises_about_nvlink", "torch", "user_script", None, False, MAIN + '''    raise ValueError(f"unknown topology option {opt!r}")
>>ValueError: unknown topology option 'nvlink-failed' '''),
)  # fmt: skip


ENDINGS: dict[str, Callable[[], bytes]] = {
    "fine_tuning_done": lambda: ended("Fine-tuning finished. Adapter saved to /out/adapter",
        "[rank3]:[E ProcessGroupNCCL.cpp:1182] [Rank 3] NCCL watchdog thread terminated with exception: NCCL Error 6"),
    "saved_then_segv": lambda: ended("***** train metrics *****", "  epoch                    =        3.0",
        "  train_loss               =     0.0249", "Model weights saved in /out/model.safetensors", "Training done.",
        "Segmentation fault (core dumped)"),
    "chatbot_prints_errors": lambda: ended(
        "user> why do I get RuntimeError: CUDA error: uncorrectable ECC error encountered on my node?",
        "assistant> That message means that the GPU memory had an error that could not be corrected.",
        "generated 2 answers", "Training finished."),
    "dataset_preview": lambda: ended(
        'preview: {"text": "NCCL WARN NET/IB : Got completion from peer with status=12", "label": 3}',
        "preview rows: 1", "All epochs finished"),
    "unit_tests_in_job": lambda: ended("test_shapes (tests.T) ... ok", "test_expected_failure (tests.T) ... expected failure",
        "Ran 2 tests in 0.412s", "OK (expected failures=1)", "exit code: 0"),
    "time_limit_signal": lambda: ended("Received SIGUSR1: 300 s to the time limit, writing checkpoint",
        "checkpoint written, requeueing job 88120", "scontrol requeue 88120"),
    "htcondor_removed": lambda: ended("condor_rm: Job 88120.0 was removed by the user", "Terminated"),
    "k8s_deleted": lambda: ended("Normal  Killing  1s  kubelet  Stopping container trainer", "Received SIGTERM, exiting"),
    "spot_azure": lambda: ended("Scheduled event received: EventType=Preempt NotBefore=11:00:30", "checkpointing before eviction", "Killed"),
    "elastic_scale_in": lambda: ended("Scale-in requested by the autoscaler: node gpu-3 leaves at its next checkpoint",
        "graceful shutdown of 8 workers", "Job suspended"),
    "kueue_evicted": lambda: ended("Normal  Preempted  2s  kueue-admission  Preempted to accommodate a higher priority Workload",
        "Normal  Suspended  2s  job-controller  Job suspended", "SIGTERM"),
    "expected_oom_search": lambda: (progress(0, 50)
        + "trying batch size 512\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB\nbatch size 512 does not fit, halving\n"
        + progress(50, 150) + "Training finished after 200 steps\n").encode(),
    "old_error_replayed": lambda: (
        "previous attempt ended with: RuntimeError: CUDA error: uncorrectable ECC error encountered\nresuming from /ckpt/100\n"
        + progress(100, 100) + "Training completed.\n").encode(),
    "selftest_messages": lambda: ended("self test: raise ValueError -> caught", UNCAUGHT.format("selftest") + "ValueError: planned failure",
        "self test passed", "Run completed"),
    "exit_none": lambda: ended(UNCAUGHT.format("train") + "SystemExit: None"),
}  # fmt: skip
