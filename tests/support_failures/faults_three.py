# ruff: noqa: E501 - log lines are as long as the libraries print them
"""A third batch of faults, written after the rules and the text model were frozen once more."""

from __future__ import annotations

from tests.support_failures.model import Fault

PY = "Traceback (most recent call last):\n"

FAULTS: tuple[Fault, ...] = (
    Fault("jax_dist_init_timeout", "startup", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 18, in <module>
    jax.distributed.initialize()
  File "/usr/local/lib/python3.11/site-packages/jax/_src/distributed.py", line 128, in initialize
    self.client.connect()
>>jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens because a task triggered the barrier unexpectedly early or too slowly.'''),
    Fault("jax_nan_debug", "jax", "user_script", None, False, PY + '''  File "/home/u/train.py", line 90, in main
    state, loss = step(state, batch)
>>FloatingPointError: invalid value (nan) encountered in jit(step). Because jax_config.debug_nans is set, the de-optimized function (i.e., the function as if the `jit` decorator were removed) was called in an attempt to get a more precise error message.'''),
    Fault("jax_libtpu_missing", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 31, in <module>
    print(jax.devices())
>>RuntimeError: Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: cannot open shared object file: No such file or directory (you may need to uninstall the failing plugin package)'''),
    Fault("tpu_device_error_vfio", "startup", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 31, in <module>
    print(jax.devices())
>>RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed: open(/dev/vfio/0): Device or resource busy: Device or resource busy; Couldn't open iommu group /dev/vfio/0'''),
    Fault("flax_param_missing", "startup", "user_script", None, False, PY + '''  File "/usr/local/lib/python3.11/site-packages/flax/core/scope.py", line 964, in param
    raise errors.ScopeParamNotFoundError(name, self.path_text)
>>flax.errors.ScopeParamNotFoundError: Could not find parameter named "kernel" in scope "/decoder/layers_3". (https://flax.readthedocs.io/en/latest/api_reference/flax.errors.html#flax.errors.ScopeParamNotFoundError)'''),
    Fault("tf_label_range", "tf", "user_script", None, False, '''2024-05-02 10:10:10.1: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed at sparse_xent_op.cc:103 : INVALID_ARGUMENT: Received a label value of 1000 which is outside the valid range of [0, 1000).  Label values: 1000 17 3
''' + PY + '''  File "/home/u/fit.py", line 77, in <module>
    model.fit(ds, epochs=90)
>>tensorflow.python.framework.errors_impl.InvalidArgumentError: Received a label value of 1000 which is outside the valid range of [0, 1000).  Label values: 1000 17 3'''),
    Fault("tf_gcs_permission", "startup", "user_script", None, False, PY + '''  File "/home/u/fit.py", line 30, in <module>
    ds = tf.data.Dataset.list_files("gs://bucket/x*")
>>tensorflow.python.framework.errors_impl.PermissionDeniedError: Error executing an HTTP request: HTTP response code 403 with body '{"error": {"code": 403, "message": "sa@x.iam does not have storage.objects.list access"}}' '''.rstrip()),
    Fault("tf_ps_lost", "tf", "infrastructure", "network", True, PY + '''  File "/home/u/fit.py", line 130, in <module>
    coordinator.join()
>>tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __inference_step_12}} Socket closed
Additional GRPC error information from remote target /job:ps/replica:0/task:1: :{"created":"@1714647600.1","description":"Error received from peer ipv4:10.0.0.9:2222","grpc_message":"Socket closed","grpc_status":14}'''),
    Fault("tf_disk_ckpt", "tf", "infrastructure", "storage", False, PY + '''  File "/home/u/fit.py", line 140, in <module>
    ckpt.save(path)
>>tensorflow.python.framework.errors_impl.ResourceExhaustedError: /out/ckpt-9.data-00000-of-00001.tempstate42; No space left on device [Op:SaveV2]'''),
    Fault("paddle_launch_illegal", "paddle", "framework", None, False, PY + '''  File "tools/train.py", line 121, in main
    loss.backward()
>>OSError: (External) CUDA error(700), an illegal memory access was encountered.
  [Hint: 'cudaErrorIllegalAddress'. The device encountered a load or store instruction on an invalid memory address.] (at ../paddle/phi/backends/gpu/cuda/cuda_info.cc:259)'''),
    Fault("paddle_invalid_shape", "startup", "user_script", None, False, PY + '''  File "tools/train.py", line 60, in main
    out = model(x)
>>ValueError: (InvalidArgument) The number of input's channels should be equal to filter's channels * groups for Op(Conv). But received: the input's channels is 1, the input's shape is [8, 1, 224, 224]; the filter's channels is 3.'''),
    Fault("ray_actor_init_import", "startup", "user_script", None, False, PY + '''  File "/home/u/tune.py", line 55, in <module>
    ray.get(a.ping.remote())
ray.exceptions.RayActorError: The actor died because of an error raised in its creation task, ray::Worker.__init__() (pid=4410, ip=10.2.0.8)
  File "/home/u/worker.py", line 3, in __init__
    import my_metrics
>>ModuleNotFoundError: No module named 'my_metrics' '''.rstrip()),
    Fault("ray_placement_infeasible", "startup", "user_script", None, False, '''>>ray.exceptions.PlacementGroupSchedulingError: Cannot schedule placement group, request 16 GPU per bundle but every node has at most 8 GPU
'''),
    Fault("mpi_segv", "mpi", "framework", None, False, '''>>[gpu01:31871] *** Process received signal ***
[gpu01:31871] Signal: Segmentation fault (11)
[gpu01:31871] Signal code: Address not mapped (1)
[gpu01:31871] Failing at address: 0x10
[gpu01:31871] *** End of error message ***
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 31871 on node gpu01 exited on signal 11 (Segmentation fault).
--------------------------------------------------------------------------''', launcher="none"),
    Fault("mpi_connect_fail", "startup", "infrastructure", "network", True, '''--------------------------------------------------------------------------
WARNING: Open MPI failed to TCP connect to a peer MPI process.  This
should not happen.

Your Open MPI job may now hang or fail.

  Local host: gpu02
  PID:        31871
>>  Message:    connect() to 10.0.0.7:1047 failed
  Error:      No route to host (113)
--------------------------------------------------------------------------'''),
    Fault("rocm_ras_poison", "torch", "infrastructure", "gpu", True, '''>>kernel: amdgpu 0000:c1:00.0: amdgpu: RAS poison consumption handling is triggered, uncorrectable error in gfx block
kernel: amdgpu 0000:c1:00.0: amdgpu: GPU mode1 reset
''' + PY + '''  File "/home/u/train.py", line 190, in step
    loss.backward()
torch.AcceleratorError: HIP error: unknown error'''),
    Fault("rocm_xgmi", "torch", "infrastructure", "nvlink", True, '''>>kernel: amdgpu 0000:c1:00.0: amdgpu: XGMI WAFL link failure detected between socket 0 and socket 3, uncorrectable
'''),
    Fault("npu_aicore", "torch", "framework", None, False, PY + '''  File "/home/u/train.py", line 70, in step
    torch.npu.synchronize()
>>RuntimeError: ACL stream synchronize failed, error code:507015
[ERROR] 2024-06-11-03:41:20 (PID:4412, Device:5, RankID:13) ERR00100 PTA call acl api failed
EZ9999: Inner Error!
EZ9999: [PID: 4412] The error from device(5), serial number is 3, there is an aicore error, core id is 0, error code = 0x800000, dump info: pc start: 0x1240c0041000'''),
    Fault("npu_link_down", "torch", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 70, in step
    dist.all_reduce(t)
>>RuntimeError: EI0013: A ROCE CQE ERROR occurred on the local device. The destination device is 10.3.1.7, error status is 12, transport retry counter exceeded.'''),
    Fault("npu_driver", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 9, in <module>
    import torch_npu
  File "/usr/local/lib/python3.9/site-packages/torch_npu/__init__.py", line 14, in <module>
    import torch_npu._C
>>ImportError: libhccl.so: cannot open shared object file: No such file or directory. Please check that the cann package is installed. Please run 'source set_env.sh' in the CANN installation path.'''),
    Fault("gaudi_compile", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 88, in step
    htcore.mark_step()
>>RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_BRIDGE Exception in Lowering thread... Graph compile failed. synStatus=synStatus 26 [Generic failure].''', components=("",)),
    Fault("k8s_evict_memory", "torch", "infrastructure", "node", True, '''>>Warning  Evicted  4s  kubelet  The node was low on resource: memory. Threshold quantity: 100Mi, available: 61240Ki. Container sidecar of another pod was using 120Gi, request is 0.
Normal   Killing  4s  kubelet  Stopping container trainer''', launcher="k8s"),
    Fault("k8s_sandbox", "startup", "infrastructure", "node", True, '''>>Warning  FailedCreatePodSandBox  3s (x12 over 2m)  kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized''', launcher="k8s"),
    Fault("k8s_quota", "startup", "user_script", None, False, '''>>Error creating: pods "trainer-worker-3" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=64, limited: requests.nvidia.com/gpu=64''', launcher="k8s", components=("storage",)),
    Fault("slurm_gres_invalid", "startup", "user_script", None, False, '''>>srun: error: Unable to create step for job 88123: Invalid generic resource (gres) specification''', launcher="none"),
    Fault("slurm_io_timeout", "torch", "infrastructure", "node", True, '''>>srun: error: Timed out waiting for job step to complete: nodes gpu[03-04] are not responding
slurmstepd: error: *** STEP 88123.0 ON gpu03 FAILED (non-zero exit code or other failure mode) ***''', launcher="none"),
    Fault("pbs_walltime_mem", "torch", "user_script", None, False, '''>>=>> PBS: job killed: mem 263741824kb exceeded limit 262144000kb''', launcher="none"),
    Fault("lsf_memlimit", "torch", "user_script", None, False, '''>>TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.
Exited with exit code 130.''', launcher="none"),
    Fault("ds_zero_nccl_mismatch", "torch", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py", line 2806, in all_gather_into_tensor
    work = group._allgather_base(output_tensor, input_tensor, opts)
>>RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=12, OpType=ALLGATHER), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE).''', components=("",)),
    Fault("ds_overflow_stop", "torch", "user_script", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/fp16/loss_scaler.py", line 165, in update_scale
    raise Exception(
>>Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.'''),
    Fault("megatron_optimizer_resume", "startup", "user_script", None, False, PY + '''  File "/opt/megatron/megatron/training/checkpointing.py", line 1310, in load_checkpoint
    optimizer.load_state_dict(state_dict['optimizer'])
>>ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group'''),
    Fault("megatron_nccl_oom", "startup", "user_script", None, False, PY + '''  File "/opt/megatron/megatron/core/parallel_state.py", line 700, in initialize
    torch.distributed.barrier()
>>torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
Cuda failure 2 'out of memory' '''.rstrip()),
    Fault("dl_worker_killed", "torch", "user_script", None, False, PY + '''  File "/home/u/train.py", line 100, in main
    for batch in loader:
>>RuntimeError: DataLoader worker (pid 4412) is killed by signal: Killed. '''.rstrip(), components=("",)),
    Fault("pickle_lambda", "startup", "user_script", None, False, PY + '''  File "/opt/conda/lib/python3.10/multiprocessing/reduction.py", line 60, in dump
    ForkingPickler(file, protocol).dump(obj)
>>AttributeError: Can't pickle local object 'make_collate.<locals>.fn' '''.rstrip()),
    Fault("bnb_missing_cuda", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/bitsandbytes/cextension.py", line 31, in get_native_library
    raise RuntimeError(
>>RuntimeError:
        CUDA Setup failed despite GPU being available. Please run the following command to get more information:
        python -m bitsandbytes'''),
    Fault("glibc_old", "startup", "framework", None, False, '''>>/opt/env/bin/python: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by /opt/env/bin/python)''', launcher="none"),
    Fault("illegal_instr", "startup", "framework", None, False, '''>>/var/spool/slurmd/job1/slurm_script: line 9: 51120 Illegal instruction     (core dumped) python train.py''', launcher="none"),
    Fault("numa_ext_abi", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 4, in <module>
    import pycocotools._mask as _mask
  File "pycocotools/_mask.pyx", line 1, in init pycocotools._mask
>>ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject'''),
    Fault("index_embed", "startup", "user_script", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/torch/nn/functional.py", line 2233, in embedding
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)
>>IndexError: index out of range in self'''),
    Fault("wandb_key", "startup", "user_script", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/wandb/sdk/wandb_login.py", line 201, in prompt_api_key
    raise UsageError("api_key not configured (no-tty). call wandb.login(key=[your_api_key])")
>>wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])'''),
    Fault("nfs_server_gone", "torch", "infrastructure", "storage", True, '''>>kernel: nfs: server 10.0.0.3 not responding, timed out
''' + PY + '''  File "/home/u/data.py", line 33, in __getitem__
    return np.load(path)
OSError: [Errno 5] Input/output error: '/nfs/data/part-0044.npy' '''.rstrip()),
    Fault("hdf5_truncated", "startup", "infrastructure", "storage", False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/h5py/_hl/files.py", line 231, in make_fid
    fid = h5f.open(name, flags, fapl=fapl)
>>OSError: Unable to synchronously open file (truncated file: eof = 2147479552, sblock->base_addr = 0, stored_eof = 5368709120)'''),
    Fault("safetensors_cut", "startup", "infrastructure", "storage", False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/transformers/modeling_utils.py", line 508, in load_state_dict
    with safe_open(checkpoint_file, framework="pt") as f:
>>safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer'''),
    Fault("ib_port_error", "torch", "infrastructure", "network", True, '''>>gpu07:812:990 [3] transport/net_ib.cc:111 NCCL WARN NET/IB : mlx5_3:1 async fatal event: local catastrophic error
'''),
    Fault("efa_unresponsive", "torch", "infrastructure", "network", True, '''>>ip-10-1-2-3:812:990 [3] nccl_net_ofi_rdma.c:714 NCCL WARN NET/OFI Request completed with error. RC: 103. Error: Unresponsive receiver (reachable by EFA device but handshake failed)
'''),
    Fault("gloo_lost", "torch", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 70, in step
    dist.barrier()
>>RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:23344'''),
    Fault("gsp_heartbeat", "torch", "infrastructure", "gpu", True, '''>>kernel: NVRM: GPU at PCI:0000:9b:00: GPU-aa11, GSP firmware heartbeat timeout, GPU requires reset
''' + PY + '''  File "/home/u/train.py", line 190, in step
    loss.backward()
RuntimeError: CUDA error: unknown error'''),
    Fault("row_remap", "torch", "infrastructure", "gpu", True, '''>>NVRM: Xid (PCI:0000:9b:00): 64, pid=20380, name=python, Row Remapper: Error: Failed to record remap for location
'''),
    Fault("mig_vanished", "startup", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 9, in <module>
    torch.cuda.set_device(0)
>>RuntimeError: CUDA error: no CUDA-capable device is detected'''),
    Fault("lost_telemetry_user_bug", "torch", "user_script", None, False, '''2024-06-11 03:41:19 WARNING telemetry: lost connection to node exporter, will retry
''' + PY + '''  File "/home/u/train.py", line 33, in compute_metrics
    return num / den
>>ZeroDivisionError: division by zero'''),
)  # fmt: skip
