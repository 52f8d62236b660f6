"""Groups of inputs with similar lengths, whose batches have few different shapes."""

import math
from collections.abc import Sequence


class CompiledShapes:
    """The batch shapes for which a function is compiled."""

    def __init__(self) -> None:
        self._shapes: set[tuple[int, ...]] = set()

    def fit(self, *wanted: int) -> Sequence[int]:
        """Return the smallest compiled shape that is at most twice as large, else a new one."""
        for shape in sorted(self._shapes, key=math.prod):
            fits = all(n <= m for n, m in zip(wanted, shape, strict=True))
            if fits and math.prod(shape) <= 2 * math.prod(wanted):
                return shape
        self._shapes.add(wanted)
        return wanted

    def __len__(self) -> int:
        return len(self._shapes)


def length_groups(lengths: list[int], batch: int) -> list[tuple[int, list[int]]]:
    """Group inputs by padded width; inputs of length 0 are in no group.

    A group that is smaller than a batch is merged with the next wider group, unless that group is
    more than twice as wide, because additional padding costs less than the compilation of another
    batch shape.
    """
    by_width: dict[int, list[int]] = {}
    for i in sorted((i for i, n in enumerate(lengths) if n), key=lambda i: lengths[i]):
        by_width.setdefault(padded_width(lengths[i]), []).append(i)
    groups: list[tuple[int, list[int]]] = []
    for width, members in by_width.items():
        shorter = groups[-1][1] if groups else []
        if 0 < len(shorter) < batch and width <= 2 * padded_width(lengths[shorter[0]]):
            members = groups.pop()[1] + members
        groups.append((width, members))
    return groups


def padded_width(length: int) -> int:
    """Round a length up to a padded width: 8, 16, 24, 32, 48, 64, 96, 128, 192, ..."""
    if length <= 32:
        return -(-length // 8) * 8
    power = 1 << (length - 1).bit_length()
    return power * 3 // 4 if length <= power * 3 // 4 else power


def batch_rows(members: int, devices: int, most: int) -> int:
    """Return the number of rows per batch: devices × a power of two, up to `most` if possible."""
    rows = devices
    while rows < members and 2 * rows <= most:
        rows *= 2
    return rows
