"""Generate docs/configuration.md from the declarations: `python -m configs.reference`."""

from collections.abc import Iterator
from pathlib import Path

from configs.registry import MODELS, TASKS
from configs.schema import common
from configs.schema.field import Field, Fields, flatten

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
_HEAD = """# Configuration reference

Every field can be set in a config file or on the command line, as in
`--config.optimizer.learning_rate=0.002`. This page is generated from the declarations in
`configs/schema` by `python -m configs.reference`.

A meaning that begins with "For X:" describes a field that has an effect only if another field of
the same section has the value X, as in `data.corpus=tfds` or `optimizer.name=adam`.
"""


def page() -> str:
    """Return the page in Markdown."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    yield _section("All tasks", {
        "seed": common.SEED, "data": common.DATA, "optimizer": common.OPTIMIZER,
        "train": common.TRAIN, "mesh": common.MESH,
    })  # fmt: skip
    for task in TASKS.values():
        fields = {"data": task.data, "train": task.train, **task.sections}
        yield _section(f"Task: {task.name}", fields)
        for model in MODELS.values():
            if model.task == task.name:
                yield _section(f"Model: {model.name}", {"model": model.fields})


def _section(title: str, fields: Fields) -> str:
    rows = [_row(name, field) for name, field in flatten(fields).items()]
    head = ["| field | default | allowed | meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *head, *rows, ""])


def _row(name: str, field: Field) -> str:
    default = "empty" if field.default == "" else f"`{field.default}`"
    allowed = ", ".join(f"`{value}`" for value in field.choices) or field.allowed()
    return f"| `{name}` | {default} | {allowed or type(field.default).__name__} | {field.help} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
