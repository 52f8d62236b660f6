"""The papers' equations in plain NumPy, float64, one position at a time.

Written from the equations alone and sharing no code with models/: loops where the models batch,
dictionaries of weights where they have modules. Their slopes are what gradients are held against.
"""

import jax
import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def as_float64(tree):
    if isinstance(tree, dict):
        return {name: as_float64(value) for name, value in tree.items()}
    return np.asarray(tree, np.float64)


def check_gradient(loss, tree, gradient, rng, eps=1e-6):
    """Holds `gradient` against the slope of `loss` at `tree` along a drawn direction."""
    leaves, structure = jax.tree.flatten(tree)
    direction = [rng.normal(size=leaf.shape) for leaf in leaves]

    def along(step):
        moved = [leaf + step * d for leaf, d in zip(leaves, direction, strict=True)]
        return loss(jax.tree.unflatten(structure, moved))

    slope = (along(eps) - along(-eps)) / (2 * eps)
    products = [np.sum(d * g) for d, g in zip(direction, jax.tree.leaves(gradient), strict=True)]
    scale = np.sqrt(sum(np.sum(np.square(g, dtype=float)) for g in jax.tree.leaves(gradient)))
    np.testing.assert_allclose(sum(products), slope, rtol=1e-4, atol=1e-4 * scale + 1e-6)


def elman(w, carry, x):
    (h,) = carry
    return (np.tanh(x @ w["W"] + h @ w["U"] + w["b"]),)


def lstm(w, carry, x):
    c, h = carry
    n = len(h)

    def gate(i):
        own = slice(i * n, (i + 1) * n)
        return x @ w["W"][:, own] + h @ w["U"][:, own] + w["b"][own]

    f, i, o = sigmoid(gate(0)), sigmoid(gate(1)), sigmoid(gate(2))
    c = f * c + i * np.tanh(gate(3))
    return c, o * np.tanh(c)


def gru(w, carry, x):
    (h,) = carry
    n = len(h)
    W, U = w["W"], w["U"]
    z = sigmoid(x @ W[:, :n] + h @ U[:, :n])
    r = sigmoid(x @ W[:, n : 2 * n] + h @ U[:, n : 2 * n])
    new = np.tanh(x @ W[:, 2 * n :] + (r * h) @ U[:, 2 * n :])
    return ((1 - z) * h + z * new,)


CELLS = {"elman": (elman, 1), "lstm": (lstm, 2), "gru": (gru, 1)}


def run(cell, w, xs, carry=None, reverse=False):
    """Outputs and final carry of one sentence without padding."""
    step, states = CELLS[cell]
    n = w["U"].shape[0]
    carry = carry or (np.zeros(n),) * states
    outputs = [None] * len(xs)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        carry = step(w, carry, xs[t])
        outputs[t] = carry[-1]
    return np.array(outputs), carry


def stack(cell, w, xs, layers, bidirectional=False, carries=None, reverse=False, residual=False):
    finals = []
    for layer in range(layers):
        carry = carries[layer] if carries else None
        first = "backward" if reverse else "forward"
        ys, final = run(cell, w[f"{first}{layer}"], xs, carry, reverse)
        if bidirectional:
            back, back_final = run(cell, w[f"backward{layer}"], xs, carry, True)
            ys = np.concatenate([ys, back], axis=1)
            final = tuple(np.concatenate(p) for p in zip(final, back_final, strict=True))
        xs = ys + xs if residual and layer > 0 else ys
        finals.append(final)
    return xs, finals


def score(name, w, h, memory):
    """The rating of every source position by the decoder state h."""
    if name == "dot":
        return np.array([h @ s for s in memory])
    if name == "scaled_dot":
        return np.array([h @ s / np.sqrt(len(s)) for s in memory])
    if name == "general":
        return np.array([h @ w["W_a"]["kernel"].T @ s for s in memory])
    if name == "concat":
        whole = np.concatenate([w["W_a_query"]["kernel"], w["W_a_memory"]["kernel"]])
        v = w["v_a"]["kernel"][:, 0]
        return np.array([v @ np.tanh(np.concatenate([h, s]) @ whole) for s in memory])
    assert name == "location"
    return (h @ w["W_a"]["kernel"])[: len(memory)]


def align(settings, w, h, keys, t):
    """The weights over a whole source of decoder state h at target position t (from 0)."""
    length, D = len(keys), settings.D
    ratings = score(settings.score, w.get("score", {}), h, keys)
    if settings.align in ("global", "hard"):
        return softmax(ratings)
    p = t
    if settings.align == "local_p":
        hidden = np.tanh(h @ w["W_p"]["kernel"])
        p = length * sigmoid(hidden @ w["v_p"]["kernel"])[0]
    window = [s for s in range(length) if p - D <= s <= p + D]
    weights = np.zeros(length)
    if window:
        weights[window] = softmax(ratings[window])
    if settings.align == "local_p":
        sigma = settings.sigma or D / 2
        weights *= np.exp(-((np.arange(length) - p) ** 2) / (2 * sigma**2))
        if settings.renormalise and weights.sum() > 0:
            weights /= weights.sum()
    return weights


def attend(settings, w, h, memory, t):
    """Context and weights; a hard alignment reads its likeliest position."""
    keys, values = memory, memory
    if settings.key_value == "split":
        keys, values = np.split(memory, 2, axis=1)
    weights = align(settings, w, h, keys, t)
    if settings.align == "hard":
        return values[weights.argmax()], weights
    return sum(weights[s] * values[s] for s in range(len(memory))), weights


def bridge(name, w, carries, layers, states):
    if name == "copy":
        return carries
    first = []
    for layer in range(layers):
        final = carries[min(layer, len(carries) - 1)]
        if name == "backward":
            final = [np.split(state, 2)[1] for state in final]
        new = np.tanh(np.concatenate(final) @ w[f"layer{layer}"]["kernel"])
        first.append(tuple(np.split(new, states)))
    return first


def maxout(w, *inputs):
    x = np.concatenate(inputs) @ w["Dense_0"]["kernel"] + w["Dense_0"]["bias"]
    return np.maximum(x[0::2], x[1::2])


def step(w, dec, carries, x):
    new = []
    for layer in range(dec.layers):
        carry = CELLS[dec.cell][0](w[f"forward{layer}"], carries[layer], x)
        x = carry[-1] + x if dec.residual and layer > 0 else carry[-1]
        new.append(carry)
    return x, new


def translator(params, model, source, target_in, reverse_source=False):
    """Logits and attention of a whole translator for one sentence pair, word by word."""
    enc, dec, attention = model.encoder, model.decoder, model.attention
    w = params["encoder"]
    memory, finals = stack(
        enc.cell, w["stack"], w["embed"]["embedding"][source], enc.layers, enc.bidirectional,
        reverse=reverse_source, residual=enc.residual,
    )  # fmt: skip
    states = CELLS[dec.cell][1]
    carries = bridge(model.bridge, params.get("bridge"), finals, dec.layers, states)
    w, c, feed = params["decoder"], finals[-1][-1], np.zeros(dec.features)
    logits, weights = [], []
    for t, token in enumerate(target_in):
        y = w["embed"]["embedding"][token]
        if model.decoder.type == "plain":
            h, carries = step(w["stack"], dec, carries, y)
        elif model.decoder.type == "cho":
            h, carries = step(w["stack"], dec, carries, np.concatenate([y, c]))
            h = maxout(w["readout"], h, y, c)
        elif model.decoder.type == "bahdanau":
            context, a = attend(attention, w.get("attention", {}), carries[-1][-1], memory, t)
            h, carries = step(w["stack"], dec, carries, np.concatenate([y, context]))
            h = maxout(w["readout"], h, y, context)
            weights.append(a)
        else:
            x = np.concatenate([y, feed]) if attention.input_feeding else y
            h, carries = step(w["stack"], dec, carries, x)
            context, a = attend(attention, w.get("attention", {}), h, memory, t)
            h = feed = np.tanh(np.concatenate([context, h]) @ w["W_c"]["kernel"])
            weights.append(a)
        logits.append(h @ params["output"]["kernel"])
    return np.array(logits), np.array(weights)


def multi_head(w, xs, memory, heads, seen):
    """Queries xs over memory; `seen(t, s)` says which positions count. Outputs and weights."""
    outputs, weights = [], []
    for t, x in enumerate(xs):
        q, parts, alphas = x @ w["W_Q"]["kernel"], [], []
        k, v = memory @ w["W_K"]["kernel"], memory @ w["W_V"]["kernel"]
        for head in range(heads):
            width, deep = q.size // heads, v.shape[1] // heads
            own, out = (
                slice(head * width, (head + 1) * width),
                slice(head * deep, (head + 1) * deep),
            )
            visible = [s for s in range(len(memory)) if seen(t, s)]
            ratings = np.array([q[own] @ k[s, own] / np.sqrt(width) for s in visible])
            alpha = np.zeros(len(memory))
            alpha[visible] = softmax(ratings)
            parts.append(sum(alpha[s] * v[s, out] for s in visible))
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
    """Outputs, and the weights [heads, target, source] over the source."""
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
    """Logits and source attention [layers, heads, target, source] of one sentence pair."""
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


def dense(w, x):
    return x @ w["kernel"] + w.get("bias", 0)


def window(xs, t, width):
    """x_{t−w} to x_{t+w}, zeros outside."""
    zeros = np.zeros_like(xs[0])
    return [xs[s] if 0 <= s < len(xs) else zeros for s in range(t - width, t + width + 1)]


def windowed(w, xs, windows):
    """The MLP over a window and the time-delay network, step by step."""
    for i, width in enumerate(windows):
        kernel, bias = w[f"layer{i}"]["kernel"], w[f"layer{i}"]["bias"]
        xs = np.array([
            np.tanh(sum(x @ k for x, k in zip(window(xs, t, width), kernel, strict=True)) + bias)
            for t in range(len(xs))
        ])  # fmt: skip
    return xs


def delayed(cell, w, xs, layers, delay, reverse):
    """The state when `delay` more steps, zeros behind the end, have been read."""
    nothing = np.zeros((delay, xs.shape[1]))
    longer = [nothing, xs] if reverse else [xs, nothing]
    states, _ = stack(cell, w["stack"], np.concatenate(longer), layers, reverse=reverse)
    return states[: len(xs)] if reverse else states[delay:]


def characters(w, letters):
    """A word's letters to the largest of each feature over windows of three."""
    embedded = w["Embed_0"]["embedding"][letters]
    kernel, bias = w["Conv_0"]["kernel"], w["Conv_0"]["bias"]
    rows = [
        sum(x @ k for x, k in zip(window(embedded, i, 1), kernel, strict=True)) + bias
        for i in range(len(letters))
    ]
    return np.max(rows, axis=0)


def tagger(params, model, xs, network=None):
    """Outputs [networks, step, output] of one sequence of vectors."""
    network = network or model.network
    if network == "merged":
        ways = ("forward", "backward")
        return np.concatenate([tagger(params[way], model, xs, way) for way in ways])
    w, layers = params["network"], model.layers
    if network in ("mlp", "tdnn"):
        later = model.window if network == "tdnn" else 0
        features = windowed(w, xs, [model.window, *[later] * (layers - 1)])
    elif network == "brnn":
        features = stack(model.cell, w["stack"], xs, layers, bidirectional=True)[0]
    else:
        delay = model[f"{network}_delay"]
        features = delayed(model.cell, w, xs, layers, delay, network == "backward")
    return dense(params["output"], features)[None]


def sentence(params, model, words):
    """Logits of one sentence, and the hops where pooling is attention."""
    embedded = params["embed"]["embedding"][words]
    states, finals = stack(model.cell, params["stack"], embedded, model.layers, bidirectional=True)
    hops = None
    if model.pooling == "attention":
        w1, w2 = (params["attention"][name]["kernel"] for name in ("W_1", "W_2"))
        ratings = np.array([np.tanh(h @ w1) @ w2 for h in states])
        hops = np.array([softmax(ratings[:, r]) for r in range(ratings.shape[1])])
        vector = np.concatenate(
            [sum(a * h for a, h in zip(hop, states, strict=True)) for hop in hops]
        )
    elif model.pooling == "last":
        vector = finals[-1][-1]
    else:
        vector = {"mean": np.mean, "max": np.max}[model.pooling](states, axis=0)
    if model.hidden:
        vector = np.maximum(0, dense(params["hidden"], vector))
    return dense(params["output"], vector), hops


def look(w, states):
    """Yang 2016 eqs. 5 to 7: a vector and the weights that made it."""
    u = w["u"]["kernel"][:, 0]
    weights = softmax(np.array([np.tanh(dense(w["W"], h)) @ u for h in states]))
    return sum(a * h for a, h in zip(weights, states, strict=True)), weights


def han(params, model, document):
    """Logits of one document of sentences, the weights of words and of sentences."""
    vectors, of_words = [], []
    for words in document:
        embedded = params["embed"]["embedding"][words]
        states, _ = stack(model.cell, params["words"], embedded, 1, bidirectional=True)
        vector, weights = look(params["word_attention"], states)
        vectors.append(vector)
        of_words.append(weights)
    states, _ = stack(model.cell, params["sentences"], np.array(vectors), 1, bidirectional=True)
    vector, of_sentences = look(params["sentence_attention"], states)
    return dense(params["output"], vector), of_words, of_sentences


def reader(params, model, passage, query):
    """The attention s over a passage, and α and β where the reader has them."""

    def read(words):
        embedded = params["embed"]["embedding"][words]
        return stack(model.cell, params["stack"], embedded, model.layers, bidirectional=True)

    document, (asked, finals) = read(passage)[0], read(query)
    if model.reader == "attention_sum":
        return softmax(np.array([h @ finals[-1][-1] for h in document])), None, None
    ratings = np.array([[h @ q for q in asked] for h in document])
    alpha = np.array([softmax(ratings[:, j]) for j in range(len(query))])
    beta = np.mean([softmax(ratings[i]) for i in range(len(passage))], axis=0)
    s = np.array([sum(alpha[j, i] * beta[j] for j in range(len(query)))
                  for i in range(len(passage))])  # fmt: skip
    return s, alpha, beta
