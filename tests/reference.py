"""The papers' equations in plain NumPy, float64, one position at a time.

Written from the equations alone and sharing no code with models/: loops where the models batch,
dictionaries of weights where they have modules.
"""

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


def elman(w, carry, x):
    (h,) = carry
    return (np.tanh(h @ w["recurrent"]["kernel"] + x @ w["input"]["kernel"] + w["input"]["bias"]),)


def lstm(w, carry, x):
    c, h = carry
    n = len(h)

    def gate(i):
        own = slice(i * n, (i + 1) * n)
        recurrent, into = w["recurrent"]["kernel"][:, own], w["input"]["kernel"][:, own]
        return h @ recurrent + x @ into + w["input"]["bias"][own]

    f, i, o = sigmoid(gate(0)), sigmoid(gate(1)), sigmoid(gate(2))
    c = f * c + i * np.tanh(gate(3))
    return c, o * np.tanh(c)


def gru(w, carry, x):
    (h,) = carry
    n = len(h)
    into, recurrent = w["input"]["kernel"], w["recurrent"]["kernel"]
    z = sigmoid(h @ recurrent[:, :n] + x @ into[:, :n])
    r = sigmoid(h @ recurrent[:, n:] + x @ into[:, n : 2 * n])
    new = np.tanh((r * h) @ w["candidate"]["kernel"] + x @ into[:, 2 * n :])
    return ((1 - z) * h + z * new,)


CELLS = {"elman": (elman, 1), "lstm": (lstm, 2), "gru": (gru, 1)}


def run(cell, w, xs, carry=None, reverse=False):
    """Outputs and final carry of one sentence without padding."""
    step, states = CELLS[cell]
    n = w["recurrent"]["kernel"].shape[0]
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
    if name == "general":
        return np.array([h @ w["W_a"]["kernel"] @ s for s in memory])
    if name == "concat":
        whole = np.concatenate([w["W_a_query"]["kernel"], w["W_a_memory"]["kernel"]])
        v = w["v_a"]["kernel"][:, 0]
        return np.array([v @ np.tanh(np.concatenate([h, s]) @ whole) for s in memory])
    assert name == "location"
    return (h @ w["W_a"]["kernel"])[: len(memory)]


def luong(params, config, source, target_in):
    """Logits and attention of a whole translator for one sentence pair (Luong 2015 §3)."""
    enc, dec, attention = config.encoder, config.decoder, config.attention
    w = params["encoder"]
    embedded = w["embed"]["embedding"][source]
    memory, carries = stack(
        enc.cell, w["stack"], embedded, enc.layers, enc.bidirectional, residual=enc.residual
    )
    w = params["decoder"]
    feed = np.zeros(dec.features)
    logits, weights = [], []
    for token in target_in:
        x = w["embed"]["embedding"][token]
        if attention.input_feeding:
            x = np.concatenate([x, feed])
        new = []
        for layer in range(dec.layers):
            carry = CELLS[dec.cell][0](w["stack"][f"forward{layer}"], carries[layer], x)
            x = carry[-1] + x if dec.residual and layer > 0 else carry[-1]
            new.append(carry)
        carries, h = new, x
        if attention.align != "none":
            scored = w.get("attention", {}).get("score", {})
            a = softmax(score(attention.score, scored, h, memory))
            c = sum(a[s] * memory[s] for s in range(len(memory)))
            h = feed = np.tanh(np.concatenate([c, h]) @ w["W_c"]["kernel"])
            weights.append(a)
        logits.append(h @ params["output"]["kernel"])
    return np.array(logits), np.array(weights)
