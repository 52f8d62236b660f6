"""The commands of the section "Subword sampling" of docs/data.md, executed on its example files."""

import json
import math
from pathlib import Path

import pytest

from tests import documents
from tests.programs import call

pytestmark = pytest.mark.slow  # the guide trains several models

DOCUMENT = "docs/data.md"
SHORT = ["--config.train.steps=4", "--config.train.eval_every=2", "--config.train.log_every=1"]


def example(name: str) -> str:
    """Return the example file that the document shows first under this name."""
    blocks = documents.read(DOCUMENT)[1]
    return next(block.text for block in blocks if f"`{name}` contains" in block.before)


def guide(kind: str) -> list[str]:
    """Return the arguments of the guide's command for a kind of vocabulary."""
    (command,) = [
        command.words
        for command in documents.commands(DOCUMENT)
        if "sampling=" in command.text and f"kind={kind}" in command.text
    ]
    return list(command[2:])


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_guide_trains_with_samples(kind: str, tmp_path: Path) -> None:
    texts = tmp_path / "text"
    texts.mkdir()
    for split in ("train", "valid", "test"):
        for language in ("en", "fr"):
            (texts / f"{split}.{language}").write_text(example(f"train.{language}"), "utf-8")
    changes = {"my_data/text": str(texts), "runs/": f"{tmp_path}/", "size=8000": "size=38"}
    flags = guide(kind)
    for before, after in changes.items():
        assert any(before in word for word in flags)
        flags = [word.replace(before, after) for word in flags]
    done = call("train.py", *flags, *SHORT, f"--config.data.cache={tmp_path}/cache")
    for side in ("source", "target"):
        assert f"subword sampling: the samples of {side} have" in done.stderr + done.stdout
    (run,) = [path.parent for path in tmp_path.glob("*/config.json")]
    scalars = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in scalars if "loss" in entry]
    assert len(losses) >= 4 and all(map(math.isfinite, losses))
