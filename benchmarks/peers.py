"""Prepare the PyTorch models of the benchmarks with each PyTorch setup."""

# pyright: reportMissingImports=false

import functools
import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed

from benchmarks import torch_models
from benchmarks.subjects import SENTENCES, Subject
from benchmarks.turns import WARM_UP, Prepared
from program import keep_freed_memory

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


# torch.compile in its default mode, with one CUDA graph that records a whole training step or a
# whole search. The mode reduce-overhead records each compiled function separately: its graphs
# exclude the encoder of recurrent models, because torch.compile does not compile nn.LSTM.
RECORDED = "default, one CUDA graph"


class Setup(NamedTuple):
    """How PyTorch runs a model."""

    precision: str  # float32, TF32 (float32 with TF32 matrix products) or bfloat16
    mode: str  # eager, a mode of torch.compile, or RECORDED
    processes: int = 1  # each process has an equal share of the batch (DistributedDataParallel)

    @property
    def name(self) -> str:
        """Name of this setup in the tables."""
        how = self.mode if self.mode == "eager" else f"compiled ({self.mode})"
        processes = f", {self.processes} processes" if self.processes > 1 else ""
        return f"{self.precision}, {how}{processes}"

    def compiled(self, function: Callable) -> Callable:
        """Return the function, compiled for exact shapes if this setup compiles it."""
        if self.mode == "eager":
            return function
        mode = "default" if self.mode == RECORDED else self.mode
        return torch.compile(function, mode=mode, dynamic=False)

    def choose_precision(self) -> None:
        """Set the precision of float32 matrix products."""
        torch.set_float32_matmul_precision("high" if self.precision == "TF32" else "highest")
        torch.backends.cudnn.allow_tf32 = self.precision == "TF32"

    def repeated(self, call: Callable[[], Any]) -> Callable[[int], None]:
        """Return a function that makes n calls with this setup and waits for the last one."""
        call = _recorded(call) if self.mode == RECORDED else call

        def run(calls: int) -> None:
            for _ in range(calls):
                torch.compiler.cudagraph_mark_step_begin()
                call()
            if GPU:
                torch.cuda.synchronize()

        return run


def setups(part: str) -> list[Setup]:
    """Return all setups for a part of the benchmark (training or decoding) on this machine.

    On a GPU, the last two modes use CUDA graphs. On a CPU, two processes can also share the batches
    of training, as two JAX devices do.
    """
    if GPU:
        modes = ("eager", "default", "reduce-overhead", RECORDED)
        return [Setup(precision, mode) for precision in ("TF32", "bfloat16") for mode in modes]
    processes = (1, 2) if part == "training" else (1,)
    return [Setup("float32", mode, n) for n in processes for mode in ("eager", "default")]


def prepare_training(subject: Subject, setup: Setup) -> dict[str, Prepared]:
    """Prepare a training step (loss and gradient).

    Attention of the Transformer uses PyTorch's scaled_dot_product_attention in all setups.
    """
    if setup.processes == 1:
        return {"step": Prepared(setup.repeated(_training_step(subject, setup)))}
    with tempfile.TemporaryDirectory() as folder:
        group = f"{Path(folder).as_uri()}/group"
        for rank in range(1, setup.processes):
            arguments = subject, setup, group, rank
            multiprocessing.get_context("spawn").Process(
                target=_follow, args=arguments, daemon=True
            ).start()
        step = _share_of_step(subject, setup, group, rank=0)

    def lead() -> None:
        distributed.broadcast(torch.ones(1), src=0)
        step()

    return {"step": Prepared(setup.repeated(lead))}


def _follow(subject: Subject, setup: Setup, group: str, rank: int) -> None:
    """Perform a share of every training step, when the process of rank 0 announces it."""
    keep_freed_memory()
    step = _share_of_step(subject, setup, group, rank)
    while True:
        try:
            distributed.broadcast(torch.ones(1), src=0)
        except RuntimeError:  # the process of rank 0 has ended
            return
        step()


def _share_of_step(subject: Subject, setup: Setup, group: str, rank: int) -> Callable[[], None]:
    """Join the group of processes; return a training step on the share of this process."""
    torch.set_num_threads(max(1, torch.get_num_threads() // setup.processes))
    distributed.init_process_group("gloo", init_method=group, rank=rank, world_size=setup.processes)
    return _training_step(subject, setup, rank)


def _training_step(subject: Subject, setup: Setup, rank: int = 0) -> Callable[[], None]:
    """Return a training step on the whole batch, or on the share of one of several processes."""
    setup.choose_precision()
    source, target = (
        torch.tensor(subject.sentences(i)[rank :: setup.processes], device=DEVICE).long()
        for i in (0, 1)
    )
    model, loss = subject.torch_model().to(DEVICE), setup.compiled(torch_models.loss)
    if setup.processes > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=setup.precision == "bfloat16"):
            value = loss(model, source, target, target)
        value.backward()

    return step


def prepare_decoding(subject: Subject, setup: Setup, widths: dict[str, int]) -> dict[str, Prepared]:
    """Prepare beam searches with these names and beam widths.

    The source is encoded once per sentence, and its encoding is repeated for each hypothesis. The
    Transformer has a KV cache of constant size. The functions that encode the sources and that
    extend all hypotheses by one token are compiled, except for nn.LSTM. In bfloat16 setups, all
    parameters are bfloat16.
    """
    setup.choose_precision()
    source = torch.tensor(subject.sentences()[:SENTENCES], device=DEVICE).long()
    model = subject.torch_model().to(DEVICE).eval()
    model = model.bfloat16() if setup.precision == "bfloat16" else model
    length = source.shape[1] - 1
    start, advance = map(setup.compiled, (torch_models.start_beam, torch_models.advance_beam))

    search = functools.partial(torch_models.beam_search, model, source)
    searches = {
        name: functools.partial(search, width, length, start, advance)
        for name, width in widths.items()
    }
    return {name: Prepared(setup.repeated(call)) for name, call in searches.items()}


def _recorded(call: Callable[[], Any]) -> Callable[[], None]:
    """Record a call in a CUDA graph; return a function that replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # warm up: compilation and initialization are not recorded
        for _ in range(WARM_UP):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return functools.partial(_replay, graph, call)


def _replay(graph: torch.cuda.CUDAGraph, _call: Callable[[], Any]) -> None:
    """Replay a graph; the recorded call keeps the tensors alive that the graph reads."""
    graph.replay()
