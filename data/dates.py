"""The generated corpus of dates: dates, times, durations and numbers in any two CLDR languages.

Source and target are rendered field by field (day, month, ...) from the same value, so the gold
word alignment is known. The alignment links tokens of the `unicode` tokenizer.
"""

import functools
import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import num2words
from babel import Locale, UnknownLocaleError
from babel.dates import format_datetime, tokenize_pattern

from data.pair import Pair
from data.tokenizers import JOINER, make_tokenizer

Piece = tuple[str, str]  # a field ("" for literal text) and the text that renders the field
Shape = tuple[tuple[str, ...], ...]  # the fields that each token renders; () for literal text
Codes = tuple[str, str]  # the locales of source and target

SPLITS = ("train", "valid", "test")
# A split is also divided by length: all pairs of train_short have at most SHORT tokens on both
# sides, and all pairs of train_long have more on at least one side.
SHORT = 14
_PATIENCE = 10_000  # number of consecutive pairs of the other length before an error is raised

_tokenize = make_tokenizer("unicode", "").tokenize

_STYLES = {"date": ("full", "long", "medium"), "time": ("short", "medium")}
_STYLES["datetime"] = ("full", "long")
_LETTERS = {"year": "yu", "month": "ML", "day": "d", "weekday": "Eec"}
_LETTERS |= {"hour": "hHkK", "minute": "m", "second": "s", "period": "abB"}
_FIELDS = {letter: field for field, letters in _LETTERS.items() for letter in letters}
_MONDAY = datetime(2001, 1, 1)

_DAYS = range(date(1950, 1, 1).toordinal(), date(2050, 1, 1).toordinal())
_COUNTS = range(2, 100)  # excludes 1, because the word for 1 depends on the gender of the unit
_UNIT_PAIRS = list(
    itertools.combinations(["year", "month", "week", "day", "hour", "minute", "second"], 2)
)


def examples(
    split: str, *, source: str = "en", target: str = "de", seed: int = 0
) -> Iterator[Pair]:
    """Return an endless iterator over the examples of a split; equal arguments give equal examples.

    A value belongs to the same split for all seeds and languages. For example, a date in the test
    split never occurs in the training split, neither alone nor with a time. The splits train_short
    and train_long are the short and the long examples of train; the same holds for valid and test.
    """
    whole, _, length = split.partition("_")
    if whole not in SPLITS or split not in (whole, f"{whole}_short", f"{whole}_long"):
        raise ValueError(
            f"unknown split '{split}' of the corpus of dates: use {', '.join(SPLITS)}, or one of "
            "them with _short or _long, such as test_long"
        )
    for code in (source, target):
        _locale(code)
    codes, rng = (source, target), random.Random(f"{whole} {source} {target} {seed}")
    return _of_length(_generate(whole, codes, rng), length, codes)


def _generate(split: str, codes: Codes, rng: random.Random) -> Iterator[tuple[Pair, int]]:
    """Yield pairs, and the number of tokens of their longer side."""
    kinds, weights = list(_KINDS), list(itertools.accumulate(_KINDS.values()))
    while True:
        (kind,) = rng.choices(kinds, cum_weights=weights)
        rendered = kind(rng, split, codes)
        (source, source_shape), (target, target_shape) = map(_text_and_shape, rendered)
        pair = Pair(source, target, _align(source_shape, target_shape))
        yield pair, max(len(source_shape), len(target_shape))


def _of_length(pairs: Iterator[tuple[Pair, int]], length: str, codes: Codes) -> Iterator[Pair]:
    """Yield the pairs that are "short" or "long"; if `length` is empty, yield all pairs."""
    others = 0
    for pair, tokens in pairs:
        if not length or (tokens > SHORT) == (length == "long"):
            others = 0
            yield pair
            continue
        others += 1
        if others == _PATIENCE:
            raise ValueError(
                f"the corpus of dates has no {length} pairs in {' and '.join(codes)} (long pairs "
                f"have more than {SHORT} tokens on a side): choose other languages or splits"
            )


@functools.cache
def _locale(code: str) -> Locale:
    try:
        return Locale.parse(code.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        raise ValueError(
            f"unknown CLDR locale '{code}' for the corpus of dates: use a code such as en, de or "
            "fr_CA"
        ) from None


# The functions below draw values and render them in both languages.


def _split_of(kind: str, value: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(f"{kind} {value}".encode()).digest()
    return {0: "valid", 1: "test"}.get(int.from_bytes(digest[:4], "big") % 10, "train")


def _draw(rng: random.Random, split: str, kind: str, *choices: Sequence[Any]) -> tuple[Any, ...]:
    """Draw one value from each of the `choices` until the combination belongs to the split."""
    while _split_of(kind, value := tuple(map(rng.choice, choices))) != split:
        pass
    return value


def _moment(kind: str, rng: random.Random, split: str, codes: Codes) -> list[list[Piece]]:
    style, numbers = rng.choice(_STYLES[kind]), dict[str, int]()
    if kind != "time":
        day = date.fromordinal(*_draw(rng, split, "date", _DAYS))
        numbers = {"year": day.year, "month": day.month, "day": day.day, "weekday": day.weekday()}
    if kind != "date":
        # Hour and minute alone choose the split, so a time without seconds is in only one split.
        hour, minute = _draw(rng, split, "time", range(24), range(60))
        second, period = rng.randrange(60), 60 * hour + minute
        numbers |= {"hour": hour, "minute": minute, "second": second, "period": period}
    # The long and the medium style write "May 3, 2026" identically, but their translations
    # differ. Use the long style for both, so that each source has only one translation.
    if (kind, style) == ("date", "medium") and (
        _show(codes[0], kind, "long", numbers) == _show(codes[0], kind, style, numbers)
    ):
        style = "long"
    return [_show(code, kind, style, numbers) for code in codes]


def _duration(rng: random.Random, split: str, codes: Codes) -> list[list[Piece]]:
    first, second, units = _draw(rng, split, "duration", _COUNTS, _COUNTS, _UNIT_PAIRS)
    spell = all(map(_speller, codes))
    return [
        _fill(
            _locale(code).list_patterns["standard"]["2"],
            _amount(code, "1", first, units[0], spell),
            _amount(code, "2", second, units[1], spell),
        )
        for code in codes
    ]


def _number(rng: random.Random, split: str, codes: Codes) -> list[list[Piece]]:
    step = rng.choice((1, 10, 100))  # steps in hundredths give two, one or no decimal places
    (hundredths,) = _draw(rng, split, "number", range(1_000_00, 100_000_00, step))
    return [_decimal(code, hundredths) for code in codes]


# Maps each function that draws and renders a value to the relative frequency of such values.
_KINDS: dict[Callable[[random.Random, str, Codes], list[list[Piece]]], int] = {
    functools.partial(_moment, "date"): 3,
    functools.partial(_moment, "time"): 2,
    functools.partial(_moment, "datetime"): 2,
    _duration: 2,
    _number: 1,
}


def _fill(pattern: str, *parts: list[Piece], field: str = "") -> list[Piece]:
    """Insert parts into a pattern such as "{0} hours"; the rest of the pattern renders `field`."""
    texts = enumerate(re.split(r"\{(\d)\}", pattern))
    return [p for i, text in texts for p in (parts[int(text)] if i % 2 else [(field, text)])]


@functools.cache
def _template(code: str, kind: str, style: str) -> list[Piece]:
    """Return the pieces of a CLDR pattern, with the code of each field (such as "MMMM") as text."""
    locale = _locale(code)
    if kind == "datetime":
        join = str(locale.datetime_formats[style]).replace("'", "")
        return _fill(join, _template(code, "time", "short"), _template(code, "date", style))
    formats = locale.date_formats if kind == "date" else locale.time_formats
    pieces = []
    tokens: list[tuple[str, Any]] = tokenize_pattern(formats[style].pattern)
    for token, value in tokens:
        if token == "chars":
            pieces.append(("", value))
        elif field := _FIELDS.get(value[0]):
            pieces.append((field, value[0] * value[1]))
        else:  # the era (such as AD) is literal text: it is the same for all dates
            pieces.append(("", format_datetime(_MONDAY, value[0] * value[1], locale=locale)))
    return pieces


def _show(code: str, kind: str, style: str, numbers: dict[str, int]) -> list[Piece]:
    return [
        (field, _show_field(code, field, text, numbers[field]) if field else text)
        for field, text in _template(code, kind, style)
    ]


@functools.cache
def _show_field(code: str, field: str, letters: str, number: int) -> str:
    parts: dict[str, Any]
    if field == "weekday":
        parts = {"day": 1 + number}
    elif field == "period":
        parts = {"hour": number // 60, "minute": number % 60}
    else:
        parts = {field: number}
    return format_datetime(_MONDAY.replace(**parts), letters, locale=_locale(code))


@functools.cache
def _speller(code: str) -> str | None:
    """Return the num2words language of a locale, or None if num2words does not support it.

    num2words is not given the locale code, because num2words would mistake Filipino
    ("fil") for Finnish ("fi").
    """
    names = (str(_locale(code)), _locale(code).language)
    return next((name for name in names if name in num2words.CONVERTER_CLASSES), None)


@functools.cache
def _amount(code: str, suffix: str, count: int, unit: str, spell: bool) -> list[Piece]:
    lengths = _locale(code)._data["unit_patterns"][f"duration-{unit}"]
    # Start from the short forms: CLDR omits a long form that is equal to the short form.
    forms = {**lengths["short"], **lengths.get("long", {})}
    pattern = forms.get(_locale(code).plural_form(count), "")
    if "{0}" not in pattern:  # Arabic and Hebrew dual forms have no place for the number
        pattern = forms["other"]
    text = num2words.num2words(count, lang=_speller(code) or "") if spell else str(count)
    return _fill(pattern, [("n" + suffix, text)], field="unit" + suffix)


def _decimal(code: str, hundredths: int) -> list[Piece]:
    text = _locale(code).decimal_formats[None].apply(Decimal(hundredths) / 100, _locale(code))
    texts = re.split(r"(\d+)", text)
    groups = len(texts) // 2 - bool(hundredths % 100)
    fields = [f"g{i}" for i in reversed(range(groups))] + ["fraction"]
    return [(fields[i // 2] if i % 2 else "", text) for i, text in enumerate(texts)]


# The functions below convert rendered pieces to text and alignments.


def _text_and_shape(pieces: list[Piece]) -> tuple[str, Shape]:
    text = " ".join("".join([text for _, text in pieces]).split())
    owners = [field for field, text in pieces for char in text if not char.isspace()]
    shape, end = [], 0
    for token in _tokenize(text):
        start, end = end, end + len(token.lstrip(JOINER))
        shape.append(tuple(sorted({*owners[start:end]} - {""})))
    return text, tuple(shape)


@functools.cache  # many examples have the same source and target shapes
def _align(source: Shape, target: Shape) -> str:
    """Return the gold alignment in Pharaoh notation; tokens of the same field get sure links."""
    sources, targets = _positions(source), _positions(target)
    sure: set[tuple[int, int]] = set()
    for field in (sources.keys() & targets.keys()) - {""}:
        one_to_one = len(sources[field]) == len(targets[field])
        sure.update((zip if one_to_one else itertools.product)(sources[field], targets[field]))
    possible = {*_possible(source, targets)} | {(i, j) for j, i in _possible(target, sources)}
    links = sorted([(*link, "-") for link in sure] + [(*link, "?") for link in possible - sure])
    return " ".join(f"{i}{mark}{j}" for i, j, mark in links)


def _positions(shape: Shape) -> dict[str, list[int]]:
    """Return the token positions of each field, and of literals under the name ""."""
    found = [(field, i) for i, fields in enumerate(shape) for field in fields or ("",)]
    return {field: [i for other, i in found if other == field] for field, _ in found}


def _possible(shape: Shape, others: dict[str, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the possible links from the tokens of one side to the tokens of the other side.

    A literal is linked to all literals of the other side and to the other side's tokens of the
    fields next to the literal. "PM" is linked to the hour if the other side uses the 24-hour clock.
    """
    for i, fields in enumerate(shape):
        linked: tuple[str, ...] = ()
        if not fields:
            before, after = (filter(None, side) for side in (shape[i::-1], shape[i:]))
            linked = ("", *next(before, ()), *next(after, ()))
        elif "period" in fields and "period" not in others:
            linked = ("hour",)
        yield from ((i, j) for field in linked for j in others.get(field, ()))
