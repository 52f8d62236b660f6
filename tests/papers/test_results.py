"""Tests of the committed results: the overview of claims, and rows that are out of date."""

import copy
import json
import re
import statistics
import subprocess
import sys

import pytest
from PIL import Image

from papers import stale
from papers.claims import Claim
from papers.overview import (
    BEGIN,
    END,
    OVERVIEW,
    README,
    SYMBOLS,
    _undecided,
    overview,
    with_matrix,
)
from papers.plots import DIGEST, IMAGES, PLOTS
from papers.registry import find_targets
from papers.results import FOLDER, committed, read_result
from papers.verdicts import CONFIDENCE, Verdict, claims_table
from tests.programs import ROOT

TARGETS = find_targets()


def test_the_overview_of_claims_is_current():
    assert OVERVIEW.read_text("utf-8") == overview(), "run python -m papers.overview"


def test_the_overview_contains_all_claims():
    text = overview()
    for result in (result for results in committed(TARGETS).values() for result in results):
        if result.table.claims:
            assert f"]({result.page}) |" in text and f"[full table]({result.page})" in text
    for target, table in TARGETS.items():
        assert (f"## {target}" in text) == bool(table.claims)


@pytest.mark.parametrize("target", TARGETS)
def test_the_default_corpus_of_a_target_has_a_page(target):
    """`reproduce.py TARGET` repeats a page, and no other experiment."""
    corpora = {result.content["data"] for result in committed(TARGETS)[target]}
    assert TARGETS[target].data[0] in corpora


def test_the_overview_counts_undecided_claims_with_smaller_effects():
    claim, equal = Claim("a", "b", "text"), Claim("a", "b", "text", margin=1.0, equal=True)
    undecided = Verdict(claim, "undecided", "frame", (3, 3), 0.5, (-1.0, 2.0))
    verdicts = [
        undecided._replace(published=2.5),
        undecided._replace(published=1.5),
        undecided,
        undecided._replace(published=2.5, interval=None),
        undecided._replace(published=2.5, claim=equal),
        undecided._replace(published=9.5, outcome="holds"),
    ]
    assert _undecided(verdicts).startswith("For 1 of the 2 undecided claims")


def pairs(text):
    """Yield every "mean ± deviation" in a text, as numbers with their number of decimals."""
    for mean, deviation in re.findall(r"(-?\d+(?:\.\d+)?) ± (\d+(?:\.\d+)?)", text):
        yield float(mean), float(deviation), len(mean.partition(".")[2])


def figures(page):
    """Return every mean and deviation on a page, and those in the results.json beside it."""
    found = {pair[:2] for pair in pairs(page.read_text("utf-8"))}
    results = page.with_name("results.json")
    rows = json.loads(results.read_text("utf-8"))["rows"].values() if results.exists() else ()
    for values in (values for row in rows for values in row["measured"].values()):
        if len(values) > 1 and None not in values:
            mean, deviation = statistics.mean(values), statistics.stdev(values)
            found |= {(scale * mean, scale * deviation) for scale in (1, 1000)}
    return found


@pytest.mark.parametrize("summary", [README, FOLDER / "README.md"], ids=str)
def test_the_sections_of_a_summary_have_the_figures_of_the_pages_they_link(summary):
    for section in re.split(r"^#+ ", summary.read_text("utf-8"), flags=re.MULTILINE):
        links = re.findall(r"\]\(([^)#]+\.md)", section)
        known = set().union(*(figures(summary.parent / link) for link in links))
        for mean, deviation, decimals in pairs(section):
            near = 0.501 * 10**-decimals
            found = any(abs(mean - m) < near and abs(deviation - d) < near for m, d in known)
            title = section.partition("\n")[0]
            assert found, f"{title}: {mean} ± {deviation} is on no page that the section links"


def test_every_page_has_the_verdicts_of_its_results():
    for result in (result for results in committed(TARGETS).values() for result in results):
        if result.table.claims:
            confidence = result.content.get("confidence", CONFIDENCE)
            page = (FOLDER / result.page).read_text("utf-8")
            assert claims_table(result.verdicts(), confidence) in page, result.page


def test_listing_claims_does_not_import_jax():
    code = (
        "import sys\nfrom papers.registry import find_targets\n"
        "from papers.results import committed\n"
        "found = [r.verdicts() for rs in committed(find_targets()).values() for r in rs]\n"
        "print(len(found) > 10, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "True False", done.stderr


NEW = {"scoring": "checkpoint=best", "decoding": "", "seeds": [0]}  # fields of a row


def make_result(folder, target, **changes):
    """Return results of a target whose rows are up to date, except for the given changes."""
    path = folder / "results.json"
    content = {"target": target, "seeds": 1, "signatures": {}}
    path.write_text(json.dumps(content | changes))
    return read_result(path, TARGETS)


def test_rows_with_another_config_are_out_of_date(tmp_path):
    names = ("LSTM", "GRU", "Elman")
    measured = NEW | {"measured": {"frame": [1.0]}}
    rows = {name: {"run": "schuster1997,jsb,0"} | copy.deepcopy(measured) for name in names}
    content = {"data": "jsb", "size": "", "rows": rows}
    result = make_result(tmp_path, "bai2018.jsb", **content)
    stale = result.stale_rows()
    assert set(stale) == set(names)
    assert stale["GRU"].startswith("trained as schuster1997,jsb,0, now schuster1997,jsb,")
    for name in names[:2]:
        rows[name]["run"] = stale[name].rpartition(" ")[2]
    rows["Elman"]["measured"]["frame"] = []  # a row that was not measured cannot be out of date
    assert make_result(tmp_path, "bai2018.jsb", **content).stale_rows() == {}
    rows["GRU"]["scoring"] = "checkpoint=last"
    found = make_result(tmp_path, "bai2018.jsb", **content).stale_rows()
    assert found == {"GRU": "scored with checkpoint=last, now checkpoint=best"}
    rows["GRU"]["scoring"] = "checkpoint=best"
    rows["TCN"] = rows["GRU"]
    found = make_result(tmp_path, "bai2018.jsb", **content).stale_rows()
    assert found == {"TCN": "the table has no row with this name"}
    found = make_result(tmp_path, "bai2018.jsb", **content | {"size": "huge"}).stale_rows()
    assert set(found) == {"LSTM", "GRU", "TCN"} and "--size=huge" in found["TCN"]


def test_rows_of_the_frontier_are_checked(tmp_path):
    row = "Transformer, rate 0.005"
    rows = {row: NEW | {"run": "old", "measured": {"bleu": [30.0]}}}
    result = make_result(tmp_path, "frontier", data="multi30k_de_en", size="small", rows=rows)
    assert result.stale_rows()[row].startswith("trained as old, now vaswani2017,multi30k_de_en,")


def test_files_of_other_targets_are_ignored(tmp_path):
    assert make_result(tmp_path, "nobody2030.table1") is None


def test_results_are_found_by_target():
    found = committed(TARGETS)
    assert [*found] == [*TARGETS]
    paths = [result.path.parent.name for result in found["luong2015.table6"]]
    assert paths == ["luong2015.table6.bible_grc_eng", "luong2015.table6.europarl_es_en"]
    assert all(path.parent.parent == FOLDER for path in (r.path for r in found["lin2017.hops"]))
    pages = [result for results in found.values() for result in results]
    assert all(r.content["data"] in r.table.data for r in pages)
    assert all(r.content["size"] in r.table.sizes for r in pages)


def test_out_of_date_rows_fail_only_with_strict(monkeypatch, capsys):
    (result,) = committed(TARGETS)["bai2018.jsb"]
    rows = {name: row | {"run": "old"} for name, row in result.content["rows"].items()}
    old = result._replace(content=result.content | {"rows": rows})
    monkeypatch.setattr(stale, "committed", lambda _: {"bai2018.jsb": [old]})
    for strict, status in (False, 0), (True, 1):
        assert stale.report(strict) == status
    shown = capsys.readouterr().out
    assert "bai2018.jsb/page.md: 3 of 3 rows are out of date" in shown
    assert "    GRU: trained as old, now schuster1997,jsb," in shown


def test_the_matrix_of_the_readme_is_current():
    text = README.read_text("utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text == with_matrix(text), "run python -m papers.overview"
    assert f"| 2018 | [bai2018.jsb](docs/results/bai2018.jsb/page.md) {SYMBOLS['holds']} " in text
    assert with_matrix(f"a\n{BEGIN}old\n{END}\nb\n").replace("a\n", "", 1).startswith(BEGIN)


@pytest.mark.parametrize("name", PLOTS)
def test_the_plots_of_the_readme_are_current(name, tmp_path):
    PLOTS[name](tmp_path / name)
    with Image.open(tmp_path / name) as new, Image.open(IMAGES / name) as kept:
        assert kept.info[DIGEST] == new.info[DIGEST], "run python -m papers.plots"
    assert f'<img src="docs/images/{name}"' in README.read_text("utf-8")
