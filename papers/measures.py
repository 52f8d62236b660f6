"""The measures of results tables: their column names and their location in scores.json."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from evaluation.metrics import FAITHFULNESS, Metric

Report = Mapping[str, Any]  # the contents of scores.json


class Measure(NamedTuple):
    """One column of a results table: a metric and its format."""

    name: str
    path: tuple[str, ...]  # keys of the value in scores.json, from the outermost key inwards
    lower_is_better: bool | None = False  # None: neither lower nor higher values are better
    form: str = ".2f"  # format specification of the displayed value
    scale: float = 1.0  # factor from the stored to the displayed value, e.g. 100 for percentages
    complement: bool = False  # display 1 minus the stored value, e.g. error rate for accuracy

    def of(self, report: Report) -> float | None:
        """Return the value of this measure in a report, or None if the report lacks it."""
        found: Any = report
        for part in self.path:
            if part not in found:
                return None
            found = found[part]
        if found is None:  # JSON's null stands for a score that is not finite
            return None
        return self.scale * ((1 - found) if self.complement else found)

    def put(self, report: dict[str, Any], value: float) -> None:
        """Store a value of this measure in a report, from which `of` reads it."""
        value = value / self.scale
        *outer, last = self.path
        for part in outer:
            report = report.setdefault(part, {})
        report[last] = 1 - value if self.complement else value


def _column(metric: Metric) -> str:
    """Return the name of a metric as the head of a column, such as "permuted weights, %"."""
    name = metric.full_name + (", %" if metric.unit == "%" else "")
    return name[:1].lower() + name[1:]


MEASURES = {
    "tokenized_bleu": Measure("tokenized BLEU", ("scores", "tokenized_bleu")),
    "bleu": Measure("BLEU", ("scores", "bleu")),
    "perplexity": Measure("perplexity", ("scores", "perplexity"), True),
    "exact": Measure("exact match, %", ("scores", "exact"), False, ".2f", 100),
    "wer": Measure("word error rate, %", ("scores", "exact"), True, ".2f", 100, complement=True),
    "per": Measure("phoneme error rate, %", ("scores", "token_error"), True, ".2f", 100),
    "aer": Measure("alignment error rate, %", ("scores", "alignment_error"), True, ".1f", 100),
    "effective": Measure(
        "effective number of attended tokens", ("attention", "attention", "effective"), None,
    ),
    "largest": Measure("largest attention weight", ("attention", "attention", "largest"), None),
    "small": Measure(
        "attention weights below 0.01, %", ("attention", "attention", "small"), None, ".0f", 100,
    ),
    "accuracy": Measure("accuracy, %", ("scores", "accuracy"), False, ".1f", 100),
    "error": Measure("error rate, %", ("scores", "accuracy"), True, ".1f", 100, complement=True),
    "frame": Measure("NLL per frame", ("scores", "loss"), True, ".3f"),
    "squared_error": Measure("squared error × 1000", ("scores", "loss"), True, ".3f", 1000),
}  # fmt: skip
MEASURES |= {
    key: Measure(_column(metric), ("faithfulness", key), None, metric.form, metric.scale)
    for key, metric in FAITHFULNESS.items()
}
