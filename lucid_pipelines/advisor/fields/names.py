"""Names under which training programs keep the same setting, the clearest first."""

from __future__ import annotations

import re

LEARNING_RATE = (
    "learning_rate", "lr", "base_lr", "lr0", "base_learning_rate", "blr", "peak_lr", "max_lr", "init_lr",
    "initial_lr", "initial_learning_rate", "lr_init", "init_learning_rate", "peak_learning_rate", "opt_lr",
    "adam_lr", "optimizer_lr", "main_lr", "lr_max", "muon_lr", "l_rate", "learningrate", "adamw_lr",
    "lr_peak", "sgd_lr", "lr_base", "starting_lr", "policy_lr", "lrate",
)  # fmt: skip
LEARNING_RATE_AVOID = re.compile(
    r"(disc|critic|_d$|lr_d|teacher|min_|warmup|finetune_|emb_|text_|decay|sched|end_|final|actor_alpha)"
)

EPOCHS = (
    "num_train_epochs", "max_epochs", "epochs", "num_epochs", "n_epochs", "max_epoch", "total_epochs",
    "train_epochs", "nepochs", "n_epoch", "num_epoch", "nb_epochs", "nb_epoch", "training_epochs",
    "number_of_epochs", "epochs_num", "total_epoch", "max_num_epochs", "num_training_epochs", "epoch_num",
    "nepoch", "epoch_count", "train_epoch", "max_train_epochs", "epochs_total", "maxepoch", "epoch",
)  # fmt: skip
STEPS = (
    "max_steps", "max_train_steps", "train_iters", "max_iters", "max_iter", "total_steps", "train_steps",
    "num_train_steps", "num_training_steps", "training_steps", "num_steps", "max_update", "max_updates",
    "num_iterations", "iterations", "num_iters", "n_iters", "total_iters", "total_iterations", "max_step",
    "n_iter", "niter", "num_updates", "total_train_steps", "train_num_steps", "total_iter", "max_iterations",
    "train_iterations", "n_steps", "num_iter", "num_train_iters", "training_iterations", "total_training_steps",
        "steps",
    "nsteps", "n_updates", "num_step", "max_training_steps", "num_training_iterations", "steps_total",
)  # fmt: skip
ENVIRONMENT_STEPS = (
    "total_timesteps", "n_timesteps", "num_timesteps", "total_env_steps", "num_env_steps", "env_steps",
    "max_timesteps", "num_train_frames", "total_train_frames", "train_frames", "total_frames", "num_frames",
    "max_frames",
    "timesteps_total", "max_env_steps", "total_steps_env", "total_environment_steps", "environment_steps",
)  # fmt: skip
TOKENS = (
    "max_tokens",
    "train_tokens",
    "total_tokens",
    "token_budget",
    "num_tokens",
    "max_train_tokens",
    "tokens",
    "training_tokens",
)
SAMPLES = (
    "train_samples",
    "total_samples",
    "num_train_samples",
    "max_samples_seen",
    "samples_seen",
    "total_images",
    "num_images",
)
KIMG = ("kimg", "total_kimg", "duration_kimg")
DURATIONS = ("max_duration", "duration", "max_train_duration", "stop_after", "training_duration")

GLOBAL_BATCH = (
    "global_batch_size", "global_train_batch_size", "total_batch_size", "ims_per_batch", "effective_batch_size",
    "batch_size_total", "total_train_batch_size", "train_global_batch_size", "global_batch", "target_batch_size",
    "desired_batch_size", "nominal_batch_size", "total_batchsize", "train_batch_size_total",
)  # fmt: skip
DEVICE_BATCH = (
    "per_device_train_batch_size", "batch_size_per_gpu", "micro_batch_size", "per_gpu_train_batch_size",
    "samples_per_gpu", "batch_size_per_device", "train_micro_batch_size_per_gpu", "device_train_microbatch_size",
    "device_batch_size", "local_batch_size", "per_gpu_batch_size", "batch_per_gpu", "per_device_batch_size",
    "device_train_batch_size", "micro_train_batch_size", "batch_size_per_card", "batch_size_per_rank", "batch_gpu",
    "microbatch_size", "train_batch_size_per_gpu", "train_batch_size_per_device", "images_per_gpu", "imgs_per_gpu",
    "per_gpu_batchsize", "batch_size_per_replica", "per_device_batch", "train_micro_batch_size",
        "batch_size_per_node_gpu",
)  # fmt: skip
PLAIN_BATCH = (
    "train_batch_size", "batch_size", "batch_size_train", "training_batch_size", "batchsize", "batch", "bs",
    "train_bs", "train_batch", "mini_batch_size", "minibatch_size", "mini_batch", "minibatch", "n_batch", "bsz",
    "batch_sz", "train_batchsize", "mb_size", "num_batch_size", "batch_size_source", "b_size", "nbatch",
)  # fmt: skip
ACCUMULATION = (
    "gradient_accumulation_steps", "accumulate_grad_batches", "grad_accumulation_steps", "accum_iter",
    "update_freq", "grad_accum_steps", "gradient_accumulation", "grad_accum", "grad_acc", "accumulation_steps",
    "grad_accumulation", "accum_steps", "accum_grad", "accum_count", "accum_freq", "gradient_accumulate_every",
    "gradient_accumulation_iters", "iters_to_accumulate", "grad_acc_steps", "grad_accumulate", "batch_accumulation",
    "accumulation", "gradient_accumulate_steps", "accumulate_step", "num_accumulation_steps", "accum", "accumulate",
    "accum_step", "grad_accumulation_factor", "accumulation_iter", "acc_steps", "cumulative_iters",
)  # fmt: skip
SEQUENCE_LENGTH = (
    "seq_len", "block_size", "seq_length", "max_seq_length", "max_seq_len", "sequence_length", "context_length",
    "max_context_length", "cutoff_len", "max_sequence_length", "model_max_length", "n_ctx",
    "sequence_len", "max_length", "context_size",
    "l_max", "ctx_len", "tokens_per_sample", "train_seq_len", "max_target_length",
    "max_position_embeddings", "seqlen", "bptt", "ctx",
)  # fmt: skip
MODEL_WIDTH = ("d_model", "n_embd", "hidden_size", "embed_dim", "n_embed", "emb_dim", "model_dim",
    "encoder_embed_dim", "hidden_dim", "embedding_dim", "dim", "emsize", "n_embedding", "width",
    "embedding_size")  # fmt: skip
MODEL_LAYERS = ("n_layers", "n_layer", "num_layers", "num_hidden_layers", "depth", "encoder_layers", "nlayers",
    "layers", "num_layer", "num_encoder_layers", "n_blocks", "num_blocks")  # fmt: skip
WORKERS = ("num_workers", "dataloader_num_workers", "workers", "n_workers", "data_loader_num_workers",
    "num_data_workers", "nworkers", "loader_workers", "worker", "preprocessing_num_workers")  # fmt: skip
OPTIMIZER = ("optim", "optimizer", "opt", "optimizer_name", "optimizer_type", "optim_type", "opt_name",
    "optimizer_class", "opt_type", "optim_name", "learner")  # fmt: skip
GPU_COUNTS = (
    "gpus_per_node", "ngpus_per_node", "nproc_per_node", "num_gpus_per_node", "n_gpus_per_node", "num_gpus", "gpus",
    "devices", "n_gpus", "ngpus", "n_gpu", "num_gpu", "ngpu", "gpu_num", "num_devices", "gpu_count", "tasks_per_node",
    "n_devices", "gpu_ranks", "gpu_ids", "gpu", "devices_per_node", "gpu_id", "device_ids", "cuda_devices",
)  # fmt: skip
NODE_COUNTS = (
    "num_nodes",
    "nnodes",
    "nodes",
    "num_machines",
    "n_nodes",
    "node_count",
    "num_hosts",
    "total_num_nodes",
    "nnode",
)
WORLD_SIZES = ("distributed_world_size", "world_size", "num_processes", "ngpus_total", "total_gpus", "num_gpus_total",
    "n_procs", "num_proc_total")  # fmt: skip
MODEL = (
    "model_name_or_path", "base_model", "model_card", "pretrained_model_name_or_path", "pretrained_model",
        "model_name", "arch",
    "model", "backbone", "net", "network", "architecture", "model_type", "base_model_name_or_path", "model_id",
    "model_arch", "net_type", "model_path", "network_name", "model_config", "net_name", "netg", "pretrained",
    "base_model_path", "encoder", "checkpoint_path", "init_from", "model_size", "name", "algo", "alg", "algorithm",
)  # fmt: skip
DATASET = (
    "dataset_name", "dataset", "data_set", "dataset_path", "datasets", "train_dataset", "task_name", "data_name",
    "mixture_or_task_name", "dataset_id", "train_file", "train_data", "data_path", "data_dir", "data", "data_root",
    "train_data_path", "train_path", "training_files", "dataset_dir", "corpus", "train_data_dir", "root", "benchmark",
    "env_id", "env", "env_name", "environment", "gym_id", "game", "game_name",
    "data_folder", "datadir", "dataroot", "dataset_type",
    "train", "train_files", "data_files", "data_prefix", "train_filelist", "input_file", "training_data", "train_ann",
    "dataset_root", "root_dir", "data_local", "remote", "imagenet_path", "train_set", "train_dataset_name",
        "corpus_path",
)  # fmt: skip
