"""The documentation: links lead somewhere, commands are right, examples work, the site builds."""

import ast
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.base import base_config, declared_fields
from configs.check import check
from configs.load import load_config_file
from configs.registry import MODELS
from errors import UserError
from sweeping.points import load_sweep
from tests import documents
from tests.check_commands import PROGRAMS
from tests.documents import DOCUMENTS, Block, Command
from tests.programs import ENVIRONMENT, ROOT, SMALL

# Links and names


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    faults = []
    for line, target in documents.links(document):
        if re.match(r"[a-z]+:", target):  # https:, mailto:
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / document).parent / path if path else ROOT / document
        name = os.path.relpath(found, ROOT)
        if not found.exists():
            faults.append(f"{document}:{line}: {target} does not exist")
        elif document.startswith("docs/") and not name.startswith("docs/"):
            faults.append(f"{document}:{line}: {target} is outside docs/, the site")
        elif anchor and name.endswith(".md") and anchor not in documents.anchors(name):
            known = ", ".join(sorted(documents.anchors(name)))
            faults.append(f"{document}:{line}: {target}: {name} has the anchors {known}")
    assert not faults, "\n".join(faults)


FOLDERS = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} | {"docs"}
SOURCES = {path.name for path in ROOT.glob("*.py")} | {
    path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
}
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.(?:py|md|png|toml|yml)")


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_source_files_in_the_prose_exist(document):
    """`configs/datasets.py` and `datasets.py`; files that a document writes are exempt."""
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
    """Names of Python files that a block may be the content of, as the text around it says."""
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


# Flags of other programs that documents mention.
FOREIGN_FLAGS = {"help", "helpfull", "signal", "requeue", "strict"}


@pytest.fixture(scope="module")
def flag_names() -> set[str]:
    """Names of all flags that the programs and the benchmarks define."""
    files = [*ROOT.glob("*.py"), *ROOT.glob("benchmarks/*.py")]
    source = "\n".join(path.read_text("utf-8") for path in files)
    return FOREIGN_FLAGS | {*re.findall(r"DEFINE_\w+\(\s*\"(\w+)\"", source)}


# The site


def test_the_site_builds_without_warnings(tmp_path):
    if not importlib.util.find_spec("material"):
        pytest.skip("mkdocs-material is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={tmp_path}/site"],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    assert (tmp_path / "site" / "index.html").exists()


# Examples in Python


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
    """All compile; files of configs and sweeps are loaded and checked."""
    monkeypatch.chdir(ROOT)
    compile("\n" * block.line + block.text, block.document, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    path = tmp_path / "example.py"
    path.write_text(block.text, "utf-8")
    try:
        if block.document == "CONTRIBUTING.md":  # tests/test_contributing.py trains these
            return
        if "def get_config(" in block.text:
            check(load_config_file(str(path)))
        elif re.search(r"^def (?:points|space)\(", block.text, re.M):
            load_sweep(str(path))
    except UserError as error:
        pytest.fail(f"{_place(block)}: {error}")


# Commands

# Their arguments belong to the reader.
SHELL = {
    "cat", "cd", "cp", "createdb", "curl", "cut", "docker", "echo", "export", "git", "gunzip",
    "gzip", "head", "kill", "ls", "mkdir", "mv", "nvidia-cuda-mps-control", "nvidia-smi", "open",
    "paste", "printf", "rm", "sbatch", "scp", "set", "sort", "tail", "tar", "tensorboard", "unzip",
    "wait", "wc", "wget", "xdg-open", "zcat",
}  # fmt: skip
TARGETS = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)}


def simple(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the commands that a wrapper such as srun runs, or the command itself."""
    name, *rest = words
    if name in ("time", "nohup", "env", "sudo", "exec"):
        while rest and ("=" in rest[0] or rest[0].startswith("-")):
            rest = rest[1:]
        yield from simple(tuple(rest))
    elif name in ("srun", "mpirun"):
        while rest[0].startswith("-") or rest[0].isdecimal():
            rest = rest[1:]
        yield from simple(tuple(rest))
    elif name in ("gcloud", "ssh"):
        inner = [word.partition("=")[2] for word in rest if word.startswith("--command=")]
        for line in inner or rest[-1:]:
            for command in documents.split(line):
                yield from simple(tuple(command))
    else:
        yield (re.sub(r"^\.venv/bin/", "", name), *rest)


def fault(words: tuple[str, ...]) -> str:
    """Say what is wrong with a command that no program of this project has to parse."""
    name, *rest = words
    if name == "make":
        unknown = [word for word in rest if "=" not in word and word not in TARGETS]
        return f"the Makefile has no target {unknown[0]}" if unknown else ""
    if name in ("source", "."):
        return "" if rest == [".venv/bin/activate"] else "only .venv/bin/activate is sourced"
    if name in ("pip", "pip3"):
        files = [after for word, after in itertools.pairwise(rest) if word == "-r"]
        return next((f"there is no {file}" for file in files if not (ROOT / file).exists()), "")
    if name in ("pytest", "ruff", "pyright", "mkdocs"):
        paths = [word.partition("::") for word in rest if "/" in word or word.endswith(".py")]
        for path, _, test in paths:
            if not (ROOT / path).exists():
                return f"there is no {path}"
            if test and f"def {test.partition('[')[0]}(" not in (ROOT / path).read_text("utf-8"):
                return f"{path} has no {test}"
        return ""
    if name == "python" and rest[:1] == ["-c"]:
        compile(rest[1], "python -c", "exec")
        return ""
    return "" if name in SHELL else f"tests/test_docs.py does not know the command {name}"


def parsed_by_program(words: tuple[str, ...]) -> list[str]:
    """Return the program or module of this project, with its arguments; [] if it is neither."""
    if words[0] not in ("python", "python3"):
        return []
    if words[1:2] == ("-m",):
        ours = words[2].partition(".")[0] in FOLDERS
        return list(words[2:]) if ours else []
    return list(words[1:]) if words[1:2] and words[1] in PROGRAMS else []


def prepare(folder: Path, document: str, given: list[Command]) -> None:
    """Copy the config files, and write those that the document shows and its commands use."""
    shutil.copytree(ROOT / "configs", folder / "configs", ignore=lambda *_: ["__pycache__"])
    used = {
        name
        for command in given
        for name in re.findall(r"--(?:config|sweep)=([\w./-]+\.py)", command.text)
    }
    for block in documents.read(document)[1] if document in DOCUMENTS else ():
        if re.search(r"^def (?:get_config|points|space)\(", block.text, re.M):
            for name in used.intersection(_file_names(block)):
                if not (ROOT / name).exists() and not Path(name).is_absolute():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_text(block.text, "utf-8")


PLACEHOLDER = re.compile(r"…|\.\.\.|\b[A-Z]{3,}\b")


def inline_commands(document: str) -> Iterator[Command]:
    """Yield the complete commands in the prose, such as those at the top of result pages."""
    for line, span in documents.code_spans(document):
        begins = re.match(r"python (?:\w+\.py \S|-m )|make [a-z]+$|pytest tests", span)
        if begins and not PLACEHOLDER.search(span):
            for words in documents.split(span):
                yield Command(document, line, span, tuple(words))


def makefile_commands() -> list[Command]:
    """Return the commands of this project in the recipes of the Makefile."""
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
    "echo May | python translate.py --workdir=runs/a --atention=a.jsonl": "atention",
    "python translate.py --workdir=runs/a --dictionary=d.tsv < in.txt > out.txt": "--dictionary",
    "python sweep.py --config=configs/luong2015.py --sweep=configs/sweeps/x.py --workdir=s": "x.py",
    "python sweep.py --config=configs/cui2017.py --sweep=configs/sweeps/luong2015_windows.py "
    "--workdir=s": "score",
    "python sweep.py --config=configs/luong2015.py --sweep=configs/sweeps/beam.py --workdir=s "
    "--sampler=best": "sampler",
    "python reproduce.py luong2015.table44 --data=multi30k_de_en": "luong2015.table44",
    "python reproduce.py luong2015.table4 --data=multi30k_de_fr": "multi30k_de_fr",
    "python reproduce.py luong2015.table4 --sedes=3": "sedes",
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
    """What is wrong with the commands of each document; all are parsed in one process."""
    given = {name: [*documents.commands(name), *inline_commands(name)] for name in DOCUMENTS}
    for name in given:
        if name.startswith("docs/results/"):  # where one command may stand for many
            given[name] = [c for c in given[name] if not PLACEHOLDER.search(c.text)]
    given |= {"Makefile": makefile_commands(), "mistakes": _mistakes()}
    found: dict[str, list[str]] = {document: [] for document in given}
    jobs, of = [], []
    for document, commands in given.items():
        folder = tmp_path_factory.mktemp("document")
        prepare(folder, document, commands)
        for command in commands:
            for words in simple(command.words):
                parsed = parsed_by_program(words)
                if parsed:
                    jobs.append({"folder": str(folder), "words": parsed})
                    of.append(command)
                elif words[0] in ("python", "python3") and words[1:2] == ("-m",):
                    if not importlib.util.find_spec(words[2]):
                        found[document].append(f"{command}\n    there is no module {words[2]}")
                elif fault(words):
                    found[document].append(f"{command}\n    {fault(words)}")
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
    text = "for x in 1 2; do\n  make \\\n  t$x\ndone\ncat > f <<'EOF'\nwhat is this\nEOF\nls\n"
    block = Block("a.md", 4, "sh", text, "")
    found = [(command.line, command.words) for command in documents._commands(block)]
    assert found == [(6, ("make", "t1")), (9, ("cat",)), (12, ("ls",))]


# The quickstart, executed


def _quickstart() -> list[Command]:
    """The first train, eval and translate command of the quickstart, of one run.

    A run that the page does not train itself is that of `make demo`.
    """
    name = "docs/quickstart.md"
    if name not in DOCUMENTS or not any("translate.py" in c.text for c in documents.commands(name)):
        name = "README.md"
    given = [
        (command, dict(word.partition("=")[::2] for word in words[1:]))
        for command in [*documents.commands(name), *makefile_commands()]
        for words in simple(command.words)
        if words[0] == "python"
    ]
    translations = [flags for _, flags in given if "translate.py" in flags]
    workdir = translations[0]["--workdir"]
    return [
        next(c for c, flags in given if program in flags and flags.get("--workdir") == workdir)
        for program in ("train.py", "eval.py", "translate.py")
    ]


def test_the_quickstart_runs(tmp_path):
    """As written, but on a small part of the corpus and for a few steps."""
    train, evaluate, translate = _quickstart()
    prepare(tmp_path, train.document, [train])
    for program in PROGRAMS:
        (tmp_path / program).symlink_to(ROOT / program)
    binaries = Path(sys.executable).parent
    environment = ENVIRONMENT | {"PATH": f"{binaries}:{os.environ['PATH']}"}
    for command, more in ((train, SMALL[1:]), (evaluate, []), (translate, [])):
        text = " ".join([command.text.replace(".venv/bin/", ""), *more])
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert "validation:" not in done.stderr and done.stdout.count("\n") >= 1
    assert list((tmp_path / "runs").glob("*/eval/*/report.html"))
