"""Tests that run export.py and the programs that it writes, as docs/export.md shows."""

import os
import subprocess
import sys

import pytest

from tests import documents
from tests.programs import ENVIRONMENT, ROOT, call
from tests.test_docs import prepare

pytestmark = pytest.mark.slow  # the guide trains several models

DOCUMENT = "docs/export.md"
# The guide trains for minutes; these flags train a few steps on a small corpus.
QUICKLY = [
    "--config.data.examples.train=256",
    "--config.data.examples.valid=8",
    "--config.data.examples.test=8",
    "--config.data.buckets=1",
    "--config.model.layers=1",
    "--config.train.steps=20",
    "--config.train.eval_every=20",
    "--config.decode.max_ratio=1.0",
]


def execute(command, folder, repository=False):
    """Run a command of the guide; exported programs must not need the repository."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = ENVIRONMENT | {"PATH": path, "PYTHONPATH": str(ROOT) if repository else ""}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def guide(tmp_path_factory):
    """Run the guide; return its folder and the outputs of its commands and Python examples."""
    folder = tmp_path_factory.mktemp("export")
    prepare(folder, DOCUMENT, documents.commands(DOCUMENT))
    for program in ("train.py", "export.py"):
        (folder / program).symlink_to(ROOT / program)
    outputs = {}
    for block in documents.read(DOCUMENT)[1]:
        if block.language == "python":
            outputs["python"] = execute([sys.executable, "-c", block.text], folder, True)
        elif documents.is_shell(block):
            lines = dict.fromkeys(command.text for command in documents._commands(block))
            for line in lines:
                if not line.startswith("pip "):
                    flags = QUICKLY if "train.py" in line else []
                    text = " ".join([line, *flags])
                    outputs[line] = execute(["bash", "-o", "pipefail", "-c", text], folder)
    return folder, outputs


def test_all_exports_translate_alike(guide):
    """The CTranslate2 export uses a beam, so its output may differ from greedy decoding."""
    folder, outputs = guide
    translated = {line.split("/")[1]: text for line, text in outputs.items() if "echo" in line}
    assert {*translated} == {"ctranslate2", "stablehlo"}
    assert outputs["python"] == translated["stablehlo"] != ""
    command = f"python predict.py --workdir={folder}/runs/vaswani --decode.beam=5"
    expected = execute(["bash", "-c", f"echo 'May 3, 2020' | {command}"], ROOT)
    assert translated["ctranslate2"] == expected


def test_exports_are_complete_and_nothing_else_is_left(guide):
    folder, _ = guide
    assert {path.name for path in (folder / "exported").iterdir()} == {
        "safetensors", "ctranslate2", "stablehlo",
    }  # fmt: skip
    for exported in (folder / "exported").iterdir():
        assert {"README.md", "vocabulary"} <= {path.name for path in exported.iterdir()}


MISTAKES = {
    "--format=onnx --out={0}/new": "error: --format=onnx is unknown: use one of safetensors",
    "--format=stablehlo --out={0}/exported": "already exists and is not an empty folder",
    "--format=stablehlo --out={0}/new --checkpoint=99": "99",
    "--format=stablehlo --out={0}/new --decode.beam=0": "beam=0",
}


@pytest.mark.parametrize("flags", MISTAKES)
def test_mistakes_leave_nothing_behind(flags, guide):
    folder, _ = guide
    before = sorted(folder.iterdir())
    done = call(
        "export.py", f"--workdir={folder}/runs/vaswani", *flags.format(folder).split(), check=False
    )
    assert done.returncode == 1
    assert MISTAKES[flags] in done.stderr and done.stderr.count("\n") == 1
    assert sorted(folder.iterdir()) == before
