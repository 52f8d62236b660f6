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

from benchmarks.startup_process import COMPILATION, DATA, FIRST, IMPORTS, MODEL, REST
from markup import table
from program import run

FOLDER = Path("docs/performance")
# Heading of the handwritten last section, which is kept when the page is written again.
DECISIONS = "## Decisions and their measurements"
HEAD = """# Performance

`python -m benchmarks.speed`, `python -m benchmarks.growth` and `python -m benchmarks.startup` write
`docs/performance/*.json`, and `python -m benchmarks.report` generates this page from those files.
The first two compile all models before they time any of them; then the models take turns in five
rounds of half a second, and the tables show medians (`benchmarks/turns.py`). A ratio is the speed
of Alignax divided by the speed of PyTorch. `python -m benchmarks.kernels` prints the operations of
a training step and of beam search by total time.

The PyTorch models are in `benchmarks/torch_models.py`. `benchmarks/peers.py` runs each of them
eagerly and with torch.compile (on GPUs also with CUDA graphs), in float32 (with TF32 on GPUs) and,
on GPUs, in bfloat16. The tables name the fastest setup.

The aarch64 results are older than this method. Models were timed one after another, and PyTorch was
measured eagerly only; its beam search encoded the source once per hypothesis, and was not
compiled.
"""


def _number(row: dict[str, Any], name: str, form: str = ",.0f", scale: float = 1.0) -> str:
    return format(row[name] * scale, form) if name in row else "–"


def _short(value: float) -> str:
    """Format a number with at least three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(row: dict[str, Any], name: str, reference: str) -> str:
    return f"{row[name] / row[reference]:.2f} ×" if reference in row else "–"


def training(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of training steps."""
    head = [
        "model", "parameters", "tokens/s", "PyTorch tokens/s", "ratio", "fastest PyTorch setup",
        "ms per training step",
        "TFLOP/s", "TFLOP/s relative to matrix product", "memory, GB", "PyTorch memory, GB",
    ]  # fmt: skip
    return table(head, (
        [
            name, _number(row, "parameters", ".1f", 1e-6) + " M", _number(row, "tokens_per_second"),
            _number(row, "torch_tokens_per_second"),
            _ratio(row, "tokens_per_second", "torch_tokens_per_second"),
            row.get("torch_fastest_way", "–"), _number(row, "milliseconds", ",.1f"),
            _number(row, "teraflops", ",.2f"),
            _number(row, "share_of_matrix_rate", ".0%"), _number(row, "gigabytes", ".2f"),
            _number(row, "torch_gigabytes", ".2f") if row.get("torch_gigabytes") else "–",
        ]
        for name, row in rows.items()
    ))  # fmt: skip


def decoding(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of greedy decoding and beam search."""
    head = [
        "model", "greedy", "PyTorch greedy", "ratio", "beam 5", "PyTorch beam 5", "ratio",
        "fastest PyTorch setup (beam 5)",
    ]  # fmt: skip

    def cells(row: dict[str, Any]) -> list[str]:
        pairs = ((f"{way}_per_second", f"torch_{way}_per_second") for way in ("greedy", "beam"))
        return [
            cell
            for name, torch in pairs
            for cell in (_number(row, name), _number(row, torch), _ratio(row, name, torch))
        ]

    return table(
        head, ([name, *cells(row), row.get("torch_beam_way", "–")] for name, row in rows.items())
    )


def whole(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of whole training runs."""
    head = [
        "config and corpus", "tokens/s", "training step alone, tokens/s",
        "relative to training step alone", "training steps", "total seconds", "test sentences",
        "seconds to translate (beam 5)",
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


def startup(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of the time from a command to its first result."""
    phases = (IMPORTS, DATA, MODEL, COMPILATION, FIRST, REST)
    return table(["program, config and compilation cache", "total", *phases], (
        [name, *(_number(row, column, ".2f") for column in ("total", *phases))]
        for name, row in rows.items()
    ))  # fmt: skip


# Maps each part of a results file to the function that returns its table, and to a table caption.
PARTS: dict[str, tuple[Callable[[dict[str, dict[str, Any]]], str], str]] = {
    "training": (
        training,
        "Time of a training step, which computes the loss and its gradient for one batch. One "
        "column compares\nthe TFLOP/s of the training step with those of a large matrix product.",
    ),
    "decoding": (
        decoding,
        "Decoding speed, in sentences per second, with batches of 64 sentences (32 on a CPU). "
        "Every hypothesis\nis one token shorter than its source.",
    ),
    "whole": (
        whole,
        "Whole runs of `train.py`. The total seconds include compilation; the tokens per second "
        "are the median\nof the second half of the run. The last columns show the translation of "
        "the test split.",
    ),
    "startup": (
        startup,
        "Seconds from the command to the first training step of `train.py`, and to the first "
        "translation of\n`predict.py`, on the corpus of dates, with an empty (cold) and a filled "
        "(warm) compilation cache. The\nmodel is initialized or restored from a checkpoint. "
        "Compilation includes tracing, and loading programs\nfrom the cache. Every column is the "
        "median over processes (`python -m benchmarks.startup`).",
    ),
}

# Captions of the growth tables, by the names of the parts in benchmarks/growth.py.
GROWTH_CAPTIONS = {
    "source": "One decoding step of Luong's model, by source length. Temporary memory is the "
    "memory that XLA\nallocates in addition to the inputs and outputs.",
    "training": "One training step of Luong's model with one layer, by source length. The encoder "
    "reads the whole source\nin all rows:",
    "vocabulary": "One training step of Luong's model, by vocabulary size:",
    "batch": "One training step of Luong's model, by batch size:",
    "beam": "Beam search of Luong's model for one batch, by beam width:",
    "corpus": "Preparing a corpus and reading batches from it, by number of sentence pairs:",
}


def growth(results: dict[str, Any], picture: Path) -> str:
    """Return the tables of the growth benchmark, and write their plots to the file `picture`."""
    names = [name for name in results if name != "device"]
    lines = -(-len(names) // 3)
    figure, grid = plt.subplots(lines, 3, figsize=(12, 3.2 * lines), squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.remove()
    text = ""
    for name, axes in zip(names, grid.flat, strict=False):
        rows = results[name]
        head = list(rows[0])
        text += f"{GROWTH_CAPTIONS[name]}\n\n"
        text += table(head, ([_short(row[key]) for key in head] for row in rows)) + "\n"
        for key in head[1:]:
            first = rows[0][key] or 1
            axes.plot([r[head[0]] for r in rows], [r[key] / first for r in rows], "o-", label=key)
        axes.set(xscale="log", yscale="log", xlabel=head[0], ylabel="relative to the smallest size")
        ticks = [row[head[0]] for row in rows]
        axes.set_xticks(ticks, labels=map(_short, ticks), fontsize=7)
        axes.set_xticks([], minor=True)
        axes.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return f"![Growth of time and memory](performance/{picture.name})\n\n{text}"


def main() -> None:
    """Write docs/performance.md and its plots; keep the handwritten section of an existing page."""
    text = HEAD
    for path in sorted(FOLDER.glob("*.json")):
        if path.stem.endswith("-growth"):
            continue
        results = json.loads(path.read_text("utf-8"))
        rows = [row for part in PARTS for row in results.get(part, {}).values()]
        versions = "; ".join(sorted({row["versions"] for row in rows}))
        text += f"\n## {results['device']}\n\nMeasured with {versions}."
        if rate := results.get("matrix_rate"):
            text += f" For reference, a large matrix product runs at {rate / 1e12:,.3g} TFLOP/s."
        text += "\n"
        for part, (render, caption) in PARTS.items():
            if part in results:
                text += f"\n{caption}\n\n{render(results[part])}"
        grown = path.with_name(f"{path.stem}-growth.json")
        if grown.exists():
            text += "\n### Growth of time and memory\n\n"
            text += growth(json.loads(grown.read_text("utf-8")), grown.with_suffix(".png"))
    page = Path("docs/performance.md")
    before = page.read_text("utf-8") if page.exists() else ""
    page.write_text(text + "".join(before.partition(f"\n{DECISIONS}\n")[1:]), "utf-8")


if __name__ == "__main__":
    run(main)
