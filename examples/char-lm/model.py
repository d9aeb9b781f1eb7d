"""One transformer block over characters, forward and backward in numpy."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]

_EPSILON = 1e-5


def init(rng: np.random.Generator, vocabulary: int, context: int, width: int) -> Arrays:
    """Parameters in float32; ``width`` is the size of a token's vector."""

    def matrix(rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
        return (rng.normal(0, scale / np.sqrt(rows), (rows, columns))).astype(np.float32)

    zeros, ones = np.zeros(width, np.float32), np.ones(width, np.float32)
    return {
        "token": rng.normal(0, 0.1, (vocabulary, width)).astype(np.float32),
        "position": rng.normal(0, 0.1, (context, width)).astype(np.float32),
        "norm1.gain": ones.copy(),
        "norm1.bias": zeros.copy(),
        "qkv": matrix(width, 3 * width),
        "mix": matrix(width, width, 0.5),
        "norm2.gain": ones.copy(),
        "norm2.bias": zeros.copy(),
        "up": matrix(width, 4 * width),
        "up.bias": np.zeros(4 * width, np.float32),
        "down": matrix(4 * width, width, 0.5),
        "down.bias": zeros.copy(),
        "norm3.gain": ones.copy(),
        "norm3.bias": zeros.copy(),
        "head": matrix(width, vocabulary),
    }


def loss_and_gradients(model: Arrays, tokens: np.ndarray, targets: np.ndarray, heads: int) -> tuple[float, Arrays]:
    """Mean cross-entropy of the next character, and the gradient of every parameter.

    Args:
        tokens, targets: (batch, time) integers.
        heads: attention heads; divides the width.
    """
    gradients: Arrays = {}
    embedded = model["token"][tokens] + model["position"][: tokens.shape[1]]
    normed1, back1 = _norm(embedded, model, "norm1")
    attended, back_attention = _attention(normed1, model, heads)
    middle = embedded + attended
    normed2, back2 = _norm(middle, model, "norm2")
    hidden = normed2 @ model["up"] + model["up.bias"]
    active = np.maximum(hidden, 0)
    final = middle + active @ model["down"] + model["down.bias"]
    normed3, back3 = _norm(final, model, "norm3")
    loss, grad_logits = _cross_entropy(normed3 @ model["head"], targets)

    gradients["head"] = _outer(normed3, grad_logits)
    grad_final = back3(grad_logits @ model["head"].T, gradients)
    gradients["down"] = _outer(active, grad_final)
    gradients["down.bias"] = grad_final.sum((0, 1))
    grad_hidden = (grad_final @ model["down"].T) * (hidden > 0)
    gradients["up"] = _outer(normed2, grad_hidden)
    gradients["up.bias"] = grad_hidden.sum((0, 1))
    grad_middle = grad_final + back2(grad_hidden @ model["up"].T, gradients)
    grad_embedded = grad_middle + back1(back_attention(grad_middle, gradients), gradients)
    gradients["token"] = np.zeros_like(model["token"])
    np.add.at(gradients["token"], tokens, grad_embedded)
    gradients["position"] = np.zeros_like(model["position"])
    gradients["position"][: tokens.shape[1]] = grad_embedded.sum(0)
    return loss, gradients


def _outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Sum over batch and time of outer products."""
    return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])


def _norm(x: np.ndarray, model: Arrays, name: str):
    gain, bias = model[f"{name}.gain"], model[f"{name}.bias"]
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + _EPSILON)
    unit = centred * scale

    def backward(grad: np.ndarray, gradients: Arrays) -> np.ndarray:
        gradients[f"{name}.gain"] = (grad * unit).sum((0, 1))
        gradients[f"{name}.bias"] = grad.sum((0, 1))
        inner = grad * gain
        return scale * (inner - inner.mean(-1, keepdims=True) - unit * (inner * unit).mean(-1, keepdims=True))

    return unit * gain + bias, backward


def _attention(x: np.ndarray, model: Arrays, heads: int):
    batch, time, width = x.shape
    size = width // heads

    def split(joined: np.ndarray) -> np.ndarray:
        return joined.reshape(batch, time, heads, size).transpose(0, 2, 1, 3)

    def join(parts: np.ndarray) -> np.ndarray:
        return parts.transpose(0, 2, 1, 3).reshape(batch, time, width)

    query, key, value = map(split, np.split(x @ model["qkv"], 3, axis=-1))
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(size)
    scores = np.where(np.tril(np.ones((time, time), bool)), scores, -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    seen = join(weights @ value)

    def backward(grad: np.ndarray, gradients: Arrays) -> np.ndarray:
        gradients["mix"] = _outer(seen, grad)
        grad_seen = split(grad @ model["mix"].T)
        grad_weights = grad_seen @ value.swapaxes(-1, -2)
        grad_scores = weights * (grad_weights - (grad_weights * weights).sum(-1, keepdims=True)) / np.sqrt(size)
        parts = (grad_scores @ key, grad_scores.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ grad_seen)
        grad_qkv = np.concatenate([join(part) for part in parts], axis=-1)
        gradients["qkv"] = _outer(x, grad_qkv)
        return grad_qkv @ model["qkv"].T

    return seen @ model["mix"], backward


def _cross_entropy(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    shifted = logits - logits.max(-1, keepdims=True)
    log_total = np.log(np.exp(shifted).sum(-1, keepdims=True))
    log_chance = shifted - log_total
    picked = np.take_along_axis(log_chance, targets[..., None], -1)
    grad = np.exp(log_chance)
    np.put_along_axis(grad, targets[..., None], np.take_along_axis(grad, targets[..., None], -1) - 1, -1)
    return float(-picked.mean()), grad / targets.size
