"""Tests of the documentation: links, commands, examples, and the build of the site."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from configs.base import base_config, declared_fields
from configs.check import check
from configs.load import load_config_file
from configs.registry import MODELS
from errors import UserError
from experiment import train_run
from sweeping.points import load_sweep
from tests import documents
from tests.check_commands import PROGRAMS
from tests.documents import DOCUMENTS, FOLDERS, Block, Command
from tests.programs import ENVIRONMENT, ROOT, SMALL
from tests.small import small_config
from training.devices import make_mesh

# Tests of links, file names and flags in documents


def broken_links(document: str) -> Iterator[str]:
    for line, target in documents.links(document):
        if re.match(r"[a-z]+:", target):  # addresses such as https: and mailto: are not files
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / document).parent / path if path else ROOT / document
        name = os.path.relpath(found, ROOT)
        if not found.exists():
            yield f"{document}:{line}: {target} does not exist"
        elif document.startswith("docs/") and not name.startswith("docs/"):
            yield f"{document}:{line}: {target} is outside docs/, so it is not on the site"
        elif anchor and name.endswith(".md") and anchor not in documents.anchors(name):
            known = ", ".join(sorted(documents.anchors(name)))
            yield f"{document}:{line}: {target}: {name} has the anchors {known}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    faults = [*broken_links(document)]
    assert not faults, "\n".join(faults)


def test_broken_links_are_found(tmp_path):
    """Links in code are ignored, and the anchors of equal headings are numbered."""
    (tmp_path / "a.md").write_text(
        "# One, `two` & three\n## Again\n## Again\n`[x](y)` [good](#one-two--three)\n"
        "```\n[x](y)\n```\n[good](a.md#again-1) [bad](a.md#again-2)\n![bad](b.png)\n"
    )
    found = [*broken_links(str(tmp_path / "a.md"))]
    assert [fault.split(": ")[0].rpartition(":")[2] for fault in found] == ["8", "9"]


SOURCES = {path.name for path in ROOT.glob("*.py")} | {
    path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
}
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.(?:py|md|png|toml|yml)")


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_source_files_in_the_prose_exist(document):
    """Prose may give a file's path or only its name; files that the document shows may be new."""
    prose, blocks = documents.read(document)
    written = {*re.findall(r"\*\*`([^`]+)`\*\*, new file", prose)}
    written |= {name for block in blocks for name in _file_names(block)}
    faults = []
    for line, span in documents.code_spans(document):
        if not _PATH.fullmatch(span) or re.search(r"[A-Z]{3,}", Path(span).stem) or span in written:
            continue
        if "/" in span and span.partition("/")[0] in FOLDERS:
            known = (ROOT / span).exists()
        else:
            known = not span.endswith(".py") or "/" in span or span in SOURCES
        if not known:
            faults.append(f"{document}:{line}: `{span}` does not exist")
    assert not faults, "\n".join(faults)


def _file_names(block: Block) -> list[str]:
    """Return the names of Python files in a Python block or in the paragraph before it."""
    if block.language != "python":
        return []
    return re.findall(r"[\w./-]+\.py\b", f"{block.before}\n{block.text}")


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_flags_in_the_prose_exist(document, flag_names):
    fields = {field for model in MODELS for field in declared_fields(model)}
    faults = []
    for line, span in documents.code_spans(document):
        if not re.match(rf"--|(?:python )?(?:{'|'.join(map(re.escape, PROGRAMS))}) ", span):
            continue
        for name in re.findall(r"(?<!\S)--([\w.]*\w)(?![\w.…])", span):
            section, _, field = name.partition(".")
            if section not in ("config", "decode") or not field:
                known = section in flag_names or section.removeprefix("no") in flag_names
            elif section == "decode":
                known = field in base_config().decode
            else:
                known = any(f"{path}.".startswith(f"{field}.") for path in fields)
            if not known and not re.search(r"[A-Z]{3,}|\.field$", name):
                faults.append(f"{document}:{line}: --{name} does not exist")
    assert not faults, "\n".join(faults)


# Documents mention these flags of absl, of other programs and of exported programs, which the
# programs of this project do not define.
FOREIGN_FLAGS = {"help", "helpfull", "signal", "requeue", "strict", "device", "compute_type"}


@pytest.fixture(scope="module")
def flag_names() -> set[str]:
    """Return the names of all flags of the programs, the benchmarks and the fault campaign."""
    files = [path for name in ("", "benchmarks/", "faults/") for path in ROOT.glob(f"{name}*.py")]
    source = "\n".join(path.read_text("utf-8") for path in files)
    return FOREIGN_FLAGS | {*re.findall(r"(?:DEFINE_\w+|define_required)\(\s*\"(\w+)\"", source)}


# Test that the documentation site builds


def test_the_site_builds_without_warnings(tmp_path):
    if not importlib.util.find_spec("material"):
        pytest.skip("mkdocs-material is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={tmp_path}/site"],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    assert (tmp_path / "site" / "index.html").exists()


# Tests that run the Python examples of documents


def _python_blocks() -> list[Block]:
    return [
        block
        for document in DOCUMENTS
        for block in documents.read(document)[1]
        if block.language == "python"
    ]


def _place(block: Block) -> str:
    return f"{block.document}:{block.line}"


@pytest.mark.parametrize("block", _python_blocks(), ids=_place)
def test_python_examples_are_valid(block, tmp_path, monkeypatch):
    """All examples compile, and config and sweep files can be loaded and pass all checks."""
    monkeypatch.chdir(ROOT)
    compile("\n" * block.line + block.text, block.document, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    path = tmp_path / "example.py"
    path.write_text(block.text, "utf-8")
    try:
        if block.document == "CONTRIBUTING.md":  # tests/test_contributing.py runs these examples
            return
        if "def get_config(" in block.text:
            check(load_config_file(str(path)))
        elif re.search(r"^def (?:points|space)\(", block.text, re.M):
            load_sweep(str(path))
    except UserError as error:
        pytest.fail(f"{_place(block)}: {error}")


# Tests that the shell commands of documents are valid


def prepare(folder: Path, document: str, given: list[Command]) -> None:
    """Copy the repository's config files, and write the example files of a document.

    These are the config and sweep files that the document shows and its commands use.
    """
    shutil.copytree(ROOT / "configs", folder / "configs", ignore=lambda *_: ["__pycache__"])
    blocks = documents.read(document)[1] if document in DOCUMENTS else ()
    functions = {"config": r"^def get_config\(", "sweep": r"^def (?:points|space)\("}
    for flag, function in functions.items():
        examples = [block for block in blocks if re.search(function, block.text, re.M)]
        for command in given:
            for name in re.findall(rf"--{flag}=([\w./-]+\.py)", command.text):
                if examples and not (ROOT / name).exists() and not Path(name).is_absolute():
                    named = [block for block in examples if name in _file_names(block)]
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text((named or examples)[0].text, "utf-8")


PLACEHOLDER = re.compile(r"…|\.\.\.|\b[A-Z]{3,}\b")


def inline_commands(document: str) -> Iterator[Command]:
    """Yield the complete commands in the prose, such as those at the top of result pages."""
    for line, span in documents.code_spans(document):
        begins = re.match(r"python (?:\w+\.py \S|-m )|make [a-z]+$|pytest tests", span)
        if begins and not PLACEHOLDER.search(span):
            for words in documents.split(span):
                yield Command(document, line, span, tuple(words))


def makefile_commands() -> list[Command]:
    """Return the commands in the Makefile that run Python."""
    found = []
    for line, text in enumerate((ROOT / "Makefile").read_text("utf-8").splitlines(), 1):
        if text.startswith("\t$(BIN)/python "):
            recipe = text.strip().replace("$(BIN)", ".venv/bin")
            words = documents.split(recipe)[0]
            found.append(Command("Makefile", line, recipe, tuple(words)))
    return found


MISTAKES = {
    "python train.py --config=configs/luong2015.py --workdri=runs/a": "workdri",
    "python train.py --config=configs/luong2015.py:scor=dot --workdir=runs/a": "scor=dot",
    "python train.py --config=configs/luong2015.py:score=dott --workdir=runs/a": "score=dott",
    "python train.py --config=configs/luong2016.py --workdir=runs/a": "luong2016.py",
    "python train.py --config=configs/luong2015.py": "--workdir is missing",
    "python train.py --config=configs/luong2015.py --workdir=a --config.train.step=4": "'step'",
    "python train.py --config=configs/luong2015.py --workdir=a --config.train.steps=-4": "steps=-4",
    "python train.py --config=configs/luong2015.py --workdir=a --config.train.steps=x": "steps",
    "srun -n 2 python train.py --config=configs/cho2014.py --workdir=a --distribute": "distribute",
    "XLA_FLAGS=x .venv/bin/python train.py --config=configs/nobody.py --workdir=a &": "nobody.py",
    "python eval.py --workdir=runs/a --splitt=test": "splitt",
    "python eval.py --workdir=runs/a --split=train": "split",
    "python eval.py --workdir=runs/a --beams=1,x": "beams",
    "python eval.py --workdir=runs/a --decode.bem=2": "'bem'",
    "python eval.py --workdir=runs/a --decode.beam=0": "beam=0",
    "python eval.py --split=test": "--workdir is missing",
    "python eval.py --workdir=runs/a --faithfulness_examples=5": "add --faithfulness",
    "python eval.py --workdir=runs/a --test=a.en,a.de": "a name and the files",
    "python eval.py --workdir=runs/a --test=../a=a.en,a.de": "'../a' is not the name",
    "python eval.py --workdir=runs/a --test=test=a.en,a.de": "that of a split",
    "python eval.py --workdir=runs/a --test=a=a.tsv --test=a=b.tsv": "given twice",
    "python eval.py --workdir=runs/a --split=valid --test=a=a.tsv": "--split has no effect",
    "python eval.py --workdir=runs/a --trust_workdir --test=a=a.tsv": "--trust_workdir",
    "echo May | python predict.py --workdir=runs/a --atention=a.jsonl": "atention",
    "python predict.py --workdir=runs/a --dictionary=d.tsv < in.txt > out.txt": "--dictionary",
    "python lab.py --workdir=runs/a": "workdir",
    "python lab.py --port=8000": "--runs is missing",
    "python sweep.py --config=configs/luong2015.py --sweep=configs/sweeps/x.py --workdir=s": "x.py",
    "python sweep.py --config=configs/cui2017.py --sweep=configs/sweeps/luong2015_windows.py "
    "--workdir=s": "score",
    "python sweep.py --config=configs/luong2015.py --sweep=configs/sweeps/beam.py --workdir=s "
    "--sampler=best": "sampler",
    "python reproduce.py luong2015.table44 --data=multi30k_de_en": "luong2015.table44",
    "python reproduce.py luong2015.table4 --data=multi30k_de_fr": "multi30k_de_fr",
    "python reproduce.py luong2015.table4 --sedes=3": "sedes",
    "python export.py --workdir=runs/a --format=onnx --out=b": "safetensors, ctranslate2",
    "python export.py --workdir=runs/a --format=stablehlo": "--out is missing",
    "python export.py --workdir=runs/a --out=b": "--format is missing",
    "python compare.py": "--runs is missing",
    "python compare.py --runs=runs/a,runs/b --splitt=valid": "splitt",
    "python compare.py --runs=runs/a,runs/b --split=a/b": "is not the name of a report",
    "python -m benchmarks.growth --onli=corpus": "onli",
    "python -m benchmarks.grow": "benchmarks.grow",
    "python -m configs.reference now": "takes no arguments",
    "make dem": "target dem",
    "pip install -r requirements-all.txt": "requirements-all.txt",
    "pytest tests/test_nothing.py": "tests/test_nothing.py",
    "pytest tests/test_docs.py::test_nothing": "test_nothing",
    "trian.py --config=configs/luong2015.py": "trian.py",
}


def _mistakes() -> list[Command]:
    return [
        Command("mistakes", line, text, tuple(words))
        for line, text in enumerate(MISTAKES)
        for words in documents.split(text)
    ]


@pytest.fixture(scope="module")
def faults(tmp_path_factory) -> dict[str, list[str]]:
    """Return the mistakes in the commands of each document; one process checks all commands."""
    given = {name: [*documents.commands(name), *inline_commands(name)] for name in DOCUMENTS}
    for name in given:
        # A command with a placeholder stands for many commands here, so it cannot be checked.
        if name.startswith("docs/results/"):
            given[name] = [c for c in given[name] if not PLACEHOLDER.search(c.text)]
    given |= {"Makefile": makefile_commands(), "mistakes": _mistakes()}
    found: dict[str, list[str]] = {document: [] for document in given}
    jobs, of = [], []
    for document, commands in given.items():
        folder = tmp_path_factory.mktemp("document")
        prepare(folder, document, commands)
        for command in commands:
            for words in documents.simple(command.words):
                parsed = documents.parsed_by_program(words)
                if parsed:
                    jobs.append({"folder": str(folder), "words": parsed})
                    of.append(command)
                elif words[0] in ("python", "python3") and words[1:2] == ("-m",):
                    if not importlib.util.find_spec(words[2]):
                        found[document].append(f"{command}\n    there is no module {words[2]}")
                elif documents.fault(words):
                    found[document].append(f"{command}\n    {documents.fault(words)}")
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "check_commands.py"],
        input=json.dumps(jobs), capture_output=True, text=True, timeout=300, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for command, message in zip(of, json.loads(done.stdout), strict=True):
        if message:
            found[command.document].append(f"{command}\n    {message}")
    return found


@pytest.mark.parametrize("document", [*DOCUMENTS, "Makefile"])
def test_commands_are_accepted(document, faults):
    assert not faults[document], "\n".join(faults[document])


@pytest.mark.parametrize(("text", "fact"), MISTAKES.items())
def test_mistakes_in_commands_are_found(text, fact, faults):
    (found,) = [found for found in faults["mistakes"] if f": {text}\n" in found]
    assert fact in found.partition("\n")[2]


def test_blocks_of_commands_are_tagged_sh():
    other = {"bash", "shell", "console", "zsh", "shell-session"}
    blocks = [block for name in DOCUMENTS for block in documents.read(name)[1]]
    assert not [_place(block) for block in blocks if block.language in other]


def test_splitting_of_shell_lines():
    assert documents.split("A=1 B='2 3' python x.py --a='b c' < in.txt > out.txt 2>&1 &") == [
        ["python", "x.py", "--a=b c"]
    ]
    assert documents.split('echo "a | b" | cat && make test  # and that is all') == [
        ["echo", "a | b"], ["cat"], ["make", "test"],
    ]  # fmt: skip
    block = Block("a.md", 4, "sh", "make \\\n  test\necho 'a\nb'\n", "")
    found = [(command.line, command.words) for command in documents._commands(block)]
    assert found == [(5, ("make", "test")), (7, ("echo", "a b"))]


# Test that runs the commands of the quickstart


def _quickstart() -> list[Command]:
    """Return the quickstart's first train, eval and translate commands that use the same run.

    If docs/quickstart.md has no train command for this run, use that of `make demo` (Makefile).
    """
    name = "docs/quickstart.md"
    if name not in DOCUMENTS or not any("predict.py" in c.text for c in documents.commands(name)):
        name = "README.md"
    given = [
        (command, dict(word.partition("=")[::2] for word in words[1:]))
        for command in [*documents.commands(name), *makefile_commands()]
        for words in documents.simple(command.words)
        if words[0] == "python"
    ]
    translations = [flags for _, flags in given if "predict.py" in flags]
    workdir = translations[0]["--workdir"]
    return [
        next(c for c, flags in given if program in flags and flags.get("--workdir") == workdir)
        for program in ("train.py", "eval.py", "predict.py")
    ]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory) -> Path:
    """Run the quickstart as written, but with a small corpus and few training steps."""
    folder = tmp_path_factory.mktemp("quickstart")
    train, evaluate, translate = _quickstart()
    prepare(folder, train.document, [train])
    for program in PROGRAMS:
        (folder / program).symlink_to(ROOT / program)
    for command, more in ((train, SMALL[1:]), (evaluate, []), (translate, [])):
        text = " ".join([command.text.replace(".venv/bin/", ""), *more])
        done = _execute(["bash", "-o", "pipefail", "-c", text], folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert done.stdout.count("\n") == 1, "predict.py must print one line"
    (run,) = (folder / "runs").iterdir()
    return run


def _execute(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # The commands begin with `python`, which must be the interpreter that runs this test.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300,
        env=ENVIRONMENT | {"PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.slow  # tests/test_programs.py and tests/test_predict.py run the same programs
def test_the_quickstart_runs(quickstart):
    (report,) = quickstart.glob("eval/*/report.html")
    assert report.stat().st_size > 10_000


def _examples_of_runs() -> list[Block]:
    """Return the examples that read a run, except that of docs/lab.md, which tests/serving runs."""
    blocks = [block for block in _python_blocks() if "127.0.0.1" not in block.text]
    return [block for block in blocks if re.search(r"['\"]runs/", block.text)]


# The runs in docs/python.md that are no translation runs, and their names in tests/small.py.
OTHER_RUNS = {"reviews": "sentence", "chunks": "columns", "cloze": "reader"}


@pytest.mark.slow
@pytest.mark.parametrize("block", _examples_of_runs(), ids=_place)
def test_python_examples_work_with_a_run(block, quickstart, tmp_path):
    """Run the examples that read a run, such as "runs/demo", with the run of the quickstart."""
    for name in re.findall(r"['\"]runs/([\w.-]+)", block.text):
        run = quickstart.parent / name
        if name in OTHER_RUNS and not run.exists():
            config = small_config(OTHER_RUNS[name], tmp_path)
            train_run(config, run, make_mesh(jax.devices()[:1]))
        elif not run.exists():
            run.symlink_to(quickstart)
    # The folder of the quickstart has copies of the config files, which would hide the originals.
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "runs").symlink_to(quickstart.parent)
    done = _execute([sys.executable, "-c", block.text], folder)
    assert done.returncode == 0, f"{_place(block)}\n{done.stderr}"
