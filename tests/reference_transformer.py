"""Reference implementation of the Transformer (Vaswani 2017) in NumPy and float64."""

import jax
import numpy as np

from tests.reference import softmax


def multi_head(w, xs, memory, heads, visible):
    """Attend from each position t of xs to the memory positions s where `visible(t, s)` is true.

    Return the outputs and the attention weights [heads, target, source].
    """
    outputs, weights = [], []
    for t, x in enumerate(xs):
        q, contexts, alphas = x @ w["W_Q"]["kernel"], [], []
        k, v = memory @ w["W_K"]["kernel"], memory @ w["W_V"]["kernel"]
        for head in range(heads):
            d_k, d_v = q.size // heads, v.shape[1] // heads
            keys = slice(head * d_k, (head + 1) * d_k)
            values = slice(head * d_v, (head + 1) * d_v)
            positions = [s for s in range(len(memory)) if visible(t, s)]
            scores = np.array([q[keys] @ k[s, keys] / np.sqrt(d_k) for s in positions])
            alpha = np.zeros(len(memory))
            alpha[positions] = softmax(scores)
            contexts.append(sum(alpha[s] * v[s, values] for s in positions))
            alphas.append(alpha)
        outputs.append(np.concatenate(contexts) @ w["W_O"]["kernel"])
        weights.append(alphas)
    return np.array(outputs), np.array(weights).swapaxes(0, 1)


def layer_norm(w, xs):
    centered = xs - xs.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-6)
    return w["scale"] * centered / deviation + w["bias"]


def feed_forward(w, xs):
    inner = np.maximum(0, xs @ w["W_1"]["kernel"] + w["W_1"]["bias"])
    return inner @ w["W_2"]["kernel"] + w["W_2"]["bias"]


def residual(w, xs, sublayer, pre):
    if pre:
        return xs + sublayer(layer_norm(w["norm"], xs))
    return layer_norm(w["norm"], xs + sublayer(xs))


def encoder_layer(w, xs, heads, pre):
    def attention(xs):
        return multi_head(w["attention"], xs, xs, heads, lambda t, s: True)[0]

    xs = residual(w["residuals_0"], xs, attention, pre)
    return residual(w["residuals_1"], xs, lambda xs: feed_forward(w["feed_forward"], xs), pre)


def decoder_layer(w, xs, memory, heads, pre):
    """Return one decoder layer's outputs and cross-attention weights [heads, target, source]."""
    weights = []

    def self_attention(xs):
        return multi_head(w["self_attention"], xs, xs, heads, lambda t, s: s <= t)[0]

    def source_attention(xs):
        outputs, alpha = multi_head(w["source_attention"], xs, memory, heads, lambda t, s: True)
        weights.append(alpha)
        return outputs

    xs = residual(w["residuals_0"], xs, self_attention, pre)
    xs = residual(w["residuals_1"], xs, source_attention, pre)
    xs = residual(w["residuals_2"], xs, lambda xs: feed_forward(w["feed_forward"], xs), pre)
    return xs, weights[0]


def sinusoid(position, features):
    encoding = np.zeros(features)
    for i in range(0, features, 2):
        angle = position / 10_000 ** (i / features)
        encoding[i], encoding[i + 1] = np.sin(angle), np.cos(angle)
    return encoding


def transformer(params, model, source, target_in):
    """Return logits and cross-attention weights [layers, heads, target, source] of one pair."""
    pre, d = model.norm == "pre", model.features
    source_table = params["source_embed"]["embedding"]
    target_table = source_table
    if not model.share_embeddings:
        target_table = params["target_embed"]["embedding"]

    def embed(table, tokens):
        if model.positions == "learned":
            positions = params["positions"]["embedding"][: len(tokens)]
        else:
            positions = np.array([sinusoid(p, d) for p in range(len(tokens))])
        return table[tokens] * np.sqrt(d) + positions

    def layers(w):
        if model.scan:
            return [jax.tree.map(lambda x, i=i: x[i], w["stacked"]) for i in range(model.layers)]
        return [w[f"unrolled_{i}"] for i in range(model.layers)]

    xs = embed(source_table, source)
    for w in layers(params["encoder"]):
        xs = encoder_layer(w, xs, model.heads, pre)
    memory = layer_norm(params["encoder"]["norm"], xs) if pre else xs
    xs, weights = embed(target_table, target_in), []
    for w in layers(params["decoder"]):
        xs, alpha = decoder_layer(w, xs, memory, model.heads, pre)
        weights.append(alpha)
    xs = layer_norm(params["decoder"]["norm"], xs) if pre else xs
    kernel = target_table.T if model.tie_output else params["output"]["kernel"]
    return xs @ kernel, np.array(weights)
