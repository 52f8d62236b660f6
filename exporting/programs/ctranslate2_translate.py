"""Translate text with CTranslate2, one sentence per line.

python translate.py < input.txt > output.txt

The translations are those of predict.py of Alignax with the decode settings in export.json. With
decode.nbest > 1, a line consists of the number of the input line, the score and the translation.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

from exporting.text import read_export, read_sentences, read_vocabulary

_FOLDER = Path(__file__).resolve().parent


def options(decode: dict[str, Any], length: int) -> dict[str, Any]:
    """Return the options of `translate_batch` for sentences of `length` source tokens."""
    longest = int(np.float32(length) * np.float32(decode["max_ratio"]) + decode["max_extra"])
    shortest = int(np.float32(length) * np.float32(decode["min_ratio"]))
    chosen = {
        "beam_size": decode["beam"],
        "num_hypotheses": decode["nbest"],
        "length_penalty": decode["alpha"] if decode["length_penalty"] == "average" else 0.0,
        "coverage_penalty": decode["coverage"],
        "max_decoding_length": longest,
        "min_decoding_length": shortest,
        "max_input_length": 0,  # no limit
        "suppress_sequences": [["<pad>"], ["<s>"]],
        "return_end_token": True,  # lengths in the length penalty include </s>
        "return_scores": True,
        "max_batch_size": decode["batch"],
    }
    if decode["beam"] > 1:
        # Never stop early because enough hypotheses are finished: a longer one can be better.
        chosen["patience"] = float(longest)
    if _reranked(decode):
        chosen["num_hypotheses"] = decode["beam"] * longest  # all finished hypotheses
    if decode["temperature"]:
        chosen["sampling_temperature"] = decode["temperature"]
        chosen["sampling_topk"], chosen["sampling_topp"] = decode["top_k"], decode["top_p"]
    if decode["replace_unknown"]:
        chosen["return_attention"] = True
    return chosen


def _reranked(decode: dict[str, Any]) -> bool:
    """Return whether this program ranks all finished hypotheses, instead of CTranslate2.

    CTranslate2 has no length penalty gnmt, and without a penalty it stops as soon as the best
    hypothesis is known, although others may be better than those that it returns with it.
    """
    exact = decode["length_penalty"] == "average" or decode["coverage"] > 0
    ranks = decode["length_penalty"] == "gnmt" or (decode["nbest"] > 1 and not exact)
    return decode["beam"] > 1 and ranks


def _score(decode: dict[str, Any], score: float, length: int) -> float:
    """Divide the log-probability of a hypothesis by the length penalty that it does not have."""
    gnmt = decode["length_penalty"] == "gnmt"
    return score / ((5 + length) / 6) ** decode["alpha"] if gnmt else score


def _replace_unknown(tokens: list[str], attention: list[list[float]], source: list[str]) -> None:
    """Replace each <unk> by the source word with the largest attention weight."""
    for t, token in enumerate(tokens):
        if token == "<unk>":
            word = source[int(np.argmax(attention[t]))]
            tokens[t] = word.removeprefix("￭").removeprefix("▁").removesuffix("@@")


def translations(
    translator: Any, decode: dict[str, Any], sources: list[list[str]]
) -> Iterator[tuple[int, list[tuple[float, list[str]]]]]:
    """Yield the index of each source with its hypotheses: scores and tokens, without </s>."""
    by_length: dict[int, list[int]] = {}
    for i, source in enumerate(sources):
        by_length.setdefault(len(source), []).append(i)
    for i in by_length.pop(0, []):
        yield i, [(0.0, [])]
    for length, members in sorted(by_length.items()):
        batch = [sources[i] for i in members]
        results = translator.translate_batch(batch, **options(decode, length))
        for i, result in zip(members, results, strict=True):
            found = []
            for rank, tokens in enumerate(result.hypotheses):
                score = _score(decode, result.scores[rank], len(tokens))
                if decode["replace_unknown"]:
                    _replace_unknown(tokens, result.attention[rank], sources[i])
                found.append((score, tokens[:-1] if tokens[-1:] == ["</s>"] else tokens))
            found.sort(key=lambda hypothesis: -hypothesis[0])
            yield i, found[: decode["nbest"]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Translate standard input with CTranslate2.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--compute_type", default="float32", help="such as int8 or float16")
    arguments = parser.parse_args()
    decode = read_export(_FOLDER)["decode"]
    ctranslate2.set_random_seed(decode["seed"])
    source, target = (read_vocabulary(_FOLDER, side) for side in ("source", "target"))
    translator = ctranslate2.Translator(
        str(_FOLDER), device=arguments.device, compute_type=arguments.compute_type
    )
    lines = [source.tokens(line) for line in read_sentences(sys.stdin.buffer)]
    found = dict(translations(translator, decode, lines))
    for i in range(len(lines)):
        for score, tokens in found[i]:
            text = " ".join(target.text(tokens).splitlines())
            print(f"{i}\t{score:.4f}\t{text}" if decode["nbest"] > 1 else text)


if __name__ == "__main__":
    main()
