"""A run of the lab, which answers the requests of the page with one trained model."""

import abc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from configs.registry import model_title
from serving.requests import Body
from terminal import clean
from training.restore import RestoredRun

Answer = dict[str, Any]  # a JSON object
Job = Callable[[], Answer]


class LabRun(abc.ABC):
    """A trained run that answers requests. `name` is the folder of the run, as the user gave it."""

    kinds: tuple[str, ...]  # the kinds of requests that this run answers

    def __init__(self, name: str, run: RestoredRun, mesh: Mesh):
        self.name, self.mesh, self.config = name, mesh, run.task.config
        self._task, self._params, self._steps = run.task, run.params, run.steps

    def describe(self) -> Answer:
        """Return what the page shows of this run before any request."""
        parameters = sum(x.size for x in jax.tree.leaves(self._params))
        steps = ", ".join(f"{step:,}" for step in self._steps)
        about = [model_title(self.config), *self._details(), f"{parameters:,} parameters"]
        return {
            "name": clean(self.name), "task": self.config.task,
            "about": " · ".join([*about, f"step {steps}"]),
        }  # fmt: skip

    def _details(self) -> Iterator[str]:
        """Yield the choices of the config that distinguish runs."""
        model = self.config.model
        if "attention" in model and "align" in model.attention:
            align = model.attention.align
            yield "no attention" if align == "none" else f"{align} {model.attention.score}"

    @abc.abstractmethod
    def job(self, kind: str, body: Body, runs: "Mapping[str, LabRun]") -> Job:
        """Check a request; return the function that computes its answer with the model."""

    @abc.abstractmethod
    def warm_ups(self) -> list[Job]:
        """Return functions that compile what most requests need, the most useful one first."""
