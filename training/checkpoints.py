"""Checkpoints of a run: the latest ones and the best, through orbax."""

import dataclasses
import errno
import hashlib
import itertools
import json
import logging
import operator
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from jax import Array
from jax.sharding import Mesh
from orbax.checkpoint import checkpoint_managers as policies

from configs.base import Config
from errors import UserError, first_line
from training.devices import replicated
from training.hosts import all_agree, first, together
from training.optimizers import make_optimizer
from training.state import Params, TrainState, create_state

logger = logging.getLogger("alignax")
T = TypeVar("T")


class Damaged(UserError):
    """A checkpoint that cannot be read, or has not the numbers that were written."""


class Checkpoints:
    """The folder `checkpoints` of a workdir.

    A checkpoint is the train state (arrays) and the run's progress (a small JSON: scores, what
    early stopping counts, and a seal of the state). Orbax writes beside and renames, so a
    checkpoint is whole or absent when a run is killed; what happens to its files later, the seal
    shows.
    """

    def __init__(self, workdir: Path, keep: int = 1, every: int = 1, read_only: bool = False):
        """Keeps the latest of those that were evaluated, `every` so many steps."""
        self._folder = (workdir / "checkpoints").absolute()
        if read_only and not self._folder.is_dir():
            raise UserError(f"{workdir} has no checkpoints: train first with --workdir={workdir}")
        self._keep, self._every = keep, every
        with together():
            if read_only or first():
                self._check_scores(read_only)
        score = operator.itemgetter("score")
        best = policies.BestN(get_metric_fn=score, n=1, keep_checkpoints_without_metrics=False)
        latest = policies.LatestN(n=2)  # one may be damaged
        policy = policies.AnyPreservationPolicy([latest, LatestEvaluated(keep, every), best])
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
        for path in sorted(self._folder.glob("*/metrics/metrics")):
            if not path.parts[-3].isdecimal():  # half written, and soon cleared away
                continue
            step = int(path.parts[-3])
            try:
                float(json.loads(path.read_bytes())["score"])
            except FileNotFoundError:  # an older one, which a training just now replaced
                continue
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
        """Writes in the background; `score` is higher for better, None where it cannot be best."""
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
        record = self._read(step, lambda: self._record(step))
        expected = record.pop("structure"), record.pop("bits")
        if expected[0] != structure(like):
            raise UserError(
                f"{self._name(step)} does not fit this model: it is of another version of this "
                "program (run.json beside it names its commit)"
            )
        args = ocp.args.Composite(state=ocp.args.StandardRestore(like))
        state = self._read(step, lambda: self._manager.restore(step, args=args)["state"])
        self._read(step, lambda: _expect(int(bits(state)) == expected[1]))
        return state, record

    def _record(self, step: int) -> dict[str, Any]:
        """The progress and what seals the state."""
        record = self.progress(step)
        _expect(record.pop("seal") == _seal(record))
        return record

    def _read(self, step: int, read: Callable[[], T]) -> T:
        """What one host cannot read, all of them call damaged."""
        found, problem = None, ""
        with together():
            try:
                found = read()
            except (PermissionError, MemoryError, jax.errors.JaxRuntimeError):  # of the machine
                raise
            except Exception as error:  # what a file of nonsense can lead to is in no list
                problem = _sentence(error)
        if not all_agree(not problem):
            reason = problem or "another process cannot read it"
            raise Damaged(f"{self._name(step)} is damaged ({reason})")
        return cast(T, found)

    def restore_latest(self, like: TrainState) -> tuple[TrainState, dict[str, Any]] | None:
        """The newest state that is whole; None where nothing was saved yet. Damaged checkpoints
        are named, and put aside under another name."""
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                return self.restore(like, step)
            except Damaged as error:
                with together():
                    if first():
                        self._put_aside(step, str(error))
                self._manager.reload()
        if any(self._folder.glob("damaged-*")):
            raise UserError(
                f"no checkpoint in {self._folder} can be read: take another --workdir, or delete "
                "this one to begin again"
            )
        return None

    def _put_aside(self, step: int, problem: str) -> None:
        names = (f"damaged-{step}-{i}" if i > 1 else f"damaged-{step}" for i in itertools.count(1))
        aside = next(path for name in names if not (path := self._folder / name).exists())
        logger.warning("%s: it is put aside as %s", problem, aside)
        (self._folder / str(step)).rename(aside)

    def progress(self, step: int) -> dict[str, Any]:
        """What was saved beside the state at `step`."""
        args = ocp.args.Composite(progress=ocp.args.JsonRestore())
        return self._manager.restore(step, args=args)["progress"]

    def _ended(self, step: int) -> bool:
        return self._read(step, lambda: self.progress(step)["done"])

    def find(self, which: str) -> list[int]:
        """Steps of the checkpoints called "best", "last", by a number, or "average": the latest
        ones that are kept (train.keep), but for one that a signal left between evaluations."""
        steps = sorted(self._manager.all_steps())
        if not steps:
            raise UserError(f"{self._folder} holds no checkpoint yet")
        if which == "average":
            if self._keep == 1:
                raise UserError(
                    "a mean of checkpoints wants several: this run was trained with train.keep=1, "
                    "train with --config.train.keep=5"
                )
            evaluated = [s for s in steps if s % self._every == 0 or self._ended(s)]
            return evaluated[-self._keep :] or steps[-1:]
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
        try:
            return self._mean(like, steps)
        except Damaged as error:
            raise UserError(
                f"{error}: choose another with --checkpoint, or train on, which puts it aside"
            ) from error

    def _mean(self, like: TrainState, steps: Sequence[int]) -> Params:
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


@dataclasses.dataclass
class LatestEvaluated(policies.PreservationPolicy):
    """The latest n, not counting those that a signal left between two evaluations: a mean of them
    is the same for a run that was stopped as for one that was not."""

    n: int
    every: int

    def should_preserve(
        self,
        checkpoints: Sequence[policies.PolicyCheckpointInfo],
        *,
        context: policies.PreservationContext,
    ) -> Sequence[bool]:
        evaluated = [c.step for c in checkpoints if c.step % self.every == 0]
        return [c.step in evaluated[-self.n :] for c in checkpoints]


def _sentence(error: Exception) -> str:
    full = os.strerror(errno.ENOSPC)  # hidden in the middle of what tensorstore says
    return full if full in str(error) else first_line(error)


def _expect(fine: bool) -> None:
    if not fine:
        raise ValueError("its content is not what was written")


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
