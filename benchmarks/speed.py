"""Measure the speed of training and decoding, and compare it with plain PyTorch.

    python -m benchmarks.speed

Training steps (loss and gradient), greedy decoding and beam search are measured on the first
device (--only=training and --only=decoding); training divides a CPU into two devices, as train.py
does. Whole runs of `train.py` are measured on all devices, and the translation of the test split on
all GPUs or on one device of a CPU (--only=whole). PyTorch is measured if it is installed
(benchmarks/peers.py). Results are written to docs/performance/<machine>.json, from which
`python -m benchmarks.report` generates docs/performance.md.
"""

import functools
import importlib.metadata
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
from absl import flags

from benchmarks import options
from benchmarks.measure import HAS_TORCH, Compiled, Results, format_row, matrix_rate, repeated
from benchmarks.subjects import BEAM, SENTENCES, SUBJECTS, Subject
from benchmarks.turns import Prepared, Timed, time_in_turn
from configs import luong2015, vaswani2017
from configs.base import Config
from decoding.translator import Translator
from errors import UserError
from experiment import train_run
from models import multihead
from program import run
from tasks.translation import Translation
from training.checkpoints import Checkpoints
from training.devices import (
    CPU_DEVICES,
    abstract,
    divide_cpu,
    fetched,
    make_mesh,
    put,
    replicated,
)
from training.flops import count_flops
from training.optimizers import make_optimizer, make_schedule
from training.state import create_state
from training.step import CompiledStep, Counters, make_train_step, run_arguments, zero_sums

_CORPORA = flags.DEFINE_string(
    "corpora", "corpora", "Folder that contains the corpora multi30k and multi30k_bpe (GPU only)."
)

options.define("only", "out", "subjects")

WIDTHS = {"greedy": 1, "beam": BEAM}
OURS = "Alignax"
# Times by setup (OURS or a PyTorch setup) and function. A setup that failed has no functions.
Times = dict[str, dict[str, Timed]]


class Wanted(NamedTuple):
    """A row of the tables that compare a model with PyTorch."""

    part: str  # training or decoding
    name: str
    dropout: bool


def prepare_training(subject: Subject) -> dict[str, Prepared]:
    """Prepare a training step, which computes the loss and its gradient for one batch.

    It uses both JAX devices into which train.py divides a CPU, or one accelerator.
    """
    divide_cpu(subject.config)
    number = CPU_DEVICES if jax.default_backend() == "cpu" else 1
    mesh = make_mesh(jax.devices()[:number])
    step, *arguments = subject.training_step(mesh)
    compiled = Compiled.of(step, *arguments, mesh=mesh, concurrent=subject.concurrent)
    # Disable cuDNN attention while counting: its matrix products are not visible in the jaxpr.
    with mock.patch.object(multihead, "FLASH_FROM", 2**30):
        flops = count_flops(jax.make_jaxpr(step)(*arguments).jaxpr)
    facts = {
        "parameters": sum(x.size for x in jax.tree.leaves(arguments[0])),
        "gigabytes": mesh.size * compiled.bytes / 1e9,
        "flops": flops,
    }
    return {"step": Prepared(repeated(lambda: compiled.function(*arguments)), facts)}


def prepare_decoding(subject: Subject) -> dict[str, Prepared]:
    """Prepare greedy decoding and beam search of one batch."""
    searches = {name: subject.beam_search(width) for name, width in WIDTHS.items()}
    return {name: Prepared(repeated(search)) for name, search in searches.items()}


def prepare(part: str, kind: str, model: str, dropout: bool, setup: Any) -> dict[str, Prepared]:
    """Prepare a part of the benchmark for one model: in Alignax, or with a PyTorch setup."""
    subject = SUBJECTS[kind][model]
    subject = subject if dropout else subject.without_dropout()
    if setup is None:
        return prepare_training(subject) if part == "training" else prepare_decoding(subject)
    from benchmarks import peers

    if part == "training":
        return peers.prepare_training(subject, setup)
    return peers.prepare_decoding(subject, setup, WIDTHS)


def speeds_of_setups(times: Times, name: str, amount: int) -> dict[str, float | None]:
    """Return `amount` per second for each PyTorch setup; None for a setup that failed."""
    return {
        setup: amount / timed[name].seconds if timed else None
        for setup, timed in times.items()
        if setup != OURS
    }


def training_row(times: Times, tokens: int, rate: float) -> dict[str, Any]:
    """Return the results of a training step: those of Alignax, and of all PyTorch setups."""
    seconds, facts = times[OURS]["step"]
    speed = facts["flops"] / seconds
    return {
        "parameters": facts["parameters"],
        "tokens_per_second": tokens / seconds,
        "milliseconds": 1e3 * seconds,
        "gigabytes": facts["gigabytes"],
        "teraflops": speed / 1e12,
        "matrix_teraflops": rate / 1e12,
        "torch_tokens_per_second": speeds_of_setups(times, "step", tokens),
    }


def decoding_row(times: Times, sentences: int) -> dict[str, Any]:
    """Return the results of decoding: those of Alignax, and of all PyTorch setups."""
    row: dict[str, Any] = {}
    for name in WIDTHS:
        row[f"{name}_per_second"] = sentences / times[OURS][name].seconds
        row[f"torch_{name}_per_second"] = speeds_of_setups(times, name, sentences)
    return row


def whole(config: Config, steps: int) -> dict[str, Any]:
    """Measure a whole training run and the translation of the test split.

    The results include the throughput in the log of train.py, the throughput of the training step
    alone on batches that are already on the device, and the time to translate the test split with
    beam search, including text processing but not compilation.
    """
    config = config.copy_and_resolve_references().unlock()
    config.train.update({"steps": steps, "epochs": 0.0, "eval_every": steps, "patience": 0})
    mesh = make_mesh()
    with tempfile.TemporaryDirectory() as folder:
        workdir = Path(folder) / "run"
        began = time.perf_counter()
        train_run(config, workdir, mesh)
        seconds = time.perf_counter() - began
        lines = map(json.loads, (workdir / "log.jsonl").read_text("utf-8").splitlines())
        speeds = [line["count_per_second"] for line in lines if line["kind"] == "train"]
        task = Translation(config)
        checkpoints = Checkpoints(workdir, read_only=True)
        params = checkpoints.restore_params(task, config, mesh, checkpoints.find("last"))
        checkpoints.close()
    row = {
        "steps": steps,
        "seconds": seconds,
        "tokens_per_second": statistics.median(speeds[len(speeds) // 2 :]),
        "bare_tokens_per_second": _step_throughput(task, config, mesh),
    }
    settings = config.decode
    settings.beam = BEAM
    one = make_mesh(jax.devices()[:1])  # programs other than train.py do not divide a CPU
    mesh = one if jax.default_backend() == "cpu" else mesh
    params = jax.device_put(params, replicated(mesh))
    translator, sources = Translator([task], mesh, settings), [p.source for p in task.pairs("test")]
    translator.in_order([params], sources)
    began = time.perf_counter()
    translator.in_order([params], sources)
    return row | {"test_sentences": len(sources), "test_seconds": time.perf_counter() - began}


def _step_throughput(task: Translation, config: Config, mesh: Any) -> float:
    """Return the throughput of the training step alone in target tokens per second.

    The first batches of an epoch are put on the device before the time is measured.
    """
    batches = task.train_batches(config.seed)
    schedule = make_schedule(config.optimizer, 1, 1)
    optimizer = make_optimizer(config.optimizer, schedule)
    state = create_state(jax.jit(task.init)(jax.random.key(0)), optimizer, bool(config.train.ema))
    state = jax.tree.map(jnp.copy, state)
    shapes = [abstract(batch, mesh) for batch in batches.shapes]
    sums = zero_sums(task.loss, state, shapes[0], mesh)
    step = make_train_step(task.loss, optimizer, schedule, config, mesh, state)
    step = CompiledStep(step, state, sums, shapes, run_arguments(config, mesh))
    waiting = [put(batches[i], mesh) for i in range(400)]
    rounds = []

    def steps() -> Iterator[Counters]:
        nonlocal state, sums
        for batch in waiting:
            state, sums, counters = step(state, sums, batch)
            yield counters

    for _ in range(3):
        sums, began = jax.tree.map(jnp.zeros_like, sums), time.perf_counter()
        for _ in fetched(steps()):
            pass
        rounds.append(float(sums["count"]) / (time.perf_counter() - began))
    return statistics.median(rounds)


def run_configs(gpu: bool) -> dict[str, tuple[Config, int]]:
    """Return the config and the number of training steps of every whole run."""
    if not gpu:
        dates = "data=dates"
        return {
            "luong2015, dates": (luong2015.get_config(dates), 600),
            "vaswani2017, dates": (vaswani2017.get_config(dates), 600),
        }
    folder = Path(_CORPORA.value)
    luong = luong2015.get_config("data=multi30k_de_en,size=small").unlock()
    luong.data.dir = str(folder / "multi30k")
    vaswani = vaswani2017.get_config("data=multi30k_bpe_en_de,size=small,norm=pre").unlock()
    vaswani.data.dir = str(folder / "multi30k_bpe")
    return {
        "luong2015, Multi30k": (luong, 3000),
        "vaswani2017 small, Multi30k": (vaswani, 3000),
    }


def torch_setups(part: str) -> dict[str, Any]:
    """Return the PyTorch setups by their names; none if PyTorch is not installed."""
    if not HAS_TORCH:
        return {}
    from benchmarks import peers

    return {setup.name: setup for setup in peers.setups(part)}


def rows_of(model: str, parts: Sequence[str]) -> list[Wanted]:
    """Return the rows of a model in these parts."""
    rows = [
        Wanted("training", model, dropout=True),
        Wanted("training", f"{model}, no dropout", dropout=False),
        Wanted("decoding", model, dropout=True),
    ]
    return [row for row in rows if row.part in parts]


def compare(
    kind: str, model: str, rows: Sequence[Wanted], rate: float
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Measure the rows of a model; yield part, row name and results."""
    setups = {row.part: {OURS: None} | torch_setups(row.part) for row in rows}
    times = time_in_turn({
        f"{part}, {name}, {shown}": functools.partial(prepare, part, kind, model, dropout, setup)
        for part, name, dropout in rows
        for shown, setup in setups[part].items()
    })  # fmt: skip
    subject = SUBJECTS[kind][model]
    for part, name, _ in rows:
        found = {shown: times.get(f"{part}, {name}, {shown}", {}) for shown in setups[part]}
        if not found[OURS]:
            raise UserError(f"{part}, {name}: Alignax failed: see the message above")
        if part == "training":
            yield part, name, training_row(found, subject.batch * subject.length, rate)
        else:
            yield part, name, decoding_row(found, min(subject.batch, SENTENCES))


def measured(parts: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Measure the selected parts and models; yield part, row name and results."""
    gpu = jax.default_backend() == "gpu"
    kind = "gpu" if gpu else "cpu"
    rows = {model: rows_of(model, parts) for model in SUBJECTS[kind]}
    runs = run_configs(gpu) if "whole" in parts else {}
    names = dict.fromkeys(row.name for wanted in rows.values() for row in wanted)
    chosen = options.selected([*names, *runs])
    rate = matrix_rate() if "training" in parts else 0.0
    for model, wanted in rows.items():
        if wanted := [row for row in wanted if row.name in chosen]:
            yield from compare(kind, model, wanted, rate)
    for name, (config, steps) in runs.items():
        if name in chosen:
            yield "whole", name, whole(config, steps)


def main() -> None:
    """Run the selected measurements, and write and print their results."""
    parts = options.selected_parts(("training", "decoding", "whole"))
    if "whole" in parts:
        divide_cpu(luong2015.get_config("data=dates"))  # before JAX uses a device
    results = Results()
    torch = importlib.metadata.version("torch") if HAS_TORCH else ""
    if not torch:
        print("PyTorch is not installed: only Alignax is measured", flush=True)
    versions = f"jax {jax.__version__}" + (f", PyTorch {torch}" if torch else "")
    for part, name, row in measured(parts):
        results.add(part, results.figures.get(part, {}) | {name: row | {"versions": versions}})
        print(f"{part}, {name}: {format_row(row)}", flush=True)


if __name__ == "__main__":
    run(main)
