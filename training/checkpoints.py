"""Checkpoints of a run: the latest ones and the best, through orbax."""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from jax import Array
from jax.sharding import Mesh
from orbax.checkpoint import checkpoint_managers as policies

from configs.base import Config
from errors import UserError
from training.devices import replicated
from training.optimizers import make_optimizer
from training.state import Params, TrainState, create_state


class Checkpoints:
    """The folder `checkpoints` of a workdir.

    A checkpoint is the train state (arrays) and the run's progress (a small JSON: scores, what
    early stopping counts). Orbax writes beside and renames, so a checkpoint is whole or absent.
    """

    def __init__(self, workdir: Path, keep: int = 1, read_only: bool = False):
        folder = (workdir / "checkpoints").absolute()
        if read_only and not folder.is_dir():
            raise UserError(f"{workdir} has no checkpoints: train first with --workdir={workdir}")
        self._keep = keep
        score = operator.itemgetter("score")
        best = policies.BestN(get_metric_fn=score, n=1, keep_checkpoints_without_metrics=False)
        policy = policies.AnyPreservationPolicy([policies.LatestN(n=keep), best])
        options = ocp.CheckpointManagerOptions(
            best_fn=score,
            preservation_policy=policy,
            read_only=read_only,
            create=not read_only,
        )
        self._manager = ocp.CheckpointManager(
            folder, options=options, item_names=("state", "progress")
        )

    @property
    def latest(self) -> int | None:
        return self._manager.latest_step()

    def save(self, state: TrainState, progress: dict[str, Any], score: float | None) -> None:
        """Writes in the background; `score` is higher for better, None for an interrupted run."""
        # A copy, because training donates the state's buffers while the writer still reads them.
        state = jax.tree.map(jnp.copy, state)
        self._manager.save(
            int(state.step),
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(progress)
            ),
            metrics=None if score is None else {"score": score},
        )

    def restore(self, like: TrainState, step: int) -> tuple[TrainState, dict[str, Any]]:
        """The state saved at `step`, with shapes and shardings of `like`."""
        args = ocp.args.Composite(
            state=ocp.args.StandardRestore(like), progress=ocp.args.JsonRestore()
        )
        try:
            restored = self._manager.restore(step, args=args)
        except ValueError as error:
            raise UserError(
                f"the checkpoint of step {step} in {self._manager.directory} does not fit this "
                "model: it is of another version of this program (run.json beside it names its "
                f"commit) or damaged ({str(error).splitlines()[0]})"
            ) from None
        return restored["state"], restored["progress"]

    def progress(self, step: int) -> dict[str, Any]:
        """What was saved beside the state at `step`."""
        args = ocp.args.Composite(progress=ocp.args.JsonRestore())
        return self._manager.restore(step, args=args)["progress"]

    def find(self, which: str) -> list[int]:
        """Steps of the checkpoints called "best", "last", by a number, or "average": the latest
        ones that are kept (train.keep)."""
        steps = sorted(self._manager.all_steps())
        if not steps:
            raise UserError(f"{self._manager.directory} holds no checkpoint yet")
        if which == "average":
            if self._keep == 1:
                raise UserError("there is but one checkpoint to average: train with train.keep=5")
            return steps[-self._keep :]
        if which == "last":
            return steps[-1:]
        if which == "best":
            best = self._manager.best_step()
            return steps[-1:] if best is None else [best]
        if which.isdecimal() and int(which) in steps:
            return [int(which)]
        known = ", ".join(map(str, steps))
        raise UserError(f"there is no checkpoint {which!r}: it can be best, last, average, {known}")

    def restore_params(self, task: Any, config: Config, mesh: Mesh, steps: Sequence[int]) -> Params:
        """The parameters to evaluate, for the model of `task`: the mean over `steps`."""
        optimizer = make_optimizer(config.optimizer, optax.constant_schedule(0.0))

        def state(key: Array) -> TrainState:
            return create_state(task.init(key), optimizer, bool(config.train.ema), task.averages)

        shapes = jax.eval_shape(state, jax.random.key(0))
        like = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=replicated(mesh)), shapes
        )
        total = self.restore(like, steps[0])[0].eval_params
        for step in steps[1:]:
            total = jax.tree.map(jnp.add, total, self.restore(like, step)[0].eval_params)
        return jax.tree.map(lambda x: x / len(steps), total)

    def close(self) -> None:
        self._manager.wait_until_finished()
        self._manager.close()
