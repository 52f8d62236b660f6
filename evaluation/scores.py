"""Scores of hypotheses against references, with signatures where they have one."""

from collections.abc import Sequence

import sacrebleu


def text_scores(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> dict[str, float]:
    """Corpus BLEU and chrF (0–100) and the share of exact matches (0–1)."""
    metrics = _metrics(lowercase)
    scores = {
        name: metric.corpus_score(hypotheses, [references]).score
        for name, metric in metrics.items()
    }
    if lowercase:
        hypotheses, references = [h.lower() for h in hypotheses], [r.lower() for r in references]
    matches = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return scores | {"exact": matches / max(1, len(references))}


def tokenised_bleu(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> float:
    """Lowercased BLEU-4 over given words, which is what the papers report (multi-bleu.perl)."""
    joined = ([" ".join(words) for words in side] for side in (hypotheses, references))
    hypotheses, references = joined
    return _TOKENISED.corpus_score(hypotheses, [references]).score


def signatures(lowercase: bool = False) -> dict[str, str]:
    """How sacreBLEU computes the scores above: tokenisation, case, version."""
    metrics = _metrics(lowercase) | {"tokenised_bleu": _TOKENISED}
    for metric in metrics.values():
        metric.corpus_score(["a"], [["a"]])  # a signature names the number of references
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


def _metrics(lowercase: bool) -> dict[str, sacrebleu.BLEU | sacrebleu.CHRF]:
    return {"bleu": sacrebleu.BLEU(lowercase), "chrf": sacrebleu.CHRF(lowercase=lowercase)}


_TOKENISED = sacrebleu.BLEU(lowercase=True, tokenize="none", force=True)
