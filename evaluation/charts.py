"""The bar charts of report.html as data, which report.html draws without further computation."""

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.metrics import metric_of

# Titles of the chart groups, with the same keys as "curves" in scores.json.
TITLES = {
    "source length": "Scores by source length in tokens",
    "unknown source tokens": "Scores by number of unknown source tokens",
    "beam width": "Scores by beam width",
}


def chart_groups(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return one group of charts per criterion, such as source length, with one chart per score.

    A chart whose bars would all be equal is replaced by a sentence in the group's "notes". There is
    no group for a criterion by which all sentences are in one part.
    """
    groups = []
    for criterion, parts in curves.items():
        if len(parts) < 2:
            continue
        charts: list[dict[str, Any]] = []
        notes: list[str] = []
        for key in parts[0]["scores"]:
            metric = metric_of(key)
            values = [(part, float(part["scores"][key])) for part in parts]
            texts = {metric.text(value) for _, value in values}
            if len(texts) == 1:
                unit = " %" if metric.unit == "%" else ""
                notes.append(f"{metric.name} is {texts.pop()}{unit} in every bucket.")
                continue
            bars = [
                {
                    "label": part["label"], "value": value, "text": metric.text(value),
                    "note": f"{part['sentences']:,} sentences",
                }
                for part, value in values
            ]  # fmt: skip
            charts.append({"title": metric.label, "bars": bars})
        title = TITLES.get(criterion, f"Scores by {criterion}")
        groups.append({"title": title, "charts": charts, "notes": notes})
    return groups


def position_chart(positions: Sequence[Mapping[str, float]]) -> dict[str, Any] | None:
    """Return a chart of the effective number of attended tokens by target position.

    Return None if all values are equal. `positions` is "attention_by_position" of scores.json.
    """
    texts = [f"{summary['effective']:.2f}" for summary in positions]
    if len(set(texts)) < 2:
        return None
    bars = [
        {
            "label": str(i + 1), "value": summary["effective"], "text": text,
            "note": f"{summary['tokens']:,} sentences",
        }
        for i, (summary, text) in enumerate(zip(positions, texts, strict=True))
    ]  # fmt: skip
    return {"title": "Effective number of attended tokens by target position", "bars": bars}
