"""List committed results whose config has changed since: `python -m papers.stale [--strict]`.

The results of a row are out of date if results.json names other runs than the row has today. The
name of a run contains a digest of the config fields whose values differ from their defaults, so
this program does not notice if a default has changed. With --strict, the exit status is 1 if there
are such rows.
"""

import sys

from absl import app, flags

from errors import UserError
from papers.registry import find_targets
from papers.results import committed

_STRICT = flags.DEFINE_bool("strict", False, "Exit with status 1 if any results are out of date.")


def report(strict: bool) -> int:
    """Print every row that is out of date and their number on each page; return the exit status."""
    found = 0
    for results in committed(find_targets()).values():
        for result in results:
            stale = result.stale_rows()
            found += len(stale)
            number = f"{len(stale)} of {len(result.content['rows'])} rows are out of date"
            print(f"{result.page}: {number if stale else 'up to date'}")
            for name, reason in stale.items():
                print(f"    {name}: {reason}")
    return int(bool(found) and strict)


def main(_: list[str]) -> None:
    try:
        sys.exit(report(_STRICT.value))
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    app.run(main)
