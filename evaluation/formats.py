"""The output of predict.py: text for people, TSV for tables, and one JSON object per input."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from decoding.translator import Hypothesis
from tasks.task import LabelledInput
from writing import to_json

LIKELY = 0.5  # in text, notes with at least this probability are listed


def hypothesis_record(
    line: int,
    rank: int,
    source: Sequence[str],
    unknown: Sequence[str],
    hypothesis: Hypothesis,
    attention: bool,
) -> str:
    """Return the JSON line of a hypothesis.

    `source` contains the tokens of the input line, and `unknown` those outside the vocabulary.
    """
    record: dict[str, Any] = {
        "line": line, "rank": rank, "score": hypothesis.score, "log_p": hypothesis.log_p,
        "text": hypothesis.text, "source": [*source, "</s>"], "target": hypothesis.tokens,
        "unknown": list(unknown),
    }  # fmt: skip
    if attention:
        weights = hypothesis.attention
        record["attention"] = None if weights is None else weights.round(4).tolist()
    return to_json(record) + "\n"


def hypothesis_text(line: int, hypothesis: Hypothesis, numbered: bool) -> str:
    """Return the text of a hypothesis; if `numbered`, after its line number and its score."""
    text = " ".join(hypothesis.text.splitlines())
    if not numbered:
        return f"{text}\n"
    return f"{line}\t{hypothesis.score:.4f}\t{text.replace(chr(9), ' ')}\n"


def input_record(number: int, result: LabelledInput, attention: bool) -> str:
    """Return the JSON line of a labelled input."""
    record: dict[str, Any] = {"input": number}
    for name, words in result.text.items():
        if name in ("words", "word", "passage", "query", "candidates"):
            record["tokens" if name in ("words", "word") else name] = words
    if isinstance(result.label, np.ndarray):
        values = result.label.astype(float)
        record["label"] = (values[:, 0] if values.shape[1] == 1 else values).tolist()
    else:
        record |= {"label": result.label, "p": _plain(result.p)}
    if isinstance(result.probabilities, dict):
        record["probabilities"] = result.probabilities
    if result.words or "tokens" in record:
        record["unknown"] = list(result.unknown)
    if attention:
        weights = result.attention
        record["attention"] = {name: w.round(4).tolist() for name, w in weights.items()}
    return to_json(record) + "\n"


def _plain(p: Any) -> Any:
    return p.astype(float).tolist() if isinstance(p, np.ndarray) else p


def input_text(number: int, result: LabelledInput, tsv: bool) -> str:
    """Return the lines of a labelled input, as text for people or as TSV.

    A sequence has one line per time step; in text, a blank line follows it.
    """
    if result.label is None:
        return f"{number}\t\t\n" if tsv else "\n"
    if isinstance(result.label, str):
        shown = f"{result.p:.4f}"
        return f"{number}\t{result.label}\t{shown}\n" if tsv else f"{result.label} {shown}\n"
    rows = _time_steps(result, tsv)
    if tsv:
        return "".join(f"{number}\t{step}\t{row}\n" for step, row in enumerate(rows))
    return "".join(f"{row}\n" for row in rows) + "\n"


def _time_steps(result: LabelledInput, tsv: bool) -> Iterator[str]:
    """Yield the text of every time step of a sequence."""
    if isinstance(result.label, np.ndarray):
        for values in result.label.tolist():
            if tsv or len(values) == 1:
                yield "\t".join(f"{x:.4f}" for x in values)
            else:
                likely = [f"{note}:{p:.2f}" for note, p in enumerate(values) if p >= LIKELY]
                yield " ".join(likely) or "-"
        return
    words = [[word] for word in result.text.get("word", ())] or [[] for _ in result.label]
    for word, label, p in zip(words, result.label, result.p, strict=True):
        yield "\t".join([*word, label, f"{p:.4f}"]) if tsv else " ".join([*word, label])
