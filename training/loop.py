"""The trainer: steps, evaluations, checkpoints, until the end or a signal."""

import contextlib
import dataclasses
import logging
import math
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh

from configs.base import Config
from data.batches import Batches, train_iterator
from errors import UserError
from training.checkpoints import Checkpoints
from training.devices import check_rows, prefetch, put, replicated
from training.logs import Log
from training.optimizers import make_optimizer, make_schedule
from training.state import Params, TrainState, create_state, purpose_key
from training.step import Sums, make_train_step, zero_sums

logger = logging.getLogger("alignax")


class Task(Protocol):
    """What the trainer asks of a task."""

    def train_batches(self, seed: int, host: int, hosts: int) -> Batches: ...
    def init(self, key: Array) -> Params: ...
    def loss(self, params: Params, batch: dict[str, Array], key: Array | None) -> Sums: ...


class Evaluation(NamedTuple):
    scores: dict[str, float]
    samples: list[dict[str, str]] = []


Evaluate = Callable[[Params], Evaluation]


def train(
    task: Task,
    evaluate: Evaluate,
    config: Config,
    workdir: Path,
    mesh: Mesh,
) -> TrainState:
    """Trains to the end, from the latest checkpoint of `workdir` where there is one."""
    check_rows(mesh, config.data.batch_multiple, config.train.accumulation)
    batches = task.train_batches(config.seed, jax.process_index(), jax.process_count())
    steps = config.train.steps or round(config.train.epochs * batches.steps_per_epoch)
    schedule = make_schedule(config.optimizer, batches.steps_per_epoch, steps)
    optimizer = make_optimizer(config.optimizer, schedule)

    def initial(key: Array) -> TrainState:
        return create_state(task.init(key), optimizer, bool(config.train.ema))

    state = jax.jit(initial, out_shardings=replicated(mesh))(purpose_key(config.seed, "weights"))
    with contextlib.closing(Checkpoints(workdir, config.train.keep)) as checkpoints:
        progress = Progress()
        if checkpoints.latest is not None:
            state, saved = checkpoints.restore(state, checkpoints.latest)
            progress = Progress(**saved)
        start = int(state.step)
        logger.info(
            "%s parameters, %d batch shapes, %s steps of an epoch, %s steps in all%s",
            f"{sum(x.size for x in jax.tree.leaves(state.params)):,}",
            len(batches.buckets),
            f"{batches.steps_per_epoch:,}",
            f"{steps:,}",
            f", resuming after step {start:,}" if start else "",
        )
        step = make_train_step(task.loss, optimizer, config, mesh)
        run = Run(task, evaluate, config, mesh, checkpoints, step, schedule, steps)
        with contextlib.closing(Log(workdir, start, steps)) as log, stop_signals() as stopped:
            return run.go(state, progress, batches, log, stopped)


class Progress(NamedTuple):
    """What the trainer remembers besides the state; saved with every checkpoint."""

    best: float = -math.inf  # highest score so far (losses count negative)
    stale: int = 0  # evaluations since then,
    plateau: int = 0  # and since then or the last lowering of the rate
    tokens: float = 0.0  # target tokens seen
    done: bool = False


class Run:
    """One call of `train`, once everything is built."""

    def __init__(
        self, task: Task, evaluate: Evaluate, config: Config, mesh: Mesh,
        checkpoints: Checkpoints, step: Callable, schedule: Callable, steps: int,
    ):  # fmt: skip
        self.task, self.evaluate, self.config, self.mesh = task, evaluate, config, mesh
        self.checkpoints, self.step, self.schedule, self.steps = checkpoints, step, schedule, steps

    def go(
        self, state: TrainState, progress: Progress, batches: Batches, log: Log, stopped: list
    ) -> TrainState:
        settings, number = self.config.train, int(state.step)
        if progress.done or number >= self.steps:
            log.say(f"this run is complete after {number:,} steps: nothing to do")
            return state
        example = put(batches[number], self.mesh)
        zeros = zero_sums(self.task.loss, state.params, example, self.mesh)
        sums, since = jax.tree.map(jnp.copy, zeros), time.monotonic()
        for batch in prefetch(train_iterator(batches, number), self.mesh):
            state, sums = self.step(state, sums, batch)
            number += 1
            log.advance()
            last = number >= self.steps
            evaluating = number % settings.eval_every == 0 or last
            if number % settings.log_every == 0 or evaluating or stopped:
                progress = self._report(state, sums, progress, number, since, log)
                sums, since = jax.tree.map(jnp.copy, zeros), time.monotonic()
                self._stop_if_diverged(state, progress)
            if evaluating:
                state, progress = self._evaluate(state, progress, number, log)
                since = time.monotonic()
            if stopped and not evaluating:
                self.checkpoints.save(state, progress._asdict(), None)
            if stopped:
                log.say(
                    f"{signal.Signals(stopped[0]).name}: saved after step {number:,}; "
                    "the same command goes on from here"
                )
                break
            if progress.done or last:
                break
        return state

    def _report(
        self, state: TrainState, sums: Sums, progress: Progress, number: int, since: float, log: Log
    ) -> Progress:
        values = means(jax.device_get(sums))
        tokens, seconds = values.pop("count"), time.monotonic() - since
        rate = float(self.schedule(number - 1)) * float(state.rate_scale)
        speed = tokens / seconds
        extra = {"learning_rate": rate, "skipped": int(state.skipped), "tokens_per_second": speed}
        log.scalars(number, "train", values | extra)
        log.progress(number, values["loss"], speed)
        return progress._replace(tokens=progress.tokens + tokens)

    def _evaluate(
        self, state: TrainState, progress: Progress, number: int, log: Log
    ) -> tuple[TrainState, Progress]:
        settings, optimizer = self.config.train, self.config.optimizer
        scores, samples = self.evaluate(state.eval_params)
        log.scalars(number, "valid", scores)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
        log.say(f"step {number:,}, validation: {shown}")
        log.samples(number, samples)
        metric = settings.eval_metric
        score = -scores["loss"] if metric == "loss" else scores[metric]
        better = score > progress.best
        progress = progress._replace(
            best=max(score, progress.best),
            stale=0 if better else progress.stale + 1,
            plateau=0 if better else progress.plateau + 1,
        )
        if optimizer.schedule == "plateau" and progress.plateau > optimizer.plateau_patience:
            lowered = state.rate_scale * optimizer.plateau_factor
            state = dataclasses.replace(state, rate_scale=lowered)
            progress = progress._replace(plateau=0)
        if settings.patience and progress.stale >= settings.patience:
            log.say(f"no better {metric} in {progress.stale} evaluations: stopping early")
            progress = progress._replace(done=True)
        progress = progress._replace(done=progress.done or number >= self.steps)
        self.checkpoints.save(state, progress._asdict(), score)
        return state, progress

    def _stop_if_diverged(self, state: TrainState, progress: Progress) -> None:
        in_row = int(state.skipped_in_row)
        if in_row >= self.config.train.max_skipped:
            # Skipped steps change no weights, so what is saved here is the last good state.
            good = dataclasses.replace(state, skipped_in_row=jnp.zeros_like(state.skipped_in_row))
            self.checkpoints.save(good, progress._asdict(), None)
            raise UserError(
                f"{in_row} steps in a row had a loss or gradient that is not finite (last step "
                f"{int(state.step):,}): the last good weights are saved; lower "
                "optimizer.learning_rate or optimizer.clip_norm in a new workdir"
            )


def means(sums: dict[str, Any]) -> dict[str, float]:
    """Sums to means, divided here and nowhere else; keeps the count."""
    count = float(sums["count"])
    means = {name: float(x) / max(count, 1) for name, x in sums.items() if name != "count"}
    return means | {"count": count}


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that SIGINT and SIGTERM put themselves into; a second signal acts at once."""
    received: list[int] = []
    previous = {}

    def handle(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(number, previous[number])

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, handle)
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
