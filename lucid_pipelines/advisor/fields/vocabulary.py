"""Public models and datasets under their usual names, for recognising them in names and paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models: how it is written, what it is, and the task it is mostly trained for."""

    name: str
    pattern: re.Pattern[str]
    kind: str
    task: str | None


def _family(name: str, pattern: str, kind: str, task: str | None) -> Family:
    return Family(name, re.compile(rf"(?<![a-z])(?:{pattern})(?![a-z])", re.IGNORECASE), kind, task)


_LM = "language modelling"
_CLS = "image classification"
_DET = "object detection"
_SEG = "semantic segmentation"
_GEN = "image generation"
_ASR = "speech recognition"
_TTS = "text to speech"
_SSL = "self-supervised vision"
_REC = "recommendation"
_CTR = "click-through prediction"
_RL = "reinforcement learning"
_GRAPH = "graph learning"
_TEXT = "text classification"
_MT = "machine translation"

FAMILIES: tuple[Family, ...] = (
    _family("Mask R-CNN", r"mask[_\-. ]?r[_\-]?cnn", "cnn", "instance segmentation"),
    _family("Cascade R-CNN", r"cascade[_\-]?(?:mask[_\-]?)?r[_\-]?cnn", "cnn", _DET),
    _family("Faster R-CNN", r"faster[_\-. ]?r[_\-]?cnn", "cnn", _DET),
    _family("RetinaNet", r"retina[_\-]?net", "cnn", _DET),
    _family("FCOS", r"fcos", "cnn", _DET),
    _family("SSD", r"ssd\d{3}|ssd[_\-]?lite", "cnn", _DET),
    _family("CenterNet", r"centernet", "cnn", _DET),
    _family("DETR", r"(?:deformable[_\-]?|conditional[_\-]?|rt[_\-]?)?detr", "transformer", _DET),
    _family("YOLO", r"yolo(?:x|[_\-]?v?\d+)?[nsmlx]?6?(?:[_\-]?(?:tiny|seg|cls|pose))?", "cnn", _DET),
    _family("Whisper", r"whisper", "transformer", _ASR),
    _family("wav2vec 2.0", r"wav2vec[_\-]?2?", "transformer", "self-supervised speech"),
    _family("HuBERT", r"hubert", "transformer", "self-supervised speech"),
    _family("data2vec", r"data2vec", "transformer", "self-supervised speech"),
    _family("Zipformer", r"zipformer", "transformer", _ASR),
    _family("Conformer", r"conformer", "transformer", _ASR),
    _family("ECAPA-TDNN", r"ecapa(?:[_\-]?tdnn)?|x[_\-]?vectors?", "cnn", "speaker verification"),
    _family("TDNN", r"tdnn", "cnn", _ASR),
    _family("CRDNN", r"crdnn", "rnn", _ASR),
    _family("DeepSpeech", r"deep[_\-]?speech\d?", "rnn", _ASR),
    _family("Tacotron 2", r"tacotron[_\-]?2?", "rnn", _TTS),
    _family("FastSpeech 2", r"fast[_\-]?speech[_\-]?2?", "transformer", _TTS),
    _family("VITS", r"vits2?", "vae", _TTS),
    _family("HiFi-GAN", r"hifi[_\-]?gan", "gan", _TTS),
    _family("WaveGlow", r"waveglow", "flow", _TTS),
    _family("WaveNet", r"wavenet|wavernn|wavegrad|diffwave", "cnn", _TTS),
    _family("Glow-TTS", r"glow[_\-]?tts|grad[_\-]?tts|matcha[_\-]?tts", "flow", _TTS),
    _family("StyleGAN", r"style[_\-]?gan[_\-]?\d?(?:[_\-][tr])?(?:[_\-]ada)?", "gan", _GEN),
    _family("BigGAN", r"biggan", "gan", _GEN),
    _family("CycleGAN", r"cycle[_\-]?gan", "gan", "image translation"),
    _family("pix2pix", r"pix2pix(?:hd)?", "gan", "image translation"),
    _family("DCGAN", r"dcgan|wgan(?:[_\-]gp)?|lsgan|sngan|acgan|infogan", "gan", _GEN),
    _family("SRGAN",
        r"(?:real[_\-]?)?e?sr[_\-]?gan|srresnet|edsr|swinir|rcan|edvr|basicvsr|rrdb(?:net)?|duf",
        "cnn", "super-resolution"),
    _family("Stable Diffusion",
        r"stable[_\-]?diffusion(?:[_\-]?(?:xl|v?\d(?:[._\-]\d)?))?|sdxl|sd[_\-]?(?:v?1[._\-]?[45]|v?2[._\-]?1|3)",
        "diffusion", _GEN),
    _family("Latent Diffusion", r"latent[_\-]?diffusion|ldm", "diffusion", _GEN),
    _family("DiT", r"dit(?:[_\-]?(?:xl|[lbs]))?(?:[_/\-]?[248])?|sit[_\-](?:xl|[lbs])", "diffusion", _GEN),
    _family("DDPM", r"ddpm|ddim|guided[_\-]?diffusion|improved[_\-]?diffusion|edm|adm", "diffusion", _GEN),
    _family("ControlNet", r"controlnet", "diffusion", _GEN),
    _family("VQGAN", r"vq[_\-]?gan|vq[_\-]?vae[_\-]?2?", "vae", _GEN),
    _family("VAE", r"(?:beta[_\-]?|c|conv[_\-]?)?vae", "vae", _GEN),
    _family("NeRF", r"(?:mip[_\-]?|instant[_\-]?|d)?nerf(?:acto)?|instant[_\-]?ngp", "mlp", "novel view synthesis"),
    _family("Gaussian Splatting", r"gaussian[_\-]?splatting|splatfacto|3dgs", "point", "novel view synthesis"),
    _family("CLIP", r"(?:open[_\-]?)?clip|siglip", "transformer", "contrastive image-text"),
    _family("BLIP", r"blip[_\-]?2?", "transformer", "vision-language"),
    _family("LLaVA", r"llava", "transformer", "vision-language"),
    _family("MAE", r"mae", "transformer", _SSL),
    _family("DINO", r"dino(?:v2)?", "transformer", _SSL),
    _family("MoCo", r"moco(?:[_\-]?v?[123])?", "cnn", _SSL),
    _family("SimCLR", r"simclr", "cnn", _SSL),
    _family("BYOL", r"byol|simsiam|swav|barlow[_\-]?twins|vicreg", "cnn", _SSL),
    _family("BEiT", r"beit(?:v2|3)?|ibot|simmim", "transformer", _SSL),
    _family("PatchTST",
        r"patchtst|informer|autoformer|fedformer|timesnet|itransformer|dlinear|nbeats|deepar",
        "transformer", "time series"),
    _family("SegFormer", r"segformer", "transformer", _SEG),
    _family("DeepLab", r"deep[_\-]?lab[_\-]?v?\d?\+?(?:plus)?", "cnn", _SEG),
    _family("PSPNet", r"pspnet|fcn[_\-]?(?:r\d+|resnet\d*|8s|32s|hr\d+)?|upernet|hrnet|bisenet(?:v2)?|ocrnet", "cnn",
        _SEG),
    _family("U-Net", r"(?:attention[_\-]?|res[_\-]?|nn|trans|v)?u[_\-]?net(?:[_\-]?(?:\+\+|3d|2d))?", "cnn", _SEG),
    _family("Mask2Former", r"mask2former|maskformer", "transformer", _SEG),
    _family("Swin", r"swin(?:v2|mlp|[_\-]?transformer)?", "transformer", _CLS),
    _family("DeiT", r"deit(?:3)?", "transformer", _CLS),
    _family("ConvNeXt", r"convnext(?:v2)?|convmixer", "cnn", _CLS),
    _family("ResNeXt", r"resnext\d*", "cnn", _CLS),
    _family("Wide ResNet", r"wide[_\-]?resnet\d*|wrn\d*|wresnet", "cnn", _CLS),
    _family("ResNet", r"(?:pre[_\-]?act[_\-]?|se[_\-]?)?resnet(?:[_\-]?\d+)?(?:v2|vd|d)?|rn\d{2,3}", "cnn", _CLS),
    _family("EfficientNet", r"efficient[_\-]?net(?:v2)?", "cnn", _CLS),
    _family("MobileNet", r"mobile[_\-]?net(?:[_\-]?v?\d)?", "cnn", _CLS),
    _family("DenseNet", r"densenet\d*", "cnn", _CLS),
    _family("RegNet",
        r"regnet[xyz]?|shufflenet(?:[_\-]?v?\d|g\d)?|ghostnet|mnasnet|squeezenet|senet\d*|"
        r"dpn\d*|dla\d*|simpledla|googlenet|inception(?:[_\-]?v?\d)?|lenet5?|alexnet|"
        r"nasnet|xception|pnasnet", "cnn", _CLS),
    _family("VGG", r"vgg(?:[_\-]?\d+)?(?:_bn)?", "cnn", _CLS),
    _family("MLP-Mixer", r"(?:mlp[_\-]?)?mixer|resmlp|gmlp", "mlp", _CLS),
    _family("ViT", r"(?:mae[_\-]?)?vit(?:[_\-]?(?:tiny|small|base|large|huge|giant|[tsblhg]))?(?:[_\-]?\d+)?",
        "transformer", _CLS),
    _family("SlowFast", r"slowfast|x3d|i3d|c3d|tsm|timesformer|videomae|mvit|r\(?2\+1\)?d", "cnn",
        "video classification"),
    _family("PointNet", r"point[_\-]?net(?:\+\+|2)?|dgcnn|point[_\-]?transformer|pointpillars|second|voxelnet",
        "point", "point clouds"),
    _family("GPT-NeoX", r"(?:gpt[_\-]?)?neox", "transformer", _LM),
    _family("GPT-Neo", r"gpt[_\-]?neo", "transformer", _LM),
    _family("GPT-J", r"gpt[_\-]?j", "transformer", _LM),
    _family("GPT-2", r"(?:distil)?gpt[_\-]?2", "transformer", _LM),
    _family("GPT-3", r"gpt[_\-]?3", "transformer", _LM),
    _family("GPT", r"(?:mini|nano|char|min|gigan?)?gpt", "transformer", _LM),
    _family("TinyLlama", r"tiny[_\-]?llama", "transformer", _LM),
    _family("LLaMA", r"(?:open[_\-]?|code[_\-]?)?(?:meta[_\-]?)?llama(?:[_\-]?\d(?:[._]\d)?)?", "transformer", _LM),
    _family("Vicuna", r"vicuna", "transformer", _LM),
    _family("Mixtral", r"mixtral", "transformer", _LM),
    _family("Mistral", r"mistral|zephyr", "transformer", _LM),
    _family("Qwen", r"qwen(?:[_\-]?\d(?:[._]\d)?)?", "transformer", _LM),
    _family("Gemma", r"(?:code)?gemma[_\-]?\d?", "transformer", _LM),
    _family("Phi", r"phi[_\-]?\d(?:[._]\d)?", "transformer", _LM),
    _family("OLMo", r"olmo(?:e)?[_\-]?\d?", "transformer", _LM),
    _family("DeepSeek", r"deep[_\-]?seek", "transformer", _LM),
    _family("Baichuan", r"baichuan\d?|internlm\d?|chatglm\d?|glm(?:[_\-]?\d+b?)?|yi[_\-]\d+b", "transformer", _LM),
    _family("OPT", r"opt[_\-]?\d+(?:\.\d+)?[mb]", "transformer", _LM),
    _family("BLOOM", r"bloomz?", "transformer", _LM),
    _family("Falcon", r"falcon", "transformer", _LM),
    _family("Pythia", r"pythia|stablelm|cerebras[_\-]?gpt|redpajama[_\-]?incite|smollm\d?", "transformer", _LM),
    _family("MPT", r"mpt", "transformer", _LM),
    _family("Mamba", r"mamba[_\-]?\d?", "ssm", _LM),
    _family("RWKV", r"rwkv", "rnn", _LM),
    _family("H3", r"h3", "ssm", _LM),
    _family("Hyena", r"hyena(?:dna)?", "ssm", _LM),
    _family("S4", r"s4d?|s5", "ssm", None),
    _family("Transformer-XL", r"transformer[_\-]?xl|xl[_\-]?net", "transformer", _LM),
    _family("mT5", r"mt5", "transformer", _MT),
    _family("T5", r"(?:flan[_\-]?|code)?t5(?:[_\-]?(?:\d[_.]\d|small|base|large|xl|xxl|3b|11b))*|byt5", "transformer",
        None),
    _family("BART", r"m?bart(?:pho)?", "transformer", "summarisation"),
    _family("Pegasus", r"pegasus", "transformer", "summarisation"),
    _family("RoBERTa", r"(?:xlm[_\-]?|distil)?roberta", "transformer", _TEXT),
    _family("DeBERTa", r"deberta(?:[_\-]?v\d)?", "transformer", _TEXT),
    _family("ALBERT", r"albert", "transformer", _TEXT),
    _family("ELECTRA", r"electra", "transformer", _TEXT),
    _family("DistilBERT", r"distil[_\-]?bert", "transformer", _TEXT),
    _family("SBERT", r"sbert|sentence[_\-]?bert|minilm|mpnet", "transformer", "sentence embedding"),
    _family("BERT", r"(?:bio|sci|fin|modern|camem|tiny|mobile|m)?bert", "transformer", "masked language modelling"),
    _family("DLRM", r"dlrm", "recommender", _CTR),
    _family("DeepFM",
        r"x?deep[_\-]?fm|wide[_\-]?(?:and|n|&)?[_\-]?deep|dcn(?:[_\-]?v2)?|dien|autoint|afm|nfm|pnn|fibinet",
        "recommender", _CTR),
    _family("NeuMF",
        r"neu[_\-]?mf|ncf|bpr(?:mf)?|sasrec|bert4rec|gru4rec|light[_\-]?gcn|ngcf|"
        r"multi[_\-]?vae|recvae|caser|narm|srgnn|stamp", "recommender", _REC),
    _family("AlphaFold",
        r"alpha[_\-]?fold\d?|open[_\-]?fold|esm[_\-]?\d?|esmfold",
        "transformer", "protein structure"),
    _family("Graphormer", r"graphormer", "transformer", _GRAPH),
    _family("GCN",
        r"gcn|graph[_\-]?sage|gatv?2?|appnp|sgc|rgcn|schnet|dimenet(?:\+\+)?|egnn|"
        r"mpnn|nequip|gemnet|painn|hgt", "gnn", _GRAPH),
    _family("A2C", r"a[23]c", "policy", _RL),
    _family("ACKTR", r"acktr", "policy", _RL),
    _family("PPO", r"ppo(?:[_\-]?\w+)?", "policy", _RL),
    _family("DQN", r"(?:d?d|c51|rainbow[_\-]?|qr[_\-]?)?dqn|rainbow|c51", "policy", _RL),
    _family("SAC", r"sac", "policy", _RL),
    _family("TD3",
        r"td3|ddpg|trpo|a2c|a3c|acer|impala|ars|tqc|dreamer(?:v\d)?|mu[_\-]?zero|"
        r"alpha[_\-]?zero|cql|iql|decision[_\-]?transformer|qmix|mappo|maddpg", "policy", _RL),
    _family("CNN", r"cnn", "cnn", None),
    _family("MLP", r"mlp", "mlp", None),
    _family("Transformer", r"transformer", "transformer", None),
    _family("LSTM", r"(?:bi[_\-]?|conv)?lstm", "rnn", None),
    _family("GRU", r"(?:bi)?gru", "rnn", None),
    _family("RNN", r"rnn", "rnn", None),
)  # fmt: skip
"""Ordered: a more specific family stands before a more general one."""


def family_of(text: str) -> Family | None:
    """The family whose name stands in a text; the longest match wins, then the order of the table."""
    found = _family_match(text)
    return None if found is None else found[0]


def family_word(text: str) -> str:
    """The family's name as the text writes it; the text itself when it names none."""
    found = _family_match(text)
    return text if found is None else found[1]


@lru_cache(maxsize=4_096)
def _family_match(text: str) -> tuple[Family, str] | None:
    best: tuple[int, int] | None = None
    found: tuple[Family, str] | None = None
    plain = _split_words(text[:400])
    for position, family in enumerate(FAMILIES):
        match = family.pattern.search(plain)
        if match is None:
            continue
        key = (len(match.group(0)), -position)
        if best is None or key > best:
            best, found = key, (family, match.group(0))
    return found


def _split_words(text: str) -> str:
    """``CarvanaUNet`` as ``Carvana UNet``: a name inside a CamelCase word can be found."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", text)
    return f"{text} {spaced}" if spaced != text else text


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public dataset under its usual name, with the task it mostly serves."""

    name: str
    pattern: re.Pattern[str]
    task: str | None


def _dataset(name: str, pattern: str, task: str | None = None) -> Dataset:
    return Dataset(name, re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z])", re.IGNORECASE), task)


DATASETS: tuple[Dataset, ...] = (
    _dataset("Tiny ImageNet", r"tiny[_\-]?imagenet(?:[_\-]?200)?", _CLS),
    _dataset("ImageNet-22k", r"imagenet[_\-]?2[12]k|in2[12]k|IMNET22K", _CLS),
    _dataset("ImageNet-100", r"imagenet[_\-]?100", _CLS),
    _dataset("ImageNet-1k", r"imagenet(?:[_\-]?1k)?(?:2012)?|ilsvrc(?:[_\-]?2012)?|imnet", _CLS),
    _dataset("CIFAR-100", r"cifar[_\-]?100", _CLS),
    _dataset("CIFAR-10", r"cifar[_\-]?10", _CLS),
    _dataset("CIFAR", r"cifar", _CLS),
    _dataset("LRA ListOps", r"list[_\-]?ops", "sequence classification"),
    _dataset("REDS", r"reds|vimeo[_\-]?90k", "super-resolution"),
    _dataset("Fashion-MNIST", r"fashion[_\-]?mnist", _CLS),
    _dataset("MNIST", r"(?:e|k|q)?mnist", _CLS),
    _dataset("SVHN", r"svhn", _CLS),
    _dataset("STL-10", r"stl[_\-]?10", _CLS),
    _dataset("Food-101", r"food[_\-]?101", _CLS),
    _dataset("Flowers-102", r"(?:oxford[_\-]?)?flowers[_\-]?(?:102|17)?", _CLS),
    _dataset("CUB-200", r"cub[_\-]?200(?:[_\-]?2011)?", _CLS),
    _dataset("Stanford Cars", r"stanford[_\-]?cars", _CLS),
    _dataset("iNaturalist", r"inat(?:uralist)?(?:20\d\d|\d\d)?", _CLS),
    _dataset("Places365", r"places[_\-]?365", _CLS),
    _dataset("COCO", r"(?:ms)?coco(?:[_\-]?(?:20)?1[47])?(?:128)?", _DET),
    _dataset("LVIS", r"lvis", "instance segmentation"),
    _dataset("Pascal VOC", r"(?:pascal[_\-]?)?voc(?:20)?(?:07|12)?(?:[_\-+]?(?:07|12))?|pascal[_\-]?voc", None),
    _dataset("Objects365", r"objects?365", _DET),
    _dataset("ADE20K", r"ade[_\-]?20k", _SEG),
    _dataset("Cityscapes", r"cityscapes?", _SEG),
    _dataset("Carvana", r"carvana", _SEG),
    _dataset("CelebA-HQ", r"celeb[_\-]?a[_\-]?(?:mask[_\-]?)?hq", _GEN),
    _dataset("CelebA", r"celeb[_\-]?a", _GEN),
    _dataset("FFHQ", r"ffhq", _GEN),
    _dataset("AFHQv2", r"afhq[_\-]?v2", _GEN),
    _dataset("AFHQ", r"afhq(?:cat|dog|wild)?", _GEN),
    _dataset("LSUN", r"lsun", _GEN),
    _dataset("DIV2K", r"div2k|flickr2k|df2k", "super-resolution"),
    _dataset("Kinetics-400", r"kinetics[_\-]?[4-7]00|k400", "video classification"),
    _dataset("UCF101", r"ucf[_\-]?101", "video classification"),
    _dataset("Something-Something", r"something[_\-]?something|ssv2", "video classification"),
    _dataset("KITTI", r"kitti", _DET),
    _dataset("nuScenes", r"nuscenes", _DET),
    _dataset("Waymo", r"waymo", _DET),
    _dataset("ModelNet40", r"model[_\-]?net[_\-]?40", "point clouds"),
    _dataset("ShapeNet", r"shape[_\-]?net(?:part)?", "point clouds"),
    _dataset("S3DIS", r"s3dis|scannet(?:v2)?", "point clouds"),
    _dataset("LAION-400M", r"laion[_\-]?400m", "contrastive image-text"),
    _dataset("LAION", r"laion[_\-]?(?:2b|5b|art|aesthetics\w*)?", "contrastive image-text"),
    _dataset("CC3M", r"cc3m|conceptual[_\-]?captions", "contrastive image-text"),
    _dataset("CC12M", r"cc12m", "contrastive image-text"),
    _dataset("Flickr30k", r"flickr[_\-]?30k", "vision-language"),
    _dataset("VQAv2", r"vqa[_\-]?v?2?", "vision-language"),
    _dataset("Pokemon BLIP captions", r"pokemon[_\-]?(?:blip[_\-]?)?captions?", _GEN),
    _dataset("OpenWebText", r"open[_\-]?web[_\-]?text\d?|owt", _LM),
    _dataset("WikiText-103", r"wiki[_\-]?text[_\-]?103(?:[_\-]?(?:raw|v1))*|wt103", _LM),
    _dataset("WikiText-2", r"wiki[_\-]?text[_\-]?2(?:[_\-]?(?:raw|v1))*", _LM),
    _dataset("SlimPajama", r"slim[_\-]?pajama", _LM),
    _dataset("RedPajama", r"red[_\-]?pajama", _LM),
    _dataset("FineWeb-Edu", r"fineweb[_\-]?edu", _LM),
    _dataset("FineWeb", r"fineweb(?:[_\-]?\d+bt?)?", _LM),
    _dataset("The Pile", r"the[_\-]?pile|pile", _LM),
    _dataset("C4", r"m?c4", _LM),
    _dataset("OSCAR", r"oscar", _LM),
    _dataset("BookCorpus", r"book[_\-]?corpus", "masked language modelling"),
    _dataset("enwik8", r"enwik[89]|text8", _LM),
    _dataset("Penn Treebank", r"ptb|penn[_\-]?tree[_\-]?bank", _LM),
    _dataset("TinyStories", r"tiny[_\-]?stories", _LM),
    _dataset("Tiny Shakespeare", r"(?:tiny[_\-]?)?shakespeare(?:[_\-]?char)?", _LM),
    _dataset("StarCoder", r"starcoder(?:data)?|the[_\-]?stack", _LM),
    _dataset("Dolma", r"dolma|olmo[_\-]?mix(?:[_\-]?\d+)?", _LM),
    _dataset("Alpaca (cleaned)", r"alpaca[_\-]?(?:data[_\-]?)?clean(?:ed)?", "instruction tuning"),
    _dataset("Alpaca", r"(?:stanford[_\-]?)?alpaca(?:[_\-]?(?:data|en|zh|gpt4|2k|52k|demo|test))*",
        "instruction tuning"),
    _dataset("ShareGPT", r"share[_\-]?gpt", "instruction tuning"),
    _dataset("Dolly", r"dolly(?:[_\-]?15k)?", "instruction tuning"),
    _dataset("OpenAssistant", r"oasst\d?|open[_\-]?assistant(?:[_\-]?guanaco)?|guanaco", "instruction tuning"),
    _dataset("UltraChat", r"ultra[_\-]?chat(?:[_\-]?200k)?", "instruction tuning"),
    _dataset("UltraFeedback", r"ultra[_\-]?feedback", "preference optimisation"),
    _dataset("HH-RLHF", r"hh[_\-]?rlhf", "preference optimisation"),
    _dataset("GSM8K", r"gsm[_\-]?8k", "reasoning"),
    _dataset("LLaVA-Instruct", r"llava[_\-]?(?:v1[_.\-]?5[_\-]?)?(?:instruct|mix)\w*", "vision-language"),
    _dataset("GLUE MNLI", r"mnli|multi[_\-]?nli", _TEXT),
    _dataset("GLUE SST-2", r"sst[_\-]?2|sst", _TEXT),
    _dataset("GLUE CoLA", r"cola", _TEXT),
    _dataset("GLUE MRPC", r"mrpc", _TEXT),
    _dataset("GLUE QQP", r"qqp", _TEXT),
    _dataset("GLUE QNLI", r"qnli", _TEXT),
    _dataset("GLUE RTE", r"rte", _TEXT),
    _dataset("GLUE STS-B", r"sts[_\-]?b", _TEXT),
    _dataset("GLUE", r"super[_\-]?glue|glue", _TEXT),
    _dataset("SNLI", r"snli|all[_\-]?nli", _TEXT),
    _dataset("IMDB", r"imdb", _TEXT),
    _dataset("AG News", r"ag[_\-]?news", _TEXT),
    _dataset("Yelp", r"yelp\w*", _TEXT),
    _dataset("SQuAD", r"squad(?:[_\-]?v?[12](?:\.\d)?)?", "question answering"),
    _dataset("Natural Questions", r"natural[_\-]?questions|trivia[_\-]?qa|hotpot[_\-]?qa", "question answering"),
    _dataset("CoNLL-2003", r"conll[_\-]?(?:20)?03", "token classification"),
    _dataset("SAMSum", r"samsum", "summarisation"),
    _dataset("CNN/DailyMail", r"cnn[_\-/]?(?:dm|daily[_\-]?mail)", "summarisation"),
    _dataset("XSum", r"xsum", "summarisation"),
    _dataset("E2E NLG", r"e2e(?:[_\-]?nlg)?", "text generation"),
    _dataset("WebNLG", r"web[_\-]?nlg", "text generation"),
    _dataset("WMT14", r"wmt[_\-]?(?:20)?14(?:[_\-]?(?:ende|enfr|en[_\-]?de|en[_\-]?fr))?", _MT),
    _dataset("WMT", r"wmt[_\-]?(?:t2t|\d\d)?(?:[_\-]?[a-z]{2}[_\-]?[a-z]{2})?", _MT),
    _dataset("IWSLT14", r"iwslt[_\-]?(?:20)?\d{0,2}(?:[_.\-]?(?:tokenized)?[_.\-]?de[_\-]?en)?", _MT),
    _dataset("Multi30k", r"multi[_\-]?30k|m30k", _MT),
    _dataset("LibriSpeech", r"(?:mini[_\-]?)?libri[_\-]?speech(?:[_\-]?\d+h?)?", _ASR),
    _dataset("LibriTTS", r"libri[_\-]?tts", _TTS),
    _dataset("LJSpeech", r"lj[_\-]?speech(?:[_\-]?1[._]1)?|ljs", _TTS),
    _dataset("VCTK", r"vctk", _TTS),
    _dataset("TIMIT", r"timit", _ASR),
    _dataset("Common Voice", r"common[_\-]?voice", _ASR),
    _dataset("GigaSpeech", r"giga[_\-]?speech", _ASR),
    _dataset("AISHELL", r"aishell[_\-]?\d?", _ASR),
    _dataset("TED-LIUM", r"ted[_\-]?lium\d?", _ASR),
    _dataset("WSJ", r"wsj(?:0|1)?", _ASR),
    _dataset("VoxCeleb", r"vox[_\-]?celeb\d?", "speaker verification"),
    _dataset("Speech Commands", r"speech[_\-]?commands", "audio classification"),
    _dataset("AudioSet", r"audio[_\-]?set|esc[_\-]?50|urbansound8k", "audio classification"),
    _dataset("MUSDB18", r"musdb(?:18)?(?:hq)?", "source separation"),
    _dataset("WSJ0-2mix", r"wsj0[_\-]?[23]mix|libri[_\-]?mix", "source separation"),
    _dataset("Criteo Kaggle",
        r"kaggle[_\-]?(?:ad[_\-]?display|criteo|display)\w*|criteo[_\-]?kaggle|kaggleAdDisplayChallenge\w*", _CTR),
    _dataset("Criteo sample", r"criteo[_\-]?sample", _CTR),
    _dataset("Criteo Terabyte", r"criteo[_\-]?(?:tera\w*|1tb)", _CTR),
    _dataset("Criteo", r"criteo", _CTR),
    _dataset("Avazu", r"avazu", _CTR),
    _dataset("MovieLens 100k", r"(?:ml|movielens)[_\-]?100k", _REC),
    _dataset("MovieLens 1M", r"(?:ml|movielens)[_\-]?1m", _REC),
    _dataset("MovieLens", r"movie[_\-]?lens(?:[_\-]?\d+m)?|ml[_\-]?(?:10|20|25)m", _REC),
    _dataset("Amazon Reviews", r"amazon[_\-]?(?:reviews?|beauty|books|electronics)\w*", _REC),
    _dataset("Gowalla", r"gowalla|yelp2018", _REC),
    _dataset("ogbn-products", r"ogbn[_\-]?products?", _GRAPH),
    _dataset("ogbn-arxiv", r"ogbn[_\-]?(?:arxiv|papers100m|mag|proteins)", _GRAPH),
    _dataset("OGB", r"ogb[gl][_\-]?\w+", _GRAPH),
    _dataset("Cora", r"cora|citeseer|pubmed", _GRAPH),
    _dataset("Reddit", r"reddit", _GRAPH),
    _dataset("ZINC", r"zinc", _GRAPH),
    _dataset("QM9", r"qm[789]|md17", _GRAPH),
    _dataset("PCQM4Mv2", r"pcqm4m(?:v2)?", _GRAPH),
    _dataset("ETT", r"ett[hm][12]|electricity|traffic|exchange[_\-]?rate", "time series"),
    _dataset("D4RL", r"d4rl|halfcheetah[_\-]medium\w*", _RL),
)  # fmt: skip


@lru_cache(maxsize=4_096)
def dataset_of(text: str) -> Dataset | None:
    """The dataset whose name stands in a text; the longest match wins, then the order of the table."""
    best: tuple[int, int] | None = None
    found: Dataset | None = None
    plain = _split_words(text[:400])
    for position, dataset in enumerate(DATASETS):
        match = dataset.pattern.search(plain)
        if match is None:
            continue
        key = (len(match.group(0)), -position)
        if best is None or key > best:
            best, found = key, dataset
    return found


_PLACEHOLDER = re.compile(
    r"^\s*$|^\.{2,}$|<[A-Za-z_][\w .\-/]*>|^\[.*\]$|^\{.*\}$|^\$|^/?path/to|^/?(your|my)[_/\-]|(^|"
    r"/)(your|my)[_\-]\w+|^xxx+$|^todo$|^\?+$|placeholder",
    re.IGNORECASE,
)
_GENERIC = frozenset(
    {
        "none", "null", "auto", "default", "true", "false", "custom", "data", "dataset", "datasets", "train", "test",
        "val", "training", "train_data", "input", "inputs", "images", "image", "imgs", "text", "json", "csv", "root",
            "path",
        "local", "folder", "file", "base", "main", "model", "models", "net", "tmp", "out", "output", "raw", "processed",
        "scratch", "resume", "latest", "last", "best", "checkpoint", "ckpt", "hf", "all", "mixture", "synthetic",
            "random", "simple",
    }
)  # fmt: skip


def is_placeholder(text: str) -> bool:
    """Whether a value only says where something of the user's goes."""
    return _PLACEHOLDER.search(text) is not None


def is_generic(text: str) -> bool:
    """Whether a name says nothing about which model or dataset it is."""
    return text.strip().lower() in _GENERIC or not re.search(r"[A-Za-z]{2}", text)


def last_part(path: str) -> str:
    """The last meaningful part of a path, without its ending."""
    parts = [part for part in re.split(r"[/\\]", path.strip().rstrip("/")) if part not in ("", ".", "..")]
    while parts and (is_generic(parts[-1].partition(".")[0]) or is_placeholder(parts[-1])) and len(parts) > 1:
        parts = parts[:-1]
    last = parts[-1] if parts else path
    return re.sub(
        r"\.(json|jsonl|csv|tsv|txt|ya?ml|py|zip|tar|gz|pt|pth|bin|parquet|md|npz|h5|hdf5|gin|toml|cfg)$", "", last
    )
