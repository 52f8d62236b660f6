"""The models of the benchmarks in PyTorch, in all ways in which PyTorch can run them."""

# pyright: reportMissingImports=false

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from benchmarks import torch_models
from benchmarks.subjects import SENTENCES, Subject
from benchmarks.turns import WARM_UP, Prepared

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


class Way(NamedTuple):
    """A way to run a PyTorch model."""

    precision: str  # float32, TF32 (float32 with TF32 matrix products) or bfloat16
    mode: str  # eager, or a mode of torch.compile

    @property
    def name(self) -> str:
        """Name of this way in the tables."""
        how = self.mode if self.mode == "eager" else f"compiled ({self.mode})"
        return f"{self.precision}, {how}"

    def compiled(self, function: Callable) -> Callable:
        """Return the function, compiled for exact shapes if this way compiles it."""
        if self.mode == "eager":
            return function
        return torch.compile(function, mode=self.mode, dynamic=False)

    def choose_precision(self) -> None:
        """Set the precision of float32 matrix products."""
        torch.set_float32_matmul_precision("high" if self.precision == "TF32" else "highest")
        torch.backends.cudnn.allow_tf32 = self.precision == "TF32"


def ways() -> Iterator[Way]:
    """Yield all ways. The mode reduce-overhead uses CUDA graphs."""
    precisions = ("TF32", "bfloat16") if GPU else ("float32",)
    modes = ("eager", "default", "reduce-overhead") if GPU else ("eager", "default")
    yield from itertools.starmap(Way, itertools.product(precisions, modes))


def prepare_training(subject: Subject, way: Way) -> dict[str, Prepared]:
    """Prepare a training step (loss and gradient).

    Attention of the Transformer uses PyTorch's scaled_dot_product_attention in all ways.
    """
    way.choose_precision()
    source, target = (torch.tensor(subject.sentences(i), device=DEVICE).long() for i in (0, 1))
    model, loss = subject.torch_model().to(DEVICE), way.compiled(torch_models.loss)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=way.precision == "bfloat16"):
            value = loss(model, source, target, target)
        value.backward()

    run, facts = _repeated(step), {}
    if GPU and way.mode != "reduce-overhead":  # PyTorch does not count the memory of CUDA graphs
        run(WARM_UP)
        torch.cuda.reset_peak_memory_stats()
        run(1)
        facts["gigabytes"] = torch.cuda.max_memory_allocated() / 1e9
    return {"step": Prepared(run, facts)}


def prepare_decoding(subject: Subject, way: Way, widths: dict[str, int]) -> dict[str, Prepared]:
    """Prepare beam searches with these names and beam widths.

    The source is encoded once per sentence, eagerly, and its encoding is repeated for each
    hypothesis. The Transformer has a KV cache of constant size. A whole time step of the search is
    compiled. On a GPU, all parameters have the precision of the way.
    """
    way.choose_precision()
    source = torch.tensor(subject.sentences()[:SENTENCES], device=DEVICE).long()
    model = subject.torch_model().to(DEVICE).eval()
    model = model.bfloat16() if way.precision == "bfloat16" else model
    length, advance = source.shape[1] - 1, way.compiled(torch_models.advance_beam)
    select = way.compiled(torch_models.select_rows)

    def search(width: int) -> Callable[[], Any]:
        return lambda: torch_models.beam_search(model, source, width, length, advance, select)

    return {name: Prepared(_repeated(search(width))) for name, width in widths.items()}


def _repeated(call: Callable[[], Any]) -> Callable[[int], None]:
    """Return a function that makes n calls and waits for the last one."""

    def run(calls: int) -> None:
        for _ in range(calls):
            torch.compiler.cudagraph_mark_step_begin()
            call()
        if GPU:
            torch.cuda.synchronize()

    return run
