"""The progress of a sweep."""

import pytest

from sweeping.watch import time_left


@pytest.mark.parametrize(
    ("done", "left", "workers", "text"),
    [
        (1, 3, 4, ""),  # the other runs of the first wave may be almost ready
        (4, 4, 4, ", about 60 s left"),  # one more wave
        (4, 5, 4, ", about 2 min left"),  # two more waves
        (2, 3, 1, ", about 90 s left"),
        (4, 0, 4, ""),
    ],
)
def test_the_time_left_is_estimated_after_the_first_wave(done, left, workers, text):
    assert time_left(done, left, workers, seconds=60.0) == text
