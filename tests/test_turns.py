import functools
import time

import pytest

from benchmarks import turns


def record(path, name, seconds, fails_at=99):
    """Prepare a function that writes the name of its process and the number of its call."""
    time.sleep(seconds)
    path.open("a").write(f"{name} ready\n")
    calls = []

    def run(count):
        calls.append(count)
        time.sleep(count * seconds)
        path.open("a").write(f"{name} {len(calls)}\n")
        if len(calls) > fails_at:
            raise MemoryError("too large\nsecond line")

    return {"step": turns.Prepared(run, {"wanted": seconds})}


def fail():
    raise ValueError("no model\nsecond line")


@pytest.mark.slow
def test_processes_are_prepared_together_and_timed_in_turn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(turns, "REPEATS", 2)
    path = tmp_path / "calls"
    found = turns.time_in_turn({
        "long": functools.partial(record, path, "long", 0.3),
        "short": functools.partial(record, path, "short", 0.02),
        "late": functools.partial(record, path, "late", 0.1, fails_at=3),
        "broken": fail,
    })  # fmt: skip
    long, short = (found.pop(name)["step"] for name in ("long", "short"))
    assert not found  # the other processes failed
    assert long.facts == {"wanted": 0.3} and long.seconds >= 0.3 > short.seconds >= 0.02
    printed = capsys.readouterr().out
    assert "broken: failed (no model)" in printed and "late: failed (too large)" in printed
    calls = path.read_text().splitlines()
    # A process makes one call of WARM_UP runs, then two calls per round.
    warm, timed = calls[:6], [call.split()[0] for call in calls[6:]]
    assert sorted(warm) == [f"{n} {c}" for n in ("late", "long", "short") for c in ("1", "ready")]
    assert timed == [
        "long",
        "long",
        "short",
        "short",
        "late",
        "late",
        *["long"] * 2,
        *["short"] * 2,
        "late",
    ]
