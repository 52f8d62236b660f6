"""Tests of studies: every trial completes once, even if workers die or are interrupted."""

import collections
import multiprocessing
import time

import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState

from errors import UserError
from sweeping.points import Sweep, label
from sweeping.settings import PRUNERS, SAMPLERS, Settings
from sweeping.study import MAKE_PRUNER, MAKE_SAMPLER, Study

POINTS = [{"model.attention.D": i} for i in range(6)]


def draw(trial):
    if trial.suggest_categorical("align", ["global", "local_p"]) == "local_p":
        trial.suggest_int("model.attention.D", 2, 20)


def open_study(url, name, points=POINTS, space=None, **changes):
    settings = Settings(**{"metric": "bleu", **changes})
    sweep = Sweep(None if space else points, space)
    return Study(url, name, sweep, settings, {"sweep": "a.py"})


def complete(study, trial, score=1.0):
    study.finish(trial, TrialState.COMPLETE, score, {"parameters": 3})


def take_all(url, name, points, results):
    """Take trials until none are left, and put their point keys and seeds into `results`."""
    study = open_study(url, name, points, seeds=2)
    while (trial := study.take()) is not None:
        results.put((trial.user_attrs["key"], trial.user_attrs["seed"]))
        complete(study, trial)


def test_no_trial_is_taken_twice(url):
    """Four processes open the study and take trials at the same time."""
    context, points = multiprocessing.get_context("forkserver"), [{"a.b": i} for i in range(7)]
    context.set_forkserver_preload([__name__])  # the processes are forks that import nothing
    results = context.Queue()
    machines = [
        context.Process(target=take_all, args=(url, "race", points, results)) for _ in range(4)
    ]
    for machine in machines:
        machine.start()
    taken = collections.Counter(results.get(timeout=120) for _ in range(14))
    for machine in machines:
        machine.join()
        assert machine.exitcode == 0
    assert results.empty()
    assert taken == {(label(point), seed): 1 for point in points for seed in range(2)}
    records = open_study(url, "race", points, seeds=2).records()
    assert [record.state for record in records] == [TrialState.COMPLETE] * 14


def test_the_trial_of_a_dead_worker_is_queued_again(url):
    dead, alive = (open_study(url, "dead", POINTS[:2], grace=2) for _ in range(2))
    lost = dead.take()
    dead.heartbeat(lost, 12.5)
    kept = alive.take()
    assert alive.take() is None and not alive.over()
    for _ in range(4):
        time.sleep(0.8)
        alive.heartbeat(kept, 1.0)
    again = alive.take()
    assert again.user_attrs["key"] == lost.user_attrs["key"]
    assert again.user_attrs["seconds"] == 12.5  # the dead worker had spent 12.5 seconds
    complete(alive, kept)
    complete(alive, again)
    assert alive.over() and alive.take() is None
    assert [record.state for record in alive.records()] == [TrialState.COMPLETE] * 2


@pytest.fixture
def file(tmp_path):
    return f"sqlite:///{tmp_path / 'new' / 'study.db'}"


def test_an_interrupted_trial_is_queued_again_and_a_failed_one_is_not(file):
    study = open_study(file, "x", POINTS[:2])
    first, second = study.take(), study.take()
    study.finish(first, TrialState.FAIL, None, {"seconds": 1.0})
    study.finish(second, TrialState.FAIL, None, {"error": "no memory"})
    assert not study.over()
    again = open_study(file, "x", POINTS[:2]).take()
    assert again.user_attrs["key"] == first.user_attrs["key"]
    complete(study, again)
    assert study.over()
    assert [r.facts.get("error") for r in study.records()] == [None, "no memory"]
    study.retry_failed()
    third = study.take()
    assert third.user_attrs["key"] == second.user_attrs["key"]
    assert "error" not in third.user_attrs


def test_a_point_without_changes_is_valid(file):
    trial = open_study(file, "x", [{}]).take()
    assert (trial.user_attrs["key"], trial.user_attrs["point"]) == ("default", {})


def test_trials_are_taken_seed_by_seed(file):
    study = open_study(file, "x", POINTS[:3], seeds=2)
    assert [study.take().user_attrs["seed"] for _ in range(6)] == [0, 0, 0, 1, 1, 1]


def test_points_can_be_added_later(file):
    study = open_study(file, "x", POINTS[:1])
    complete(study, study.take())
    study = open_study(file, "x", POINTS[:2])
    assert study.take().user_attrs["point"] == POINTS[1]
    assert study.take() is None


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_space_gives_one_point_per_trial_and_then_further_seeds(file, sampler):
    study = open_study(file, "x", space=draw, trials=3, seeds=2, sampler=sampler)
    # Open the study a second time: the trials exist already, so no trial is added.
    study = open_study(file, "x", space=draw, trials=3, seeds=2, sampler=sampler)
    taken = []
    while (trial := study.take()) is not None:
        taken.append((trial.user_attrs["key"], trial.user_attrs["seed"], trial.params))
        state = TrialState.PRUNED if trial.user_attrs["key"] == "001" else TrialState.COMPLETE
        study.finish(trial, state, 1.0 if state == TrialState.COMPLETE else None, {})
    drawn = {key: params for key, seed, params in taken if seed == 0}
    assert list(drawn) == ["000", "001", "002"]
    # Point 001 was pruned with its first seed, so it gets no second seed.
    assert [(key, params) for key, seed, params in taken if seed == 1] == [
        (key, drawn[key]) for key in ("000", "002")
    ]
    assert all(("model.attention.D" in p) == (p["align"] == "local_p") for p in drawn.values())


def test_an_interrupted_draw_is_repeated(file):
    study = open_study(file, "x", space=draw, trials=1)
    first = study.take()
    study.finish(first, TrialState.FAIL, None, {})
    assert study.take().params == first.params


def test_the_median_pruner_prunes_worse_runs(file):
    study = open_study(file, "x", [{"a.b": i} for i in range(7)], pruner="median", metric="loss")
    for _ in range(6):
        trial = study.take()
        for n in (1, 2, 3):
            trial.report(1.0, n)
        complete(study, trial, 1.0)
    trial = study.take()
    for n in (1, 2, 3):
        trial.report(2.0, n)
    assert trial.should_prune()  # its loss of 2 is above the median loss of 1


def test_pruned_points_get_no_further_seeds(file):
    study = open_study(file, "x", POINTS[:2], seeds=2, pruner="median")
    first, second = study.take(), study.take()
    assert study.take() is None
    study.finish(first, TrialState.PRUNED, None, {})
    complete(study, second)
    further = study.take()
    assert (further.user_attrs["key"], further.user_attrs["seed"]) == (label(POINTS[1]), 1)
    assert not any(study.should_prune(further, -1e9, n) for n in range(1, 5))
    assert study.take() is None


def test_an_unreachable_storage_is_retried(file, monkeypatch):
    study = open_study(file, "x")
    trial, away, record = study.take(), [True, True], study._storage.record_heartbeat

    def flaky(number):
        if away:
            away.pop()
            raise StorageInternalError
        record(number)

    monkeypatch.setattr(study._storage, "record_heartbeat", flaky)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    study.heartbeat(trial, 1.0)
    read, failures = study._study.get_trials, [StorageInternalError()]

    def get_trials(**options):
        if failures:
            raise failures.pop()
        return read(**options)

    monkeypatch.setattr(study._study, "get_trials", get_trials)
    assert len(study.records()) == len(POINTS)
    away.extend([True] * 10**6)
    monkeypatch.setattr(study, "settings", study.settings._replace(grace=0))
    with pytest.raises(UserError, match="cannot use the database"):
        study.heartbeat(trial, 2.0)
    assert study.records()[0].facts["seconds"] == 1.0


def test_opening_a_study_with_another_sweep_is_an_error(file):
    open_study(file, "x")
    with pytest.raises(UserError, match=r"started with sweep 'a.py' \(now 'b.py'\)"):
        Study(file, "x", Sweep(POINTS, None), Settings("bleu"), {"sweep": "b.py"})
    with pytest.raises(UserError, match=r"started with steps None \(now 3\)"):
        begun_with = {"sweep": "a.py", "overrides": {"steps": 3}}
        Study(file, "y", Sweep(POINTS, None), Settings("bleu"), {**begun_with, "overrides": {}})
        Study(file, "y", Sweep(POINTS, None), Settings("bleu"), begun_with)


def test_seeds_can_be_added_to_a_finished_space(file):
    study = open_study(file, "x", space=draw, trials=2)
    while (trial := study.take()) is not None:
        complete(study, trial)
    study = open_study(file, "x", space=draw, trials=2, seeds=2)
    assert [study.take().user_attrs["key"] for _ in range(2)] == ["000", "001"]


def test_changing_a_named_point_is_an_error(file):
    open_study(file, "x", [{"name": "deep", "a.b": 4}])
    with pytest.raises(UserError, match=r"deep was .*4.* is .*6"):
        open_study(file, "x", [{"name": "deep", "a.b": 6}])


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_first_draws_are_equal_in_all_studies(tmp_path, sampler):
    studies = [
        open_study(f"sqlite:///{tmp_path / name}.db", "x", space=draw, trials=4, sampler=sampler)
        for name in "ab"
    ]
    first, second = ([study.take().params for _ in range(4)] for study in studies)
    assert first == second and len({str(params) for params in first}) > 1


def test_every_sampler_and_pruner_is_implemented():
    assert set(SAMPLERS) == set(MAKE_SAMPLER) and set(PRUNERS) == set(MAKE_PRUNER)
