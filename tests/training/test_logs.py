"""The remaining time that training logs show."""

import pytest

from training import logs
from training.logs import Clock


@pytest.fixture
def now(monkeypatch):
    """The time in seconds, as a list with one value that tests change."""
    time = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: time[0])
    return time


def test_the_first_evaluation_does_not_count_because_it_compiles(now):
    clock = Clock(start=10, steps=110, eval_every=20)
    now[0] += 5.0
    assert clock.left(15) == pytest.approx(95.0)  # 95 steps of one second
    now[0] += 40.0
    clock.evaluated(35.0)
    assert clock.left(20) == pytest.approx(90.0)


def test_the_shortest_later_evaluation_counts_for_all_that_remain(now):
    clock = Clock(start=0, steps=50, eval_every=20)  # evaluates after steps 20, 40 and 50
    for training, evaluation in ((20.0, 30.0), (20.0, 4.0)):
        now[0] += training + evaluation
        clock.evaluated(evaluation)
    now[0] += 5.0
    assert clock.left(45) == pytest.approx(5.0 + 4.0)
    now[0] += 5.0
    assert clock.left(50) == pytest.approx(4.0)  # the last evaluation follows


def test_a_restart_forgets_the_time_of_compilation(now):
    clock = Clock(start=0, steps=4, eval_every=4)
    now[0] += 60.0
    clock.restart()
    now[0] += 3.0
    assert clock.left(1) == pytest.approx(9.0)
