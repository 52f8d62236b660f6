"""A sweep as an Optuna study: what is to be tried, by whom, and what came out.

Trials wait in line from the beginning, a trial a run: a point and a seed. Workers, of any number of
machines, take the first that waits. A trial that failed without an error of its own was
interrupted, or its worker died; it is put in line again and goes on from its latest checkpoint.
"""

import functools
import itertools
import json
import math
import re
import time
import warnings
import zlib
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from errors import UserError, first_line
from sweeping.mutex import Mutex
from sweeping.points import Point, Sweep, blamed, label

SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    # Others are at work on theirs: constant_liar keeps away from those.
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, constant_liar=True),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}
# What is reported is an evaluation each, so that is their unit.
PRUNERS: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
    "none": optuna.pruners.NopPruner,
    "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5),
    "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, reduction_factor=3),
}
Call = TypeVar("Call", bound=Callable[..., Any])


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

    @property
    def interrupted(self) -> bool:
        return self.state == TrialState.FAIL and "error" not in self.facts

    @property
    def over(self) -> bool:
        return self.state.is_finished() and not self.interrupted


def _patient(call: Call) -> Call:
    """A method that waits for a storage that is away for a while."""

    @functools.wraps(call)
    def patient(study: "Study", *arguments: Any) -> Any:
        until = time.monotonic() + study.settings.grace
        while True:
            try:
                return call(study, *arguments)
            except (StorageInternalError, OperationalError):
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    return patient  # pyright: ignore[reportReturnType]


class Study:
    """`begun_with` says what the sweep is of: another sweep in the same place is refused. `only`
    are the points, by key, and seeds that are to be tried, where it is not all."""

    def __init__(
        self,
        url: str,
        name: str,
        sweep: Sweep,
        settings: Settings,
        begun_with: dict[str, Any],
        only: Set[tuple[str, int]] | None = None,
    ):
        self.sweep, self.settings, self._name, self._only = sweep, settings, name, only
        # Heartbeats and ask are called experimental, and one without `optimize` is warned of.
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        where = _parse(url)
        try:
            self._mutex = Mutex(where, name)
            with self._mutex.held():  # or two would make the tables at once
                self._storage = _open_storage(where, settings.grace)
        except (ImportError, SQLAlchemyError, RuntimeError) as error:
            raise UserError(f"cannot open --storage={_hidden(url)}: {first_line(error)}") from error
        with self._mutex.held():
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                pruner=PRUNERS[settings.pruner](),
                direction="minimize" if self.lower_is_better else "maximize",
                load_if_exists=True,
            )
            self._check(json.loads(json.dumps(begun_with)))  # as the storage gives it back
            self._plan()

    def _check(self, begun_with: dict[str, Any]) -> None:
        before = self._study.user_attrs.get("begun_with", begun_with)
        if before != begun_with:
            raise UserError(
                f"the sweep {self._name!r} was begun with {_differences(before, begun_with)}: take "
                "another --workdir, or the flags it was begun with"
            )
        self._study.set_user_attr("begun_with", begun_with)

    @property
    def lower_is_better(self) -> bool:
        return self.settings.metric == "loss"  # the others of configs/check.py are to be high

    @property
    def _staged(self) -> bool:
        """Whether further seeds are for points alone whose first came to its end: those that are
        drawn, and all where runs are pruned, which only first ones are."""
        return bool(self.sweep.space) or self.settings.pruner != "none"

    def _plan(self) -> None:
        """Puts all in line that is not there yet: seed after seed, so that an early look at the
        table sees every point."""
        known, seeds = self._latest(), range(self.settings.seeds)
        for seed, point in itertools.product(seeds, self.sweep.points or ()):
            if seed == 0 or not self._staged:
                self._want(known, label(point), seed, point)
        for number in range(self.settings.trials if self.sweep.space else 0):
            self._want(known, f"{number:03d}", 0)
        if not self._staged:
            return
        for (key, seed), trial in known.items():
            if seed == 0 and trial.state == TrialState.COMPLETE:
                for further in seeds[1:]:
                    self._want(known, key, further, trial.user_attrs["point"])

    def _want(
        self,
        known: dict[tuple[str, int], FrozenTrial],
        key: str,
        seed: int,
        point: Point | None = None,
    ) -> None:
        if self._only is not None and (key, seed) not in self._only:
            return
        if (key, seed) not in known:
            facts = {"key": key, "seed": seed}
            self._put_in_line(facts if point is None else {**facts, "point": point})
        elif point is not None and known[key, seed].user_attrs["point"] != point:
            raise UserError(
                f"the point {key} was {known[key, seed].user_attrs['point']} when the sweep was "
                "begun: give what it is now another name"
            )

    def _put_in_line(self, facts: dict[str, Any]) -> None:
        drawn = facts.get("point", {}) if self.sweep.space else {}
        self._study.enqueue_trial(drawn, facts)

    @_patient
    def take(self) -> Trial | None:
        """The first trial that waits, for nobody else."""
        with self._mutex.held():
            optuna.storages.fail_stale_trials(self._study)
            for record in self.records():
                if record.interrupted:
                    self._put_in_line(record.facts)
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting:
                return None
            # Before it is taken: should this process be killed in between, it is missed.
            self._storage.record_heartbeat(waiting[0]._trial_id)
            seed = zlib.crc32(f"{self._name} {waiting[0].number}".encode())
            self._study.sampler = SAMPLERS[self.settings.sampler](seed)
            trial = self._study.ask()
            if self.sweep.space:
                trial.set_user_attr("point", _drawn(self.sweep, trial))
            return trial

    @_patient
    def retry_failed(self) -> None:
        """Puts trials in line again that failed by an error."""
        with self._mutex.held():
            for trial in self._latest().values():
                if trial.state == TrialState.FAIL:
                    facts = {n: x for n, x in trial.user_attrs.items() if n != "error"}
                    self._put_in_line(facts)

    @_patient
    def beat(self, trial: Trial, seconds: float) -> None:
        """A sign of life."""
        self._storage.record_heartbeat(trial._trial_id)
        trial.set_user_attr("seconds", seconds)

    @_patient
    def prunes(self, trial: Trial, score: float, evaluation: int) -> bool:
        """Whether a run with this score should be given up. A point's further seeds are not: else
        its mean would be of those that had luck."""
        if trial.user_attrs["seed"] > 0:
            return False
        trial.report(score, evaluation)
        return trial.should_prune()

    @_patient
    def finish(
        self, trial: Trial, state: TrialState, score: float | None, facts: dict[str, Any]
    ) -> None:
        with self._mutex.held():
            if self._storage.get_trial(trial._trial_id).state != TrialState.RUNNING:
                return  # it seemed dead, and is somebody else's by now
            for name, value in facts.items():
                trial.set_user_attr(name, value)
            own = trial.user_attrs
            if state == TrialState.COMPLETE and self._staged and own["seed"] == 0:
                known = self._latest()
                for seed in range(1, self.settings.seeds):
                    self._want(known, own["key"], seed, own["point"])
            self._study.tell(trial, score, state)

    @_patient
    def records(self) -> list[Record]:
        """The latest trial of every point and seed."""
        return [
            Record(key, seed, t.user_attrs.get("point", {}), t.state, t.value, t.user_attrs)
            for (key, seed), t in self._latest().items()
        ]

    def over(self) -> bool:
        """Nothing waits and nobody is at work."""
        return all(record.over for record in self.records())

    def _latest(self) -> dict[tuple[str, int], FrozenTrial]:
        """By point and seed; earlier ones were interrupted, or are tried again."""
        trials = self._study.get_trials(deepcopy=False)
        return {(trial.user_attrs["key"], trial.user_attrs["seed"]): trial for trial in trials}


def example(sweep: Sweep) -> Point:
    """A point of a space, as it might be drawn."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return _drawn(sweep, optuna.create_study(sampler=SAMPLERS["random"](0)).ask())


def _drawn(sweep: Sweep, trial: Trial) -> Point:
    assert sweep.space
    try:
        sweep.space(trial)
    except (StorageInternalError, OperationalError):
        raise
    except Exception as error:  # whatever a file of the user's can raise
        raise UserError(blamed(sweep.space.__code__.co_filename, error)) from error
    return trial.params


def better(scores: Sequence[float], lower_is_better: bool) -> float:
    """The best of them; a run without any has none."""
    known = [score for score in scores if math.isfinite(score)]
    return min(known) if lower_is_better else max(known)


def _parse(url: str) -> URL:
    """The database of --storage; PostgreSQL's by the driver that requirements.txt has."""
    try:
        where = make_url(url)
    except SQLAlchemyError:
        where = None
    if where is None or where.get_backend_name() not in ("sqlite", "postgresql"):
        raise UserError(
            f"--storage={_hidden(url)} is not known: leave it out for a file in the workdir, or "
            "write postgresql://user:password@host/database"
        )
    if where.get_backend_name() == "sqlite":
        Path(where.database or "").parent.mkdir(parents=True, exist_ok=True)
        return where
    return where.set(drivername="postgresql+psycopg2")


def _hidden(url: str) -> str:
    """Without its password."""
    return re.sub(r"(://[^/@]*:)[^/@]*@", r"\1***@", url)


def _open_storage(url: URL, grace: int) -> RDBStorage:
    options: dict[str, Any] = {"pool_pre_ping": True}  # a server may have been started anew
    if url.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": 60}
    return RDBStorage(
        url.render_as_string(hide_password=False), engine_kwargs=options,
        heartbeat_interval=max(1, grace // 6), grace_period=grace,
    )  # fmt: skip


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    said = []
    for name in sorted(before.keys() | now.keys()):
        there, here = before.get(name), now.get(name)
        if isinstance(there, dict) and isinstance(here, dict):
            said += [_differences(there, here)] if there != here else []
        elif there != here:
            said.append(f"{name} {there!r} (here {here!r})")
    return ", ".join(said)
