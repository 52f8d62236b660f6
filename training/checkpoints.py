"""Checkpoints of a run: the latest ones and the best, through orbax."""

import errno
import hashlib
import json
import logging
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh
from orbax.checkpoint import checkpoint_managers as policies

from configs.base import Config
from errors import UserError
from training.devices import replicated
from training.hosts import all_agree, first
from training.optimizers import make_optimizer
from training.state import Params, TrainState, create_state

logger = logging.getLogger("alignax")


class Damaged(UserError):
    """A checkpoint that cannot be read, or has not the numbers that were written."""


class Checkpoints:
    """The folder `checkpoints` of a workdir.

    A checkpoint is the train state (arrays) and the run's progress (a small JSON: scores, what
    early stopping counts, and a seal of the state). Orbax writes beside and renames, so a
    checkpoint is whole or absent when a run is killed; what happens to its files later, the seal
    shows.
    """

    def __init__(self, workdir: Path, keep: int = 1, read_only: bool = False):
        self._folder = (workdir / "checkpoints").absolute()
        if read_only and not self._folder.is_dir():
            raise UserError(f"{workdir} has no checkpoints: train first with --workdir={workdir}")
        self._keep = keep
        self._check_scores(read_only)
        score = operator.itemgetter("score")
        best = policies.BestN(get_metric_fn=score, n=1, keep_checkpoints_without_metrics=False)
        policy = policies.AnyPreservationPolicy([policies.LatestN(n=keep), best])
        options = ocp.CheckpointManagerOptions(
            best_fn=score,
            preservation_policy=policy,
            read_only=read_only,
            create=not read_only,
            cleanup_tmp_directories=not read_only,  # what a killed run had begun
        )
        self._manager = ocp.CheckpointManager(
            self._folder, options=options, item_names=("state", "progress")
        )

    def _check_scores(self, read_only: bool) -> None:
        """Orbax reads the scores of all checkpoints when it begins, or does not begin."""
        for path in sorted(self._folder.glob("[0-9]*/metrics/metrics")):
            step = int(path.parts[-3])
            try:
                float(json.loads(path.read_bytes())["score"])
            except (ValueError, KeyError, TypeError) as error:
                problem = f"{self._name(step)} is damaged ({_sentence(error)})"
                if read_only:
                    raise Damaged(f"{problem}: take {path.parents[1]} away") from error
                self._put_aside(step, problem)

    def _name(self, step: int) -> str:
        return f"the checkpoint of step {step} in {self._folder}"

    @property
    def latest(self) -> int | None:
        return self._manager.latest_step()

    def save(self, state: TrainState, progress: dict[str, Any], score: float | None) -> None:
        """Writes in the background; `score` is higher for better, None for an interrupted run."""
        record = progress | {"structure": structure(state), "bits": int(bits(state))}
        record["seal"] = _seal(record)
        # A copy, because training donates the state's buffers while the writer still reads them.
        state = jax.tree.map(jnp.copy, state)
        args = ocp.args.Composite(
            state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(record)
        )
        try:
            self._manager.save(
                int(state.step), args=args, metrics=None if score is None else {"score": score}
            )
        except Exception as error:  # of this save, or of the one before, in the background
            raise self._unwritten(error) from error

    def restore(self, like: TrainState, step: int) -> tuple[TrainState, dict[str, Any]]:
        """The state saved at `step`, with shapes and shardings of `like`, and its progress."""
        name = self._name(step)
        try:
            progress = self.progress(step)
            if progress.pop("seal") != _seal(progress):
                raise ValueError("its progress is not what was written")
            expected = progress.pop("structure"), progress.pop("bits")
        except Exception as error:
            raise Damaged(f"{name} is damaged ({_sentence(error)})") from error
        if expected[0] != structure(like):
            raise UserError(
                f"{name} does not fit this model: it is of another version of this program "
                "(run.json beside it names its commit)"
            )
        try:
            args = ocp.args.Composite(state=ocp.args.StandardRestore(like))
            state = self._manager.restore(step, args=args)["state"]
        except Exception as error:
            raise Damaged(f"{name} is damaged ({_sentence(error)})") from error
        if int(bits(state)) != expected[1]:
            raise Damaged(f"{name} is damaged: its numbers are not those that were written")
        return state, progress

    def restore_latest(self, like: TrainState) -> tuple[TrainState, dict[str, Any]] | None:
        """The newest state that is whole; None where nothing was saved yet. Damaged checkpoints
        are named, and put aside under another name."""
        steps = sorted(self._manager.all_steps(), reverse=True)
        for step in steps:
            found, problem = None, ""
            try:
                found = self.restore(like, step)
            except Damaged as error:
                problem = str(error)
            if all_agree(found is not None):
                return found
            self._put_aside(step, problem or f"another process cannot read {self._name(step)}")
            self._manager.reload()
        if steps:
            raise UserError(
                f"no checkpoint in {self._folder} can be read: take another --workdir, or delete "
                "this one to begin again"
            )
        return None

    def _put_aside(self, step: int, problem: str) -> None:
        aside = self._folder / f"damaged-{step}"
        logger.warning("%s: it is put aside as %s", problem, aside)
        if first():
            (self._folder / str(step)).rename(aside)
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices("put aside")

    def progress(self, step: int) -> dict[str, Any]:
        """What was saved beside the state at `step`."""
        args = ocp.args.Composite(progress=ocp.args.JsonRestore())
        return self._manager.restore(step, args=args)["progress"]

    def find(self, which: str) -> list[int]:
        """Steps of the checkpoints called "best", "last", by a number, or "average": the latest
        ones that are kept (train.keep)."""
        steps = sorted(self._manager.all_steps())
        if not steps:
            raise UserError(f"{self._folder} holds no checkpoint yet")
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
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._unwritten(error) from error
        finally:
            self._manager.close()

    def _unwritten(self, error: Exception) -> UserError:
        return UserError(
            f"a checkpoint could not be written to {self._folder} ({_sentence(error)}): those "
            "before it are kept; make room, and the same command goes on from the latest"
        )


def _sentence(error: Exception) -> str:
    """The first line of what libraries say in many."""
    full = os.strerror(errno.ENOSPC)
    if full in str(error):
        return full
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _seal(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def structure(tree: Any) -> str:
    """A digest of names, shapes and types: what a model's checkpoint must have to fit it."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    named = [(jax.tree_util.keystr(path), x.shape, str(x.dtype)) for path, x in leaves]
    return hashlib.sha256(repr(named).encode()).hexdigest()[:16]


@jax.jit
def bits(tree: Any) -> Array:
    """A sum over all numbers of a hash of their bits and places, modulo 2³²: of whole numbers, so
    the same however the arrays are divided over devices."""
    total = jnp.uint32(0)
    for i, x in enumerate(jax.tree.leaves(tree)):
        words = jax.lax.bitcast_convert_type(x, jnp.dtype(f"uint{8 * x.dtype.itemsize}"))
        places = jnp.arange(x.size, dtype=jnp.uint32).reshape(x.shape)
        total += jnp.sum(_hash(words.astype(jnp.uint32) ^ _hash(places + _hash(jnp.uint32(i)))))
    return total


def _hash(x: Array) -> Array:
    """Every bit of a number moves about half of the result's."""
    for _ in range(2):
        x = (x ^ (x >> 15)) * jnp.uint32(0x9E3779B1)  # odd, so that no two become one
    return x ^ (x >> 16)
