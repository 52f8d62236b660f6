"""Measure the speed of training and decoding, and compare it with plain PyTorch.

    python -m benchmarks.speed

Training steps (loss and gradient), greedy decoding and beam search are measured on the first
device. Whole runs of `train.py`, and the translation of the test split, are measured on all
devices. PyTorch is measured if it is installed (benchmarks/peers.py). Results are written to
docs/performance/<machine>.json, from which `python -m benchmarks.report` generates
docs/performance.md.
"""

import functools
import importlib
import importlib.metadata
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks.measure import (
    HAS_TORCH,
    Results,
    format_row,
    matrix_rate,
    measure,
    seconds_per_call,
    selected_parts,
)
from benchmarks.subjects import SUBJECTS, Subject
from configs import luong2015, vaswani2017
from configs.base import Config
from decoding.translator import Translator
from experiment import train_run
from models import multihead
from program import run
from tasks.translation import Translation
from training.checkpoints import Checkpoints
from training.devices import abstract, make_mesh, put
from training.flops import count_flops
from training.optimizers import make_optimizer, make_schedule
from training.state import create_state
from training.step import CompiledStep, dropout_key, make_train_step, zero_sums

_SUBJECTS = flags.DEFINE_string(
    "subjects", "", "Measure only models whose names match this regular expression."
)
_CORPORA = flags.DEFINE_string(
    "corpora", "corpora", "Folder that contains the corpora multi30k and multi30k_bpe (GPU only)."
)

BEAM, SENTENCES = 5, 64


def peers() -> Any:
    """Return the module that measures PyTorch, which need not be installed."""
    return importlib.import_module("benchmarks.peers")


def training(subject: Subject, rate: float) -> dict[str, Any]:
    """Measure a training step (loss and gradient) of a model in Alignax and in PyTorch."""
    step, params, batch, key = subject.training_step()
    tokens = subject.batch * subject.length
    found = measure(step, params, batch, key)
    # Disable cuDNN attention while counting: its matrix products are not visible in the jaxpr.
    with mock.patch.object(multihead, "FLASH_FROM", 2**30):
        count = count_flops(jax.make_jaxpr(step)(params, batch, key).jaxpr)
    row = {
        "parameters": sum(x.size for x in jax.tree.leaves(params)),
        "tokens_per_second": tokens / found.seconds,
        "milliseconds": 1e3 * found.seconds,
        "compile_seconds": found.compile_seconds,
        "gigabytes": found.bytes / 1e9,
        "teraflops": count / found.seconds / 1e12,
        "share_of_matrix_rate": count / found.seconds / rate,
    }
    return row | (peers().training(subject) if HAS_TORCH else {})


def decoding(subject: Subject) -> dict[str, Any]:
    """Measure greedy decoding and beam search in sentences per second."""
    sentences, row = subject.sentences()[:SENTENCES], {}
    for name, width in (("greedy", 1), ("beam", BEAM)):
        search, began = beam_search(subject, width), time.perf_counter()
        jax.block_until_ready(search())
        row[f"{name}_compile_seconds"] = time.perf_counter() - began
        row[f"{name}_per_second"] = len(sentences) / seconds_per_call(search, jax.block_until_ready)
    return row | (peers().decoding(subject, sentences, BEAM) if HAS_TORCH else {})


def beam_search(subject: Subject, width: int = BEAM) -> Callable[[], Any]:
    """Return a function that decodes one batch of sentences.

    All hypotheses have the same length, so that the amount of computation does not depend on the
    random parameters.
    """
    task, mesh = subject.task(), make_mesh(jax.devices()[:1])
    params = jax.jit(task.init)(jax.random.key(0))
    sentences = subject.sentences()[:SENTENCES]
    batch = {"source": sentences, "index": np.arange(len(sentences), dtype=np.int32)}
    batch = put(batch | {"number": batch["index"]}, mesh)
    settings = subject.config.decode.copy_and_resolve_references().unlock()
    settings.update({"beam": width, "min_ratio": 1.0, "max_ratio": 1.0, "max_extra": 0})
    translator = Translator([task], mesh, settings)
    return lambda: translator.decode([params], batch)


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
    step = CompiledStep(step, state, sums, shapes, dropout_key(config, mesh))
    waiting = [put(batches[i], mesh) for i in range(400)]
    rounds = []
    for _ in range(3):
        sums, began = jax.tree.map(jnp.zeros_like, sums), time.perf_counter()
        for batch in waiting:
            state, sums, _ = step(state, sums, batch)
        rounds.append(float(sums["count"]) / (time.perf_counter() - began))
    return max(rounds)


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


def jobs(gpu: bool, rate: float) -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    """Yield part, name of model or corpus, and function to call, for every measurement."""
    for name, subject in SUBJECTS["gpu" if gpu else "cpu"].items():
        without = subject.without_dropout()
        yield "training", name, functools.partial(training, subject, rate)
        yield "training", f"{name}, no dropout", functools.partial(training, without, rate)
        yield "decoding", name, functools.partial(decoding, subject)
    for name, (config, steps) in run_configs(gpu).items():
        yield "whole", name, functools.partial(whole, config, steps)


def main() -> None:
    """Run the selected measurements, and write and print their results."""
    results = Results()
    results.add("matrix_rate", matrix_rate())
    torch = importlib.metadata.version("torch") if HAS_TORCH else ""
    parts = selected_parts(("training", "decoding", "whole"))
    gpu, rate = jax.default_backend() == "gpu", results.figures["matrix_rate"]
    for part, name, job in jobs(gpu, rate):
        if part in parts and re.search(_SUBJECTS.value, name):
            row = job()
            row["versions"] = f"jax {jax.__version__}" + (f", PyTorch {torch}" if torch else "")
            results.add(part, results.figures.get(part, {}) | {name: row})
            print(f"{part}, {name}: {format_row(row)}", flush=True)


if __name__ == "__main__":
    run(main)
