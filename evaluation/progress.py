"""Progress of the slow steps of a report."""

import logging
import math
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
LOG_INTERVAL = 5.0  # seconds between two lines in a log

logger = logging.getLogger("alignax")


def announce(step: str) -> None:
    """Log what a report does next, because it can take minutes."""
    logger.info(step)


def show_progress(items: Iterable[T], total: int, unit: str, shown: bool = True) -> Iterator[T]:
    """Yield items and, if `shown`, show how many of them the caller has processed.

    A terminal has a progress bar. Otherwise, a line is logged every few seconds. Processes without
    log messages, such as those of reproduce.py that score runs, show neither.
    """
    if not (shown and logger.isEnabledFor(logging.INFO)):
        yield from items
        return
    # disable=None: there is no bar if stderr is not a terminal
    with tqdm(total=total, unit=f" {unit}", mininterval=1.0, leave=False, disable=None) as bar:
        logged = math.inf  # no line before the first item, which includes compilation
        for number, item in enumerate(items, 1):
            yield item
            bar.update()
            now = time.monotonic()
            logged = min(logged, now)
            if bar.disable and now - logged >= LOG_INTERVAL:
                logger.info(f"{number:,} of {total:,} {unit}")
                logged = now
