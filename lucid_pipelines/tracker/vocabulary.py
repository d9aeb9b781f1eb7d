"""Words of training logs, by what they mean. Words only: no framework's name, no whole line."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STEP = _words(
    "step steps iter iters iteration iterations itr itrs it its update updates up upd batch batches minibatch "
    "minibatches mb ba round rounds boosting timestep timesteps gstep globalstep tick 步 步数 迭代 迭代次数 批次 批"
)
EPOCH = _words("epoch epochs ep eps 轮 轮次 轮数 第轮 周期")
DONE = _words("done finished completed fertig terminé hecho feito готово 完了 已完成")
"""Names of a count of what is done, where nothing says of what."""
ITEMS = _words(
    "sample samples sen sens sents sentence sentences token tokens toks image images img imgs example examples word "
    "words frame frames seq seqs sequence sequences doc docs document documents episode episodes kimg env seen "
    "consumed instances records 样本"
)
COUNTER_FILLER = _words(
    "global current cur curr train training total completed num number n no at optimizer optim opt "
    "optimization optimisation now finished done the i count idx index id 第 当前 训练 全局 of "
    "progress agent trained so far learning learner "
)
TOTAL = _words("total max num n target maximum 总 总共 最大")
NOT_COUNTER = _words(
    "per every warmup eval val valid validation test save skipped skip nan inf accumulation accum accumulate size log "
    "logging interval freq frequency patience remaining left since until len length print decay gradient ckpt "
    "checkpoint worker workers rank world gpu gpus node nodes devices best early limit last hidden"
)

LOSS = _words(
    "loss losses nll xent crossentropy cost objective objf mse mae rmse logloss mlogloss ce bce elbo 损失 损失值 loss值"
)
ERROR = _words("err error errors")
"""Also what training tries to make small, but said of much else."""
LOSS_FILLER = _words(
    "train training tr total avg average mean step batch running current cur curr iter iteration smooth smoothed "
    "raw global reduced lm model all sum overall epoch minibatch mini g t 训练 总 平均 当前 interval ema moving "
    "per median"
)
LOSS_AVERAGED = _words("avg average mean running smooth smoothed epoch ema moving median 平均")
NOT_VALUE = _words(
    "type weight weights scale scaler scaling coef coefficient coeff fn func function name pkts packets smoothing mask "
    "ratio lambda alpha factor thresh threshold every interval freq frequency target patience best min lowest prev "
    "previous delta change limit max count counts std packet packets stop insertion"
)
METRIC = _words(
    "acc accuracy return returns episodic "
    "top ppl perplexity auc map bleu wer cer f1 precision recall reward rew score iou dice psnr ssim "
    "accuracies mfu rouge fid kl entropy 准确率 精度"
)
EVALUATION = _words(
    "eval evals evaluation evaluations evaluating evaluate evaluated evaluator evaluators validator tester val vali "
    "valid validation validating validate test testing tests dev "
    "holdout heldout infer inference predict predicting prediction predictions benchmark benchmarking "
    "验证 评估 测试 推理"
)
TRAINING = _words(
    "train training trainer trains fit fitting finetune finetuning finetuned pretrain pretraining optimize "
    "optimizing optimization optimizer learner learn sft 训练 微调 预训练"
)

TIME = _words(
    "time times timer timers timing timings duration dur dt latency took takes sec secs second seconds "
    "ms msec msecs millisecond milliseconds wall walltime elapsed eta remaining runtime uptime timestamp "
    "耗时 用时 时间 剩余 剩余时间 预计 预计剩余"
)
REMAINING = _words("eta remaining remain left rem 剩余 剩余时间 预计 预计剩余")
ELAPSED = _words(
    "elapsed wall walltime uptime passed since cumulative runtime timestamp total 已用 已用时间 总耗时 总用时"
)
PER_STEP = _words("per step iter iteration it batch update minibatch ba 每步")
PART = _words(
    "data load loading loader dataload dataloader dataloading reader read io fetch forward fwd fw backward bwd bw "
    "optim optimizer opt actor critic ref adv policy "
    "comm communication allreduce reduce h2d d2h gather scatter save saving ckpt checkpoint eval "
    "val valid validation test gen generation rollout sampling sample inference infer decode tokenize sync idle wait "
    "waiting stall preprocess preprocessing collate encode compile compilation init env bubble logging"
)
AVERAGED = _words("avg average mean running smooth smoothed ema overall cumulative moving")
RATE = _words("speed throughput ups wps tps ips fps tgs sps qps bps eps rate 速度 吞吐 吞吐量")
STEP_RATE_NAMES = _words("ups sps")
SECOND = _words("s sec secs second seconds 秒")
MEMORY = _words(
    "mem memory ma ca gb mib gib mb rss vram alloc allocated reserved mallocs cache cached peak active 显存 内存"
)
LEARNING_RATE = _words("lr lrs learningrate 学习率")
GRADIENT = _words("grad grads gradient gnorm gradnorm norm 梯度")
BATCH_SIZE = _words("bsz bs batchsize wpb mbs gbs")

TRANSFER = _words(
    "download downloading downloaded upload uploading fetch fetching pull pulling pulled pushing receiving unpacking "
    "extracting copying copy transferring transfer sync syncing unzip 下载 上传"
)
PREPARATION = _words(
    "tokenizing tokenising tokenize tokenization tokenizer map mapping filter filtering preprocess preprocessing "
    "processing processed loading loaded load reading scanning caching cache cached indexing building parsing "
    "collating packing grouping generating flattening converting casting saving save writing creating resolving "
    "hashing shuffling computing extracting encoding warming calibrating calibration quantizing capturing shards shard "
    "dataset datasets split num_proc embedding embeddings collecting preparing prefetch prefetching initializing "
    "importing installing decoding featurizing chunking deduplicating dedup crawling exporting merging sharding "
    "materializing concatenating sorting counting 加载 分词 预处理 处理 读取 缓存"
)
BUILD = _words("compiling compile compilation nvcc gcc linking ninja cmake make cxx cc building autotune autotuning")
MONITOR = _words(
    "gpu util utilization temp temperature power clk clock fan heartbeat alive uptime cpu rss shm fds monitor profiler "
    "queue disk net iowait ping watchdog spilled gc keepalive latency requests request reqs req http api client "
    "server serving cache hit nccl"
)
SERVICE = _words("requests request reqs req get post http prompt kv pending swapped endpoint uvicorn query queries")
SEARCH = _words(
    "trial trials cv sweep candidate candidates combination combinations config configs configuration configurations "
    "experiment experiments hyperparameters gridsearch backtest layer layers attempt attempts retry retries"
)
"""What is counted where each result is another thing's: settings tried out, layers quantised, attempts made."""
ELSEWHERE = _words(
    "packet packets pkt pkts rx tx rtt jitter drawdown backtest residual residuals dbm insertion claims premium "
    "request requests quantizing quantize quantized calibrating calibration warning deprecated"
)
"""Beside these, what is lost or minimised is no model's."""
SAMPLING = _words(
    "sampling generating generation generate decoding denoising rollout rollouts simulating playing rendering 采样 生成"
)

FOREIGN: dict[str, str] = {
    word: meant
    for meant, foreign in {
        "step": "schritt schritte schritten étape étapes etape paso pasos passo passos passi шаг шага шаге шагов шаги "
        "ステップ 단계 스텝 krok kroku kroków kroky stap stappen steg stegen adım adımı bước langkah",
        "iteration": "itération itérations iteración iteraciones iteracion iteração iterações iterazione iterazioni "
        "итерация итерации итераций 反復 반복",
        "epoch": "epoka epoki epokę epok epocas dönem "
        "epoche epochen époque époques epoque época épocas epoca эпоха эпохи эпоху эпох エポック 에폭 에포크",
        "batch": "пакет батч バッチ ミニバッチ 배치",
        "training loss": "trainingsverlust trainingsfehler",
        "validation loss": "validierungsverlust validierungsfehler",
        "loss": "verlust verluste perte pertes pérdida pérdidas perdida perdita perdite perda perdas потери потеря "
        "потерь лосс 損失 ロス 손실 strata straty ztráta ztráty verlies förlust kayıp mát",
        "accuracy": "genauigkeit précision precisión exactitude acurácia accuratezza точность 精度 正解率 정확도",
        "time": "czas čas tijd süre süresi waktu zeit dauer temps durée tiempo tempo durata время времени 時間 시간",
        "seconds": "sekunde sekunden segundo segundos secondes secondi сек секунда секунды секунд с 초",
        "remaining": "restzeit verbleibend verbleibende restant restante restantes restanti осталось 残り 남은",
        "elapsed": "verstrichen écoulé transcurrido decorrido trascorso прошло 経過 경과",
        "per": "pro par por на あたり 당",
        "training": "entraînement entrenamiento treino treinamento addestramento обучение обучения 学習 訓練 학습 훈련",
        "validation": "validierung validación validação validazione валидация проверка 検証 검증",
        "speed": "geschwindigkeit durchsatz vitesse débit velocidad velocidade velocità скорость 速度 속도",
        "lr": "lernrate 学習率 학습률",
    }.items()
    for word in foreign.split()
}
"""Words of other languages, by the word of this vocabulary that they stand for."""
UNSPACED = sorted(
    {
        w
        for words in (STEP, EPOCH, LOSS, METRIC, EVALUATION, TRAINING, TIME, REMAINING, ELAPSED, PER_STEP, RATE)
        for w in words
        if w[0] > "\u2fff"
    }
    | {"学习率", "显存", "内存", "梯度", "平均", "当前", "总", "样本", "秒", "每步", "每"}
    | {w for w in FOREIGN if w[0] > "\u2fff"},
    key=len,
    reverse=True,
)
"""Words of scripts that put no blanks between words."""
