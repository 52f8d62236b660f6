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
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.startup_process import COMPILATION, DATA, FIRST, IMPORTS, MODEL, REST
from benchmarks.subjects import SUBJECTS
from markup import table
from program import run

FOLDER = Path("docs/performance")
# Heading of the handwritten last section, which is kept when the page is written again.
NOTES = "## Notes"
HEAD = """# Performance

`python -m benchmarks.speed`, `python -m benchmarks.growth` and `python -m benchmarks.startup` write
`docs/performance/*.json`, and `python -m benchmarks.report` generates this page from those files,
except for the [notes](#notes). [Performance decisions](performance_decisions.md) gives the reasons
for the code that affects speed.

{summary}

## Method

If PyTorch is installed, Alignax is compared with it. The PyTorch models are in
`benchmarks/torch_models.py`: the recurrent encoder is `nn.LSTM` (cuDNN on GPUs), the recurrent
decoder is a loop over LSTM cells, and the Transformers use `scaled_dot_product_attention`.
`benchmarks/peers.py` runs the models in several setups: eagerly and with torch.compile, in float32
(with TF32 on GPUs) and, on GPUs, in bfloat16. On GPUs, two modes of torch.compile use CUDA graphs:
`reduce-overhead`, and "default, one CUDA graph", which records a whole training step or search. On
CPUs, Alignax trains on two JAX devices, which share every batch; "2 processes" is the same in
PyTorch (`DistributedDataParallel`). The tables show the fastest setup. `max-autotune` has not been
tried. A ratio is the speed of Alignax divided by the speed of PyTorch. `make speed` repeats all
measurements.

All setups of a model are prepared first. They then take turns in five rounds of half a second, and
the tables show medians (`benchmarks/turns.py`). Whole runs are measured once. Tokens per second are
target tokens. `python -m benchmarks.kernels` prints the operations of a training step and of beam
search by total time.

| model | vocabulary size | sentences per batch | tokens per source and per target | dtype |
| --- | ---: | ---: | ---: | --- |
{subjects}

"recurrent L × d" is Luong's model with L layers of d units, global attention, the general score
function and input feeding. The Transformers have as many encoder as decoder layers, and one matrix
for both embeddings and the output layer. Base is that of Vaswani 2017 (6 layers, 512 features, 8
heads and 2,048 feed-forward features); small has 4 layers, 128 features, 4 heads and 256
feed-forward features. The dropout rate is .1.

The growth of time and memory is measured with Luong's model: on CPUs with 1 × 128 units, 32
sentences of 20 tokens and float32, on GPUs with 2 × 512 units, 128 sentences of 50 tokens (64 in
beam search) and bfloat16. The vocabulary has 8,000 tokens. Where attention types are compared,
batches have 32 sentences, the vocabulary has 1,000 tokens, and D is 10.
"""


def _number(row: dict[str, Any], name: str, form: str = ",.0f", scale: float = 1.0) -> str:
    return format(row[name] * scale, form) if name in row else "–"


def _short(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _fastest(row: dict[str, Any], name: str) -> tuple[str, float] | None:
    """Return the name and the speed of the fastest PyTorch setup, if any was measured.

    The name is followed by the setups that failed, whose speed is None.
    """
    setups = row.get(f"torch_{name}", {})
    failed = [setup for setup, speed in setups.items() if speed is None]
    measured = {setup: speed for setup, speed in setups.items() if speed is not None}
    if not measured:
        return None
    setup, speed = max(measured.items(), key=lambda item: item[1])
    return f"{setup}; failed: {'; '.join(failed)}" if failed else setup, speed


def _ratio(row: dict[str, Any], name: str) -> float | None:
    """Return the speed of Alignax divided by that of the fastest PyTorch setup."""
    fastest = _fastest(row, name)
    return row[name] / fastest[1] if fastest else None


def _comparison(row: dict[str, Any], name: str) -> list[str]:
    """Return the cells of a comparison: Alignax, PyTorch, ratio and PyTorch setup."""
    fastest = _fastest(row, name)
    if not fastest:
        return [_number(row, name), "–", "–", "–"]
    setup, speed = fastest
    return [_number(row, name), f"{speed:,.0f}", f"{row[name] / speed:.2f} ×", setup]


def training(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of training steps."""
    head = [
        "model", "parameters", "tokens/s", "PyTorch tokens/s", "ratio", "fastest PyTorch setup",
        "ms per training step", "TFLOP/s", "TFLOP/s relative to matrix product", "memory, GB",
    ]  # fmt: skip
    return table(head, (
        [
            name, _number(row, "parameters", ".1f", 1e-6) + " M",
            *_comparison(row, "tokens_per_second"), _number(row, "milliseconds", ",.1f"),
            _short(row["teraflops"]),
            f"{100 * row['teraflops'] / row['matrix_teraflops']:.0f} %",
            _number(row, "gigabytes", ".2f"),
        ]
        for name, row in rows.items()
    ))  # fmt: skip


def decoding(rows: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of greedy decoding and beam search."""
    head = [
        "model", "greedy", "PyTorch greedy", "ratio", "fastest PyTorch setup (greedy)",
        "beam 5", "PyTorch beam 5", "ratio", "fastest PyTorch setup (beam 5)",
    ]  # fmt: skip
    searches = ("greedy_per_second", "beam_per_second")
    return table(head, (
        [name, *(cell for search in searches for cell in _comparison(row, search))]
        for name, row in rows.items()
    ))  # fmt: skip


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
            f"{100 * row['tokens_per_second'] / row['bare_tokens_per_second']:.0f} %",
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
        "The table shows the time of a training step, which computes the loss and its gradient "
        "for one batch,\nwithout the optimizer. One column compares the TFLOP/s of the training "
        "step with those of a large\nmatrix product.",
    ),
    "decoding": (
        decoding,
        "The table shows the speed of decoding in sentences per second, with batches of 64 "
        "sentences (32 on a\nCPU). Every hypothesis is one token shorter than its source.",
    ),
    "whole": (
        whole,
        "The table shows whole runs of `train.py`. The total seconds include compilation; the "
        "tokens per second\nare the median of the second half of the run. Models and sentence "
        "lengths are not those of the\ntraining steps above, and the optimizer is included. The "
        "last columns show the translation of the\ntest split.",
    ),
    "startup": (
        startup,
        "The table shows the time in seconds from the command to the first training step of "
        "`train.py`, and to\nthe first translation of `predict.py`, on the corpus of dates, with "
        "an empty (cold) and a filled\n(warm) compilation cache. The model is initialized or "
        "restored from a checkpoint. Compilation includes\ntracing, and loading programs from the "
        "cache. Every column is the median over processes\n(`python -m benchmarks.startup`).",
    ),
}

# Title of the plot and caption of the table, by the names of the parts in benchmarks/growth.py.
GROWTH_CAPTIONS = {
    "source": (
        "decoding step",
        "Time per decoding step of Luong's model, by source length. Temporary memory is the memory "
        "that XLA\nallocates in addition to the inputs and outputs.",
    ),
    "training": (
        "training step, one layer",
        "One training step of Luong's model with one layer, by source length. The encoder reads "
        "the whole source\nin all rows:",
    ),
    "vocabulary": (
        "training step",
        "One training step of Luong's model, by vocabulary size. The logits of a large vocabulary "
        "are computed\nin chunks of limited size, so memory does not always grow:",
    ),
    "batch": ("training step", "One training step of Luong's model, by batch size:"),
    "beam": ("beam search", "Beam search of Luong's model for one batch, by beam width:"),
    "corpus": (
        "corpus",
        "Preparing a corpus and reading batches from it, by number of sentence pairs:",
    ),
}


def _plot(axes: Any, rows: list[dict[str, Any]], title: str) -> None:
    """Plot times in ms; plot other values, which have different units, relative to the first."""
    size, *names = rows[0]
    sizes, times = [row[size] for row in rows], [name for name in names if name.endswith("ms")]
    for name in times or names:
        first = 1 if times else rows[0][name] or 1
        axes.plot(sizes, [row[name] / first for row in rows], "o-", label=name)
    axes.set(title=title, xlabel=size, ylabel="ms" if times else "relative to the smallest size")
    low, high = axes.get_ylim()
    axes.set_xscale("log")
    axes.set_xticks(sizes, labels=map(_short, sizes), fontsize=7)
    axes.set_xticks([], minor=True)
    if high > 5 * max(low, high / 100):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: _short(value))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, 1.1 * high)
    if len(times or names) > 1:
        axes.legend(fontsize=6)


def growth_table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table of one part of the growth benchmark."""
    return table(list(rows[0]), ([_short(value) for value in row.values()] for row in rows))


def growth(results: dict[str, Any], picture: str) -> str:
    """Return the tables of the growth benchmark, below the picture of this name."""
    tables = (
        f"{GROWTH_CAPTIONS[name][1]}\n\n{growth_table(rows)}\n"
        for name, rows in results.items()
        if name != "device"
    )
    return f"![Growth of time](performance/{picture})\n\n{''.join(tables)}"


def draw_growth(results: dict[str, Any], picture: Path) -> None:
    """Write the plots of the growth benchmark to the file `picture`."""
    names = [name for name in results if name != "device"]
    lines = -(-len(names) // 3)
    figure, grid = plt.subplots(lines, 3, figsize=(12, 3.2 * lines), squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.remove()
    for name, axes in zip(names, grid.flat, strict=False):
        _plot(axes, results[name], GROWTH_CAPTIONS[name][0])
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    plt.close(figure)


def summary(machines: list[dict[str, Any]]) -> str:
    """Return one sentence per machine with the ranges of the ratios."""
    lines = []
    for results in machines:
        rows, searches = results.get("training", {}), results.get("decoding", {})
        trained = [_ratio(row, "tokens_per_second") for row in rows.values()]
        decoded = [
            _ratio(row, name)
            for row in searches.values()
            for name in ("greedy_per_second", "beam_per_second")
        ]
        parts = filter(None, (_range("trains", trained), _range("decodes", decoded)))
        if text := " and ".join(parts):
            lines.append(
                f"- {results['device']}: Alignax {text} as fast as the fastest PyTorch setup."
            )
    return "\n".join(lines)


def _range(verb: str, ratios: list[float | None]) -> str:
    """Return the smallest and the largest of the known ratios in words; "" if none is known."""
    known = [ratio for ratio in ratios if ratio]
    ends = dict.fromkeys(f"{end:.2f}" for end in (min(known), max(known))) if known else ()
    return f"{verb} {' to '.join(ends)} times" if ends else ""


def machine(path: Path, results: dict[str, Any]) -> str:
    """Return the section of one machine."""
    rows = [row for part in PARTS for row in results.get(part, {}).values()]
    versions = sorted({package for row in rows for package in row["versions"].split(", ")})
    text = f"\n## {results['device']}\n\nMeasured with {', '.join(versions)}."
    rates = [row["matrix_teraflops"] for row in results.get("training", {}).values()]
    if rates:
        ends = dict.fromkeys(f"{rate:,.3g}" for rate in (min(rates), max(rates)))
        text += f" For reference, a large matrix product runs at {' to '.join(ends)} TFLOP/s."
    text += "\n"
    for part, (render, caption) in PARTS.items():
        if part in results:
            text += f"\n{caption}\n\n{render(results[part])}"
    file = path.with_name(f"{path.stem}-growth.json")
    if file.exists():
        text += "\n### Growth of time and memory\n\n"
        text += growth(json.loads(file.read_text("utf-8")), f"{file.stem}.png")
    return text


def generated() -> str:
    """Return the generated part of docs/performance.md."""
    paths = [path for path in FOLDER.glob("*.json") if not path.stem.endswith("-growth")]
    paths.sort(key=lambda path: (path.stem.startswith("cpu"), path.stem != "cpu-x86-64", path.stem))
    machines = {path: json.loads(path.read_text("utf-8")) for path in paths}
    subjects = [
        f"| {name}, {kind.upper()} | {subject.vocabulary_size:,} | {subject.batch} | "
        f"{subject.length} | {subject.config.model.dtype} |"
        for kind, named in SUBJECTS.items()
        for name, subject in named.items()
    ]
    text = HEAD.format(summary=summary([*machines.values()]), subjects="\n".join(subjects))
    return text + "".join(machine(path, results) for path, results in machines.items())


def main() -> None:
    """Write docs/performance.md and its plots; keep the handwritten notes of an existing page."""
    for path in FOLDER.glob("*-growth.json"):
        draw_growth(json.loads(path.read_text("utf-8")), path.with_suffix(".png"))
    page, text = Path("docs/performance.md"), generated()
    before = page.read_text("utf-8") if page.exists() else ""
    page.write_text(text + "".join(before.partition(f"\n{NOTES}\n")[1:]), "utf-8")


if __name__ == "__main__":
    run(main)
