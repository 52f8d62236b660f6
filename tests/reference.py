"""Reference implementation of the recurrent models in NumPy and float64.

It shares no code with models/: it processes single sentences in Python loops and reads parameters
from dictionaries. Gradients of the models are compared with finite differences of these functions.
The reference of the Transformer is tests/reference_transformer.py.
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


def check_gradient(loss, tree, gradient, rng, eps=1e-8):
    """Check that `gradient` matches a finite difference of `loss` along a random direction.

    A small eps makes it unlikely that the difference spans the kink of a ReLU or of a maximum.
    """
    leaves, structure = jax.tree.flatten(tree)
    direction = [rng.normal(size=leaf.shape) for leaf in leaves]

    def loss_along(distance):
        moved = [leaf + distance * d for leaf, d in zip(leaves, direction, strict=True)]
        return loss(jax.tree.unflatten(structure, moved))

    slope = (loss_along(eps) - loss_along(-eps)) / (2 * eps)
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
        columns = slice(i * n, (i + 1) * n)
        return x @ w["W"][:, columns] + h @ w["U"][:, columns] + w["b"][columns]

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


def gru_reset_after(w, carry, x):
    (h,) = carry
    (W_z, W_r, W_h), (U_z, U_r, U_h) = (np.split(w[name], 3, axis=1) for name in ("W", "U"))
    b_z, b_r, b_h = np.split(w["b"], 3)
    z = sigmoid(x @ W_z + h @ U_z + b_z)
    r = sigmoid(x @ W_r + h @ U_r + b_r)
    new = np.tanh(x @ W_h + r * (h @ U_h) + b_h)
    return ((1 - z) * h + z * new,)


CELLS = {
    "elman": (elman, 1),
    "lstm": (lstm, 2),
    "gru": (gru, 1),
    "gru_reset_after": (gru_reset_after, 1),
}


def run(cell, w, xs, carry=None, reverse=False):
    """Run a cell over one sentence without padding; return its outputs and its final carry."""
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
            backward, last = run(cell, w[f"backward{layer}"], xs, carry, True)
            ys = np.concatenate([ys, backward], axis=1)
            final = tuple(np.concatenate(p) for p in zip(final, last, strict=True))
        xs = ys + xs if residual and layer > 0 else ys
        finals.append(final)
    return xs, finals


def score(name, w, h, memory):
    """Return the attention score of every source position for the decoder state h."""
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
    if name == "location":
        return (h @ w["W_a"]["kernel"])[: len(memory)]
    raise NotImplementedError(f"write the equation of the score {name} here")


def align(settings, w, h, keys, t):
    """Return the attention weights of decoder state h at target position t, counted from 0."""
    length, D = len(keys), settings.D
    scores = score(settings.score, w.get("score", {}), h, keys)
    if settings.align in ("global", "hard", "marginal"):
        return softmax(scores)
    if settings.align not in ("local_m", "local_p"):
        raise NotImplementedError(f"write the equation of the alignment {settings.align} here")
    p = min(t, length - 1) if settings.clamp else t
    if settings.align == "local_p":
        hidden = np.tanh(h @ w["W_p"]["kernel"])
        p = length * sigmoid(hidden @ w["v_p"]["kernel"])[0]
    window = [s for s in range(length) if p - D <= s <= p + D]
    weights = np.zeros(length)
    if window:
        weights[window] = softmax(scores[window])
    if settings.align == "local_p":
        sigma = settings.sigma or D / 2
        weights *= np.exp(-((np.arange(length) - p) ** 2) / (2 * sigma**2))
        if settings.renormalize and weights.sum() > 0:
            weights /= weights.sum()
    return weights


def attend(settings, w, h, memory, t):
    """Return context vector and attention weights; hard attention selects the argmax position."""
    keys, values = memory, memory
    if settings.key_value == "split":
        keys, values = np.split(memory, 2, axis=1)
    weights = align(settings, w, h, keys, t)
    if settings.align == "hard":
        return values[weights.argmax()], weights
    return sum(weights[s] * values[s] for s in range(len(memory))), weights


def bridge(name, w, carries, layers, states):
    """Return the initial decoder carries, which the bridge `name` computes from the encoder's."""
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
    """Compute one time step of all decoder layers for the decoder input x."""
    new = []
    for layer in range(dec.layers):
        carry = CELLS[dec.cell][0](w[f"forward{layer}"], carries[layer], x)
        x = carry[-1] + x if dec.residual and layer > 0 else carry[-1]
        new.append(carry)
    return x, new


def bahdanau(w, dec, carries, y, context):
    """Compute one time step of the Bahdanau decoder for the input y and a context vector."""
    h, carries = step(w["stack"], dec, carries, np.concatenate([y, context]))
    return maxout(w["readout"], h, y, context), carries


def mixture(params, features, weights):
    """Return the logarithm of Σ_s α_s p(y | s), where p(y | s) is computed from features_s."""
    p = [softmax(feature @ params["output"]["kernel"]) for feature in features]
    return np.log(sum(a * q for a, q in zip(weights, p, strict=True)) / sum(weights))


def mixed_positions(attention, weights):
    """Return the positions whose output distributions are mixed; [] if there is one context."""
    if attention.align == "marginal":
        return range(len(weights))
    several = attention.align == "hard" and attention.positions > 1
    return np.argsort(-weights)[: attention.positions] if several else []


def translator(params, model, source, target_in, reverse_source=False):
    """Return the logits and attention weights of a translation model for one sentence pair."""
    enc, dec, attention = model.encoder, model.decoder, model.attention
    w = params["encoder"]
    memory, finals = stack(
        enc.cell, w["stack"], w["embed"]["embedding"][source], enc.layers, enc.bidirectional,
        reverse=reverse_source, residual=enc.residual,
    )  # fmt: skip
    states = CELLS[dec.cell][1]
    carries = bridge(model.bridge, params.get("bridge"), finals, dec.layers, states)
    w, c, feed = params["decoder"], finals[-1][-1], np.zeros(dec.features)
    logits, weights, mixed, features = [], [], [], []
    for t, token in enumerate(target_in):
        y = w["embed"]["embedding"][token]
        if model.decoder.type == "plain":
            h, carries = step(w["stack"], dec, carries, y)
        elif model.decoder.type == "cho":
            h, carries = step(w["stack"], dec, carries, np.concatenate([y, c]))
            h = maxout(w["readout"], h, y, c)
        elif model.decoder.type == "bahdanau":
            context, a = attend(attention, w.get("attention", {}), carries[-1][-1], memory, t)

            mixed = mixed_positions(attention, a)
            features = [bahdanau(w, dec, carries, y, memory[s])[0] for s in mixed]
            h, carries = bahdanau(w, dec, carries, y, context)
            weights.append(a)
        else:
            x = np.concatenate([y, feed]) if attention.input_feeding else y
            h, carries = step(w["stack"], dec, carries, x)
            context, a = attend(attention, w.get("attention", {}), h, memory, t)
            weights.append(a)
            mixed = mixed_positions(attention, a)
            features = [np.tanh(np.concatenate([memory[s], h]) @ w["W_c"]["kernel"]) for s in mixed]
            h = feed = np.tanh(np.concatenate([context, h]) @ w["W_c"]["kernel"])
        if len(mixed):
            logits.append(mixture(params, features, weights[-1][mixed]))
        else:
            logits.append(h @ params["output"]["kernel"])
    return np.array(logits), np.array(weights)


def dense(w, x):
    return x @ w["kernel"] + w.get("bias", 0)


def window(xs, t, width):
    """Return x_{t−width} to x_{t+width}, with zeros outside the sequence."""
    zeros = np.zeros_like(xs[0])
    return [xs[s] if 0 <= s < len(xs) else zeros for s in range(t - width, t + width + 1)]


def windowed(w, xs, windows):
    """Return the features of the windowed MLP or the time-delay network for every time step."""
    for i, width in enumerate(windows):
        kernel, bias = w[f"layer{i}"]["kernel"], w[f"layer{i}"]["bias"]
        xs = np.array([
            np.tanh(sum(x @ k for x, k in zip(window(xs, t, width), kernel, strict=True)) + bias)
            for t in range(len(xs))
        ])  # fmt: skip
    return xs


def delayed(cell, w, xs, layers, delay, reverse):
    """Return the state of each time step after `delay` more inputs (zeros beyond the end)."""
    zeros = np.zeros((delay, xs.shape[1]))
    padded = [zeros, xs] if reverse else [xs, zeros]
    states, _ = stack(cell, w["stack"], np.concatenate(padded), layers, reverse=reverse)
    return states[: len(xs)] if reverse else states[delay:]


def characters(w, letters):
    """Return the maximum of each feature over all windows of three letters of a word."""
    embedded = w["Embed_0"]["embedding"][letters]
    kernel, bias = w["Conv_0"]["kernel"], w["Conv_0"]["bias"]
    rows = [
        sum(x @ k for x, k in zip(window(embedded, i, 1), kernel, strict=True)) + bias
        for i in range(len(letters))
    ]
    return np.max(rows, axis=0)


def tagger(params, model, xs, network=None):
    """Return outputs [networks, time step, output] for one sequence of vectors."""
    network = network or model.network
    if network == "merged":
        directions = ("forward", "backward")
        return np.concatenate([tagger(params[name], model, xs, name) for name in directions])
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
    """Return the logits of one sentence and the attention weights [hops, tokens] (or None)."""
    embedded = params["embed"]["embedding"][words]
    states, finals = stack(model.cell, params["stack"], embedded, model.layers, bidirectional=True)
    hops = None
    if model.pooling == "attention":
        w1, w2 = (params["attention"][name]["kernel"] for name in ("W_1", "W_2"))
        scores = np.array([np.tanh(h @ w1) @ w2 for h in states])
        hops = np.array([softmax(scores[:, r]) for r in range(scores.shape[1])])
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


def context_attention(w, states):
    """Return the sum of the states, weighted by attention, and the weights (Yang 2016 eqs. 5–7)."""
    u = w["u"]["kernel"][:, 0]
    weights = softmax(np.array([np.tanh(dense(w["W"], h)) @ u for h in states]))
    return sum(a * h for a, h in zip(weights, states, strict=True)), weights


def han(params, model, document):
    """Return the logits of one document, and the attention weights of words and sentences."""
    vectors, word_weights = [], []
    for words in document:
        embedded = params["embed"]["embedding"][words]
        states, _ = stack(model.cell, params["words"], embedded, 1, bidirectional=True)
        vector, weights = context_attention(params["word_attention"], states)
        vectors.append(vector)
        word_weights.append(weights)
    states, _ = stack(model.cell, params["sentences"], np.array(vectors), 1, bidirectional=True)
    vector, sentence_weights = context_attention(params["sentence_attention"], states)
    return dense(params["output"], vector), word_weights, sentence_weights


def reader(params, model, passage, query):
    """Return attention weights s over a passage, and weights α, β of attention over attention.

    α and β are None for the attention-sum reader.
    """

    def read(words):
        embedded = params["embed"]["embedding"][words]
        return stack(model.cell, params["stack"], embedded, model.layers, bidirectional=True)

    document, (query_states, finals) = read(passage)[0], read(query)
    if model.reader == "attention_sum":
        return softmax(np.array([h @ finals[-1][-1] for h in document])), None, None
    scores = np.array([[h @ q for q in query_states] for h in document])
    alpha = np.array([softmax(scores[:, j]) for j in range(len(query))])
    beta = np.mean([softmax(scores[i]) for i in range(len(passage))], axis=0)
    s = np.array([sum(alpha[j, i] * beta[j] for j in range(len(query)))
                  for i in range(len(passage))])  # fmt: skip
    return s, alpha, beta
