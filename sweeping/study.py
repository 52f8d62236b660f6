"""A sweep as an Optuna study: what is to be tried, by whom, and what came out.

Trials wait in line from the beginning, a trial a run: a point and a seed. Workers, of any number of
machines, take the first that waits. A trial that failed without an error of its own was
interrupted, or its worker died; it is put in line again and goes on from its latest checkpoint.
"""

import contextlib
import fcntl
import itertools
import math
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from errors import UserError, first_line
from sweeping.points import Point, Sweep, label

SAMPLERS = {
    "tpe": lambda: optuna.samplers.TPESampler(constant_liar=True),  # workers ask side by side
    "random": lambda: optuna.samplers.RandomSampler(),
}
# What is reported is an evaluation each, so that is their unit.
PRUNERS = {
    "none": lambda: optuna.pruners.NopPruner(),
    "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1),
    "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, reduction_factor=3),
}


class Settings(NamedTuple):
    """How a sweep is searched."""

    metric: str  # of the dev split, by the config's train.eval_metric
    seeds: int = 1
    trials: int = 20  # points to draw, of a space
    sampler: str = "tpe"
    pruner: str = "none"
    grace: int = 60  # seconds without a sign of life that end a trial


class Record(NamedTuple):
    """A trial as it stands."""

    key: str  # of the point
    seed: int
    point: Point  # empty where it is still to be drawn
    state: TrialState
    score: float | None
    facts: dict[str, Any]  # parameters, count, seconds, error


class Study:
    """`begun_with` says what the sweep is of: another sweep in the same place is refused."""

    def __init__(
        self, url: str, name: str, sweep: Sweep, settings: Settings, begun_with: dict[str, Any]
    ):
        self.sweep, self.settings, self._name = sweep, settings, name
        # Heartbeats and ask are called experimental, and one without `optimize` is warned of.
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._storage = _open_storage(url, settings.grace)
        with self._alone():
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                sampler=SAMPLERS[settings.sampler](),
                pruner=PRUNERS[settings.pruner](),
                direction="minimize" if self.lower_is_better else "maximize",
                load_if_exists=True,
            )
            before = self._study.user_attrs.get("begun_with", begun_with)
            if before != begun_with:
                raise UserError(
                    f"the sweep {name!r} was begun with {_differences(before, begun_with)}: take "
                    "another --workdir, or the flags it was begun with"
                )
            self._study.set_user_attr("begun_with", begun_with)
            self._plan()

    @property
    def lower_is_better(self) -> bool:
        return self.settings.metric in ("loss", "perplexity")

    def _plan(self) -> None:
        """Puts all in line that is not there yet: seed after seed, so that an early look at the
        table sees every point. Of points that are drawn, further seeds come with their scores."""
        if self.sweep.points is not None:
            for seed, point in itertools.product(range(self.settings.seeds), self.sweep.points):
                self._want(label(point), seed, point)
            return
        for number in range(self.settings.trials):
            self._want(f"{number:03d}", 0)

    def _want(self, key: str, seed: int, point: Point | None = None) -> None:
        if (key, seed) not in self._latest():
            self._put_in_line({"key": key, "seed": seed} | ({"point": point} if point else {}))

    def _put_in_line(self, facts: dict[str, Any]) -> None:
        drawn = facts.get("point", {}) if self.sweep.space else {}
        self._study.enqueue_trial(drawn, facts)

    def take(self) -> Trial | None:
        """The first trial that waits, for nobody else."""
        with self._alone():
            optuna.storages.fail_stale_trials(self._study)
            self._free_interrupted()
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting:
                return None
            # Before it is taken: should this process be killed in between, it is missed.
            self._storage.record_heartbeat(waiting[0]._trial_id)
            trial = self._study.ask()
        if self.sweep.space:
            self.sweep.space(trial)
            trial.set_user_attr("point", trial.params)
        return trial

    def _free_interrupted(self) -> None:
        for trial in self._latest().values():
            if _interrupted(trial):
                self._put_in_line(trial.user_attrs)

    def retry_failed(self) -> None:
        """Puts trials in line again that failed by an error."""
        with self._alone():
            for trial in self._latest().values():
                if trial.state == TrialState.FAIL:
                    facts = {n: x for n, x in trial.user_attrs.items() if n != "error"}
                    self._put_in_line(facts)

    def beat(self, trial: Trial, seconds: float) -> None:
        """A sign of life."""
        self._storage.record_heartbeat(trial._trial_id)
        trial.set_user_attr("seconds", seconds)

    def finish(
        self, trial: Trial, state: TrialState, score: float | None, facts: dict[str, Any]
    ) -> None:
        for name, value in facts.items():
            trial.set_user_attr(name, value)
        with self._alone():
            if state == TrialState.COMPLETE and self.sweep.space and trial.user_attrs["seed"] == 0:
                for seed in range(1, self.settings.seeds):
                    self._want(trial.user_attrs["key"], seed, trial.user_attrs["point"])
            self._study.tell(trial, score, state)

    def records(self) -> list[Record]:
        """The latest trial of every point and seed."""
        return [
            Record(key, seed, t.user_attrs.get("point", {}), t.state, t.value, t.user_attrs)
            for (key, seed), t in self._latest().items()
        ]

    def over(self) -> bool:
        """Nothing waits and nobody is at work."""
        trials = self._latest().values()
        return all(trial.state.is_finished() and not _interrupted(trial) for trial in trials)

    def _latest(self) -> dict[tuple[str, int], FrozenTrial]:
        """By point and seed; earlier ones were interrupted, or are tried again."""
        trials = self._study.get_trials(deepcopy=False)
        return {(trial.user_attrs["key"], trial.user_attrs["seed"]): trial for trial in trials}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, of all processes and machines that share the study: Optuna alone
        gives a waiting trial to two who ask at once where the storage is SQLite."""
        engine = self._storage.engine
        if engine.dialect.name == "sqlite":
            with open(f"{engine.url.database}.lock", "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
            return
        key = {"key": zlib.crc32(self._name.encode())}
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), key)
            try:
                yield
            finally:
                connection.execute(sqlalchemy.text("SELECT pg_advisory_unlock(:key)"), key)


def _interrupted(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.FAIL and "error" not in trial.user_attrs


def better(scores: Sequence[float], lower_is_better: bool) -> float:
    """The best of them; a run without any has none."""
    known = [score for score in scores if math.isfinite(score)]
    if not known:
        raise ValueError("no evaluation gave a number")
    return min(known) if lower_is_better else max(known)


def _open_storage(url: str, grace: int) -> RDBStorage:
    if not url.startswith(("sqlite:///", "postgresql://")):
        raise UserError(
            f"--storage={url} is not known: leave it out for a file in the workdir, or write "
            "postgresql://user:password@host/database"
        )
    connect = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    try:
        return RDBStorage(
            url, heartbeat_interval=max(1, grace // 6), grace_period=grace,
            engine_kwargs={"pool_pre_ping": True, **connect},
        )  # fmt: skip
    except (ImportError, SQLAlchemyError, RuntimeError) as error:
        raise UserError(f"cannot open --storage={url}: {first_line(error)}") from error


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {before.get(name)!r} (here {now.get(name)!r})"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    )
