# ruff: noqa: E501 - log lines are as long as the libraries print them
"""A second batch of faults, written after the rules stood, to see how far they carry."""

from __future__ import annotations

from tests.support_failures.model import Fault

PY = "Traceback (most recent call last):\n"

FAULTS: tuple[Fault, ...] = (
    Fault("tpu_preempt_slice", "jax", "infrastructure", "node", True, '''>>2025-03-02 10:00:00 WARNING tpu-vm-agent: maintenance event imminent: this TPU VM will be terminated in 30 seconds (TERMINATE_ON_HOST_MAINTENANCE)
I0302 10:00:28.1 11 runner.py:77] worker exiting'''),
    Fault("tpu_hbm_ecc", "jax", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 90, in main
    metrics = jax.device_get(metrics)
>>jax.errors.JaxRuntimeError: DATA_LOSS: Uncorrectable HBM error detected on TPU chip 2 of worker 5; the program cannot continue'''),
    Fault("tpu_ici_down", "jax", "infrastructure", "nvlink", True, '''>>E0302 10:00:00.1 8412 slice_monitor.cc:210] ICI link failure: chip (3,1,0) port 4 is down; slice health: UNHEALTHY
F0302 10:00:00.2 8412 tpu_pjrt.cc:99] Aborting the program'''),
    Fault("jax_mesh_axes", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 60, in make_mesh
    mesh = jax.sharding.Mesh(np.array(devices).reshape(4, 4), ("data", "model"))
>>ValueError: cannot reshape array of size 8 into shape (4,4)'''),
    Fault("jax_sharding_div", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 66, in init
    params = jax.jit(init, out_shardings=shardings)(rng)
>>ValueError: One of pjit outputs with pytree key path ['embed'] was given the sharding of NamedSharding(mesh=Mesh('data': 8), spec=PartitionSpec('data',)), which implies that the global size of its dimension 0 should be divisible by 8, but it is equal to 50257 (full shape: (50257, 768))'''),
    Fault("orbax_missing_ckpt", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 44, in restore
    return mngr.restore(step)
  File "/usr/local/lib/python3.11/site-packages/orbax/checkpoint/checkpointer.py", line 170, in restore
    raise FileNotFoundError(f'Checkpoint at {directory} not found.')
>>FileNotFoundError: Checkpoint at /ckpt/run3/1200 not found.'''),
    Fault("orbax_truncated", "startup", "infrastructure", "storage", False, PY + '''  File "/home/u/train.py", line 44, in restore
    return mngr.restore(step)
>>ValueError: DATA_LOSS: Error reading local file "/ckpt/run3/1200/params/.zarray": zarr metadata truncated'''),
    Fault("tf_nan_check", "tf", "user_script", None, False, PY + '''  File "/home/u/fit.py", line 52, in train_step
    tf.debugging.check_numerics(loss, "loss")
>>tensorflow.python.framework.errors_impl.InvalidArgumentError: loss : Tensor had NaN values [Op:CheckNumerics]'''),
    Fault("tf_permission", "startup", "user_script", None, False, PY + '''  File "/home/u/fit.py", line 30, in <module>
    ds = tf.data.TFRecordDataset(files)
>>tensorflow.python.framework.errors_impl.PermissionDeniedError: /data/private/train-0001.tfrecord; Permission denied'''),
    Fault("tf_ptx_old", "startup", "framework", None, False, '''2024-05-02 10:10:10.1: W tensorflow/compiler/xla/stream_executor/gpu/asm_compiler.cc:231] Falling back to the CUDA driver for PTX compilation; ptxas does not support CC 9.0
''' + PY + '''  File "/home/u/fit.py", line 31, in <module>
    model(x)
>>tensorflow.python.framework.errors_impl.InternalError: 'cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, 0, reinterpret_cast<CUstream>(stream), params, nullptr)' failed with 'CUDA_ERROR_INVALID_HANDLE' '''.rstrip()),
    Fault("keras_shape_input", "startup", "user_script", None, False, PY + '''  File "/home/u/fit.py", line 31, in <module>
    model(x)
  File "/usr/lib/python3/dist-packages/keras/src/layers/input_spec.py", line 227, in assert_input_compatibility
    raise ValueError(
>>ValueError: Input 0 of layer "dense_1" is incompatible with the layer: expected axis -1 of input shape to have value 784, but received input with shape (None, 28, 28)'''),
    Fault("paddle_segv", "paddle", "framework", None, False, '''--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
No stack trace in paddle, may be caused by external reasons.
----------------------
Error Message Summary:
----------------------
>>FatalError: `Segmentation fault` is detected by the operating system.
  [TimeInfo: *** Aborted at 1714647600 (unix time) try "date -d @1714647600" if you are using GNU date ***]
  [SignalInfo: *** SIGSEGV (@0x0) received by PID 17023 (TID 0x7f2c) from PID 0 ***]'''),
    Fault("paddle_nccl_unhandled", "startup", "framework", None, False, PY + '''  File "tools/train.py", line 30, in <module>
    fleet.init(is_collective=True)
>>OSError: (External) NCCL error(5), invalid usage.
  [Hint: 'ncclInvalidUsage'. The call to NCCL is incorrect. This is usually reflecting a programming error.] (at ../paddle/fluid/platform/collective_helper.cc:77)'''),
    Fault("mindspore_compile", "startup", "framework", None, False, PY + '''  File "/home/u/train_ms.py", line 55, in <module>
    model.train(epochs, ds)
>>RuntimeError: Compile graph kernel_graph0 failed.
----------------------------------------------------
- Ascend Error Message:
----------------------------------------------------
E70013: Failed to compile Op [Conv2D_12], check the op's input''', launcher="none"),
    Fault("mindspore_device_lost", "torch", "infrastructure", "gpu", True, '''>>[ERROR] DEVICE(4412,python):2024-06-11-03:41:20.113 [ascend_runtime.cc:812] Device 3 heartbeat lost, device is abnormal, rt ret 507899 driver inner error
''' + PY + '''  File "/home/u/train_ms.py", line 55, in <module>
    model.train(epochs, ds)
RuntimeError: Sync stream failed'''),
    Fault("npu_ranktable", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 31, in setup
    dist.init_process_group("hccl")
>>RuntimeError: EI0004: The ranktable is invalid, Reason:[The ranktable_path does not exist]. Please check the configured ranktable.''', components=("",)),
    Fault("gaudi_oom", "torch", "user_script", None, False, PY + '''  File "/home/u/train.py", line 88, in step
    htcore.mark_step()
>>RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::2147483648 (2048)MB'''),
    Fault("gaudi_reset", "torch", "infrastructure", "gpu", True, '''>>kernel: habanalabs 0000:33:00.0: device heartbeat failed, going to reset device (hard reset)
''' + PY + '''  File "/home/u/train.py", line 88, in step
    htcore.mark_step()
RuntimeError: synStatus=26 [Generic failure] Device not available'''),
    Fault("trn_hw_err", "torch", "infrastructure", "gpu", True, '''>>2024-Jun-11 03:41:20.113 4412:4490 ERROR  TDRV:exec_consume_infer_status_notifications  (FATAL-RT-UNDEFINED-STATE) encountered uncorrectable memory error on nd3 nc1: NRT_EXEC_HW_ERR_HBM_UE
''' + PY + '''  File "/home/u/train.py", line 99, in step
    xm.mark_step()
RuntimeError: Bad StatusOr access: INTERNAL: RunNeuronCCImpl: nrt_execute status=1202'''),
    Fault("trn_compile", "startup", "framework", None, False, '''2024-06-11 03:41:20.000113:  4412  ERROR ||NEURON_CC_WRAPPER||: Failed compilation with ['neuronx-cc', 'compile', '--target=trn1']
''' + PY + '''  File "/home/u/train.py", line 99, in step
    xm.mark_step()
>>RuntimeError: Bad StatusOr access: INTERNAL: RunNeuronCCImpl: error condition error != 0: <class 'subprocess.CalledProcessError'>: Command '' died with <Signals.SIGHUP: 1>.'''),
    Fault("xpu_lost", "torch", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 99, in step
    loss.item()
>>RuntimeError: Native API failed. Native API returns: -20 (PI_ERROR_DEVICE_LOST)''', components=("",)),
    Fault("rocm_rccl_nic", "torch", "infrastructure", "network", True, '''>>gpu05:991:1044 [6] transport/net_ib.cc:2013 NCCL WARN NET/IB: Got completion from peer 10.1.4.6<47112> with status=5 opcode=1 len=0 vendor err 244 (Send)
'''),
    Fault("rocm_driver", "startup", "infrastructure", "node", True, '''>>Unable to open /dev/kfd read-write: No such file or directory
''' + PY + '''  File "/home/u/train.py", line 9, in <module>
    torch.zeros(1).cuda()
RuntimeError: No HIP GPUs are available''', components=("gpu",)),
    Fault("miopen_db", "torch", "framework", None, False, '''MIOpen Error: /opt/driver/MLOpen/src/sqlite_db.cpp:220: Internal error while accessing SQLite database: locking protocol
''' + PY + '''  File "/home/u/train.py", line 99, in step
    out = conv(x)
>>RuntimeError: miopenStatusInternalError'''),
    Fault("ray_worker_sigkill", "ray", "user_script", None, False, '''>>(raylet, ip=10.2.0.8) A worker died or was killed while executing a task by an unexpected system error. Worker PID: 4410 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.
''' + PY + '''  File "/home/u/tune.py", line 40, in <module>
    ray.get(refs)
ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.'''),
    Fault("ray_spill_full", "ray", "infrastructure", "storage", False, PY + '''  File "/home/u/tune.py", line 40, in <module>
    ray.get(refs)
>>ray.exceptions.OutOfDiskError: Local disk is full
The object cannot be created because the local object store is full and the local disk's utilization is over capacity (95% by default).'''),
    Fault("ray_gcs_lost", "ray", "infrastructure", "node", True, '''>>[2024-06-11 03:41:20,113 E 4410 4410] gcs_rpc_client.h:554: Failed to connect to GCS at address 10.2.0.1:6379 within 5 seconds. The GCS server node is lost or unreachable.
''', components=("network",)),
    Fault("dask_worker_mem", "startup", "user_script", None, False, '''2024-06-11 03:41:20,113 - distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting
''' + PY + '''  File "/home/u/prep.py", line 18, in <module>
    out.compute()
>>distributed.scheduler.KilledWorker: Attempted to run task ('read-csv', 3) on 4 different workers, but all those workers died while running it.'''),
    Fault("spark_executor_lost", "startup", "infrastructure", "node", True, '''>>24/06/11 03:41:20 ERROR TaskSchedulerImpl: Lost executor 12 on 10.0.0.44: Remote RPC client disassociated. Likely due to containers exceeding thresholds, or network issues. worker machine lost''', components=("network",)),
    Fault("mpich_abort_node", "mpi", "infrastructure", "node", True, '''>>[mpiexec@gpu01] HYDU_sock_read (utils/sock/sock.c:254): read error (Connection timed out); lost connection to proxy on host gpu07
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 9
===================================================================================''', components=("network",)),
    Fault("mpi_no_slots", "startup", "user_script", None, False, '''>>There are not enough slots available in the system to satisfy the 64
slots that were requested by the application:

  python

Either request fewer procs for your application, or make more slots
available for use.''', launcher="none"),
    Fault("mpi_signal9", "mpi", "user_script", None, False, '''>>kernel: Memory cgroup out of memory: Killed process 51120 (python) total-vm:88112040kB, anon-rss:62911456kB
--------------------------------------------------------------------------
mpirun noticed that process rank 3 with PID 51120 on node gpu01 exited on signal 9 (Killed).
--------------------------------------------------------------------------''', launcher="none"),
    Fault("hvd_stall_then_key", "mpi", "user_script", None, False, '''[1,5]<stderr>:Traceback (most recent call last):
[1,5]<stderr>:  File "/home/u/hvd_train.py", line 61, in <module>
[1,5]<stderr>:    w = weights[cls]
>>[1,5]<stderr>:IndexError: list index out of range
[1,0]<stderr>:[2024-06-11 03:42:20.1: W /tmp/horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.'''),
    Fault("slurm_nodefail_batch", "torch", "infrastructure", "node", True, '''>>slurmstepd-gpu19: error: *** JOB 88121 ON gpu19 CANCELLED AT 2024-06-11T03:41:20 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***''', launcher="none"),
    Fault("slurm_munge", "startup", "infrastructure", "node", True, '''>>slurmstepd: error: Munge decode failed: Expired credential
srun: error: Task launch for StepId=88121.0 failed on node gpu20: Protocol authentication error
srun: error: Application launch failed: Protocol authentication error''', launcher="none"),
    Fault("slurm_execve", "startup", "user_script", None, False, '''>>slurmstepd: error: execve(): /home/u/run.sh: Permission denied
srun: error: gpu20: task 0: Exited with exit code 13''', launcher="none"),
    Fault("k8s_pvc", "startup", "infrastructure", "storage", True, '''>>Warning  FailedMount  2m  kubelet  MountVolume.SetUp failed for volume "pvc-data" : rpc error: code = DeadlineExceeded desc = context deadline exceeded
Warning  FailedMount  20s  kubelet  Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data shm]: timed out waiting for the condition''', launcher="k8s"),
    Fault("k8s_secret", "startup", "user_script", None, False, '''>>Warning  Failed  5s (x7 over 68s)  kubelet  Error: secret "hf-token" not found
State: Waiting  Reason: CreateContainerConfigError''', launcher="k8s"),
    Fault("k8s_xid_nodeproblem", "torch", "infrastructure", "gpu", True, '''>>Warning  GPUXidError  3s  node-problem-detector  Node gpu-a12: XID error 95 reported by GPU 6 (uncontained memory error)
Normal   Draining  2s  node-controller  node gpu-a12 cordoned''', launcher="k8s"),
    Fault("pl_ckpt_keys", "startup", "user_script", None, False, PY + '''  File "/home/u/main.py", line 70, in <module>
    model = Net.load_from_checkpoint(path)
  File "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py", line 2153, in load_state_dict
    raise RuntimeError('Error(s) in loading state_dict for {}:\\n\\t{}'.format(
>>RuntimeError: Error(s) in loading state_dict for Net:
	Missing key(s) in state_dict: "encoder.layer.0.weight".'''),
    Fault("ds_nvme_offload", "torch", "infrastructure", "storage", True, PY + '''  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/swap_tensor/utils.py", line 21, in swap_in_tensors
    assert (swap_handle.async_pread(buffer, path) == 0)
>>OSError: [Errno 5] Input/output error: '/local_nvme/zero_stage_3/param_12.swp' '''.rstrip()),
    Fault("ds_cuda_mismatch", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/deepspeed/ops/op_builder/builder.py", line 100, in assert_no_cuda_mismatch
    raise CUDAMismatchException(
>>deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.8 does not match the version torch was compiled with 12.1, unable to compile cuda/cpp extensions without a matching cuda version.'''),
    Fault("megatron_data_index", "startup", "user_script", None, False, PY + '''  File "/opt/megatron/megatron/core/datasets/indexed_dataset.py", line 300, in __init__
    assert os.path.exists(idx_path), f"One or both of the .idx and .bin files cannot be found at the path prefix {path_prefix}"
>>AssertionError: One or both of the .idx and .bin files cannot be found at the path prefix /data/c4_text_document'''),
    Fault("megatron_world", "startup", "user_script", None, False, PY + '''  File "/opt/megatron/megatron/core/parallel_state.py", line 500, in initialize_model_parallel
    raise RuntimeError(f"world_size ({world_size}) is not divisible by {total_model_size}")
>>RuntimeError: world_size (60) is not divisible by 16'''),
    Fault("te_version", "startup", "framework", None, False, PY + '''  File "/opt/megatron/megatron/core/extensions/transformer_engine.py", line 130, in __init__
    super().__init__(
  File "/opt/conda/lib/python3.10/site-packages/transformer_engine/pytorch/module/layernorm_linear.py", line 820, in __init__
    self.foo(bar)
>>TypeError: TransformerEngineBaseModule.foo() missing 1 required positional argument: 'quantizer' '''.rstrip()),
    Fault("flash_arch", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/flash_attn/flash_attn_interface.py", line 48, in _flash_attn_forward
    out = flash_attn_cuda.fwd(q, k, v)
>>RuntimeError: FlashAttention only supports Ampere GPUs or newer.'''),
    Fault("inductor_cpp", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 44, in <module>
    out = compiled(x)
  File "/opt/conda/lib/python3.10/site-packages/torch/_inductor/codecache.py", line 1123, in compile_file
    raise exc.CppCompileError(cmd, output) from e
>>torch._inductor.exc.InductorError: CppCompileError: C++ compile error
Command: g++ /tmp/torchinductor_u/ab/cab.cpp -shared -fPIC'''),
    Fault("triton_cache_race", "startup", "framework", None, True, PY + '''  File "/opt/conda/lib/python3.10/site-packages/triton/runtime/cache.py", line 115, in put
    os.replace(temp_path, filepath)
>>FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.triton/cache/3f1a/kernel.cubin.tmp.pid_4410_221' -> '/home/u/.triton/cache/3f1a/kernel.cubin' '''.rstrip()),
    Fault("glibcxx", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 3, in <module>
    import bitsandbytes
>>ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /opt/conda/lib/python3.10/site-packages/bitsandbytes/libbitsandbytes_cuda121.so)'''),
    Fault("cublas_alloc", "torch", "user_script", None, False, PY + '''  File "/home/u/model.py", line 44, in forward
    return F.linear(x, self.w)
>>RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`'''),
    Fault("dtype_half", "startup", "user_script", None, False, PY + '''  File "/home/u/model.py", line 44, in forward
    return F.linear(x, self.w)
>>RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16'''),
    Fault("inplace_grad", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 80, in step
    loss.backward()
>>RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64, 128]], which is output 0 of ReluBackward0, is at version 3; expected version 1 instead.'''),
    Fault("hydra_key", "startup", "user_script", None, False, '''>>Could not override 'trainer.max_stepss'.
To append to your config use +trainer.max_stepss=100
Key 'max_stepss' is not in struct
    full_key: trainer.max_stepss
    object_type=dict

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.'''),
    Fault("hf_dataset_fields", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 33, in <module>
    ds = ds.map(tok, remove_columns=["text"])
  File "/opt/conda/lib/python3.10/site-packages/datasets/arrow_dataset.py", line 3105, in map
    raise ValueError(
>>ValueError: Column to remove ['text'] not in the dataset. Current columns in the dataset: ['content', 'id']'''),
    Fault("hub_503", "startup", "infrastructure", "network", False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/huggingface_hub/utils/_http.py", line 406, in hf_raise_for_status
    response.raise_for_status()
>>requests.exceptions.HTTPError: 503 Server Error: Service Temporarily Unavailable for url: https://huggingface.co/org/model/resolve/main/config.json'''),
    Fault("pinned_host", "torch", "user_script", None, False, PY + '''  File "/home/u/data.py", line 12, in collate
    buf = torch.empty(n)
>>RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)'''),
    Fault("fuse_dropped", "torch", "infrastructure", "storage", True, PY + '''  File "/home/u/data.py", line 33, in __getitem__
    return np.load(path)
>>OSError: [Errno 107] Transport endpoint is not connected: '/mnt/gcsfuse/data/part-0044.npy' '''.rstrip()),
    Fault("ceph_blocked", "torch", "infrastructure", "storage", True, '''>>kernel: libceph: mds0 (1)10.0.0.3:6789 socket closed (con state OPEN), session lost, hung
kernel: ceph: mds0 hung, file system disconnected
''' + PY + '''  File "/home/u/data.py", line 33, in __getitem__
    return np.load(path)
TimeoutError: [Errno 110] Connection timed out: '/cephfs/data/part-0044.npy' '''.rstrip(), components=("",)),
    Fault("nvswitch_sxid", "torch", "infrastructure", "nvlink", True, '''>>kernel: nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 41 LTSSM Fault Up
''' + PY + '''  File "/home/u/train.py", line 99, in step
    dist.all_reduce(g)
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda error'''),
    Fault("xid74", "torch", "infrastructure", "nvlink", True, '''>>NVRM: Xid (PCI:0000:1b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0)
'''),
    Fault("device_ordinal", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 9, in <module>
    torch.cuda.set_device(local_rank)
>>RuntimeError: CUDA error: invalid device ordinal'''),
    Fault("python_syntax", "startup", "user_script", None, False, '''  File "/home/u/train.py", line 12
    def main()
              ^
>>SyntaxError: expected ':' '''.rstrip()),
    Fault("bash_missing", "startup", "user_script", None, False, '''>>/var/spool/slurmd/job88122/slurm_script: line 14: torchrunn: command not found''', launcher="none"),
    Fault("json_log_error", "torch", "user_script", None, False, '''>>{"ts": "2024-06-11T03:41:20Z", "level": "error", "logger": "trainer", "msg": "uncaught exception: KeyError: 'labels'", "rank": 3}'''),
)  # fmt: skip
