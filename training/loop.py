"""The training loop, with reports, evaluations, checkpoints and early stopping."""

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Int, Key

from configs.base import LOWER_IS_BETTER, Config
from data.batches import train_iterator
from errors import Stopped, stop_signals
from training.checkpoints import Checkpoints
from training.devices import AHEAD, abstract, batch_sharding, compiled, put, replicated
from training.divergence import (
    diverged,
    has_diverged,
    no_validation_loss,
    none_finite,
    skipping_error,
    skipping_warning,
    validation_warning,
)
from training.flops import peak_rate
from training.hosts import is_first_process, raise_on_all_hosts
from training.logs import Log
from training.optimizers import make_optimizer, make_schedule, optimizer_rate
from training.state import Params, Progress, TrainState
from training.step import (
    CompiledStep,
    Counters,
    Sums,
    initial_state,
    make_train_step,
    run_arguments,
    zero_sums,
)
from training.workdir import write_status

logger = logging.getLogger("alignax")


@runtime_checkable
class BatchSource(Protocol):
    """Endless training data, such as `data.batches.Batches`; item i is the batch of step i + 1."""

    @property
    def steps_per_epoch(self) -> int: ...
    @property
    def shapes(self) -> Sequence[dict[str, Any]]:
        """One example batch of every batch shape."""
        ...

    def __getitem__(self, index: int, /) -> dict[str, Any]: ...


@runtime_checkable
class Trainable(Protocol):
    """The part of a task that the trainer uses."""

    loss_unit: str  # plural name of the unit of the sum "count", such as "tokens"

    def train_batches(self, seed: int, host: int, hosts: int) -> BatchSource: ...
    def init(self, key: Key[Array, ""]) -> Params: ...
    def loss(self, params: Params, batch: dict[str, Array], key: Key[Array, ""] | None) -> Sums: ...


class Evaluation(NamedTuple):
    """Validation scores by name, including "loss", and sample outputs to print."""

    scores: dict[str, float]
    samples: Sequence[dict[str, str]] = ()


Evaluate = Callable[[Params], Evaluation]


def train(
    task: Trainable,
    evaluate: Evaluate,
    config: Config,
    workdir: Path,
    mesh: Mesh,
    initialize: Callable[[TrainState], TrainState] | None = None,
) -> TrainState:
    """Train to the end, starting from the latest checkpoint in `workdir` if there is one.

    Otherwise, `initialize` may change the initial state, which is then saved as the checkpoint of
    step 0. Raises Stopped if a signal arrives before the end.
    """
    batches = task.train_batches(config.seed, jax.process_index(), jax.process_count())
    steps = config.train.steps or max(1, round(config.train.epochs * batches.steps_per_epoch))
    schedule = make_schedule(config.optimizer, batches.steps_per_epoch, steps)
    optimizer = make_optimizer(config.optimizer, schedule)
    state = initial_state(task.init, optimizer, config, mesh)
    checkpoints = Checkpoints(workdir, config.train.keep, config.train.eval_every)
    with contextlib.closing(checkpoints):
        restored = checkpoints.restore_latest(state)
        if restored is None and initialize is not None:
            state = initialize(state)
            checkpoints.save(state, Progress())
        state, progress = restored or (state, Progress())
        start = int(state.step)
        parameters = sum(x.size for x in jax.tree.leaves(state.params))
        if int(state.longest_skipped) >= config.train.max_skipped:
            raise skipping_error(start, int(state.skipped), int(state.longest_skipped), start)
        patience = config.train.patience
        if start >= steps or (patience and progress.since_best >= patience):
            logger.info(f"this run is already complete after {start:,} steps: nothing to do")
        else:
            progress = progress._replace(done=False)  # train.steps may have been increased
            _record_status(workdir, checkpoints, start, done=False)
            _check_warmup(config.optimizer.warmup_steps, steps)
            with raise_on_all_hosts():
                log = Log(workdir, start, steps, config.train.eval_every, task.loss_unit)
            logger.info(
                f"{parameters:,} parameters, batch shapes: {len(batches.shapes)}, steps per epoch: "
                f"{batches.steps_per_epoch:,}, steps in total: {steps:,}"
                + (f", resuming after step {start:,}" if start else "")
            )
            log.facts(start, parameters=parameters, steps=steps, epoch=batches.steps_per_epoch)
            step = make_train_step(task.loss, optimizer, schedule, config, mesh, state)
            stopping = stop_signals(
                "stopping after the training steps, or the validation, in progress; a second "
                "signal stops the program without saving"
            )
            with contextlib.closing(log), stopping as signals:
                trainer = Trainer(
                    evaluate, config, mesh, checkpoints, log, signals, steps, state, progress
                )
                with raise_on_all_hosts():  # the first step waits 30 seconds for other hosts
                    ready = trainer.compile(step, task.loss, batches)
                state = trainer.run(*ready, batches)
    # Record completion now: leaving the `with` block has committed the final checkpoint.
    _record_status(workdir, checkpoints, int(state.step), done=True)
    return state


def _check_warmup(warmup: int, steps: int) -> None:
    if warmup >= steps:
        logger.warning(
            f"optimizer.warmup_steps={warmup:,} does not end within the {steps:,} steps of this "
            "run: the learning rate never reaches its maximum"
        )


def _record_status(workdir: Path, checkpoints: Checkpoints, step: int, done: bool) -> None:
    with raise_on_all_hosts():
        if is_first_process():
            write_status(workdir, step, checkpoints.path(step) if done else None)


class Dispatched(NamedTuple):
    """A training step sent to the devices; later steps do not donate these arrays."""

    number: int
    sums: Sums  # sums of losses and counts since the last report
    counters: Counters  # scalars of the train state after this step
    signal: int | Int[Array, ""]  # number of a signal that any host had received, or 0
    flops: int  # FLOPs of all training steps of this process, up to this one
    reports: bool  # whether the trainer logs the sums after this step


@dataclasses.dataclass
class Trainer:
    """The state and the loop of one call of `train`."""

    evaluate: Evaluate
    config: Config
    mesh: Mesh
    checkpoints: Checkpoints
    log: Log
    signals: list[int]  # signal numbers that this process has received
    steps: int  # training steps of the whole run, unless it stops early
    state: TrainState
    progress: Progress
    reported: float = 0.0  # time.monotonic() of the last throughput measurement
    flops: int = 0  # FLOPs of all training steps before the last report
    training_loss: float = math.nan  # mean training loss over the last logging interval
    skipped: int = 0  # skipped training steps at the last report
    next_check: int = 0  # first training step at which train.max_skipped can be reached

    def compile(self, step: Any, loss: Any, batches: BatchSource) -> tuple[CompiledStep, Sums]:
        """Compile the training step for all batch shapes; return it and the initial sums."""
        shapes = [abstract(batch, self.mesh) for batch in batches.shapes]
        zeros = zero_sums(loss, self.state, shapes[0], self.mesh)
        self.log.say(f"compiling (batch shapes: {len(shapes)})")
        began = time.monotonic()
        run = run_arguments(self.config, self.mesh)
        compiled_step = CompiledStep(step, self.state, zeros, shapes, run)
        self.log.say(f"compiled in {time.monotonic() - began:.0f} s")
        self.log.start()
        return compiled_step, zeros

    def run(self, step: CompiledStep, zeros: Sums, batches: BatchSource) -> TrainState:
        """Train until the last step, early stopping or a signal.

        The host dispatches up to AHEAD training steps before it waits for the oldest one. It reads
        the report and the signal of a step only after waiting for that step, so the devices do not
        idle, and all hosts stop after the same step.
        """
        settings, start = self.config.train, int(self.state.step)
        pending: collections.deque[Dispatched] = collections.deque()
        sums, flops, self.reported = zeros, 0, time.monotonic()
        self.skipped = int(self.state.skipped)
        self.next_check = start + settings.max_skipped - int(self.state.skipped_in_row)
        iterator = train_iterator(batches, start, lambda batch: put(batch, self.mesh))
        for number, batch in enumerate(iterator, start + 1):
            flops += step.flops(batch)
            self.state, sums, counters = step(self.state, sums, batch)
            evaluates = number % settings.eval_every == 0 or number >= self.steps
            reports = evaluates or number % settings.log_every == 0
            latest = Dispatched(number, sums, counters, self._signal(), flops, reports)
            pending.append(latest)
            if reports:
                sums = zeros
            signal = self._await(pending, 0 if evaluates else AHEAD)
            if signal and not reports:
                self._report(latest)
            if evaluates:
                began = time.monotonic()
                if number <= (start // settings.eval_every + 1) * settings.eval_every:
                    self.log.say("validating; the first validation includes compilation")
                self._evaluate(number)
                signal = signal or int(self._signal())
                self.reported = time.monotonic()
                self.log.evaluated(self.reported - began)
            if self.progress.done:
                break
            if signal:
                if not evaluates:
                    self.checkpoints.save(self.state, self.progress)
                raise Stopped(signal, f"saved after step {number:,}")
        return self.state

    def _await(self, pending: collections.deque[Dispatched], ahead: int) -> int:
        """Wait until at most `ahead` training steps are pending; return a signal number or 0.

        After a signal, wait for all pending steps.
        """
        signal = 0
        while len(pending) > (0 if signal else ahead):
            step = pending.popleft()
            jax.block_until_ready(step.counters)
            self.log.advance()
            if self.progress.first_loss is None:
                self._record_first_loss(step)
            if step.reports:
                self._report(step)
            if step.number == self.next_check:
                self._check_skipped(step)
            signal = signal or int(step.signal)
        return signal

    def _signal(self) -> int | Int[Array, ""]:
        """Return the number of the signal that any host has received, or 0."""
        received = self.signals[0] if self.signals else 0
        if jax.process_count() == 1:
            return received
        local = np.full(len(self.mesh.local_devices), received, np.int32)
        sharding = batch_sharding(self.mesh)
        return self._highest(jax.make_array_from_process_local_data(sharding, local))

    @functools.cached_property
    def _highest(self) -> Callable[[Int[Array, " n"]], Int[Array, ""]]:
        return compiled(self.mesh, jnp.max)

    def _report(self, step: Dispatched) -> None:
        """Log means over the training steps since the last report, and the throughput."""
        sums, counters = jax.device_get((step.sums, step.counters))
        values = means(sums)
        count = values.pop("count")
        since, self.reported = self.reported, time.monotonic()
        speed, rate = (x / (self.reported - since) for x in (count, step.flops - self.flops))
        self.flops = step.flops
        share = rate / (peak_rate(self.mesh.devices.flat[0]) * self.mesh.size)
        self.progress = self.progress._replace(count=self.progress.count + count)
        extra = {
            "learning_rate": float(counters.learning_rate) * optimizer_rate(self.config.optimizer),
            "skipped": int(counters.skipped),
            "count": self.progress.count,
            "count_per_second": speed,
            "teraflops": rate / 1e12,
        }
        extra |= {} if math.isnan(share) else {"share_of_peak": share}
        self.log.scalars(step.number, "train", values | extra)
        self.log.progress(step.number, values["loss"], speed, rate, share)
        self.training_loss = values["loss"]
        new, self.skipped = extra["skipped"] - self.skipped, extra["skipped"]
        if new:
            self.log.say(skipping_warning(step.number, new, self.skipped))

    def _record_first_loss(self, step: Dispatched) -> None:
        """Record the loss of the first training step that was not skipped."""
        loss = means(jax.device_get(step.sums))["loss"]
        if not math.isnan(loss):  # NaN: all steps so far were skipped, so the count is zero
            self.progress = self.progress._replace(first_loss=loss)

    def _evaluate(self, number: int) -> None:
        """Evaluate, update the progress and save a checkpoint; raise UserError on divergence."""
        params = jax.device_put(self.state.eval_params, replicated(self.mesh))
        scores, samples = self.evaluate(params)
        self.log.scalars(number, "valid", scores)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
        self.log.say(f"step {number:,}, validation: {shown}")
        self.log.samples(number, samples)
        metric, loss = self.config.train.eval_metric, scores["loss"]
        self._check_divergence(number, loss)
        if not math.isfinite(loss):
            self.log.say(validation_warning(number, loss))
        score = -scores[metric] if metric in LOWER_IS_BETTER else scores[metric]
        self.progress = compare(self.progress, number, score, loss)
        self._cut_rate()
        patience, since_best = self.config.train.patience, self.progress.since_best
        if patience and since_best >= patience:
            self.log.say(f"{metric} has not improved in {since_best} evaluations: stopping early")
            self.progress = self.progress._replace(done=True)
        if number >= self.steps:
            self.progress = self.progress._replace(done=True)
        if self.progress.done and self.progress.best_step is None and not math.isfinite(loss):
            raise no_validation_loss(number, self.training_loss, self.checkpoints.latest)
        self.checkpoints.save(self.state, self.progress)

    def _cut_rate(self) -> None:
        """Lower the learning rate after plateau_patience evaluations without an improvement."""
        settings = self.config.optimizer
        if settings.schedule != "plateau":
            return
        if self.progress.since_rate_cut >= settings.plateau_patience:
            lowered = self.state.rate_scale * settings.plateau_factor
            self.state = dataclasses.replace(self.state, rate_scale=lowered)
            self.progress = self.progress._replace(since_rate_cut=0)

    def _check_divergence(self, number: int, loss: float) -> None:
        """Raise UserError if training has diverged, before this evaluation saves a checkpoint."""
        first_loss, last = self.progress.first_loss, self.checkpoints.latest
        if first_loss is None:
            if number >= self.steps:
                raise none_finite(number)
        elif has_diverged(first_loss, self.training_loss, loss):
            raise diverged(number, first_loss, self.training_loss, loss, last)

    def _check_skipped(self, step: Dispatched) -> None:
        """Raise UserError if the last train.max_skipped training steps were all skipped.

        Reading the counter from the device costs host time, so it is next read at the first step
        that could reach the limit.

        The current state is not saved, because its parameters led to the divergence. Only if there
        is no checkpoint, this state, at most AHEAD steps after `step`, is saved.
        """
        in_row, limit = int(step.counters.skipped_in_row), self.config.train.max_skipped
        self.next_check = step.number + limit - in_row
        if in_row < limit:
            return
        if not step.reports:
            self._report(step)
        if self.checkpoints.latest is None:
            self.checkpoints.save(self.state, self.progress)
        skipped = int(step.counters.skipped)
        raise skipping_error(step.number, skipped, in_row, self.checkpoints.latest)


def compare(progress: Progress, step: int, score: float, loss: float) -> Progress:
    """Return the progress after an evaluation at training step `step`.

    Of equal scores, the one with the lower loss is better. An evaluation whose score or loss is
    NaN is never the best one.
    """
    tied = score == progress.best_score and loss < progress.best_loss
    if not math.isnan(loss) and (score > progress.best_score or tied):
        return progress._replace(
            best_score=score, best_loss=loss, best_step=step, since_best=0, since_rate_cut=0
        )
    return progress._replace(
        since_best=progress.since_best + 1, since_rate_cut=progress.since_rate_cut + 1
    )


def means(sums: dict[str, Any]) -> dict[str, float]:
    """Divide accumulated sums by sums["count"]; return NaN for all means if the count is zero.

    The result includes "count" itself.
    """
    count = float(sums["count"])
    values = {name: float(x) for name, x in sums.items() if name not in ("count", "examples")}
    return {name: x / count if count else math.nan for name, x in values.items()} | {"count": count}
