import pytest

from sweeping.estimate import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(45, "45 s"), (720, "12 min"), (25_500, "7 h 05 min"), (780_726, "9 days")],
)
def test_durations_are_readable(seconds, text):
    assert duration(seconds) == text
