import functools
import time

from benchmarks import turns


def sleep(seconds):
    return {"sleep": turns.Prepared(lambda calls: time.sleep(calls * seconds), {"wanted": seconds})}


def fail():
    raise ValueError("no model\nsecond line")


def test_processes_are_timed_in_turn(monkeypatch, capsys):
    monkeypatch.setattr(turns, "REPEATS", 3)
    prepares = {"long": functools.partial(sleep, 0.3), "short": functools.partial(sleep, 0.02)}
    found = turns.time_in_turn(prepares | {"broken": fail})
    assert {name: list(functions) for name, functions in found.items()} == {
        "long": ["sleep"], "short": ["sleep"],
    }  # fmt: skip
    long, short = (found[name]["sleep"] for name in ("long", "short"))
    assert long.facts == {"wanted": 0.3} and long.seconds >= 0.3 > short.seconds >= 0.02
    assert "broken: failed (no model)" in capsys.readouterr().out
