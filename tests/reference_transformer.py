"""The equations of the Transformer (Vaswani 2017) in NumPy, float64, one position at a time."""

import jax
import numpy as np

from tests.reference import softmax


def multi_head(w, xs, memory, heads, seen):
    """Return outputs and weights of queries xs over memory positions with `seen(t, s)`."""
    outputs, weights = [], []
    for t, x in enumerate(xs):
        q, parts, alphas = x @ w["W_Q"]["kernel"], [], []
        k, v = memory @ w["W_K"]["kernel"], memory @ w["W_V"]["kernel"]
        for head in range(heads):
            width, deep = q.size // heads, v.shape[1] // heads
            of_keys = slice(head * width, (head + 1) * width)
            of_values = slice(head * deep, (head + 1) * deep)
            visible = [s for s in range(len(memory)) if seen(t, s)]
            scores = np.array([q[of_keys] @ k[s, of_keys] / np.sqrt(width) for s in visible])
            alpha = np.zeros(len(memory))
            alpha[visible] = softmax(scores)
            parts.append(sum(alpha[s] * v[s, of_values] for s in visible))
            alphas.append(alpha)
        outputs.append(np.concatenate(parts) @ w["W_O"]["kernel"])
        weights.append(alphas)
    return np.array(outputs), np.array(weights).swapaxes(0, 1)


def layer_norm(w, xs):
    centred = xs - xs.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-6)
    return w["scale"] * centred / deviation + w["bias"]


def feed_forward(w, xs):
    inner = np.maximum(0, xs @ w["W_1"]["kernel"] + w["W_1"]["bias"])
    return inner @ w["W_2"]["kernel"] + w["W_2"]["bias"]


def around(w, xs, sublayer, pre):
    if pre:
        return xs + sublayer(layer_norm(w["norm"], xs))
    return layer_norm(w["norm"], xs + sublayer(xs))


def encoder_layer(w, xs, heads, pre):
    def attention(xs):
        return multi_head(w["attention"], xs, xs, heads, lambda t, s: True)[0]

    xs = around(w["residuals_0"], xs, attention, pre)
    return around(w["residuals_1"], xs, lambda xs: feed_forward(w["feed_forward"], xs), pre)


def decoder_layer(w, xs, memory, heads, pre):
    """Return outputs, and attention weights [heads, target, source] over the source."""
    weights = []

    def look_back(xs):
        return multi_head(w["self_attention"], xs, xs, heads, lambda t, s: s <= t)[0]

    def look_across(xs):
        out, alpha = multi_head(w["source_attention"], xs, memory, heads, lambda t, s: True)
        weights.append(alpha)
        return out

    xs = around(w["residuals_0"], xs, look_back, pre)
    xs = around(w["residuals_1"], xs, look_across, pre)
    xs = around(w["residuals_2"], xs, lambda xs: feed_forward(w["feed_forward"], xs), pre)
    return xs, weights[0]


def sinusoid(position, features):
    place = np.zeros(features)
    for i in range(0, features, 2):
        angle = position / 10_000 ** (i / features)
        place[i], place[i + 1] = np.sin(angle), np.cos(angle)
    return place


def transformer(params, model, source, target_in):
    """Return logits and source attention [layers, heads, target, source] of one pair."""
    pre, d = model.norm == "pre", model.features
    source_table = params["source_embed"]["embedding"]
    target_table = source_table
    if not model.share_embeddings:
        target_table = params["target_embed"]["embedding"]

    def embed(table, tokens):
        if model.positions == "learned":
            places = params["positions"]["embedding"][: len(tokens)]
        else:
            places = np.array([sinusoid(p, d) for p in range(len(tokens))])
        return table[tokens] * np.sqrt(d) + places

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
