"""The requests of the lab's page: JSON objects whose fields are checked one by one.

Every mistake raises a UserError, whose message the page shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from errors import UserError
from reading import check_characters
from terminal import clean_lines

MOST_CHARACTERS = 5000  # of all texts of a request together
LARGEST_BEAM = 10
# The smallest and the largest value of each number of the search; the form of the page has them.
RANGES = {"beam": (1, LARGEST_BEAM), "alpha": (0, 10), "temperature": (0, 10)}
MOST_DRAWS = 2**31 - 1


class Edit(NamedTuple):
    """Changes of the source tokens of a text, as a run splits it.

    `changes` maps positions of tokens to the text that replaces them, or to None, which removes the
    token.
    """

    run: str = ""
    changes: Mapping[int, str | None] = {}

    def apply(self, tokens: Sequence[str], replace: Any) -> tuple[list[str], list[int]]:
        """Return the changed tokens, and the position in `tokens` from which each one comes.

        `replace(old, text)` returns the tokens of a text that replaces the token `old`.
        """
        if self.changes and max(self.changes) >= len(tokens):
            raise UserError(
                f"edit changes token {max(self.changes)}, but the text has {len(tokens)} tokens, "
                "which are counted from 0: use a smaller number"
            )
        changed, origin = [], []
        for i, token in enumerate(tokens):
            new: Sequence[str] = [token]
            if i in self.changes:
                text = self.changes[i]
                new = [] if text is None else replace(token, text)
            changed += new
            origin += [i] * len(new)
        return changed, origin


class Prefix(NamedTuple):
    """The first target tokens: a text, or tokens of the vocabulary of a run."""

    text: str = ""
    run: str = ""
    tokens: Sequence[str] = ()


class SearchSettings(NamedTuple):
    """How a text is translated; the names are those of config.decode."""

    beam: int
    length_penalty: str
    alpha: float
    temperature: float
    draw: int  # samples with different numbers are different


class Body:
    """The JSON object of a request."""

    def __init__(self, value: Any):
        if not isinstance(value, dict):
            raise UserError('the body must be a JSON object, such as {"run": "runs/a"}')
        texts = _texts(value)
        characters = sum(map(len, texts))
        if characters > MOST_CHARACTERS:
            raise UserError(
                f"the request has {characters:,} characters, more than {MOST_CHARACTERS:,}: "
                "shorten the text"
            )
        for text in texts:  # JSON can contain a lone surrogate as an escape
            check_characters(text, "the request")
        self._value: dict[str, Any] = _cleaned(value)
        self._known: dict[str, None] = {}  # names of the fields that have been read, in this order

    def _get(self, name: str, default: Any = None) -> Any:
        """Return a field, which is then known to `check_fields`."""
        self._known[name] = None
        return self._value.get(name, default)

    def check_fields(self) -> None:
        """Raise UserError if the request has fields that have not been read."""
        _check_names("the request", self._value, self._known)

    @property
    def name(self) -> str:
        """The run and the beam of a checked request, without anything that was typed."""
        beam = self._value.get("beam")
        return f"{self._value['run']}, beam {beam:g}" if beam else self._value["run"]

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field that must be a string."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise UserError(f"{name} must be a string: {_got(value)}")
        return value

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """Return a field that must be a number in a range."""
        value = self._get(name, default)
        # The comparison is also false for NaN.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{name} must be a number: {_got(value)}")
        if not least <= value <= most:
            raise UserError(f"{name}={value} is out of range: it must be from {least} to {most:g}")
        return float(value)

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return a field that must be an integer in a range."""
        value = self.number(name, default, least, most)
        if value != int(value):
            raise UserError(f"{name}={value} must be an integer")
        return int(value)

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """Return a field that must be one of `choices`."""
        value = self.text(name, default)
        if value not in choices:
            raise UserError(f"{name}={value!r:.40} is unknown: use one of {', '.join(choices)}")
        return value

    def ids(self, name: str, size: int, most: int) -> list[int]:
        """Return a field that must be a list of at most `most` token ids, less than `size`."""
        value = self._get(name)
        if not isinstance(value, list) or not all(type(i) is int for i in value):
            raise UserError(f"{name} must be a list of token ids, which are integers")
        if not value or len(value) > most or not all(0 < i < size for i in value):
            raise UserError(
                f"{name} must have 1 to {most} token ids, and each must be from 1 to {size - 1}"
            )
        return value

    def question(self) -> dict[str, Any]:
        """Return the passage, the query and the candidates of a cloze question."""
        candidates = self._get("candidates")
        if not _is_strings(candidates):
            raise UserError("candidates must be a list of words")
        texts = {name: self.text(name) for name in ("passage", "query")}
        return texts | {"candidates": candidates}

    def edit(self) -> Edit:
        """Return the field edit, as {"run": name, "changes": {"2": "June", "3": null}}."""
        value = self._get("edit") or {"run": "", "changes": {}}
        if not isinstance(value, dict) or not isinstance(value.get("run"), str):
            raise UserError('edit must be an object such as {"run": "runs/a", "changes": {}}')
        changes = value.get("changes")
        if not isinstance(changes, dict) or not all(
            key.isascii() and key.isdecimal() and len(key) < 6 and isinstance(text, str | None)
            for key, text in changes.items()
        ):
            raise UserError(
                "the changes of edit must map positions of tokens to texts, or to null, as in "
                '{"2": "June", "3": null}'
            )
        _check_names("edit", value, ("run", "changes"))
        return Edit(value["run"], {int(key): text for key, text in changes.items()})

    def prefix(self) -> Prefix:
        """Return the field prefix: a string, or {"run": name, "tokens": [...]}."""
        value = self._get("prefix", "")
        if isinstance(value, str):
            return Prefix(value)
        if not isinstance(value, dict) or not isinstance(value.get("run"), str):
            raise UserError('prefix must be a string, or {"run": "runs/a", "tokens": ["a"]}')
        if not _is_strings(value.get("tokens")):
            raise UserError("the tokens of prefix must be a list of strings")
        _check_names("prefix", value, ("run", "tokens"))
        return Prefix("", value["run"], value["tokens"])

    def temperature(self, defaults: Mapping[str, Any]) -> float:
        """Return the temperature; `defaults` are the settings of the run."""
        return self.number("temperature", defaults["temperature"], *RANGES["temperature"])

    def search(self, defaults: Mapping[str, Any], penalties: Sequence[str]) -> SearchSettings:
        """Return the decode settings; `defaults` are those of the run."""
        found = SearchSettings(
            self.whole("beam", defaults["beam"], *RANGES["beam"]),
            self.choice("length_penalty", defaults["length_penalty"], penalties),
            self.number("alpha", defaults["alpha"], *RANGES["alpha"]),
            self.temperature(defaults),
            self.whole("draw", 0, 0, MOST_DRAWS),
        )
        if found.temperature and found.beam > 1:
            raise UserError(
                f"temperature={found.temperature:g} samples one translation: set beam=1, or "
                "temperature=0 for beam search"
            )
        return found


def _check_names(place: str, found: Iterable[str], known: Iterable[str]) -> None:
    """Raise UserError if there is a field that is not one of the known ones."""
    unknown = [name for name in found if name not in known]
    if unknown:
        raise UserError(
            f"{place} has the unknown field {unknown[0]!r:.40}: use only {', '.join(known)}"
        )


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _cleaned(value: Any) -> Any:
    """Remove control characters from all texts in a JSON value, as predict.py does."""
    if isinstance(value, str):
        return clean_lines(value)
    if isinstance(value, dict):
        return {clean_lines(name): _cleaned(part) for name, part in value.items()}
    return [_cleaned(part) for part in value] if isinstance(value, list) else value


def _texts(value: Any) -> list[str]:
    """Return all texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return []


def _got(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    kind = "missing or null" if value is None else names.get(type(value), "a number")
    return f"it is {kind}"
