"""The dates corpus: texts, gold alignments and disjoint splits."""

import itertools
import os
import re
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from babel.dates import format_date
from babel.numbers import format_decimal
from num2words import num2words

from data import dates
from data.pair import Pair
from data.tokenizers import make_tokenizer

ROOT = Path(__file__).parents[2]
UNICODE = make_tokenizer("unicode", "")
DATE = re.compile(r"([A-Z][a-z]{2})[a-z]* (\d+), (\d{4})")
TIME = re.compile(r"(\d+:\d\d)(?::\d\d)? ([AP]M)")


def take(count: int, *args: str, **options: str | int) -> list[Pair]:
    return list(itertools.islice(dates.examples(*args, **options), count))


def links(pair: Pair, mark: str = "[-?]") -> list[tuple[int, int]]:
    found = re.findall(rf"(\d+){mark}(\d+)", pair.alignment)
    return [(int(i), int(j)) for i, j in found]


def en_date(text: str) -> date | None:
    found = DATE.search(text)
    return found and datetime.strptime(" ".join(found.groups()), "%b %d %Y").date()


@pytest.fixture(scope="module")
def train() -> list[Pair]:
    return take(6000, "train")


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the corpus's random values by one fixed date, time, duration and number."""
    values = {
        "date": (date(2026, 3, 3).toordinal(),),
        "time": (15, 45),
        "duration": (23, 5, ("hour", "minute")),
        "number": (12345_60,),
    }
    monkeypatch.setattr(dates, "_draw", lambda rng, split, kind, *choices: values[kind])


KNOWN = [
    Pair(
        "Tuesday, March 3, 2026",
        "Dienstag, 3. März 2026",
        "0-0 0?1 1?0 1?1 1?3 1?4 2?3 2-4 3?1 3-2 3?3 4?1 4?2 4?3 4?5 4?6 4?7 4?8 5-5 6-6 7-7 8-8",
    ),
    Pair(
        "3:45 PM",
        "15:45",
        "0-0 0-1 0?2 1?0 1?1 1?2 1?3 1?4 2?2 2-3 3?2 3-4 4?0 4?1",
    ),
    Pair(
        "twenty-three hours and five minutes",
        "dreiundzwanzig Stunden und fünf Minuten",
        "0-0 1-0 2-0 3-1 3?2 4?1 4?2 4?3 5?2 5-3 6-4",
    ),
    Pair(
        "12,345.6",
        "12.345,6",
        "0-0 0?2 1-1 1?2 2?0 2?1 2?2 2?3 2?4 2?5 2?6 3?2 3-3 3?6 4?2 4-4 4?6 5?2 5-5 5?6 "
        "6?2 6?3 6?4 6?5 6?6 6?7 7?6 7-7",
    ),
]


def test_known_texts_and_alignments(fixed: None) -> None:
    assert set(KNOWN) <= set(take(100, "train"))


@pytest.mark.parametrize(
    ("source", "target", "text", "translation"),
    [
        ("en", "de", "March 3, 2026", "3. März 2026"),
        ("en", "de", "Mar 3, 2026", "03.03.2026"),
        ("en", "de", "Tuesday, March 3, 2026, 3:45 PM", "Dienstag, 3. März 2026, 15:45"),
        ("de", "en", "15:45", "3:45 PM"),
        ("en", "fr", "12,345.6", "12 345,6"),
        ("fr", "es", "mardi 3 mars 2026", "martes, 3 de marzo de 2026"),
        ("en_GB", "de", "Tuesday, 3 March 2026", "Dienstag, 3. März 2026"),
        ("en-US", "ru", "March 3, 2026", "3 марта 2026 г."),
        ("ja", "en", "2026年3月3日火曜日", "Tuesday, March 3, 2026"),
        # In Polish, the numbers five and twenty-three take different plural forms.
        ("en", "pl", KNOWN[2].source, "dwadzieścia trzy godziny i pięć minut"),
        # num2words does not support Basque, so numbers are digits in both languages.
        ("en", "eu", "23 hours and 5 minutes", "23 ordu eta 5 minutu"),
    ],
)
def test_known_translations(
    fixed: None, source: str, target: str, text: str, translation: str
) -> None:
    pairs = {pair[:2] for pair in take(100, "train", source=source, target=target)}
    assert (text, translation) in pairs


def test_a_token_of_two_fields_is_linked_to_both(fixed: None) -> None:
    pairs = {pair.source: pair for pair in take(100, "train", source="ja", target="en")}
    pair = pairs["2026年3月3日火曜日"]  # token "日火曜日" is part of day and weekday
    tokens, others = UNICODE.tokenize(pair.source), UNICODE.tokenize(pair.target)
    assert tokens[-1] == "￭日火曜日" and others[0] == "Tuesday"
    assert (len(tokens) - 1, 0) in links(pair, "-")


def test_am_and_pm_on_both_sides_have_a_sure_link(fixed: None) -> None:
    pairs = {pair.source: pair for pair in take(100, "train", source="en", target="en_AU")}
    assert (4, 4) in links(pairs["3:45 PM"], "-")


def test_the_same_arguments_give_the_same_examples() -> None:
    first = take(50, "train", seed=1)
    assert first == take(50, "train", seed=1)
    assert first != take(50, "train", seed=2)
    assert first != take(50, "valid", seed=1)


def test_examples_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "import itertools; from data.dates import examples;"
        "print([*map(tuple, itertools.islice(examples('test', seed=3), 50))])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "12345", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert result.stdout.strip() == str([*map(tuple, take(50, "test", seed=3))])


def test_splits_are_disjoint(train: list[Pair]) -> None:
    def values(pairs: list[Pair]) -> tuple[set[date | None], set[str], set[str]]:
        texts = [pair.source for pair in pairs]
        times = {" ".join(found.groups()) for text in texts if (found := TIME.search(text))}
        return {*map(en_date, texts)} - {None}, times, set(texts)

    splits = [values(p) for p in (train, take(2000, "valid"), take(2000, "test", target="fr"))]
    for one, other in itertools.combinations(splits, 2):
        for ours, theirs in zip(one, other, strict=True):
            assert ours and theirs and not ours & theirs


def test_splits_have_80_10_and_10_percent_of_the_values() -> None:
    splits = [dates._split_of("date", (day,)) for day in dates._DAYS]
    shares = [splits.count(split) / len(splits) for split in dates.SPLITS]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


def tokens(pair: Pair) -> int:
    return max(len(UNICODE.tokenize(text)) for text in (pair.source, pair.target))


def test_a_split_is_divided_by_length(train: list[Pair]) -> None:
    short = [pair for pair in train if tokens(pair) <= dates.SHORT]
    long = [pair for pair in train if tokens(pair) > dates.SHORT]
    assert len(long) > 0.1 * len(train)
    assert take(len(short), "train_short") == short and take(len(long), "train_long") == long


def test_long_test_pairs_have_known_words_in_new_combinations() -> None:
    train, test = take(6000, "train_short"), take(500, "test_long")
    for side in ("source", "target"):
        known, used = (
            {token for pair in pairs for token in UNICODE.tokenize(getattr(pair, side))}
            for pairs in (train, test)
        )
        assert used <= known

    def both(pair: Pair) -> bool:
        return "day, " in pair.source and bool(TIME.search(pair.source))

    assert not any(map(both, train)) and sum(map(both, test)) > 0.8 * len(test)
    assert all(TIME.search(pair.source) for pair in test)


def test_error_for_a_language_pair_without_long_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dates, "SHORT", 99)
    monkeypatch.setattr(dates, "_PATIENCE", 50)
    with pytest.raises(ValueError, match="has no long pairs in en and de"):
        take(1, "test_long")
    assert len(take(60, "test_short")) == 60


@pytest.mark.parametrize("split", ["dev", "train_", "train_medium", "short", "test_long_long"])
def test_error_for_an_unknown_split(split: str) -> None:
    with pytest.raises(ValueError, match=f"split '{split}' .*train, valid, test, .*test_long"):
        dates.examples(split)


def test_the_training_split_covers_the_vocabulary(train: list[Pair]) -> None:
    moments = [day for pair in train if (day := en_date(pair.source))]
    assert {day.weekday() for day in moments} == set(range(7))
    assert {day.month for day in moments} == set(range(1, 13))
    assert {day.day for day in moments} == set(range(1, 32))
    times = [f.groups() for p in train if (f := re.match(r"(\d\d):(\d\d)", p.target))]
    assert {int(hour) for hour, _ in times} == set(range(24))
    assert {int(minute) for _, minute in times} == set(range(60))
    words = {word for pair in train for word in pair.target.split()}
    assert {num2words(n, lang="de") for n in range(2, 100)} <= words


def test_a_source_has_one_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    may = (date(2026, 5, 3).toordinal(),)  # a date whose short and long month names are equal: May
    draw = dates._draw
    monkeypatch.setattr(dates, "_draw", lambda *args: may if args[2] == "date" else draw(*args))
    targets = {pair.target for pair in take(200, "train") if pair.source == "May 3, 2026"}
    assert targets == {"3. Mai 2026"}


def test_alignments_are_well_formed(train: list[Pair]) -> None:
    for pair in train[:1000]:
        source, target = UNICODE.tokenize(pair.source), UNICODE.tokenize(pair.target)
        assert links(pair) == sorted(set(links(pair)))
        assert {i for i, _ in links(pair)} == set(range(len(source)))
        assert {j for _, j in links(pair)} == set(range(len(target)))
        words = {j for j, token in enumerate(target) if re.search(r"\w", token) and token != "und"}
        assert {j for _, j in links(pair, "-")} == words


@pytest.mark.parametrize("target", ["de", "fr", "ru", "ja", "eu", "ar", "hi"])
def test_targets_equal_the_output_of_babel(target: str) -> None:
    for pair in take(150, "valid", target=target):
        tokens = UNICODE.tokenize(pair.target)
        assert UNICODE.detokenize(tokens) == pair.target
        assert UNICODE.detokenize(UNICODE.tokenize(pair.source)) == pair.source
        assert {j for _, j in links(pair)} == set(range(len(tokens)))
        if re.fullmatch(r"[\d,.]+", pair.source):
            options = [format_decimal(Decimal(pair.source.replace(",", "")), locale=target)]
        elif (day := en_date(pair.source)) and not TIME.search(pair.source):
            options = [format_date(day, style, target) for style in ("full", "long", "medium")]
        else:
            continue
        assert pair.target in [" ".join(text.split()) for text in options]


def test_error_for_an_unknown_locale() -> None:
    with pytest.raises(ValueError, match="locale 'xx'"):
        dates.examples("train", target="xx")
    with pytest.raises(ValueError, match="locale 'english!'"):
        dates.examples("train", source="english!")
