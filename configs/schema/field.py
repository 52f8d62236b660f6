"""Declarations of config fields, models and tasks.

A declaration is the only place that states the default, the allowed values and the meaning of a
field. Default configs, validation, error messages and docs/configuration.md are derived from the
declarations. Declarations do not import JAX, so that a mistake in a config is reported immediately.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

LARGEST = 2**31 - 1  # largest absolute value of an integer field; devices use 32-bit integers
Config = Any  # a ConfigDict, whose fields are unknown to type checkers
Value = bool | int | float | str | tuple[str, ...]
Rules = Callable[[Config], Iterator[str]]  # yields one message per invalid combination of fields


@dataclasses.dataclass(frozen=True)
class Field:
    """One config field; its type is the type of the default."""

    default: Value
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None  # inclusive lower bound of the value
    above: float | None = None  # exclusive lower bound of the value
    most: float | None = None  # inclusive upper bound of the value
    below: float | None = None  # exclusive upper bound of the value

    def allowed(self) -> str:
        """Describe the allowed values; return "" if all values of the type are allowed."""
        if self.choices:
            return ", ".join(self.choices)
        low = {f"at least {self.least}": self.least, f"more than {self.above}": self.above}
        high = {f"at most {self.most}": self.most, f"less than {self.below}": self.below}
        return " and ".join(text for text, bound in (low | high).items() if bound is not None)

    def has_type(self, value: Any) -> bool:
        """Return whether a value has the type of the default; a float field also accepts an int."""
        wanted = type(self.default)
        return type(value) is wanted or (wanted is float and type(value) is int)

    def allows(self, value: Any) -> bool:
        """Return whether a value has the right type and is one of the choices or in the range."""
        if not self.has_type(value):
            return False
        if self.choices:
            return value in self.choices
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, int) and abs(value) > LARGEST:
            return False
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )


Fields = Mapping[str, "Field | Fields"]  # a section of a config: fields and nested sections


def no_rules(config: Config) -> Iterator[str]:
    """Yield no messages, for models and tasks without invalid combinations of fields."""
    yield from ()


@dataclasses.dataclass(frozen=True)
class ModelSchema:
    """The declaration of a model: the fields of `config.model`, and the model's builder."""

    name: str
    task: str
    builder: str  # "module:function"; a string, because importing the module imports JAX
    fields: Fields
    rules: Rules = no_rules
    title: str = ""  # what reports call the model, if not by its name
    concurrent: bool = False  # whether training runs independent GPU kernels at the same time


@dataclasses.dataclass(frozen=True)
class TaskSchema:
    """The declaration of a task: its fields, and the modules that implement it."""

    name: str
    task: str  # "module:class"; the class defines the corpus, the loss and the predictions
    evaluation: str  # name of the module with the functions make_evaluate and report
    data: Fields
    train: Fields
    sections: Fields = dataclasses.field(default_factory=dict)  # extra sections, e.g. config.decode
    rules: Rules = no_rules


def flatten(fields: Fields, prefix: str = "") -> dict[str, Field]:
    """Return all fields, including those of nested sections, by dotted name."""
    flat: dict[str, Field] = {}
    for name, field in fields.items():
        if isinstance(field, Field):
            flat[prefix + name] = field
        else:
            flat |= flatten(field, f"{prefix}{name}.")
    return flat
