"""Compare `models.scan.scan` with `jax.lax.scan` in whole training steps.

    python -m benchmarks.scan

The loss and gradients of every recurrent model are compiled twice: once with `models.scan.scan`,
and once with `jax.lax.scan` and the same unrolling. In every round, the two programs are timed one
after the other, so that other load on the machine slows both down. Times are medians over the
rounds. The ratio is the median over the rounds of the time with `jax.lax.scan` divided by the time
with `models.scan.scan`. Losses and gradients must agree up to rounding. CPUs run small models in
float32, and GPUs run larger models in bfloat16. --ablate adds the ratios of variants of
`models.scan.scan` that compute some weight gradients inside the loop.

Results are written to `<machine>.json` and `<machine>.md` in the folder --scan_out.
"""

import contextlib
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from jax import Array

import models.scan
from configs import bahdanau2015, lin2017, luong2015
from configs.base import Config
from data.vocabulary import PAD, SPECIALS
from markup import table
from models.classifiers import make_sentence
from models.embedding import Embed
from models.encoders import RecurrentEncoder
from models.recurrent import Stack
from models.seq2seq import make_seq2seq
from tasks.losses import class_values, cross_entropy
from training.devices import GPU_OPTIONS
from writing import write_json, write_text

_OUT = flags.DEFINE_string("scan_out", "docs/performance/scan", "Folder for the results.")
_ABLATE = flags.DEFINE_bool(
    "ablate",
    False,
    "Also measure variants of `models.scan.scan` without some of its optimizations.",
)
_ROWS = flags.DEFINE_string(
    "rows", "", "Measure only models whose names match this regular expression."
)

ROUNDS = 9  # number of timed rounds; the median time over rounds is reported
ROUND_SECONDS = 0.3  # approximate duration of one round of one program
DROPOUT = 0.1
# Largest allowed relative difference between the losses, and between the gradients, of the two
# programs. It is larger for bfloat16, because jax.lax.scan accumulates gradients in the
# dtype of the model.
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}

Loss = Callable[[Any, dict[str, Array], Array], Array]  # arguments: parameters, batch, dropout key


class Case(NamedTuple):
    """A model to measure, with the shape of its batches and its dtype."""

    make: Callable[["Case"], tuple[Loss, Any]]  # returns a loss and initial parameters
    vocabulary: int
    batch: int
    length: int
    dtype: str

    def tokens(self, seed: int) -> np.ndarray:
        """Return a batch of random token ids."""
        rng = np.random.default_rng(seed)
        shape = (self.batch, self.length)
        return rng.integers(len(SPECIALS), self.vocabulary, shape, dtype=np.int32)


def translator(config: Config, layers: int, features: int) -> Callable[[Case], Any]:
    """Return a `Case.make` for a recurrent translation model with teacher forcing."""
    model = config.unlock().model
    for stack in (model.encoder, model.decoder):
        stack.layers, stack.features, stack.embedding = layers, features, features
    model.decoder.maxout = features // 2
    model.dropout = DROPOUT

    def make(case: Case) -> tuple[Loss, Any]:
        model.dtype = case.dtype
        size = case.vocabulary
        module = make_seq2seq(model, size, size, reverse_source=False)

        def loss(params: Any, batch: dict[str, Array], key: Array) -> Array:
            source, target = batch["source"], batch["target"]

            def forward(module: Any) -> tuple[Array, Array]:
                memory = module.encode(source, source != PAD, False)
                inputs = jnp.roll(target, 1, axis=1)
                features, _ = module.decode(memory, inputs, False)
                return features.vectors, module.output_kernel()

            apply = nn.apply(forward, module)
            features, kernel = apply({"params": params}, rngs={"dropout": key})
            return cross_entropy(features, kernel, target, smoothing=0.0)[1]["loss"] / target.size

        token = jnp.ones((1, 1), jnp.int32)
        return loss, jax.jit(module.init)(jax.random.key(0), token, token > 0, token)["params"]

    return make


def encoder(features: int) -> Callable[[Case], Any]:
    """Return a `Case.make` for a bidirectional LSTM; the loss is the mean square of its states."""

    def make(case: Case) -> tuple[Loss, Any]:
        dtype = jnp.dtype(case.dtype)
        stack = Stack("lstm", features, 1, bidirectional=True, dropout=DROPOUT, dtype=dtype)
        module = RecurrentEncoder(Embed(case.vocabulary, features, dtype=dtype), stack)

        def loss(params: Any, batch: dict[str, Array], key: Array) -> Array:
            source = batch["source"]
            states, _ = module.apply(
                {"params": params}, source, source != PAD, False, rngs={"dropout": key}
            )
            return jnp.mean(states.astype(jnp.float32) ** 2)

        token = jnp.ones((1, 1), jnp.int32)
        return loss, jax.jit(module.init)(jax.random.key(0), token, token > 0)["params"]

    return make


def classifier(features: int, classes: int = 5) -> Callable[[Case], Any]:
    """Return a `Case.make` for the self-attentive BiLSTM of lin2017."""
    model = lin2017.get_config().unlock().model
    model.features = model.embedding = features

    def make(case: Case) -> tuple[Loss, Any]:
        model.dtype = case.dtype
        module = make_sentence(model, case.vocabulary, classes)

        def loss(params: Any, batch: dict[str, Array], key: Array) -> Array:
            rngs = {"dropout": key}
            logits, _ = module.apply({"params": params}, batch["source"], False, rngs=rngs)
            return class_values(logits, batch["target"][:, 0] % classes)["loss"].mean()

        token = jnp.ones((1, 1), jnp.int32)
        return loss, jax.jit(module.init)(jax.random.key(0), token)["params"]

    return make


def luong(layers: int, features: int) -> Callable[[Case], Any]:
    """Return a `Case.make` for Luong's model: global attention, general score, input feeding.

    The encoder is unidirectional.
    """
    config = luong2015.get_config("feed=yes").unlock()
    config.model.encoder.bidirectional = False
    return translator(config, layers, features)


def bahdanau(features: int) -> Callable[[Case], Any]:
    """Return a `Case.make` for Bahdanau's model: concat score, GRU, bidirectional encoder."""
    return translator(bahdanau2015.get_config(), 1, features)


CASES: dict[str, dict[str, Case]] = {
    "cpu": {
        "luong2015 1 × 128": Case(luong(1, 128), 2000, 32, 20, "float32"),
        "luong2015 2 × 256": Case(luong(2, 256), 2000, 32, 20, "float32"),
        "luong2015 2 × 512": Case(luong(2, 512), 2000, 16, 20, "float32"),
        "bidirectional encoder 1 × 256": Case(encoder(256), 2000, 32, 20, "float32"),
        "lin2017 BiLSTM 150": Case(classifier(150), 2000, 64, 20, "float32"),
    },
    "gpu": {
        "luong2015 1 × 128": Case(luong(1, 128), 10_000, 128, 50, "bfloat16"),
        "luong2015 2 × 256": Case(luong(2, 256), 10_000, 128, 50, "bfloat16"),
        "luong2015 2 × 512": Case(luong(2, 512), 17_000, 128, 50, "bfloat16"),
        "luong2015 4 × 1024": Case(luong(4, 1024), 50_000, 128, 50, "bfloat16"),
        "bahdanau2015 1 × 512": Case(bahdanau(512), 17_000, 128, 50, "bfloat16"),
        "bidirectional encoder 1 × 512": Case(encoder(512), 17_000, 128, 50, "bfloat16"),
        "lin2017 BiLSTM 150": Case(classifier(150), 17_000, 64, 50, "bfloat16"),
    },
}


@contextlib.contextmanager
def lax_scan() -> Iterator[None]:
    """Replace `models.scan.scan` by `jax.lax.scan` with the same unrolling."""

    def scan(step: Any, carry: Any, xs: Any, reverse: bool = False) -> Any:
        return jax.lax.scan(step, carry, xs, reverse=reverse, unroll=models.scan.unroll())

    with mock.patch.object(models.scan, "scan", scan):
        yield


@contextlib.contextmanager
def only(kept: Callable[[models.scan.Linear], bool]) -> Iterator[None]:
    """Restrict the weight gradients that `models.scan.scan` moves out of the loop.

    The weight gradient of an operation is moved only if `kept` returns True for the operation.
    """
    linear = models.scan._linear

    def filtered(*arguments: Any) -> models.scan.Linear | None:
        found = linear(*arguments)
        return found if found is not None and kept(found) else None

    with mock.patch.object(models.scan, "_linear", filtered):
        yield


def is_attention(linear: models.scan.Linear) -> bool:
    """Return whether a linear operation is a batched matrix product, as in attention."""
    return not linear.is_bias and bool(linear.equation.params["dimension_numbers"][1][0])


Variants = dict[str, Callable[[], contextlib.AbstractContextManager]]
VARIANTS: Variants = {"alignax": contextlib.nullcontext, "lax": lax_scan}
ABLATIONS: Variants = {
    "bias gradients in the loop": lambda: only(lambda linear: not linear.is_bias),
    "attention gradients in the loop": lambda: only(lambda linear: not is_attention(linear)),
    "all gradients in the loop": lambda: only(lambda linear: False),
}


def measure(case: Case, variants: Variants = VARIANTS) -> dict[str, Any]:
    """Measure time, compilation time and temporary memory of a training step for every variant."""
    loss, params = case.make(case)
    batch = jax.device_put({"source": case.tokens(0), "target": case.tokens(1)})
    arguments = (params, batch, jax.random.key(1))
    lower(loss, arguments)  # fill JAX's caches, which all variants share, before timing compilation
    row: dict[str, Any] = case._asdict() | {"unroll": models.scan.unroll()}
    del row["make"]
    programs = {}
    for name, variant in variants.items():
        with variant():
            began = time.perf_counter()
            programs[name] = lower(loss, arguments).compile()
            row[f"{name}_compile_seconds"] = time.perf_counter() - began
        memory = programs[name].memory_analysis()
        row[f"{name}_temporary_bytes"] = memory.temp_size_in_bytes
    results = {name: jax.device_get(program(*arguments)) for name, program in programs.items()}
    row |= differences(results["alignax"], results["lax"])
    if max(row["loss_difference"], row["gradient_difference"]) > TOLERANCE[case.dtype]:
        raise AssertionError(f"models.scan.scan and jax.lax.scan disagree: {row}")
    seconds = rounds(programs, arguments)
    for name in variants:
        row[f"{name}_milliseconds"] = 1e3 * statistics.median(seconds[name])
        row[f"{name}_ratio"] = statistics.median(np.divide(seconds["lax"], seconds[name]))
    return row


def lower(loss: Loss, arguments: tuple) -> Any:
    """Trace and lower a training step; `step` is a new function, so JAX has no cached trace."""

    def step(params: Any, batch: dict[str, Array], key: Array) -> tuple[Array, Any]:
        return jax.value_and_grad(lambda params: loss(params, batch, key))(params)

    options = GPU_OPTIONS if jax.default_backend() == "gpu" else None
    return jax.jit(step, compiler_options=options).lower(*arguments)


def differences(first: Any, second: Any) -> dict[str, float]:
    """Return the relative differences between two losses and between two gradient vectors."""
    vectors = [
        [np.float64(loss).ravel(), np.concatenate([np.float64(x).ravel() for x in leaves])]
        for loss, leaves in ((loss, jax.tree.leaves(grads)) for loss, grads in (first, second))
    ]
    distances = (
        float(np.linalg.norm(x - y) / np.linalg.norm(y)) for x, y in zip(*vectors, strict=True)
    )
    return dict(zip(("loss_difference", "gradient_difference"), distances, strict=True))


def rounds(programs: dict[str, Any], arguments: tuple) -> dict[str, list[float]]:
    """Return the seconds per call of each program in each round.

    In every round, the programs are timed one after the other.
    """

    def seconds(program: Any, calls: int) -> float:
        began = time.perf_counter()
        # Keep only the losses [0], so that the memory of the gradients is freed.
        results = [program(*arguments)[0] for _ in range(calls)]
        jax.block_until_ready(results)
        return (time.perf_counter() - began) / calls

    calls = {
        name: max(1, round(ROUND_SECONDS / seconds(program, 1)))
        for name, program in programs.items()
    }
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, program in programs.items():
            found[name].append(seconds(program, calls[name]))
    return found


def render(rows: dict[str, dict[str, Any]], ablations: Iterable[str] = ()) -> str:
    """Return the results as a Markdown table."""
    head = [
        "model", "batch × length", "ms", "ms, lax.scan", "ratio", "compile s",
        "compile s, lax.scan", "temporary MB", "temporary MB, lax.scan", "gradient difference",
        *(f"ratio, {name}" for name in ablations),
    ]  # fmt: skip
    return table(head, (
        [
            name, f"{row['batch']} × {row['length']}",
            f"{row['alignax_milliseconds']:.1f}", f"{row['lax_milliseconds']:.1f}",
            f"{row['alignax_ratio']:.2f} ×",
            f"{row['alignax_compile_seconds']:.1f}", f"{row['lax_compile_seconds']:.1f}",
            f"{row['alignax_temporary_bytes'] / 1e6:.1f}",
            f"{row['lax_temporary_bytes'] / 1e6:.1f}",
            f"{row['gradient_difference']:.0e}",
            *(f"{row[f'{name}_ratio']:.2f} ×" for name in ablations),
        ]
        for name, row in rows.items()
    ))  # fmt: skip


def main(_: list[str]) -> None:
    """Measure all models on this machine, and write and print the results."""
    device = jax.devices()[0]
    gpu = device.platform == "gpu"
    machine = re.sub(r"\W+", "-", device.device_kind if gpu else "cpu").strip("-").lower()
    ablations = ABLATIONS if _ABLATE.value else {}
    rows = {}
    for name, case in CASES["gpu" if gpu else "cpu"].items():
        if re.search(_ROWS.value, name):
            rows[name] = measure(case, VARIANTS | ablations)
            print(render({name: rows[name]}, ablations).splitlines()[-1], flush=True)
    cores = f"{platform.machine()}, {os.cpu_count()} CPU cores"
    results = {
        "device": device.device_kind if gpu else cores,
        "versions": f"jax {jax.__version__}",
        "scan": rows,
    }
    path = Path(_OUT.value) / f"{machine}{'-ablation' if ablations else ''}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, results)
    write_text(path.with_suffix(".md"), render(rows, ablations))
    print(f"\n{results['device']}, {results['versions']}\n\n{render(rows, ablations)}")


if __name__ == "__main__":
    app.run(main)
