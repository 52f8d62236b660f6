"""Write docs/performance.md and its plots from the benchmark results in docs/performance/.

python -m benchmarks.report
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from evaluation.tables import table
from program import run

FOLDER = Path("docs/performance")
DECISIONS = "## Decisions and their measurements"  # the last section, written by hand
HEAD = """# Performance

`python -m benchmarks.speed` and `python -m benchmarks.growth` write `docs/performance/*.json`, and
`python -m benchmarks.report` makes this page from those files. All figures of a comparison are
from one run on one machine. The PyTorch models are in `benchmarks/torch_models.py`. On GPUs, the
recurrent model used the faster of float32 with TF32 and bfloat16 autocast, and the Transformer
used torch.compile and bfloat16. Times are medians of five rounds of half a second. When the beam
search figures were measured, the PyTorch model encoded the source once per hypothesis; it now
encodes the source once.
"""


def _number(row: dict[str, Any], name: str, form: str = ",.0f", scale: float = 1.0) -> str:
    return format(row[name] * scale, form) if name in row else "–"


def _short(value: float) -> str:
    """Format a number with three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(row: dict[str, Any], ours: str, theirs: str) -> str:
    return f"{row[ours] / row[theirs]:.2f} ×" if theirs in row else "–"


def training(rows: dict[str, dict[str, Any]]) -> str:
    """Loss and gradient of one batch."""
    head = [
        "training step", "parameters", "tokens/s", "PyTorch", "ratio", "ms", "TFLOP/s",
        "of matrix rate", "GB", "PyTorch GB", "compile s",
    ]  # fmt: skip
    return table(head, (
        [
            name, _number(row, "parameters", ".1f", 1e-6) + " M", _number(row, "tokens_per_second"),
            _number(row, "torch_tokens_per_second"),
            _ratio(row, "tokens_per_second", "torch_tokens_per_second"),
            _number(row, "milliseconds", ",.1f"), _number(row, "teraflops", ",.2f"),
            _number(row, "share_of_matrix_rate", ".0%"), _number(row, "gigabytes", ".2f"),
            _number(row, "torch_gigabytes", ".2f") if row.get("torch_gigabytes") else "–",
            _number(row, "compile_seconds", ".1f"),
        ]
        for name, row in rows.items()
    ))  # fmt: skip


def decoding(rows: dict[str, dict[str, Any]]) -> str:
    """Batches of 64 sentences (32 on a CPU); hypotheses are one token shorter than the sources."""
    head = ["decoding, sentences/s", "greedy", "PyTorch", "ratio", "beam 5", "PyTorch", "ratio"]

    def cells(row: dict[str, Any]) -> list[str]:
        pairs = ((f"{way}_per_second", f"torch_{way}_per_second") for way in ("greedy", "beam"))
        return [
            cell
            for ours, theirs in pairs
            for cell in (_number(row, ours), _number(row, theirs), _ratio(row, ours, theirs))
        ]

    return table(head, ([name, *cells(row)] for name, row in rows.items()))


def whole(rows: dict[str, dict[str, Any]]) -> str:
    """Whole runs of the programs."""
    head = [
        "train.py", "tokens/s", "its bare step", "share", "steps", "seconds, compiling and all",
        "test sentences", "beam 5, s",
    ]  # fmt: skip
    return table(head, (
        [
            name, _number(row, "tokens_per_second"), _number(row, "bare_tokens_per_second"),
            f"{row['tokens_per_second'] / row['bare_tokens_per_second']:.0%}",
            _number(row, "steps"), _number(row, "seconds"), _number(row, "test_sentences"),
            _number(row, "test_seconds", ".2f"),
        ]
        for name, row in rows.items()
    ))  # fmt: skip


PARTS: dict[str, Callable[[dict[str, dict[str, Any]]], str]] = {
    "training": training,
    "decoding": decoding,
    "whole": whole,
}


def growth(results: dict[str, Any], picture: Path) -> str:
    """Return the tables of growing costs, and plot them."""
    names = [name for name in results if name != "device"]
    figure, places = plt.subplots(1, len(names), figsize=(4 * len(names), 3.2), squeeze=False)
    text = ""
    for name, place in zip(names, places[0], strict=True):
        rows = results[name]
        head = list(rows[0])
        text += table(head, ([_short(row[key]) for key in head] for row in rows)) + "\n"
        for key in head[1:]:
            first = rows[0][key] or 1
            place.plot([r[head[0]] for r in rows], [r[key] / first for r in rows], "o-", label=key)
        place.set(xscale="log", yscale="log", xlabel=head[0], ylabel="times the first")
        ticks = [row[head[0]] for row in rows]
        place.set_xticks(ticks, labels=map(_short, ticks), fontsize=7)
        place.set_xticks([], minor=True)
        place.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return f"![how cost grows](performance/{picture.name})\n\n{text}"


def main() -> None:
    text = HEAD
    for path in sorted(FOLDER.glob("*.json")):
        if path.stem.endswith("-growth"):
            continue
        results = json.loads(path.read_text("utf-8"))
        rows = [row for part in PARTS for row in results.get(part, {}).values()]
        versions = "; ".join(sorted({row["versions"] for row in rows}))
        rate = results["matrix_rate"] / 1e12
        text += f"\n## {results['device']}\n\n{versions}. A large matrix product runs at "
        text += f"{rate:,.3g} TFLOP/s.\n"
        for part, render in PARTS.items():
            if part in results:
                text += f"\n{render.__doc__}\n\n{render(results[part])}"
        grown = path.with_name(f"{path.stem}-growth.json")
        if grown.exists():
            text += "\n### How cost grows\n\n"
            text += growth(json.loads(grown.read_text("utf-8")), grown.with_suffix(".png"))
    page = Path("docs/performance.md")
    before = page.read_text("utf-8") if page.exists() else ""
    page.write_text(text + "".join(before.partition(f"\n{DECISIONS}\n")[1:]), "utf-8")


if __name__ == "__main__":
    run(main)
