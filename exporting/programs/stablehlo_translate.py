"""Translate text with the exported functions, one sentence per line, by greedy decoding.

python translate.py < input.txt > output.txt
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
from safetensors.numpy import load_file

from exporting.text import read_export, read_sentences, read_vocabulary

_FOLDER = Path(__file__).resolve().parent
PAD, BOS, EOS = 0, 1, 2
ROWS, MULTIPLE = 32, 16  # few different batch shapes, because each of them is compiled


def load_functions() -> tuple[dict[str, Any], Any, Any]:
    """Return the weights and the functions encode and step."""
    encode, step = (
        jax.export.deserialize(bytearray((_FOLDER / f"{name}.stablehlo").read_bytes()))
        for name in ("encode", "step")
    )
    arguments, _ = jax.tree.unflatten(encode.in_tree, encode.in_avals)
    weights = {
        name: jax.numpy.asarray(x, arguments[0][name].dtype)
        for name, x in load_file(_FOLDER / "model.safetensors").items()
    }
    return weights, jax.jit(encode.call), jax.jit(step.call)


def greedy_search(sources: list[list[int]], export: dict[str, Any]) -> Iterator[list[int]]:
    """Yield the target tokens of each source, without </s>."""
    decode, fixed = export["decode"], export["source_length"]
    weights, encode, step = load_functions()
    for first in range(0, len(sources), ROWS):
        batch = sources[first : first + ROWS]
        width = fixed or -(-(max(map(len, batch)) + 1) // MULTIPLE) * MULTIPLE
        padded = np.full((ROWS, width), PAD, np.int32)
        for row, source in zip(padded, batch, strict=False):
            if len(source) >= width:
                sys.exit(f"error: a sentence has {len(source)} tokens; the limit is {width - 1}")
            row[: len(source) + 1] = [*source, EOS]
        lengths = np.array([len(source) for source in batch], np.float32)
        limits = (lengths * np.float32(decode["max_ratio"]) + decode["max_extra"]).astype(int)
        shortest = (lengths * np.float32(decode["min_ratio"])).astype(int)
        room = int(width * decode["max_ratio"] + decode["max_extra"])
        memory, state = encode(weights, padded, np.zeros(room, np.int32))
        tokens, found, done = np.full(ROWS, BOS, np.int32), [[] for _ in batch], lengths == 0
        while not done.all():
            output, state = step(weights, memory, state, tokens)
            scores = np.array(output)
            too_short = [i for i, target in enumerate(found) if len(target) < shortest[i]]
            scores[too_short, EOS] = -np.inf
            tokens = scores.argmax(axis=1).astype(np.int32)
            for i in np.flatnonzero(~done):
                if tokens[i] != EOS:
                    found[i].append(int(tokens[i]))
                done[i] = tokens[i] == EOS or len(found[i]) >= limits[i]
        yield from found


def main() -> None:
    export = read_export(_FOLDER)
    source, target = (read_vocabulary(_FOLDER, side) for side in ("source", "target"))
    lines = [source.ids(source.tokens(line)) for line in read_sentences(sys.stdin.buffer)]
    for ids in greedy_search(lines, export):
        print(" ".join(target.text([target.all_tokens[i] for i in ids]).splitlines()))


if __name__ == "__main__":
    main()
