"""The SCAN corpora: commands that are generated from their grammar, and the files of the corpus."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.base import Config
from configs.lake2018 import get_config
from data.pair import Pair
from data.translation import TranslationCorpus

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "scan"
# Numbers of training and test commands; in jump and turn_left, the primitive is repeated.
SIZES = {
    "simple": (16_728, 4182),
    "length": (16_990, 3920),
    "jump": (14_670, 7706),
    "turn_left": (21_890, 1208),
}
PRIMITIVES = {"jump": "jump", "turn_left": "turn left"}


def verbs() -> Iterator[tuple[str, list[str]]]:
    """Yield every command without twice, thrice, and or after, with its actions."""
    for verb in ("walk", "look", "run", "jump", "turn"):
        action = [] if verb == "turn" else [f"I_{verb.upper()}"]
        if action:
            yield verb, action
        for direction in ("left", "right"):
            turn = [f"I_TURN_{direction.upper()}"]
            yield f"{verb} {direction}", turn + action
            yield f"{verb} opposite {direction}", turn * 2 + action
            yield f"{verb} around {direction}", (turn + action) * 4


def commands() -> Iterator[Pair]:
    """Yield all 20,910 commands of SCAN with their actions."""
    repeats = {"": 1, " twice": 2, " thrice": 3}
    parts = [
        (text + repeat, actions * count)
        for text, actions in verbs()
        for repeat, count in repeats.items()
    ]
    for text, actions in parts:
        yield Pair(text, " ".join(actions))
    for (one, first), (other, second) in itertools.product(parts, repeat=2):
        yield Pair(f"{one} and {other}", " ".join(first + second))
        yield Pair(f"{one} after {other}", " ".join(second + first))


def words(text: str) -> int:
    return len(text.split())


def write(path: Path, pairs: list[Pair]) -> None:
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs))


def scan(name: str, folder: Path) -> Config:
    config = get_config(f"data=scan_{name}")
    config.data.update({"dir": str(folder), "cache": str(folder / "cache")})
    return config


def read(config: Config) -> list[list[Pair]]:
    corpus = TranslationCorpus(config.data)
    return [list(corpus.read(split)) for split in ("train", "valid", "test")]


def longest_output(config: Config, source: str) -> float:
    return config.decode.max_ratio * words(source) + config.decode.max_extra


def test_the_grammar_has_the_commands_of_scan():
    pairs = list(commands())
    assert len({pair.source for pair in pairs}) == len(pairs) == sum(SIZES["simple"])
    short = [pair for pair in pairs if words(pair.target) <= 22]
    assert (len(short), len(pairs) - len(short)) == SIZES["length"]
    assert max(words(pair.target) for pair in pairs) == 48


def test_generated_commands_are_divided_by_length(tmp_path):
    pairs = list(commands())[::7]
    write(tmp_path / "length.train.tsv", [p for p in pairs if words(p.target) <= 22])
    write(tmp_path / "length.test.tsv", [p for p in pairs if words(p.target) > 22])
    config = scan("length", tmp_path)
    train, valid, test = read(config)
    assert 0.04 < len(valid) / (len(train) + len(valid)) < 0.06  # one in 20 is held out
    assert not {p.source for p in train} & {p.source for p in valid}
    assert all(words(p.target) <= 22 for p in train + valid)
    assert all(24 <= words(p.target) <= 48 for p in test)
    assert all(words(p.target) < longest_output(config, p.source) for p in train + valid + test)

    prepared = TranslationCorpus(config.data).prepare()
    splits = {name: prepared.split(name) for name in ("train", "valid", "test")}
    assert {name: len(split) for name, split in splits.items()} == {
        "train": len(train), "valid": len(valid), "test": len(test),
    }  # fmt: skip
    assert splits["test"].lengths.max(axis=0).tolist() == [10, 49]  # with </s>
    assert len(prepared.vocabularies["source"]) - len(prepared.vocabularies["target"]) == 13 - 6


def test_outputs_of_other_corpora_keep_their_limits():
    assert get_config("data=dates").decode.max_ratio == 2.0


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the corpus is not in {SHARED}")
@pytest.mark.parametrize("name", SIZES)
def test_the_files_of_scan_are_read(name):
    config = scan(name, SHARED)
    train, valid, test = read(config)
    assert (len(train) + len(valid), len(test)) == SIZES[name]
    meaning = {pair.source: pair.target for pair in commands()}
    assert all(meaning[pair.source] == pair.target for pair in train + valid + test)
    assert not {p.source for p in train} & {p.source for p in valid + test}
    assert all(words(p.target) < longest_output(config, p.source) for p in train + valid + test)
    if name in PRIMITIVES:  # the primitive is trained, but only on its own
        sources = [pair.source for pair in train]
        assert sources.count(PRIMITIVES[name]) == len(train + valid) // 10
        assert all(f" {PRIMITIVES[name]} " in f" {pair.source} " for pair in test)
