"""The speed of PyTorch: eager and compiled models are measured, and the fastest is reported."""

# pyright: reportMissingImports=false

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import torch_models
from benchmarks.measure import seconds_per_call
from benchmarks.subjects import Subject
from errors import first_line

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
        """Return the function, compiled if this way compiles it."""
        return function if self.mode == "eager" else torch.compile(function, mode=self.mode)


def ways() -> Iterator[Way]:
    """Yield all ways. The mode reduce-overhead uses CUDA graphs."""
    precisions = ("TF32", "bfloat16") if GPU else ("float32",)
    modes = ("eager", "default", "reduce-overhead") if GPU else ("eager", "default")
    yield from itertools.starmap(Way, itertools.product(precisions, modes))


def training(subject: Subject) -> dict[str, Any]:
    """Measure a training step (loss and gradient) in the fastest way.

    Attention of the Transformer uses PyTorch's scaled_dot_product_attention in all ways.
    """
    source, target = (torch.tensor(subject.sentences(i), device=DEVICE).long() for i in (0, 1))
    tokens, found = subject.batch * subject.length, dict[str, Any]()

    def measured(way: Way) -> tuple[float, int]:
        model, loss = subject.torch_model().to(DEVICE), way.compiled(torch_models.loss)

        def step() -> None:
            model.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=way.precision == "bfloat16"):
                value = loss(model, source, target, target)
            value.backward()

        return _seconds_per_call(step)

    for way, (seconds, held) in _tried(measured):
        if tokens / seconds > found.get("torch_tokens_per_second", 0):
            found = {
                "torch_tokens_per_second": tokens / seconds,
                "torch_fastest_way": way.name,
                "torch_gigabytes": held / 1e9,
            }
    return found


def decoding(subject: Subject, sentences: np.ndarray, beam: int) -> dict[str, Any]:
    """Measure greedy decoding and beam search in sentences per second, in the fastest way.

    The source is encoded once per sentence, and the Transformer has a KV cache. On a GPU, all
    parameters have the precision of the way.
    """
    source, row = torch.tensor(sentences, device=DEVICE).long(), dict[str, Any]()
    length = source.shape[1] - 1

    def measured(way: Way) -> list[float]:
        model = subject.torch_model().to(DEVICE).eval()
        model = model.bfloat16() if way.precision == "bfloat16" else model
        model.next = way.compiled(model.next)
        return [
            len(source)
            / _seconds_per_call(
                lambda width=width: torch_models.beam_search(model, source, width, length)
            )[0]
            for width in (1, beam)
        ]

    for way, speeds in _tried(measured):
        for name, speed in zip(("greedy", "beam"), speeds, strict=True):
            if speed > row.get(f"torch_{name}_per_second", 0):
                row |= {f"torch_{name}_per_second": speed, f"torch_{name}_way": way.name}
    return row


def _tried(measured: Callable[[Way], Any]) -> Iterator[tuple[Way, Any]]:
    """Yield each way with its measurement; print the error of a way that fails."""
    for way in ways():
        torch._dynamo.reset()
        torch.set_float32_matmul_precision("high" if way.precision == "TF32" else "highest")
        torch.backends.cudnn.allow_tf32 = way.precision == "TF32"
        try:
            yield way, measured(way)
        except Exception as error:  # torch.compile raises many types of exceptions
            print(f"PyTorch, {way.name}: failed ({first_line(error)})", flush=True)
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()


def _seconds_per_call(call: Callable[[], Any]) -> tuple[float, int]:
    """Return the seconds per call and the peak memory of PyTorch in bytes (0 on a CPU)."""

    def marked() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return call()

    for _ in range(3):  # CUDA graphs are recorded in the second call
        marked()
    if GPU:
        torch.cuda.reset_peak_memory_stats()
    seconds = seconds_per_call(marked, lambda _: torch.cuda.synchronize() if GPU else None)
    return seconds, torch.cuda.max_memory_allocated() if GPU else 0
