"""The trainer: steps, evaluations, checkpoints, until the end or a signal."""

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh

from configs.base import Config
from data.batches import train_iterator
from errors import Stopped, UserError, stop_signals
from training.checkpoints import Checkpoints
from training.devices import abstract, compiled, divided, put, replicated, spread
from training.hosts import together
from training.logs import Log
from training.optimizers import make_optimizer, make_schedule
from training.state import Params, TrainState, create_state, purpose_key
from training.step import CompiledStep, Sums, dropout_key, make_train_step, zero_sums

logger = logging.getLogger("alignax")


class BatchSource(Protocol):
    """Batches by number, without end; `data.batches.Batches` is one."""

    @property
    def steps_per_epoch(self) -> int: ...
    @property
    def shapes(self) -> Sequence[dict[str, Any]]:
        """A batch of every shape there is."""
        ...

    def __getitem__(self, index: int, /) -> dict[str, Any]: ...


class Task(Protocol):
    """What the trainer asks of a task."""

    averages: tuple[str, ...]  # sums whose moving averages the loss is given
    counted: str  # what losses are means over, in the plural

    def train_batches(self, seed: int, host: int, hosts: int) -> BatchSource: ...
    def init(self, key: Array) -> Params: ...
    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Array | None,
        averages: dict[str, Array] | None,
    ) -> Sums: ...


class Evaluation(NamedTuple):
    scores: dict[str, float]
    samples: Sequence[dict[str, str]] = ()


Evaluate = Callable[[Params], Evaluation]


class Progress(NamedTuple):
    """What the trainer remembers besides the state; saved with every checkpoint."""

    best: float = -math.inf  # highest score so far (losses count negative),
    best_loss: float = math.inf  # and the lowest loss with it
    stale: int = 0  # evaluations since then,
    plateau: int = 0  # and since then or the last lowering of the rate
    count: float = 0.0  # what losses are means over, so far: target tokens, say
    done: bool = False


def train(task: Task, evaluate: Evaluate, config: Config, workdir: Path, mesh: Mesh) -> TrainState:
    """Trains to the end, from the latest checkpoint of `workdir` where there is one.

    Raises Stopped when a signal came first.
    """
    batches = task.train_batches(config.seed, jax.process_index(), jax.process_count())
    steps = config.train.steps or max(1, round(config.train.epochs * batches.steps_per_epoch))
    schedule = make_schedule(config.optimizer, batches.steps_per_epoch, steps)
    optimizer = make_optimizer(config.optimizer, schedule)

    def initial(key: Array) -> TrainState:
        return create_state(task.init(key), optimizer, bool(config.train.ema), task.averages)

    key = purpose_key(config.seed, "weights")
    state = compiled(mesh, initial, divided(mesh, jax.eval_shape(initial, key)))(key)
    settings = config.train
    kept = Checkpoints(workdir, settings.keep, settings.eval_every)
    with contextlib.closing(kept) as checkpoints:
        progress, saved = Progress(), checkpoints.restore_latest(state)
        if saved is not None:
            state, progress = saved[0], Progress(**saved[1])
        start = int(state.step)
        parameters = sum(x.size for x in jax.tree.leaves(state.params))
        logger.info(
            f"{parameters:,} parameters, batch shapes: {len(batches.shapes)}, "
            f"{batches.steps_per_epoch:,} steps an epoch, {steps:,} steps in all"
            + (f", resuming after step {start:,}" if start else "")
        )
        if progress.done or start >= steps:
            logger.info(f"this run is complete after {start:,} steps: nothing to do")
            return state
        if config.optimizer.warmup_steps >= steps:
            logger.warning(
                f"optimizer.warmup_steps={config.optimizer.warmup_steps} is not over when these "
                f"{steps:,} steps are: the learning rate never gets to its height"
            )
        step = make_train_step(task.loss, optimizer, config, mesh, state)
        with together():
            log = Log(workdir, start, steps, task.counted)
        log.facts(start, parameters=parameters, steps=steps, epoch=batches.steps_per_epoch)
        with contextlib.closing(log), stop_signals("stopping after the steps under way") as signals:
            run = Run(task, evaluate, config, mesh, checkpoints, schedule, steps, log, signals)
            return run.go(step, state, progress, batches)


class Queued(NamedTuple):
    """A step that was sent to the devices."""

    number: int
    done: Array  # there when the step was taken
    signal: int | Array  # that any host has heard by then; 0: none
    told: tuple[Sums, dict[str, Array]] | None  # sums and counters, where a report is due


class Clock:
    """Time since the last report."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def restart(self) -> float:
        """The seconds that have passed."""
        before, self._since = self._since, time.monotonic()
        return self._since - before


# Steps that are queued. Two keep a device busy, unless the host is held up for longer than they
# take: on a shared one, with steps of 3.6 ms, two of four rounds were slower by 7 and 46 %, with
# eight none of four. Of long ones there are two, since a signal waits for them all, and where there
# are several hosts, which must not differ in it.
AHEAD, AHEAD_OF_LONG, LONG = 8, 2, 0.05


@dataclasses.dataclass(frozen=True)
class Run:
    """What stays the same during one call of `train`."""

    task: Task
    evaluate: Evaluate
    config: Config
    mesh: Mesh
    checkpoints: Checkpoints
    schedule: Callable
    steps: int
    log: Log
    signals: list[int]

    def go(
        self, step: Callable, state: TrainState, progress: Progress, batches: BatchSource
    ) -> TrainState:
        settings, number = self.config.train, int(state.step)
        step, zeros = self._compile(step, state, batches)
        sums, clock, pace, room = copied(zeros), Clock(), Clock(), AHEAD_OF_LONG
        ahead: collections.deque[Queued] = collections.deque()
        for batch in train_iterator(batches, number, lambda batch: put(batch, self.mesh)):
            state, sums = step(state, sums, batch)
            number += 1
            self.log.advance()
            evaluating = number % settings.eval_every == 0 or number >= self.steps
            told = None
            if number % settings.log_every == 0 or evaluating:
                told = sums, self._counters(state, number)
                sums = copied(zeros)
            ahead.append(Queued(number, copied(state.step), self._signal(), told))
            # Steps are queued, not awaited. What a step has to tell is read when it was awaited,
            # and so is a signal: by all hosts after the same step.
            stopping = 0
            while len(ahead) > (0 if evaluating or stopping else room):
                queued = ahead.popleft()
                progress = self._await(queued, state, progress, clock)
                stopping = stopping or int(queued.signal)
            short = pace.restart() < LONG and jax.process_count() == 1
            room = AHEAD if short else AHEAD_OF_LONG
            if stopping and told is None:  # what came after the last report
                rest = Queued(number, state.step, stopping, (sums, self._counters(state, number)))
                progress = self._await(rest, state, progress, clock)
            if evaluating:
                state, progress = self._evaluate(state, progress, number)
                stopping = stopping or int(self._signal())  # evaluations take long
                clock.restart()
            if progress.done:
                break
            if stopping:
                if not evaluating:
                    self.checkpoints.save(state, progress._asdict(), None)
                raise Stopped(stopping, f"saved after step {number:,}")
        return state

    def _signal(self) -> int | Array:
        """The signal that this host, or where there are several any of them, has heard."""
        heard = self.signals[0] if self.signals else 0
        if jax.process_count() == 1:
            return heard
        own = np.full(len(self.mesh.local_devices), heard, np.int32)
        return self._highest(jax.make_array_from_process_local_data(spread(self.mesh), own))

    @functools.cached_property
    def _highest(self) -> Callable[[Array], Array]:
        return compiled(self.mesh, jnp.max)

    def _compile(
        self, step: Callable, state: TrainState, batches: BatchSource
    ) -> tuple[CompiledStep, Sums]:
        """The step for all shapes of batches, and the sums to start from."""
        shapes = [abstract(batch, self.mesh) for batch in batches.shapes]
        zeros = zero_sums(self.task.loss, state, shapes[0], self.mesh)
        self.log.say(f"compiling (batch shapes: {len(shapes)})")
        clock = Clock()
        ready = CompiledStep(step, state, zeros, shapes, dropout_key(self.config, self.mesh))
        self.log.say(f"compiled in {clock.restart():.0f} s")
        self.log.start()
        return ready, zeros

    def _counters(self, state: TrainState, number: int) -> dict[str, Array]:
        """What a report tells beside the sums, on the devices: it waits for nothing."""
        # Skipped steps do not count for the optimiser, whose schedule they hold up.
        rate = self.schedule(number - 1 - state.skipped) * state.rate_scale
        counters = {"skipped": state.skipped, "longest_skipped": state.longest_skipped}
        return copied(counters) | {"learning_rate": rate}

    def _await(
        self, queued: Queued, state: TrainState, progress: Progress, clock: Clock
    ) -> Progress:
        """Waits for a step and reports what it has to tell; `state` is as far as queued."""
        jax.block_until_ready(queued.done)
        if queued.told is None:
            return progress
        sums, counters = jax.device_get(queued.told)
        values, number = means(sums), queued.number
        count, skipped = values.pop("count"), int(counters["skipped"])
        speed = count / clock.restart()
        progress = progress._replace(count=progress.count + count)
        rate = float(counters["learning_rate"])
        extra = {"learning_rate": rate, "skipped": skipped, "count": progress.count}
        self.log.scalars(number, "train", values | extra | {"count_per_second": speed})
        self.log.progress(number, values["loss"], speed)
        if counters["longest_skipped"] >= self.config.train.max_skipped:
            self._stop_diverged(int(counters["longest_skipped"]), state, progress)
        return progress

    def _evaluate(
        self, state: TrainState, progress: Progress, number: int
    ) -> tuple[TrainState, Progress]:
        settings, optimizer = self.config.train, self.config.optimizer
        scores, samples = self.evaluate(jax.device_put(state.eval_params, replicated(self.mesh)))
        self.log.scalars(number, "valid", scores)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
        self.log.say(f"step {number:,}, validation: {shown}")
        self.log.samples(number, samples)
        metric = settings.eval_metric
        loss = scores["loss"]
        score = -loss if metric == "loss" else scores[metric]
        # Of equals, as where all sentences are right or none, the lower loss. NaN is never better.
        better = score > progress.best or (score == progress.best and loss < progress.best_loss)
        if better:
            progress = progress._replace(best=score, best_loss=loss, stale=0, plateau=0)
        else:
            progress = progress._replace(stale=progress.stale + 1, plateau=progress.plateau + 1)
        if optimizer.schedule == "plateau" and progress.plateau >= optimizer.plateau_patience:
            lowered = state.rate_scale * optimizer.plateau_factor
            state = dataclasses.replace(state, rate_scale=lowered)
            progress = progress._replace(plateau=0)
        if settings.patience and progress.stale >= settings.patience:
            self.log.say(f"no better {metric} in {progress.stale} evaluations: stopping early")
            progress = progress._replace(done=True)
        progress = progress._replace(done=progress.done or number >= self.steps)
        # What is no better has no score, so that the latest with one is the best.
        self.checkpoints.save(state, progress._asdict(), score if better else None)
        return state, progress

    def _stop_diverged(self, in_row: int, state: TrainState, progress: Progress) -> NoReturn:
        """What was evaluated last is kept: weights that lead to NaN are no better for being new.
        Where nothing was, the state is saved as it is by now, some steps after the report."""
        if self.checkpoints.latest is None:
            self.checkpoints.save(state, progress._asdict(), None)
        raise UserError(
            f"{in_row} steps in a row had a loss or gradient that is not finite (last step "
            f"{int(state.step):,}): the checkpoint of step {self.checkpoints.latest} is kept; "
            "lower optimizer.learning_rate or optimizer.clip_norm in a new workdir"
        )


@jax.jit  # a fifth of the time it takes without
def copied(tree: Any) -> Any:
    """What the next step may not take away, as it does with the memory of its arguments."""
    return jax.tree.map(jnp.copy, tree)


def means(sums: dict[str, Any]) -> dict[str, float]:
    """Sums to means, divided here and nowhere else; keeps the count. Nothing has no mean: NaN."""
    count = float(sums["count"])
    values = {name: float(x) for name, x in sums.items() if name not in ("count", "examples")}
    return {name: x / count if count else math.nan for name, x in values.items()} | {"count": count}
