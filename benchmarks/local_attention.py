"""What a decoder step costs as the source grows: local attention against global.

    python -m benchmarks.local_attention

Times one decoding step of Luong's model (logits and the next state) for sources of 128 to 2,048
words, and the memory that the compiled step works in. Local attention gathers 2D + 1 positions, so
its curve is flat; global attention's grows with the source.
"""

import statistics
import time
from typing import Any

import jax
from absl import app, flags

from configs.luong2015 import get_config
from models.seq2seq import make_seq2seq

_BATCH = flags.DEFINE_integer("batch", 32, "Sentences decoded together.")
_FEATURES = flags.DEFINE_integer("features", 256, "Width of the LSTM.")
_REPEATS = flags.DEFINE_integer("repeats", 60, "Timed steps a length; the median counts.")
_D = flags.DEFINE_integer("D", 10, "Half the window.")

ALIGNMENTS = ("global", "local_m", "local_p")
LENGTHS = (128, 256, 512, 1024, 2048)
VOCABULARY = 1000


def compiled_step(align: str, length: int) -> tuple[Any, tuple]:
    """One step, compiled for a source of so many words, and its arguments."""
    config = get_config(f"align={align},score=general,size=small").unlock()
    model_config = config.model
    model_config.dtype, model_config.attention.D = "float32", _D.value
    for stack in (model_config.encoder, model_config.decoder):
        stack.layers, stack.features, stack.embedding = 1, _FEATURES.value, _FEATURES.value
    model = make_seq2seq(model_config, VOCABULARY, VOCABULARY, reverse_source=False)
    source = jax.random.randint(jax.random.key(0), (_BATCH.value, length), 4, VOCABULARY)
    token = source[:, 0]
    few = source[:, :4]
    variables = jax.jit(model.init)(jax.random.key(1), few, few > 0, few)

    def encode(variables, source):
        memory = model.apply(variables, source, source > 0, method="encode")
        return memory, model.apply(variables, memory, 1, method="start")

    def step(variables, memory, state, token):
        result: Any = model.apply(variables, memory, state, token, method="step")
        return result[:2]  # nobody asks for the attention, so its row is not made

    memory, state = jax.jit(encode)(variables, source)
    arguments = (variables, memory, state, token)
    return jax.jit(step).lower(*arguments).compile(), arguments


def milliseconds(step: Any, arguments: tuple) -> float:
    variables, memory, state, token = arguments
    times = []
    for _ in range(_REPEATS.value + 5):
        began = time.perf_counter()
        logits, state = step(variables, memory, state, token)
        jax.block_until_ready(logits)
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[5:])


def main(argv: list[str]) -> None:
    kind, width = jax.devices()[0].device_kind, _FEATURES.value
    print(f"{kind}, batch {_BATCH.value}, 1 × {width} LSTM, D = {_D.value}")
    print("  source " + " ".join(f"{align + ' ms':>12} {'MiB':>7}" for align in ALIGNMENTS))
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for length in LENGTHS:
        cells = []
        for align in ALIGNMENTS:
            step, arguments = compiled_step(align, length)
            last[align] = milliseconds(step, arguments)
            first.setdefault(align, last[align])
            work = step.memory_analysis().temp_size_in_bytes / 2**20
            cells.append(f"{last[align]:12.3f} {work:7.2f}")
        print(f"{length:8,} " + " ".join(cells), flush=True)
    for align, base in first.items():
        growth = last[align] / base
        print(f"{align}: {growth:.2f} × from {LENGTHS[0]} to {LENGTHS[-1]:,} words")


if __name__ == "__main__":
    app.run(main)
