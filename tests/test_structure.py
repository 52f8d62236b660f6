"""Tests of the project structure: one-way imports, short files and unique names."""

import ast
import collections
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Layers of packages, from the lowest to the highest. A module may import from its layer and from
# lower layers.
LAYERS = [
    ("errors", "markup", "reading", "terminal", "writing"), ("configs",), ("data",), ("models",),
    ("tasks",), ("training",), ("decoding",), ("evaluation",), ("experiment", "alignax"),
    ("papers", "sweeping", "exporting", "comparing", "serving"), ("program",), ("link_flags",),
    ("train", "eval", "predict", "lab", "sweep", "reproduce", "export", "compare", "benchmarks",
     "faults"),
]  # fmt: skip
LAYER_OF = {name: i for i, names in enumerate(LAYERS) for name in names}
SOURCES = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0].removesuffix(".py") in LAYER_OF
)
# Scripts and style sheets of pages.
PAGE_SOURCES = sorted(
    path.relative_to(ROOT)
    for folder in ("docs", *LAYER_OF)
    for suffix in (".css", ".js")
    for path in (ROOT / folder).rglob(f"*{suffix}")
)
MOST_LINES, LONGEST_FUNCTION = 400, 60


def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def package(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, including imports inside functions."""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_every_source_file_belongs_to_a_layer():
    known = {*LAYER_OF, "tests"}
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders | {path.stem for path in ROOT.glob("*.py")} <= known


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_run_one_way(path):
    allowed = LAYER_OF[package(path)]
    backwards = {name for name in imported(path) if LAYER_OF.get(name, -1) > allowed}
    assert not backwards


def test_there_are_no_import_cycles():
    """Import cycles between modules of the same package are also refused."""
    names = {".".join(path.with_suffix("").parts): path for path in SOURCES}
    graph = {}
    for name, path in names.items():
        edges = set()
        for node in tree(path).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                parts = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                edges |= {part for part in parts if part in names}
        graph[name] = edges - {name}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"import cycle: {' → '.join([*path, name])}"
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_and_functions_are_short(path):
    assert len((ROOT / path).read_text("utf-8").splitlines()) <= MOST_LINES
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


@pytest.mark.parametrize("path", PAGE_SOURCES, ids=str)
def test_scripts_and_style_sheets_are_short(path):
    assert len((ROOT / path).read_text("utf-8").splitlines()) <= MOST_LINES


# Several files define these names by convention, so they are exempt from the test of unique names.
CONVENTIONS = {
    "get_config", "points", "space", "main", "make_evaluate", "report", "CORPORA",
    "FIELDS", "SIZES", "logger", "run", "T", "ROOT",
}  # fmt: skip
EXEMPT = ("configs/schema", "papers/tables", "benchmarks")


def public_names(path: Path) -> set[str]:
    """Return the names of a module's public classes, constants, type aliases and functions."""
    names = set()
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")} - CONVENTIONS


def test_public_names_are_unique():
    places = collections.defaultdict(list)
    for path in SOURCES:
        if not str(path).startswith(EXEMPT):
            for name in public_names(path):
                places[name].append(str(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_checking_a_config_does_not_import_jax():
    """The programs, the config files and the tables of papers load without JAX."""
    code = (
        "import sys, program, sweep, papers.plan, training.workdir\n"
        "from configs.load import load_config_file\n"
        "from configs.check import check\n"
        "from papers.registry import find_targets\n"
        "from pathlib import Path\n"
        "[check(load_config_file(str(p))) for p in Path('configs').glob('*[0-9].py')]\n"
        "find_targets()\n"
        "print('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
