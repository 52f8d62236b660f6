"""Store the trials of a sweep and their results in an Optuna study.

A trial is one training run of a point with one seed. The first trials are queued when the study is
created, and workers on any number of machines take waiting trials in the order of the queue. A
trial that failed without an error message was interrupted, or its worker died. Such a trial is
queued again and resumes from its latest checkpoint.
"""

import functools
import itertools
import json
import math
import time
import warnings
import zlib
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from configs.base import LOWER_IS_BETTER
from configs.load import describe
from errors import UserError
from reading import matching
from sweeping.mutex import Mutex
from sweeping.points import Point, Sweep, label
from sweeping.settings import Settings
from sweeping.storage import (
    CONNECTION_ERRORS,
    explained,
    is_damaged,
    open_storage,
    parse_storage,
    unusable,
)

# MAKE_SAMPLER and MAKE_PRUNER have one entry for every name in sweeping/settings.py.
MAKE_SAMPLER: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    # constant_liar avoids points that are close to points that other workers are training.
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, constant_liar=True),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}
# The resource of the pruners is the number of evaluations: each evaluation reports one score.
MAKE_PRUNER: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
    "none": optuna.pruners.NopPruner,
    "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5),
    "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, reduction_factor=3),
}
Call = TypeVar("Call", bound=Callable[..., Any])


class Record(NamedTuple):
    """The current state of a trial."""

    key: str  # identifies the trial's point; see points.run_name
    seed: int
    point: Point  # empty if the point has not been drawn from the search space yet
    state: TrialState
    score: float | None
    facts: dict[str, Any]  # facts about the run: "parameters", "metrics", "seconds", "error", ...

    @property
    def interrupted(self) -> bool:
        """Whether the trial ended without a result or an error message; it is then queued again."""
        return self.state == TrialState.FAIL and "error" not in self.facts

    @property
    def over(self) -> bool:
        """Whether the trial is complete, was pruned, or failed with an error."""
        return self.state.is_finished() and not self.interrupted


def _with_retries(call: Call) -> Call:
    """Make a Study method retry for `settings.grace` seconds if the database cannot be reached.

    Afterwards, and at once if the database is damaged, the method raises a UserError.
    """

    @functools.wraps(call)
    def retrying(study: "Study", *arguments: Any) -> Any:
        until = time.monotonic() + study.settings.grace
        while True:
            try:
                return call(study, *arguments)
            except CONNECTION_ERRORS as error:
                if is_damaged(error) or time.monotonic() > until:
                    raise unusable(study.url, error) from None
                time.sleep(1)

    return retrying  # pyright: ignore[reportReturnType]


class Study:
    """The trials of a sweep, stored in a database.

    `begun_with` describes the sweep, for example its config file and overrides. Opening an existing
    study with a different description raises a UserError. `only` restricts the study to the trials
    with the given pairs of point key and seed (default: all trials).
    """

    def __init__(
        self,
        url: str | URL,
        name: str,
        sweep: Sweep,
        settings: Settings,
        begun_with: dict[str, Any],
        only: Set[tuple[str, int]] | None = None,
    ):
        self.sweep, self.settings, self._name, self._only = sweep, settings, name, only
        # Optuna warns that heartbeats and `ask` are experimental, and that heartbeats are meant for
        # `Study.optimize`, which is not used here.
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.url = parse_storage(url)
        # Convert tuples etc. to JSON types, because the stored description has JSON types.
        begun_with = json.loads(json.dumps(begun_with))
        with explained(self.url):
            if self.url.get_backend_name() == "sqlite":
                Path(self.url.database or "").parent.mkdir(parents=True, exist_ok=True)
            self._mutex = Mutex(self.url, name)
            with self._mutex.held():  # two processes must not create the database tables at once
                self._storage = open_storage(self.url, settings.grace)
                self._study = optuna.create_study(
                    storage=self._storage,
                    study_name=name,
                    pruner=MAKE_PRUNER[settings.pruner](),
                    direction="minimize" if self.lower_is_better else "maximize",
                    load_if_exists=True,
                )
                self._check(begun_with)
                self._enqueue_all()

    def _check(self, begun_with: dict[str, Any]) -> None:
        before = self._study.user_attrs.get("begun_with", begun_with)
        if before != begun_with:
            raise UserError(
                f"this sweep was started with {_differences(before, begun_with)}: "
                "use another --workdir, or the original flags"
            )
        self._study.set_user_attr("begun_with", begun_with)

    @property
    def lower_is_better(self) -> bool:
        """Whether lower scores are better."""
        return self.settings.metric in LOWER_IS_BETTER

    @property
    def _staged(self) -> bool:
        """Whether further seeds of a point are queued only after its first seed is complete.

        This is true if points are drawn from a search space or if a pruner is used.
        """
        return bool(self.sweep.space) or self.settings.pruner != "none"

    def _enqueue_all(self) -> None:
        """Queue all missing trials: the first seed of every point, then the second seed, etc.

        If `_staged` is True, further seeds are queued only for points whose first seed is complete.
        """
        known, seeds = self._latest(), range(self.settings.seeds)
        for seed, point in itertools.product(seeds, self.sweep.points or ()):
            if seed == 0 or not self._staged:
                self._enqueue_missing(known, label(point), seed, point)
        for number in range(self.settings.trials if self.sweep.space else 0):
            self._enqueue_missing(known, f"{number:03d}", 0)
        if not self._staged:
            return
        for (key, seed), trial in known.items():
            if seed == 0 and trial.state == TrialState.COMPLETE:
                for further in seeds[1:]:
                    self._enqueue_missing(known, key, further, trial.user_attrs["point"])

    def _enqueue_missing(
        self,
        known: dict[tuple[str, int], FrozenTrial],
        key: str,
        seed: int,
        point: Point | None = None,
    ) -> None:
        """Queue a trial unless it exists; raise a UserError if its stored point is different."""
        if self._only is not None and (key, seed) not in self._only:
            return
        if (key, seed) not in known:
            facts = {"key": key, "seed": seed}
            self._enqueue(facts if point is None else {**facts, "point": point})
        elif point is not None and known[key, seed].user_attrs["point"] != point:
            raise UserError(
                f"the point {key} was {known[key, seed].user_attrs['point']} when the sweep was "
                f"started, and is {point} now: give the new point a different name"
            )

    def _enqueue(self, facts: dict[str, Any]) -> None:
        drawn = facts.get("point", {}) if self.sweep.space else {}
        self._study.enqueue_trial(drawn, facts)

    @_with_retries
    def take(self) -> Trial | None:
        """Take the first waiting trial from the queue; return None if the queue is empty.

        No two workers take the same trial.
        """
        with self._mutex.held():
            optuna.storages.fail_stale_trials(self._study)
            for record in self.records():
                if record.interrupted:
                    self._enqueue(record.facts)
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting:
                return None
            # Record a heartbeat before `ask` marks the trial as running: if this process is killed
            # before `ask` returns, other workers recognize the trial as stale.
            self._storage.record_heartbeat(waiting[0]._trial_id)
            seed = zlib.crc32(f"{self._name} {waiting[0].number}".encode())
            self._study.sampler = MAKE_SAMPLER[self.settings.sampler](seed)
            trial = self._study.ask()
            if self.sweep.space:
                trial.set_user_attr("point", _draw(self.sweep, trial))
            return trial

    @_with_retries
    def retry_failed(self) -> None:
        """Queue all failed trials again."""
        with self._mutex.held():
            for trial in self._latest().values():
                if trial.state == TrialState.FAIL:
                    facts = {n: x for n, x in trial.user_attrs.items() if n != "error"}
                    self._enqueue(facts)

    @_with_retries
    def heartbeat(self, trial: Trial, seconds: float) -> None:
        """Record a heartbeat of a trial, and the number of seconds that it has run so far."""
        self._storage.record_heartbeat(trial._trial_id)
        trial.set_user_attr("seconds", seconds)

    @_with_retries
    def should_prune(self, trial: Trial, score: float, evaluation: int) -> bool:
        """Report a validation score to the pruner; return whether the trial should be pruned.

        Only the first seed of a point is pruned: pruning further seeds would bias the point's mean.
        """
        if trial.user_attrs["seed"] > 0:
            return False
        trial.report(score, evaluation)
        return trial.should_prune()

    @_with_retries
    def finish(
        self, trial: Trial, state: TrialState, score: float | None, facts: dict[str, Any]
    ) -> None:
        """Record the result of a trial; if `_staged` is True, queue further seeds of its point."""
        with self._mutex.held():
            if self._storage.get_trial(trial._trial_id).state != TrialState.RUNNING:
                return  # another worker has the trial, because this worker's heartbeat was late
            for name, value in facts.items():
                trial.set_user_attr(name, value)
            attributes = trial.user_attrs
            if state == TrialState.COMPLETE and self._staged and attributes["seed"] == 0:
                known = self._latest()
                for seed in range(1, self.settings.seeds):
                    self._enqueue_missing(known, attributes["key"], seed, attributes["point"])
            self._study.tell(trial, score, state)

    @_with_retries
    def records(self) -> list[Record]:
        """Return the latest trial of every point and seed."""
        return [
            Record(key, seed, t.user_attrs.get("point", {}), t.state, t.value, t.user_attrs)
            for (key, seed), t in self._latest().items()
        ]

    def over(self) -> bool:
        """Return whether all trials have ended."""
        return all(record.over for record in self.records())

    def _latest(self) -> dict[tuple[str, int], FrozenTrial]:
        """Map (point key, seed) to the latest trial, which repeats any earlier trials."""
        with explained(self.url, retried=True):
            trials = self._study.get_trials(deepcopy=False)
            return {_identity(trial): trial for trial in trials}


def _identity(trial: FrozenTrial) -> tuple[str, int]:
    """Return the point key and the seed of a trial; raise a ValueError if its facts are damaged."""
    facts = trial.user_attrs
    matching(facts, {"key": str, "seed": int}, f"trial {trial.number}")
    matching(facts, {name: kind for name, kind in _FACTS.items() if name in facts})
    return facts["key"], facts["seed"]


# The types of facts that a trial need not have.
_FACTS = {
    "point": dict, "parameters": int, "count": float, "seconds": float, "error": str,
    "metrics": {str: float},
}  # fmt: skip


def example_point(sweep: Sweep) -> Point:
    """Draw one point from the search space of a sweep, without a database."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return _draw(sweep, optuna.create_study(sampler=MAKE_SAMPLER["random"](0)).ask())


def _draw(sweep: Sweep, trial: Trial) -> Point:
    assert sweep.space
    try:
        sweep.space(trial)
    except (StorageInternalError, OperationalError):
        raise
    except Exception as error:  # the user's code can raise any exception
        raise UserError(describe(sweep.space.__code__.co_filename, error)) from error
    return trial.params


def best_score(scores: Sequence[float], lower_is_better: bool) -> float:
    """Return the best finite score; at least one score must be finite."""
    known = [score for score in scores if math.isfinite(score)]
    return min(known) if lower_is_better else max(known)


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Describe the entries in which two nested dictionaries differ."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += [_differences(old, new)] if old != new else []
        elif old != new:
            found.append(f"{name} {old!r} (now {new!r})")
    return ", ".join(found)
