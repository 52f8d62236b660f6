"""Names, units and directions of scores, for reports and printed tables."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """Display format of a score.

    The displayed value is the stored value times `scale`, in `unit`.
    """

    name: str
    unit: str = ""
    higher_is_better: bool | None = None  # None: neither higher nor lower values are better
    scale: float = 1.0
    form: str = ".2f"
    note: str = ""  # how the score is computed, for scores without a sacreBLEU signature

    @property
    def direction(self) -> str:
        """Return "higher is better", "lower is better" or "" (neither)."""
        words = {True: "higher is better", False: "lower is better", None: ""}
        return words[self.higher_is_better]

    @property
    def label(self) -> str:
        """Return the name with unit and direction, such as "BLEU (0–100, higher is better)"."""
        details = ", ".join(filter(None, (self.unit, self.direction)))
        return f"{self.name} ({details})" if details else self.name

    @property
    def full_name(self) -> str:
        """Return the name with the note, such as "Permuted weights, changed predictions"."""
        return ", ".join(filter(None, (self.name, self.note)))

    def text(self, value: float) -> str:
        """Format a stored value in the metric's unit, without the name of the unit."""
        if not math.isfinite(value):
            return "n/a"
        return format(self.scale * value, self.form if abs(value) < 1e6 else ".4g")


def _percent(name: str, higher_is_better: bool | None, note: str = "") -> Metric:
    return Metric(name, "%", higher_is_better, scale=100, note=note)


# Metrics by their keys in "scores" of scores.json. That file stores percentages as fractions.
METRICS = {
    "loss": Metric("Loss", "", False, form=".4g"),
    "perplexity": Metric("Perplexity", "per token", False, form=".3f", note="exp of the loss"),
    "accuracy": _percent("Accuracy", True),
    "bleu": Metric("BLEU", "sacreBLEU, 0–100", True),
    "tokenized_bleu": Metric("Tokenized BLEU", "0–100", True),
    "chrf": Metric("chrF", "sacreBLEU, 0–100", True),
    "ter": Metric("TER", "edits per 100 reference words", False),
    "exact": _percent("Exact match", True, "hypotheses that equal a reference"),
    "token_error": _percent("Token error rate", False, "edits per reference token"),
    "alignment_error": _percent("Alignment error rate", False, "teacher-forced attention"),
    "precision": _percent("Chunk precision", True),
    "recall": _percent("Chunk recall", True),
    "f1": _percent("Chunk F1", True),
    "error": _percent("Error rate", False),
    "macro_f1": _percent("Macro F1", True, "mean F1 of the classes"),
    "most_frequent": _percent("Baseline accuracy", None, "the most frequent candidate"),
}

_SIGNED = "z.2f"  # z: a negative number that is rounded to zero has no sign
# Metrics by their keys in "faithfulness" of scores.json, in the order of reports.
FAITHFULNESS = {
    "drop_attention": Metric(
        "Removal of the most attended token", "nats", form=_SIGNED, note="drop in log p"
    ),
    "drop_gradient": Metric(
        "Removal of the token with the largest gradient", "nats", form=_SIGNED, note="drop in log p"
    ),
    "drop_random": Metric("Removal of a random token", "nats", form=_SIGNED, note="drop in log p"),
    "tau_gradient": Metric(
        "Attention and gradient × input", "Kendall τ", form=_SIGNED, note="rank correlation"
    ),
    "tau_removal": Metric(
        "Attention and removal", "Kendall τ", form=_SIGNED, note="rank correlation"
    ),
    "permuted_tv": Metric("Permuted weights", "0–1", note="total variation distance"),
    "permuted_changed": Metric("Permuted weights", "%", scale=100, note="changed predictions"),
    "uniform_tv": Metric("Uniform weights", "0–1", note="total variation distance"),
    "uniform_changed": Metric("Uniform weights", "%", scale=100, note="changed predictions"),
    "adversarial_jsd": Metric(
        "Adversarial weights", "0–0.69", note="Jensen–Shannon divergence of the weights"
    ),
    "adversarial_tv": Metric("Adversarial weights", "0–1", note="total variation distance"),
    "largest_jsd": Metric(
        "Largest change of the weights", "0–0.69", note="Jensen–Shannon divergence, any output"
    ),
    # These two cover the sampled predictions. The attention statistics of a report compute them for
    # all references, including </s>.
    "effective_tokens": Metric(
        "Sampled predictions", "tokens", note="effective number of attended tokens"
    ),
    "largest_weight": Metric("Sampled predictions", "0–1", note="largest attention weight"),
}


def in_sentence(name: str) -> str:
    """Return the name of a score as it is written inside a sentence, such as "exact match"."""
    return name if name[:2].isupper() or name == "chrF" else name[:1].lower() + name[1:]


def metric_of(key: str) -> Metric:
    """Return the metric of a score; an unknown score gets its key as its name."""
    return METRICS.get(key, Metric(key, form=".4g"))


def describe_scores(
    scores: Mapping[str, float], signatures: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return one dictionary per score with its name, unit, direction, value and signature.

    For a score without a signature, the signature is a note on how the score is computed.
    """
    rows = []
    for key, value in scores.items():
        metric = metric_of(key)
        rows.append(
            {
                "name": metric.name, "unit": metric.unit, "direction": metric.direction,
                "value": metric.text(value), "signature": signatures.get(key, metric.note),
            }
        )  # fmt: skip
    return rows


def print_scores(scores: Mapping[str, float], signatures: Mapping[str, str]) -> None:
    """Print one line per score: name, value, unit, direction and signature."""
    for key, value in scores.items():
        metric = metric_of(key)
        details = metric.label.removeprefix(metric.name).strip()
        line = (
            f"{metric.name:>22}: {metric.text(value)} {details}  {signatures.get(key, metric.note)}"
        )
        print(line.rstrip())
