"""Generate docs/configuration.md from configs/schema: `python -m configs.reference`."""

import re
from collections.abc import Iterator
from pathlib import Path

from configs.load import load_config_file
from configs.registry import MODELS, TASKS
from configs.schema import common
from configs.schema.field import Field, Fields, flatten
from writing import write_text

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
_HEAD = """# Configuration reference

A config consists of the fields of all tasks, the fields of one task and the fields of one model.
Every field can be set in a [config file](configs.md) or on the command line, as in
`--config.optimizer.learning_rate=0.002`. An invalid value is rejected before any data is read.

If the meaning of a field begins with "For X:", the field has an effect only if another field of the
same section has the value X, such as `data.corpus=tfds` or `optimizer.name=adam`.

This page is generated from the declarations in `configs/schema` by `python -m configs.reference`.
"""


def page() -> str:
    """Return the content of docs/configuration.md."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    yield _section("All tasks", "Every config has these fields.", {
        "seed": common.SEED, "data": common.DATA, "optimizer": common.OPTIMIZER,
        "train": common.TRAIN, "mesh": common.MESH,
    })  # fmt: skip
    files = _files_by_model()
    for task in TASKS.values():
        fields = {"data": task.data, "train": task.train, **task.sections}
        models = [model for model in MODELS.values() if model.task == task.name]
        names = " and ".join(f"[{model.name}](#model-{model.name})" for model in models)
        yield _section(f"Task: {task.name}", f"Models of this task: {names}.", fields)
        for model in models:
            listed = ", ".join(f"`configs/{file}`" for file in files[model.name]) or "none"
            text = f"Task: [{task.name}](#task-{task.name}). Config files: {listed}."
            yield _section(f"Model: {model.name}", text, {"model": model.fields})


def _files_by_model() -> dict[str, list[str]]:
    """Return the names of the config files of each model."""
    files: dict[str, list[str]] = {name: [] for name in MODELS}
    for path in sorted(Path(__file__).parent.glob("*[0-9].py")):
        files[load_config_file(str(path)).model.name].append(path.name)
    return files


def _section(title: str, text: str, fields: Fields) -> str:
    rows = [_row(name, field) for name, field in flatten(fields).items()]
    head = ["| field | meaning | default | allowed values |", "|---|---|---|---|"]
    return "\n".join([f"## {title}", "", text, "", *head, *rows, ""])


_TYPES = {bool: "`True`, `False`", str: "any text", tuple: "any tuple of names"}


def _row(name: str, field: Field) -> str:
    default = "empty" if field.default == "" else f"`{field.default}`"
    choices = ", ".join(f"`{value}`" for value in field.choices)
    kind = type(field.default)
    allowed = choices or field.allowed() or _TYPES.get(kind, kind.__name__)
    # Put <unk> into a code span, because browsers do not show unknown HTML tags.
    meaning = re.sub(r"(?<!`)<\w+>(?!`)", r"`\g<0>`", field.help)
    return f"| `{name}` | {meaning} | {default} | {allowed} |"


if __name__ == "__main__":
    write_text(PAGE, page())
