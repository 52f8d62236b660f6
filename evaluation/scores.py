"""Scores of hypotheses against references, and sacreBLEU's signatures of its settings.

A sentence may have several references, such as all pronunciations of a word.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import sacrebleu
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.base import Metric

References = Sequence[Sequence[str]]  # one list of references per sentence


def text_scores(
    hypotheses: Sequence[str], references: References, lowercase: bool = False
) -> dict[str, float]:
    """Return corpus BLEU and chrF (0–100) and the exact-match rate (0–1)."""
    scores = {
        name: metric.corpus_score(hypotheses, _streams(references)).score
        for name, metric in _metrics(lowercase).items()
    }
    return scores | {"exact": exact_match(hypotheses, references, lowercase)}


def exact_match(
    hypotheses: Sequence[str], references: References, lowercase: bool = False
) -> float:
    """Return the fraction of hypotheses that equal one of their references."""
    matches = exact_matches(hypotheses, references, lowercase)
    return sum(matches) / max(1, len(matches))


def exact_matches(hypotheses: Sequence[str], references: References, lowercase: bool) -> list[bool]:
    """Return, for each hypothesis, whether it equals one of its references.

    All kinds of white space are equal, because tokenizers replace no-break spaces by spaces.
    """

    def plain(text: str) -> str:
        return " ".join((text.lower() if lowercase else text).split())

    pairs = zip(hypotheses, references, strict=True)
    return [plain(h) in {plain(r) for r in several} for h, several in pairs]


def edit_rate(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> float:
    """Return TER: edits, including shifts of phrases, per 100 reference words.

    TER is by far the slowest score to compute.
    """
    metric = sacrebleu.TER(case_sensitive=not lowercase)
    return metric.corpus_score(hypotheses, _streams(references)).score


def sentence_chrf(hypothesis: str, references: Sequence[str], lowercase: bool = False) -> float:
    """Return the chrF (0–100) of one sentence."""
    metric = _metrics(lowercase)["chrf"]
    return metric.sentence_score(hypothesis, list(references)).score


def tokenized_bleu(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> float:
    """Return lowercased BLEU-4 of text that is already split into words (multi-bleu.perl -lc)."""
    joined = [" ".join(words) for words in hypotheses]
    streams = _streams([[" ".join(words) for words in several] for several in references])
    return TOKENIZED.corpus_score(joined, streams).score


def token_error_rate(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> float:
    """Return the number of insertions, deletions and substitutions per reference token.

    If a sentence has several references, the closest one is used. If tokens are phonemes, this is
    the phoneme error rate.
    """
    counts = token_errors(hypotheses, references)
    return sum(edits for edits, _ in counts) / max(1, sum(length for _, length in counts))


def token_errors(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> list[tuple[int, int]]:
    """Return, for each hypothesis, the edits to its closest reference, and the reference length."""
    found = []
    for hypothesis, several in zip(hypotheses, references, strict=True):
        counts = [(Levenshtein.distance(hypothesis, one), len(one)) for one in several]
        found.append(min(counts, key=lambda c: c[0] / max(1, c[1])))
    return found


def signatures(lowercase: bool = False, references: int = 1) -> dict[str, str]:
    """Return the signature of each metric, which states the version and settings of sacreBLEU."""
    ter = sacrebleu.TER(case_sensitive=not lowercase)
    metrics = _metrics(lowercase) | {"tokenized_bleu": TOKENIZED, "ter": ter}
    for metric in metrics.values():
        metric.corpus_score(["a"], [["a"]] * references)
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


def _streams(references: References) -> Any:
    """Return the references as sacreBLEU expects them: all first ones, all second ones, ..."""
    return [list(stream) for stream in itertools.zip_longest(*references)]


def _metrics(lowercase: bool) -> dict[str, Metric]:
    return {"bleu": detokenized_bleu(lowercase), "chrf": sacrebleu.CHRF(lowercase=lowercase)}


def detokenized_bleu(lowercase: bool) -> sacrebleu.BLEU:
    """Return sacreBLEU's BLEU, which tokenizes the texts itself."""
    # `force` disables sacreBLEU's warning about tokenized text, which is intended here.
    return sacrebleu.BLEU(lowercase, force=True)


TOKENIZED = sacrebleu.BLEU(lowercase=True, tokenize="none", force=True, smooth_method="none")
