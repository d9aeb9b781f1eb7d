# ruff: noqa: E501 - log lines are as long as the libraries print them
"""A fifth batch, scored before anything was mended for it: more stacks, services, licences, data formats."""

from __future__ import annotations

from collections.abc import Callable

from tests.support_failures.model import Fault
from tests.support_failures.reading import UNCAUGHT, ended, progress

PY = "Traceback (most recent call last):\n"
MAIN = PY + '  File "/home/u/train.py", line 88, in main\n'

FAULTS: tuple[Fault, ...] = (
    Fault("jax_contract_dims", "jax", "user_script", None, False, MAIN + '''    logits = jnp.einsum("bsd,dv->bsv", x, head)
  File "/opt/conda/lib/python3.11/site-packages/jax/_src/lax/lax.py", line 2411, in _dot_general_shape_rule
    raise TypeError(msg)
>>TypeError: dot_general requires contracting dimensions to have equal shapes, got (4096,) and (5120,).''', launcher="none"),
    Fault("jax_donated", "jax", "user_script", None, False, MAIN + '''    loss = step(state, batch)
>>RuntimeError: Array has been deleted with shape=float32[4096,4096].''', launcher="none"),
    Fault("jax_plugin_abi", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.11/site-packages/jax/_src/xla_bridge.py", line 647, in _init_backend
    backend = registration.factory()
>>RuntimeError: PJRT C API plugin version 0.48 is not compatible with framework PJRT C API version 0.66: please upgrade jax-cuda12-pjrt''', echo="none", launcher="none"),
    Fault("tpu_chip_hbm", "jax", "infrastructure", "gpu", True, MAIN + '''    state, metrics = train_step(state, batch)
>>jax.errors.JaxRuntimeError: UNAVAILABLE: TPU worker 5 chip 2: uncorrectable HBM memory error (bank 7); the device has been marked unhealthy.''', launcher="none"),
    Fault("tf_var_shape", "tf", "user_script", None, False, MAIN + '''    ckpt.restore(path)
>>ValueError: Tensor's shape (768, 30522) is not compatible with supplied shape (768, 32000).''', launcher="none"),
    Fault("tf_cublas_lt", "tf", "framework", None, False, '''2024-05-02 11:00:00.000000: E tensorflow/compiler/xla/stream_executor/cuda/cuda_dnn.cc:429] Loaded cuDNN version 8600 is older than the 8907 that this binary was built for
2024-05-02 11:00:00.000001: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed at conv_ops_impl.h:771
''' + MAIN + '''    model.fit(ds)
>>tensorflow.python.framework.errors_impl.FailedPreconditionError: DNN library initialization failed. Look at the errors above for more details. [Op:Conv2D]''', launcher="none"),
    Fault("tf_bad_protobuf", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/tensorflow/core/framework/attr_value_pb2.py", line 5, in <module>
    from google.protobuf.internal import builder as _builder
>>TypeError: Descriptors cannot be created directly.
If this call came from a _pb2.py file, your generated code is out of date and must be regenerated with protoc >= 3.19.0.''', echo="none", launcher="none"),
    Fault("paddle_width", "paddle", "user_script", None, False, MAIN + '''    out = model(x)
>>ValueError: (InvalidArgument) Input(Y) has error dim. Y'dims[0] must be equal to 1024, but received Y'dims[0] is 768
  [Hint: Expected y_dims[0] == K, but received y_dims[0]:768 != K:1024.] (at ../paddle/phi/kernels/impl/matmul_kernel_impl.h:310)''', launcher="none"),
    Fault("paddle_not_compiled", "startup", "framework", None, False, MAIN + '''    paddle.set_device("gpu")
>>ValueError: The device should not be 'gpu', since PaddlePaddle is not compiled with CUDA''', echo="none", launcher="none"),
    Fault("mxnet_check", "startup", "user_script", None, False, MAIN + '''    trainer.step(batch_size)
>>mxnet.base.MXNetError: MXNetError: Check failed: dshape.Size() / lshape[0] == kshape.Size() (98 vs. 128) : Shape of label does not fit that of data''', echo="none", launcher="none"),
    Fault("ray_tune_all_failed", "ray", "user_script", None, False, '''2024-05-02 11:00:00,000\tERROR tune_controller.py:1374 -- Trial task failed for trial train_fn_9a31_00003
''' + PY + '''  File "/home/u/tune.py", line 40, in train_fn
    opt = OPTIMIZERS[config["optim"]]
>>KeyError: 'adamw8'
ray.tune.error.TuneError: ('Trials did not complete', [train_fn_9a31_00003])''', echo="none", launcher="none"),
    Fault("ray_raylet_gone", "ray", "infrastructure", "node", True, MAIN + '''    ray.get(refs)
>>ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information. The host 10.0.4.17 stopped answering: no route to host.''', echo="none", launcher="none"),
    Fault("mpi_version_mix", "startup", "framework", None, False, '''>>[gpu07:41211] mca_base_component_repository_open: unable to open mca_pml_ucx: libucp.so.0: cannot open shared object file: No such file or directory (ignored)
--------------------------------------------------------------------------
It looks like MPI_INIT failed for some reason; your parallel process is
likely to abort.  PML add procs failed
--------------------------------------------------------------------------
*** An error occurred in MPI_Init_thread
*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort, and potentially your MPI job)''', echo="none", launcher="mpirun"),
    Fault("mpi_truncate", "mpi", "user_script", None, False, '''[1,3]<stderr>:[gpu02:2210] *** An error occurred in MPI_Recv
[1,3]<stderr>:[gpu02:2210] *** reported by process [2067529729,3]
>>[1,3]<stderr>:[gpu02:2210] *** MPI_ERR_TRUNCATE: message truncated
[1,3]<stderr>:[gpu02:2210] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort)''', echo="none", launcher="mpirun"),
    Fault("ib_port_down_ucx", "mpi", "infrastructure", "network", True, '''>>[1714647600.123456] [gpu07:41211:0]  ib_device.c:1052 UCX  ERROR mlx5_2: port 1 went to state DOWN (async event IBV_EVENT_PORT_ERR)
[gpu07:41211] pml_ucx.c:419  Error: ucp_ep_create(proc=5) failed: Destination is unreachable''', echo="none", launcher="mpirun"),
    Fault("rocm_kernel_arch", "torch", "framework", None, False, MAIN + '''    out = self.norm(x)
>>RuntimeError: HIP error: invalid device function
HIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.'''),
    Fault("rocm_ras_gfx", "torch", "infrastructure", "gpu", True, '''>>kernel: amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 1 2 uncorrectable hardware errors detected in gfx block
''' + MAIN + '''    loss.backward()
RuntimeError: HIP error: unspecified launch failure'''),
    Fault("npu_op_shape", "torch", "user_script", None, False, MAIN + '''    out = torch_npu.npu_fusion_attention(q, k, v, head_num=32)
>>RuntimeError: The head_num 32 does not divide the hidden size of query 5000, please check input shape.'''),
    Fault("npu_uce", "torch", "infrastructure", "gpu", True, '''>>[ERROR] RUNTIME(2210,python):2024-05-02-11:00:00.123.456 [device_error_proc.cc:1123] device(3) HBM UCE error occurred, the device memory has an uncorrectable multi-bit fault, please isolate the card
''' + MAIN + '''    loss.backward()
RuntimeError: synchronize failed, stream is abnormal'''),
    Fault("k8s_configmap", "startup", "user_script", None, False, '''Events:
  Type     Reason       Age   From     Message
>>  Warning  FailedMount  12s   kubelet  MountVolume.SetUp failed for volume "train-config" : configmap "llama-cfg-v7" not found''', echo="none", launcher="none"),
    Fault("k8s_crd_typo", "startup", "user_script", None, False, '''>>Error from server (BadRequest): error when creating "job.yaml": PyTorchJob in version "v1" cannot be handled as a PyTorchJob: strict decoding error: unknown field "spec.pytorchReplicaSpec"''', echo="none", launcher="none"),
    Fault("k8s_node_lost", "torch", "infrastructure", "node", True, '''>>Warning  TaintManagerEviction  2s  taint-eviction-controller  Marking for deletion Pod ml/trainer-worker-3: node gpu-17 has taint node.kubernetes.io/unreachable:NoExecute
Warning  NodeNotReady  1s  node-controller  Node is not ready'''),
    Fault("slurm_comm_fail", "torch", "infrastructure", "node", True, '''>>srun: error: slurm_receive_msgs: [[gpu17]:6818] failed: Zero Bytes were transmitted or received
srun: error: Task launch for StepId=88120.0 failed on node gpu17: Zero Bytes were transmitted or received
srun: error: Application launch failed: Zero Bytes were transmitted or received''', echo="none", launcher="none"),
    Fault("slurm_bad_constraint", "startup", "user_script", None, False, '''>>sbatch: error: Batch job submission failed: Requested node configuration is not available''', echo="none", launcher="none"),
    Fault("nfs_not_responding", "torch", "infrastructure", "storage", True, '''>>kernel: nfs: server nas02 not responding, timed out
''' + MAIN + '''    torch.save(state, path)
OSError: [Errno 5] Input/output error: '/nfs/runs/ckpt_900.pt' '''),
    Fault("beegfs_comm", "torch", "infrastructure", "storage", True, MAIN + '''    shard = np.load(path, mmap_mode="r")
>>OSError: [Errno 70] Communication error on send: '/beegfs/data/shard_00172.npy' '''),
    Fault("zarr_full", "torch", "infrastructure", "storage", False, MAIN + '''    store.write(key, value)
>>RuntimeError: tensorstore: RESOURCE_EXHAUSTED: Error writing "/scratch/ckpt/900/params/0.0": Failed to write: No space left on device [OS error 28: ENOSPC]'''),
    Fault("inode_full", "torch", "infrastructure", "storage", False, '''df: /scratch  inodes 524288000  used 524288000  IUse% 100%
''' + MAIN + '''    os.makedirs(cache)
>>OSError: [Errno 28] No space left on device: '/scratch/u/cache/9f' '''),
    Fault("gcs_missing_object", "startup", "user_script", None, False, MAIN + '''    blob.download_to_filename(dst)
>>google.api_core.exceptions.NotFound: 404 GET https://storage.googleapis.com/download/storage/v1/b/lm-data/o/train%2Findex.json?alt=media: No such object: lm-data/train/index.json''', echo="none", launcher="none"),
    Fault("azure_blob_503", "torch", "infrastructure", "storage", True, MAIN + '''    client.upload_blob(data)
>>azure.core.exceptions.HttpResponseError: The server is busy. RequestId:2f0a, ErrorCode:ServerBusy, status 503 (retries exhausted after 6 attempts)'''),
    Fault("tokenizer_spm", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/transformers/tokenization_utils_fast.py", line 120, in __init__
    raise ValueError(
>>ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a tokenizers library serialization file, (2) a slow tokenizer instance to convert or (3) an equivalent slow tokenizer class. You need to have sentencepiece or tiktoken installed to convert a slow tokenizer to a fast one.''', echo="none", launcher="none"),
    Fault("tokenizer_pad", "startup", "user_script", None, False, MAIN + '''    batch = tok(texts, padding=True)
>>ValueError: Asking to pad but the tokenizer does not have a padding token. Please select a token to use as `pad_token` `(tokenizer.pad_token = tokenizer.eos_token e.g.)`''', echo="none", launcher="none"),
    Fault("loader_exit", "torch", "user_script", None, False, MAIN + '''    for batch in loader:
>>RuntimeError: DataLoader worker (pid(s) 4413, 4414) exited unexpectedly''', components=()),
    Fault("pydantic_config", "startup", "user_script", None, False, MAIN + '''    cfg = TrainConfig(**raw)
>>pydantic_core._pydantic_core.ValidationError: 1 validation error for TrainConfig
batch_size
  Input should be greater than 0 [type=greater_than, input_value=-1, input_type=int]''', echo="none", launcher="none"),
    Fault("yaml_scan", "startup", "user_script", None, False, MAIN + '''    cfg = yaml.safe_load(f)
>>yaml.scanner.ScannerError: mapping values are not allowed here
  in "conf/train.yaml", line 14, column 13''', echo="none", launcher="none"),
    Fault("own_assert", "torch", "user_script", None, False, MAIN + '''    check_batch(batch)
  File "/home/u/checks.py", line 12, in check_batch
    assert batch["labels"].max() < cfg.vocab_size, "labels outside vocabulary"
>>AssertionError: labels outside vocabulary'''),
    Fault("abi_torchvision", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/torchvision/_meta_registrations.py", line 163, in <module>
    @torch.library.register_fake("torchvision::nms")
>>RuntimeError: operator torchvision::nms does not exist''', echo="none", launcher="none"),
    Fault("abi_dtype_size", "startup", "framework", None, False, PY + '''  File "/home/u/data.py", line 3, in <module>
    import pycocotools.mask as mask
  File "pycocotools/_mask.pyx", line 1, in init pycocotools._mask
>>ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject''', echo="none", launcher="none"),
    Fault("pip_conflict", "startup", "framework", None, False, PY + '''  File "/opt/conda/lib/python3.10/site-packages/transformers/utils/versions.py", line 44, in _compare_versions
    raise ImportError(
>>ImportError: tokenizers>=0.14,<0.19 is required for a normal functioning of this module, but found tokenizers==0.20.3.''', echo="none", launcher="none"),
    Fault("nan_guard", "torch", "user_script", None, False, '''>>2024-05-02 11:00:00 ERROR trainer: loss is NaN for 20 consecutive steps, aborting run''', echo="none"),
    Fault("bad_label_cpu", "torch", "user_script", None, False, MAIN + '''    loss = F.cross_entropy(logits, target)
>>IndexError: Target 1000 is out of bounds.'''),
    Fault("gather_assert", "torch", "user_script", None, False, '''>>/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:367: operator(): block: [3,0,0], thread: [96,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.
''' + MAIN + '''    loss.backward()
RuntimeError: CUDA error: device-side assert triggered'''),
    Fault("flexlm_down", "startup", "infrastructure", "network", False, '''>>License checkout failed: Cannot connect to license server system. The license server manager (lmgrd) has not been started yet, the wrong port@host is being used, or the port is unavailable. FlexNet Licensing error:-15,570
Exiting.''', echo="none", launcher="none", components=("node",)),
    Fault("license_seats", "startup", "user_script", None, False, '''>>matlab: License Manager Error -4: Maximum number of users for Distrib_Computing_Toolbox reached. Try again later.''', echo="none", launcher="none"),
    Fault("gpu_lost_smi", "torch", "infrastructure", "gpu", True, '''>>Unable to determine the device handle for GPU0000:4E:00.0: GPU is lost.  Reboot the system to recover this GPU
''' + MAIN + '''    x = x.cuda()
RuntimeError: CUDA error: unknown error'''),
    Fault("nvlink_replay_fatal", "torch", "infrastructure", "nvlink", True, '''>>kernel: NVRM: Xid (PCI:0000:4e:00): 74, pid=4413, NVLink: fatal error detected on link 5(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)
''' + MAIN + '''    dist.all_reduce(grad)
RuntimeError: CUDA error: an illegal memory access was encountered'''),
    Fault("gpu_ecc_row_pending", "torch", "infrastructure", "gpu", True, MAIN + '''    out = self.mlp(x)
>>torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered
Search for `cudaErrorECCUncorrectable' in https://docs.nvidia.com for more information.'''),
    Fault("cpp_invalid_argument", "startup", "user_script", None, False, '''terminate called after throwing an instance of 'std::invalid_argument'
>>  what():  batch_size must be a positive multiple of micro_batch
./train.sh: line 9:  4413 Aborted                 (core dumped) ./trainer --config conf.json''', echo="none", launcher="none"),
    Fault("julia_dims", "startup", "user_script", None, False, '''>>ERROR: LoadError: DimensionMismatch: A has dimensions (64,128) but B has dimensions (256,10)
Stacktrace:
 [1] gemm_wrapper!(C::Matrix{Float32}, tA::Char) @ LinearAlgebra matmul.jl:604
in expression starting at /home/u/train.jl:88''', echo="none", launcher="none"),
    Fault("bitwarden_oom_java", "startup", "user_script", None, False, '''>>Exception in thread "main" java.lang.OutOfMemoryError: Java heap space
\tat org.deeplearning4j.nn.multilayer.MultiLayerNetwork.fit(MultiLayerNetwork.java:1732)''', echo="none", launcher="none"),
    Fault("db_locked", "startup", "infrastructure", "storage", True, MAIN + '''    study.optimize(objective)
>>sqlite3.OperationalError: disk I/O error''', echo="none", launcher="none"),
    Fault("tracking_server_down", "torch", "infrastructure", "network", True, MAIN + '''    mlflow.log_metric("loss", loss)
>>mlflow.exceptions.MlflowException: API request to http://mlflow.svc:5000/api/2.0/mlflow/runs/log-metric failed with exception HTTPConnectionPool(host='mlflow.svc', port=5000): Max retries exceeded with url: /api/2.0/mlflow/runs/log-metric (Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))'''),
    Fault("dns_rendezvous", "startup", "infrastructure", "network", True, '''>>[E socket.cpp:860] [c10d] The client socket has failed to connect to any network address of (trainer-master-0.trainer, 29500): gai error: -3 - Temporary failure in name resolution
''', echo="none"),
    Fault("power_psu", "torch", "infrastructure", "node", True, '''>>kernel: ipmi_si: Critical: Power Supply 2 failure detected, system is shutting down (host gpu17)
Connection to gpu17 closed by remote host.''', echo="stall"),
)  # fmt: skip


def _finished(*noise: str) -> bytes:
    return ended("Training complete: 200 steps, final loss 0.0249", *noise)


ENDINGS: dict[str, Callable[[], bytes]] = {
    "teardown_queue_feeder": lambda: _finished(
        "Exception in thread QueueFeederThread:",
        PY + '  File "/opt/conda/lib/python3.10/multiprocessing/queues.py", line 244, in _feed\n    obj = buffer.popleft()',
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "[rank0]:[W ProcessGroupNCCL.cpp:1496] Warning: process group has NOT been destroyed before it is being destructed.",
    ),
    "teardown_store_gone": lambda: _finished(
        "[W TCPStore.cpp:131] [c10d] recvValue failed on SocketImpl(fd=77): Failed to recv, got 0 bytes. Connection was likely closed.",
        "[E ProcessGroupNCCL.cpp:1537] [PG ID 0 Rank 3] Failed to check the \"should dump\" flag on TCPStore, (maybe TCPStore server has shut down too early)",
    ),
    "k8s_preempted": lambda: ended(
        "Normal   Preempted  1s  default-scheduler  Preempted by pod 9d1f-22aa on node gpu-17",
        "Received signal 15, shutting down", "command terminated with exit code 143",
    ),
    "spot_notice": lambda: ended(
        "WARNING: instance will be preempted in 30 seconds (metadata: preempted=TRUE)",
        "saving emergency checkpoint to /ckpt/step_200", "Terminated",
    ),
    "lsf_runlimit": lambda: ended(
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "Exited with exit code 140.",
    ),
    "pbs_walltime": lambda: ended("=>> PBS: job killed: walltime 3617 exceeded limit 3600", "Terminated"),
    "quoted_in_dataset": lambda: _finished(
        'sample 17: "my card says CUDA error: uncorrectable ECC error encountered, what do I do?"',
        'sample 18: "kernel: NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus"',
        "wrote 2 samples to samples.txt",
    ),
    "graded_programs": lambda: (progress(0, 200) + "".join(
        f"[eval] problem {i}: candidate raised\n{UNCAUGHT.format('cand')}IndexError: list index out of range\n[eval] problem {i}: failed (0/1)\n"
        for i in range(5)) + "[eval] pass@1 0.412 on 5 problems\nEvaluation finished, results in eval.json\n").encode(),
    "keyboard_graceful": lambda: ended(
        "", "Detected KeyboardInterrupt, attempting graceful shutdown ...", "Exiting at the user's request",
    ),
    "megatron_exit_interval": lambda: ended(
        "exiting program after 230.1 minutes", "saving checkpoint at iteration 200 to /ckpt in torch_dist format",
        "successfully saved checkpoint from iteration 200 to /ckpt",
    ),
    "scancelled_by_user": lambda: ended(
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "slurmstepd: error: *** STEP 88120.0 ON gpu17 CANCELLED AT 2024-05-02T11:00:00 ***",
        "RuntimeError: NCCL communicator was aborted on rank 3.",
    ),
    "retried_store": lambda: (progress(0, 100) +
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate.\n"
        "upload failed, attempt 1/5, waiting 2.0 s\nupload ok on attempt 2\n" + progress(100, 100) + "done.\n").encode(),
    "ray_job_stopped": lambda: ended(
        "2024-05-02 11:00:00,000\tINFO job_manager.py:501 -- Job 'raysubmit_9aX' was stopped by the user",
        "*** SIGTERM received at time=1714647600 on cpu 12 ***",
    ),
    "hpo_pruned": lambda: ended("[I 2024-05-02 11:00:00,000] Trial 17 pruned. Trial was pruned at step 200.",
        "optuna.exceptions.TrialPruned: Trial was pruned at step 200."),
    "exit_zero_after_dump": lambda: _finished("dumping 12 timers", UNCAUGHT.format("train") + "SystemExit: 0"),
    "drained_for_maintenance": lambda: ended(
        "slurmstepd: error: *** JOB 88120 ON gpu17 CANCELLED AT 2024-05-02T11:00:00 DUE TO JOB REQUEUE ***",
        "requeued for maintenance window mw-17"),
}  # fmt: skip
