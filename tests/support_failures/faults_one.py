# ruff: noqa: E501 - log lines are as long as the libraries print them
"""Faults of many stacks: the culprit's own print, as the libraries write it. ``>>`` marks the root line.

Written from knowledge of the libraries' messages; no line comes from a site's log.
"""

from __future__ import annotations

from tests.support_failures.model import Fault

PY = "Traceback (most recent call last):\n"

FAULTS: tuple[Fault, ...] = (
    # ------------------------------------------------------------------ JAX, TPU
    Fault("jax_hbm_oom", "jax", "user_script", None, False, PY + '''  File "/home/u/maxtext/train.py", line 512, in <module>
    app.run(main)
  File "/usr/local/lib/python3.10/site-packages/absl/app.py", line 308, in run
    _run_main(main, args)
  File "/home/u/maxtext/train.py", line 498, in main
    state, metrics = p_train_step(state, batch, rng)
>>jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17448304640 bytes.'''),
    Fault("jax_tpu_in_use", "jax", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 31, in <module>
    devices = jax.devices()
  File "/usr/local/lib/python3.10/site-packages/jax/_src/xla_bridge.py", line 1076, in devices
    return get_backend(backend).devices()
>>RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 20184. Not attempting to load libtpu.so in this process.'''),
    Fault("jax_core_halted", "jax", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 224, in <module>
    main()
  File "/home/u/train.py", line 201, in main
    loss = jax.block_until_ready(loss)
>>jax.errors.JaxRuntimeError: INTERNAL: Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device check-failure. Node 0 halted unexpectedly at tag:pc TensorCoreSequencer:1:0x1f4'''),
    Fault("jax_cuda_ecc", "jax", "infrastructure", "gpu", True, '''2025-03-02 11:20:31.108410: E external/xla/xla/stream_executor/cuda/cuda_event.cc:48] Error polling for event status: failed to query event: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered
''' + PY + '''  File "/home/u/train.py", line 201, in main
    loss = jax.block_until_ready(loss)
>>jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: Failed to complete all kernels launched on stream: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered'''),
    Fault("jax_tracer_bool", "jax", "user_script", None, False, PY + '''  File "/home/u/train.py", line 88, in loss_fn
    if loss > 10.0:
  File "/usr/local/lib/python3.10/site-packages/jax/_src/core.py", line 1492, in __bool__
    return self.aval._bool(self)
>>jax.errors.TracerBoolConversionError: Attempted boolean conversion of traced array with shape bool[].
The error occurred while tracing the function loss_fn at /home/u/train.py:80 for jit.'''),
    Fault("jax_jaxlib_mismatch", "jax", "framework", None, False, PY + '''  File "/home/u/train.py", line 5, in <module>
    import jax
  File "/usr/local/lib/python3.10/site-packages/jax/_src/lib/__init__.py", line 85, in check_jaxlib_version
    raise RuntimeError(msg)
>>RuntimeError: jaxlib version 0.4.26 is newer than and incompatible with jax version 0.4.20. Please update your jax and/or jaxlib packages.'''),
    Fault("jax_shape", "jax", "user_script", None, False, PY + '''  File "/home/u/model.py", line 61, in __call__
    y = jnp.dot(x, w)
  File "/usr/local/lib/python3.10/site-packages/jax/_src/numpy/lax_numpy.py", line 2983, in dot
    result = lax.dot_general(a, b, dimension_numbers=(contract_dims, batch_dims))
>>TypeError: dot_general requires contracting dimensions to have the same shape, got (1024,) and (768,).'''),
    Fault("jax_coordination_lost", "jax", "infrastructure", "network", True, '''>>E0302 11:22:31.184210    8412 coordination_service_agent.cc:301] Failed to send heartbeat to coordination service: DEADLINE_EXCEEDED: Deadline Exceeded. Additional GRPC error information from remote target unknown_target_for_coordination_leader
E0302 11:22:31.184391    8412 coordination_service_agent.cc:737] Polled an error from coordination service (this can be an error from this or another task).
F0302 11:22:31.184402    8412 client.h:77] Terminating process because the coordination service detected missing heartbeats. This most likely indicates that another task died; see the other task logs for more details.'''),
    Fault("jax_mosaic", "jax", "framework", None, False, PY + '''  File "/home/u/kernels/attn.py", line 140, in flash
    return pl.pallas_call(kernel, grid=grid)(q, k, v)
  File "/usr/local/lib/python3.10/site-packages/jax/_src/compiler.py", line 237, in backend_compile
    return backend.compile(built_c, compile_options=options)
>>jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Mosaic failed to compile TPU kernel: unsupported shape cast'''),
    # ------------------------------------------------------------------ TensorFlow
    Fault("tf_oom", "tf", "user_script", None, False, '''2024-05-02 10:10:10.123456: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed at conv_ops.cc:1211 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[128,512,56,56] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
''' + PY + '''  File "/home/u/fit.py", line 77, in <module>
    model.fit(ds, epochs=90)
  File "/usr/lib/python3/dist-packages/keras/src/utils/traceback_utils.py", line 70, in error_handler
    raise e.with_traceback(filtered_tb) from None
>>tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:
OOM when allocating tensor with shape[128,512,56,56]'''),
    Fault("tf_cudnn_version", "tf", "framework", None, False, '''2024-05-02 10:10:10.123456: E tensorflow/stream_executor/cuda/cuda_dnn.cc:378] Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0.  CuDNN library needs to have matching major version and equal or higher minor version.
''' + PY + '''  File "/home/u/fit.py", line 77, in <module>
    model.fit(ds, epochs=90)
>>tensorflow.python.framework.errors_impl.UnimplementedError: Graph execution error: DNN library is not found.'''),
    Fault("tf_cuinit_lost", "tf", "infrastructure", "gpu", True, '''>>2024-05-02 10:10:10.123456: E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected
''' + PY + '''  File "/home/u/fit.py", line 20, in <module>
    strategy = build(gpus)
  File "/home/u/fit.py", line 12, in build
    raise RuntimeError("GPU requested by scheduler but TensorFlow sees none")
RuntimeError: GPU requested by scheduler but TensorFlow sees none'''),
    Fault("tf_dataloss", "tf", "infrastructure", "storage", False, PY + '''  File "/home/u/fit.py", line 77, in <module>
    for batch in ds:
  File "/usr/lib/python3/dist-packages/tensorflow/python/framework/ops.py", line 5883, in raise_from_not_ok_status
    raise core._status_to_exception(e) from None
>>tensorflow.python.framework.errors_impl.DataLossError: {{function_node __wrapped__IteratorGetNext}} corrupted record at 318342144 [Op:IteratorGetNext]'''),
    Fault("tf_incompatible_shapes", "tf", "user_script", None, False, PY + '''  File "/home/u/fit.py", line 77, in <module>
    model.fit(ds, epochs=90)
>>tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node 'gradient_tape/mean_squared_error/BroadcastGradientArgs'
Incompatible shapes: [32,10] vs. [32,12]'''),
    Fault("tf_worker_lost", "tf", "infrastructure", "network", True, PY + '''  File "/home/u/fit.py", line 130, in <module>
    strategy.run(step_fn, args=(batch,))
>>tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.7:2222: Failed to connect to remote host: Connection refused'''),
    # ------------------------------------------------------------------ Paddle
    Fault("paddle_oom", "paddle", "user_script", None, False, '''--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::imperative::Tracer::TraceOp(std::string const&)
1   paddle::memory::allocation::StatAllocator::AllocateImpl(unsigned long)
----------------------
Error Message Summary:
----------------------
>>ResourceExhaustedError:

Out of memory error on GPU 3. Cannot allocate 2.250000GB memory on GPU 3, 31.500000GB memory has been allocated and available memory is only 248.500000MB.'''),
    Fault("paddle_ecc", "paddle", "infrastructure", "gpu", True, PY + '''  File "tools/train.py", line 148, in <module>
    main(config)
  File "tools/train.py", line 121, in main
    loss.backward()
>>OSError: (External) CUDA error(214), uncorrectable ECC error encountered.
  [Hint: 'cudaErrorECCUncorrectable'. This indicates that an uncorrectable ECC error was detected during execution.] (at ../paddle/phi/backends/gpu/cuda/cuda_info.cc:259)'''),
    Fault("paddle_nccl_timeout", "paddle", "infrastructure", "network", True, '''>>E1102 03:11:54.871021 17023 process_group_nccl.cc:1144] [Rank 3] Found stalled collective op: ALLREDUCE, NCCL operation timed out after 1800000 ms
I1102 03:11:54.871088 17023 process_group_nccl.cc:1150] aborting communicator of ring 0
''', "stall"),
    Fault("paddle_label_range", "paddle", "user_script", None, False, PY + '''  File "tools/train.py", line 121, in main
    loss = F.cross_entropy(logits, label)
>>ValueError: Variable value (input) of OP(fluid.layers.one_hot) expected >= 0 and < 80, but got 80. Please check label value.'''),
    # ------------------------------------------------------------------ Ray
    Fault("ray_task_keyerror", "ray", "user_script", None, False, PY + '''  File "/home/u/tune.py", line 55, in <module>
    result = trainer.fit()
  File "/opt/conda/lib/python3.10/site-packages/ray/train/base_trainer.py", line 638, in fit
    raise TrainingFailedError() from cause
ray.exceptions.RayTaskError(KeyError): ray::_RayTrainWorker__execute.get_next() (pid=4410, ip=10.2.0.8)
  File "/home/u/loop.py", line 31, in train_loop
    y = row["target"]
>>KeyError: 'target' '''.rstrip()),
    Fault("ray_node_died", "ray", "infrastructure", "node", True, '''(raylet) The node with node id: 1c9d0f and address: 10.2.0.9 and node name: 10.2.0.9 has been marked dead because the detector has missed too many heartbeats from it.
''' + PY + '''  File "/home/u/tune.py", line 55, in <module>
    result = trainer.fit()
>>ray.exceptions.ActorDiedError: The actor died because its node has died. Node Id: 1c9d0f'''),
    Fault("ray_oom_killer", "ray", "user_script", None, False, PY + '''  File "/home/u/tune.py", line 40, in <module>
    ray.get(refs)
>>ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 10.2.0.9, ID: 1c9d0f) where the task (task ID: ff01, name=preprocess, pid=4410, memory used=41.22GB) was running was 60.12GB / 62.79GB (0.957), which exceeds the memory usage threshold of 0.95.'''),
    # ------------------------------------------------------------------ MPI, Horovod
    Fault("mpi_daemon_lost", "mpi", "infrastructure", "node", True, '''--------------------------------------------------------------------------
>>ORTE has lost communication with a remote daemon.

  HNP daemon   : [[31547,0],0] on node gpu01
  Remote daemon: [[31547,0],2] on node gpu03

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
--------------------------------------------------------------------------'''),
    Fault("mpi_ucx_retry", "mpi", "infrastructure", "network", True, '''>>[gpu02:31871:0:31871] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)
[gpu02:31871:0:31871] ib_mlx5_log.c:177  RC QP 0x9a3 wqe[1021]: SEND --e [inl len 18] [rqpn 0x8aa dlid=14 sl=0 port=1 src_path_bits=0]'''),
    Fault("mpi_rank_assert", "mpi", "user_script", None, False, '''[1,3]<stderr>:Traceback (most recent call last):
[1,3]<stderr>:  File "/home/u/hvd_train.py", line 61, in <module>
[1,3]<stderr>:    assert batch.shape[0] == args.batch_size
>>[1,3]<stderr>:AssertionError'''),
    Fault("hvd_shutdown_peer", "mpi", "infrastructure", "network", True, '''[1,0]<stderr>:Traceback (most recent call last):
[1,0]<stderr>:  File "/home/u/hvd_train.py", line 90, in train
[1,0]<stderr>:    optimizer.synchronize()
[1,0]<stderr>:  File "/opt/conda/lib/python3.10/site-packages/horovod/torch/mpi_ops.py", line 1282, in synchronize
[1,0]<stderr>:    raise HorovodInternalError(e)
>>[1,0]<stderr>:horovod.common.exceptions.HorovodInternalError: [/tmp/pip-req-build/third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [10.0.0.5]:52114: Connection reset by peer'''),
    # ------------------------------------------------------------------ ROCm
    Fault("rocm_page_fault", "torch", "framework", None, False, '''>>Memory access fault by GPU node-4 (Agent handle: 0x55d0c8f2e1d0) on address 0x7f3c4e200000. Reason: Page not present or supervisor privilege.
Fatal Python error: Aborted'''),
    Fault("rocm_gpu_hang", "torch", "infrastructure", "gpu", True, '''>>HW Exception by GPU node-7 (Agent handle: 0x5616f0b7c5d0) reason :GPU Hang
Fatal Python error: Aborted'''),
    Fault("rocm_hip_oom", "torch", "user_script", None, False, PY + '''  File "/home/u/train.py", line 190, in step
    loss.backward()
>>torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 63.98 GiB of which 1.02 GiB is free. Of the allocated memory 60.11 GiB is allocated by PyTorch.'''),
    Fault("rocm_no_binary", "torch", "framework", None, False, PY + '''  File "/home/u/train.py", line 190, in step
    x = x.cuda()
>>RuntimeError: HIP error: invalid device function
HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.'''),
    Fault("rocm_umc", "torch", "infrastructure", "gpu", True, '''>>[91234.112] amdgpu 0000:c1:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block
[91234.113] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!
''' + PY + '''  File "/home/u/train.py", line 190, in step
    loss.backward()
RuntimeError: HIP error: unspecified launch failure'''),
    # ------------------------------------------------------------------ Ascend
    Fault("npu_oom", "torch", "user_script", None, False, PY + '''  File "/home/u/train.py", line 66, in forward
    attn = torch.matmul(q, k)
>>RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.97 GiB total capacity; 58.12 GiB already allocated; 58.12 GiB current active; 1.02 GiB free; 58.90 GiB reserved in total by PyTorch)'''),
    Fault("npu_hbm_ecc", "torch", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 70, in step
    torch.npu.synchronize()
>>RuntimeError: ACL stream synchronize failed, error code:507054
[ERROR] 2024-06-11-03:41:20 (PID:4412, Device:5, RankID:13) ERR00100 PTA call acl api failed
EE9999: Inner Error!
        HBM multi-bit ECC error occurred on the device, device id 5''', components=("gpu", "nvlink")),
    Fault("npu_hccl_timeout", "torch", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 70, in step
    torch.npu.synchronize()
>>RuntimeError: The Inner error is reported as above. EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [12].base information: [streamID:[5], taskID[1201]].'''),
    Fault("npu_socket_timeout", "torch", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 31, in setup
    dist.all_reduce(flag)
>>RuntimeError: EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time. Please check the reason for the rank being stuck'''),
    # ------------------------------------------------------------------ Kubernetes
    Fault("k8s_oomkilled", "torch", "user_script", None, False, '''>>State: Terminated  Reason: OOMKilled  Exit Code: 137
Warning  BackOff  3s (x4 over 40s)  kubelet  Back-off restarting failed container trainer in pod trainer-worker-3''', launcher="k8s"),
    Fault("k8s_node_notready", "torch", "infrastructure", "node", True, '''>>Warning  NodeNotReady  12s  node-controller  Node is not ready
Normal   TaintManagerEviction  10s  taint-eviction-controller  Marking for deletion Pod ml/trainer-worker-3''', launcher="k8s"),
    Fault("k8s_ephemeral", "torch", "infrastructure", "storage", False, '''>>Warning  Evicted  8s  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 50Gi.
Normal   Killing  8s  kubelet  Stopping container trainer''', launcher="k8s"),
    Fault("k8s_admission", "startup", "infrastructure", "node", True, '''>>Warning  UnexpectedAdmissionError  2s  kubelet  Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected
''', launcher="k8s"),
    Fault("k8s_image", "startup", "user_script", None, False, '''>>Warning  Failed  21s (x3 over 70s)  kubelet  Failed to pull image "registry.local/ml/train:v12": rpc error: code = NotFound desc = failed to pull and unpack image: not found
Warning  Failed  9s (x4 over 69s)  kubelet  Error: ImagePullBackOff''', launcher="k8s"),
    Fault("k8s_nvidia_cli", "startup", "infrastructure", "node", True, '''>>Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy' nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown''', launcher="k8s"),
    # ------------------------------------------------------------------ Slurm
    Fault("slurm_prolog", "startup", "infrastructure", "node", True, '''>>srun: error: Task launch for StepId=88120.0 failed on node gpu17: Prolog failed
srun: error: Application launch failed: Prolog failed
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.''', launcher="none"),
    Fault("slurm_cgroup_oom", "torch", "user_script", None, False, '''>>slurmstepd-gpu17: error: Detected 2 oom_kill events in StepId=88120.0. Some of the step tasks have been OOM Killed.
srun: error: gpu17: tasks 0-3: Out Of Memory''', launcher="none"),
    Fault("slurm_socket", "torch", "infrastructure", "node", True, '''>>srun: error: slurm_receive_msgs: [[gpu21]:6818] failed: Socket timed out on send/recv operation
srun: error: Task launch for StepId=88120.0 failed on node gpu21: Socket timed out on send/recv operation''', launcher="none"),
    # ------------------------------------------------------------------ Lightning, DeepSpeed, Megatron
    Fault("pl_misconfig", "startup", "user_script", None, False, PY + '''  File "/home/u/main.py", line 40, in <module>
    trainer = pl.Trainer(**cfg.trainer)
  File "/opt/conda/lib/python3.10/site-packages/lightning/pytorch/trainer/connectors/accelerator_connector.py", line 377, in _check
    raise MisconfigurationException(
>>lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [0, 1, 2, 3]
 But your machine only has: [0]'''),
    Fault("ds_batch_triangle", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 91, in main
    engine, _, _, _ = deepspeed.initialize(model=model, config=cfg)
  File "/opt/conda/lib/python3.10/site-packages/deepspeed/runtime/config.py", line 980, in _batch_assertion
    assert train_batch == micro_batch * grad_acc * self.world_size, (
>>AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 8 * 2 * 8'''),
    Fault("ds_aio_write", "torch", "infrastructure", "storage", False, PY + '''  File "/home/u/train.py", line 140, in save
    engine.save_checkpoint(out)
  File "/opt/conda/lib/python3.10/site-packages/torch/serialization.py", line 640, in __exit__
    self.file_like.write_end_of_file()
>>RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 1856 vs 1750'''),
    Fault("megatron_heads", "startup", "user_script", None, False, PY + '''  File "/opt/megatron/megatron/training/arguments.py", line 610, in validate_args
    assert args.num_attention_heads % args.tensor_model_parallel_size == 0
>>AssertionError: number of attention heads (30) must be divisible by tensor model parallel size (8)'''),
    Fault("megatron_nan", "torch", "user_script", None, False, PY + '''  File "/opt/megatron/megatron/training/training.py", line 940, in train_step
    losses_reduced = forward_backward_func(**kwargs)
  File "/opt/megatron/megatron/core/rerun_state_machine.py", line 520, in validate_result
    raise RuntimeError(full_message)
>>RuntimeError: Rank 12, node gpu03, device 4, iteration 4121: Unexpected result nan (message='found NaN in local forward loss calculation')'''),
    Fault("megatron_ckpt_cut", "startup", "infrastructure", "storage", False, PY + '''  File "/opt/megatron/megatron/training/checkpointing.py", line 830, in _load_base_checkpoint
    state_dict = torch.load(checkpoint_name, map_location='cpu')
  File "/opt/conda/lib/python3.10/site-packages/torch/serialization.py", line 457, in __init__
    super().__init__(torch._C.PyTorchFileReader(name_or_buffer))
>>RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory'''),
    # ------------------------------------------------------------------ storage, network, node, driver
    Fault("quota", "torch", "infrastructure", "storage", False, PY + '''  File "/home/u/train.py", line 140, in save
    torch.save(state, tmp)
>>OSError: [Errno 122] Disk quota exceeded: '/home/u/out/ckpt_900.pt.tmp' '''.rstrip()),
    Fault("lustre_evicted", "torch", "infrastructure", "storage", True, PY + '''  File "/home/u/data.py", line 33, in __getitem__
    blob = f.read(n)
>>OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/data/shard_0031.bin' '''.rstrip()),
    Fault("rofs", "torch", "infrastructure", "storage", True, PY + '''  File "/home/u/log.py", line 12, in flush
    self.f = open(path, "a")
>>OSError: [Errno 30] Read-only file system: '/local/out/events.log' '''.rstrip()),
    Fault("s3_slowdown", "torch", "infrastructure", "storage", True, PY + '''  File "/home/u/data.py", line 51, in fetch
    obj = s3.get_object(Bucket=b, Key=k)
  File "/opt/conda/lib/python3.10/site-packages/botocore/client.py", line 1021, in _make_api_call
    raise error_class(parsed_response, operation_name)
>>botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the GetObject operation (reached max retries: 4): Please reduce your request rate.'''),
    Fault("dns", "startup", "infrastructure", "network", True, PY + '''  File "/home/u/train.py", line 22, in <module>
    dist.init_process_group("nccl")
  File "/opt/conda/lib/python3.10/site-packages/torch/distributed/rendezvous.py", line 258, in _env_rendezvous_handler
    store = _create_c10d_store(master_addr, master_port, rank, world_size, timeout)
>>torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (head-0.ml.svc, 29500). The IPv4 network addresses of (head-0.ml.svc, 29500) cannot be retrieved (gai error: -3 - Temporary failure in name resolution).'''),
    Fault("no_route", "torch", "infrastructure", "network", True, '''>>gpu03:4112:4590 [2] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.8.0.12<41231> failed : No route to host
''' + PY + '''  File "/home/u/train.py", line 70, in step
    dist.all_reduce(t)
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3'''),
    Fault("mlx_link_down", "torch", "infrastructure", "network", True, '''>>kernel: mlx5_core 0000:86:00.0 ib4: Link down
gpu03:4112:4590 [4] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_4:1 Got async event : port error'''),
    Fault("nvml_mismatch", "startup", "infrastructure", "node", True, '''>>Failed to initialize NVML: Driver/library version mismatch
NVML library version: 535.161
''' + PY + '''  File "/home/u/train.py", line 9, in <module>
    assert torch.cuda.is_available()
AssertionError'''),
    Fault("soft_lockup", "torch", "infrastructure", "node", True, '''>>kernel: watchdog: BUG: soft lockup - CPU#37 stuck for 26s! [python:20114]
kernel: Kernel panic - not syncing: softlockup: hung tasks'''),
    Fault("xid119", "torch", "infrastructure", "gpu", True, '''>>NVRM: Xid (PCI:0000:9b:00): 119, pid=20380, name=python, Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL).
''' + PY + '''  File "/home/u/train.py", line 190, in step
    loss.backward()
RuntimeError: CUDA error: unknown error'''),
    Fault("xid31_user", "torch", "framework", None, False, '''NVRM: Xid (PCI:0000:9b:00): 31, pid=20380, name=python, Ch 0000000b, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2c_91a00000.
''' + PY + '''  File "/home/u/train.py", line 190, in step
    loss.backward()
  File "/opt/conda/lib/python3.10/site-packages/torch/_tensor.py", line 525, in backward
    torch.autograd.backward(
>>RuntimeError: CUDA error: an illegal memory access was encountered'''),
    Fault("oom_neighbour", "startup", "infrastructure", "gpu", True, PY + '''  File "/home/u/train.py", line 44, in <module>
    model.cuda()
>>torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 2 has a total capacity of 79.15 GiB of which 21.31 MiB is free. Process 311820 has 77.02 GiB memory in use. Including non-PyTorch memory, this process has 2.09 GiB memory in use. Of the allocated memory 1.60 GiB is allocated by PyTorch.'''),
    Fault("port_taken", "startup", "framework", None, True, PY + '''  File "/home/u/train.py", line 22, in <module>
    dist.init_process_group("nccl")
>>torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).'''),
    Fault("segfault_ext", "torch", "framework", None, False, '''>>Fatal Python error: Segmentation fault

Thread 0x00007f1c7ffff700 (most recent call first):
  File "/opt/conda/lib/python3.10/threading.py", line 320 in wait
  File "/home/u/ops.py", line 12 in fused'''),
    Fault("bus_error_shm", "torch", "user_script", None, False, '''ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).
''' + PY + '''  File "/home/u/train.py", line 100, in main
    for batch in loader:
  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1133, in _try_get_data
    raise RuntimeError(f"DataLoader worker (pid(s) {pids_str}) exited unexpectedly") from e
>>RuntimeError: DataLoader worker (pid 4412) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.'''),
    Fault("hf_auth", "startup", "user_script", None, False, PY + '''  File "/home/u/train.py", line 15, in <module>
    model = AutoModelForCausalLM.from_pretrained(name)
  File "/opt/conda/lib/python3.10/site-packages/transformers/utils/hub.py", line 420, in cached_file
    raise EnvironmentError(
>>OSError: You are trying to access a gated repo.
Make sure to have access to it at https://huggingface.co/org/model.
401 Client Error. (Request ID: Root=1-65)'''),
    Fault("sagemaker_import", "startup", "framework", None, False, PY + '''  File "/home/u/train.py", line 3, in <module>
    from transformers import Trainer
  File "/opt/conda/lib/python3.10/site-packages/transformers/trainer.py", line 72, in <module>
    from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin
>>ImportError: cannot import name 'GradientAccumulationPlugin' from 'accelerate.utils' (/opt/conda/lib/python3.10/site-packages/accelerate/utils/__init__.py)'''),
)  # fmt: skip
