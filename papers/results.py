"""The committed results in docs/results: their verdicts, and rows whose config has changed."""

from pathlib import Path
from typing import Any, NamedTuple

from errors import UserError
from papers.plan import make_plan
from papers.table import Table
from papers.verdicts import Verdict, decide_claims
from reading import read_json

FOLDER = Path(__file__).parent.parent / "docs" / "results"
_ROW = {
    "run": str | None,
    "scoring": str,
    "decoding": str,
    "measured": {str: [float]},
    "seeds": [int],
    "left_out?": {str: [float]},
}
_CONTENT = {
    "target": str,
    "data": str,
    "size": str,
    "seeds": int,
    "signatures": {str: [str]},
    "confidence?": float,
    "rows": {str: _ROW},
}


class Result(NamedTuple):
    """One results.json, and the table that it contains the results of."""

    path: Path
    table: Table
    content: dict[str, Any]

    @property
    def page(self) -> str:
        """Address of the page, relative to the folder of all results."""
        return f"{self.path.parent.name}/page.md"

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on all claims of the table."""
        return decide_claims(self.table, self.content)

    def stale_rows(self) -> dict[str, str]:
        """Map the rows whose results are out of date to the reason.

        A row is up to date if the digest of its runs is that of the row's present config, and if it
        was scored with the present settings.
        """
        content, rows = self.content, self.content["rows"]
        measured = [name for name, row in rows.items() if any(row["measured"].values())]
        try:
            plan = make_plan(
                content["target"], self.table, content["data"], content["size"], Path(), 0, ""
            )
        except UserError as error:
            return dict.fromkeys(measured, str(error))
        present = {row.name: row for row in plan.table.rows}
        found = {}
        for name in measured:
            if name not in present:
                found[name] = "the table has no row with this name"
                continue
            row, old = present[name], rows[name]
            run, scoring = plan.run_name(row) if row.trained else None, plan.scoring(row)
            if old["run"] != run:
                found[name] = f"trained as {old['run']}, now {run}"
            elif old["scoring"] != scoring:
                found[name] = f"scored with {old['scoring']}, now {scoring}"
        return found


def read_result(path: Path, targets: dict[str, Table]) -> Result | None:
    """Read a results.json; return None if it does not belong to one of the targets."""
    target = read_json(path, dict).get("target")
    if target not in targets:
        return None
    return Result(path, targets[target], read_json(path, _CONTENT))


def committed(targets: dict[str, Table]) -> dict[str, list[Result]]:
    """Map every target to its committed results, which may be none or several."""
    results = [read_result(path, targets) for path in sorted(FOLDER.glob("*/results.json"))]
    return {
        target: [r for r in results if r is not None and r.content["target"] == target]
        for target in targets
    }
