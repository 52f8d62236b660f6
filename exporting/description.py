"""Files that describe an exported model to programs that run without Alignax."""

import json
from pathlib import Path
from typing import Any

from configs.base import Config
from configs.registry import model_title
from reading import read_bytes
from tasks.task import Task
from training.restore import RestoredRun
from training.workdir import VOCABULARY_FOLDER
from writing import write_bytes, write_text

_ROOT = Path(__file__).parent.parent
# Modules that the exported programs import. They import no other module of this project.
_MODULES = ("exporting/text.py", "data/tokenizers.py")
_HEAD = """\
# {model} ({task})

Exported by `export.py` of Alignax. Training steps of the checkpoint: {steps}.

"""


def write_readme(run: RestoredRun, folder: Path, text: str) -> None:
    """Write README.md: what was exported, then `text`."""
    config, steps = run.task.config, ", ".join(map(str, run.steps))
    head = _HEAD.format(model=model_title(config), task=config.task, steps=steps)
    write_text(folder / "README.md", head + text)


def write_description(description: dict[str, Any], folder: Path) -> None:
    """Write export.json, which programs read; unlike `write_json`, this keeps floats exact."""
    text = json.dumps(description, indent=2, ensure_ascii=False)
    write_text(folder / "export.json", text + "\n")


def describe_translation(task: Task) -> dict[str, Any]:
    """Return the part of export.json with tokenization and decode settings."""
    data, decode = task.config.data, task.config.decode
    return {
        "source": _side(data, "source"),
        "target": _side(data, "target"),
        "decode": dict(decode.items()),
    }


def _side(data: Config, side: str) -> dict[str, Any]:
    name = "source" if data.shared_vocab else side
    settings = data[f"{name}_vocab"]
    return {
        "file": f"{VOCABULARY_FOLDER}/{name}.vocab",
        "kind": settings.kind,
        "tokenizer": settings.tokenizer,
        "lowercase": settings.lowercase,
        "language": data[side],
    }


def copy_program(program: str, name: str, folder: Path, modules: bool = True) -> None:
    """Copy a file of exporting/programs to `folder` as `name`, with the modules that it imports."""
    _copy(f"exporting/programs/{program}", folder / name)
    for module in _MODULES if modules else ():
        _copy(module, folder / module)
        write_text(folder / Path(module).parent / "__init__.py", "")


def _copy(source: str, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    write_bytes(target, read_bytes(_ROOT / source, "restore the file from git"))
