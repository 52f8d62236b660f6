"""Word links of the training split: files, links between tokens, batches and error messages."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from configs.base import Config, base_config
from data.batches import make_batch, plan_buckets
from data.links import token_links
from data.translation import TranslationCorpus
from errors import UserError

SOURCE = ("ein@@ s zwei", "", "drei vier fünf", "sechs")
TARGET = ("one two", "empty", "three fo@@ ur five", "six")
LINKS = ("0-0 1-1", "", "0-0 1-1 2-1", "")


def corpus(folder: Path, lines: tuple[str, ...] = LINKS, **changes) -> TranslationCorpus:
    """Write a training split with links and a validation split; return their corpus."""
    for split in ("train", "valid"):
        for language, text in (("de", SOURCE), ("en", TARGET)):
            (folder / f"{split}.{language}").write_text("".join(f"{x}\n" for x in text))
    with gzip.open(folder / "train.links.gz", "wt") as file:
        file.write("".join(f"{line}\n" for line in lines))
    data: Config = base_config().data
    data.update({
        "dir": str(folder), "cache": str(folder / "cache"), "source": "de", "target": "en",
        "links": "{split}.links", "splits": {"test": ""}, **changes,
    })  # fmt: skip
    data.source_vocab.tokenizer = data.target_vocab.tokenizer = "bpe"
    return TranslationCorpus(data)


def test_links_of_words_become_links_of_all_their_tokens() -> None:
    """Target word 1 has two tokens, and source word 0 has two tokens."""
    links = token_links("0-1 1-0 1-0", source_words=[0, 0, 1], target_words=[0, 1, 1])
    assert links.tolist() == [[2, 1], [2, 2], [3, 1], [3, 2], [1, 3]]
    assert token_links("", [0], [0]).shape == (0, 2)


def test_batches_contain_links_in_the_training_split_only(tmp_path: Path) -> None:
    prepared = corpus(tmp_path).prepare()
    expected = {
        "train": [[[1, 1], [1, 2], [2, 3], [0, 0], [0, 0]],
                  [[1, 1], [2, 2], [3, 2], [2, 3], [3, 3]], [[0, 0]] * 5],
        "valid": [[], [], []],
    }  # fmt: skip
    for name, links in expected.items():
        split = prepared.split(name)
        buckets, _ = plan_buckets(split.fields, split.lengths, 1, 3, "sentences", 1)
        batch = make_batch(split, buckets[0], np.arange(3))
        assert batch["links"].tolist() == links
        assert batch["links"].shape == (3, buckets[0].lengths[-1], 2)
    assert all(text["links"] == "" for text in prepared.split("valid").texts())


def test_links_do_not_change_buckets_and_rows(tmp_path: Path) -> None:
    plans = []
    (tmp_path / "other").mkdir()
    for folder, links in ((tmp_path, "{split}.links"), (tmp_path / "other", "")):
        split = corpus(folder, links=links).prepare().split("train")
        plans.append(plan_buckets(split.fields, split.lengths, 2, 12, "tokens", 1))
    (with_links, members), (without, expected) = plans
    assert [(b.rows, b.lengths[:2]) for b in with_links] == [(b.rows, b.lengths) for b in without]
    np.testing.assert_array_equal(members, expected)


def test_held_out_pairs_keep_the_other_pairs_and_links_together(tmp_path: Path) -> None:
    whole = list(corpus(tmp_path).read("train"))
    assert tuple(pair.links for pair in whole) == LINKS
    data = corpus(tmp_path, holdout=2, splits={"valid": "", "test": ""})
    train, valid = list(data.read("train")), list(data.read("valid"))
    assert train and valid and sorted(train + valid) == sorted(whole)


def test_the_links_of_several_files_are_united(tmp_path: Path) -> None:
    data = corpus(tmp_path, links="{split}.links {split}.more")
    (tmp_path / "train.more").write_text("0-0 1-0\n\n\n0-0\n")
    assert [pair.links for pair in data.read("train")] == ["0-0 1-1 0-0 1-0", "", LINKS[2], "0-0"]
    (tmp_path / "train.more").write_text("\n\n")
    with pytest.raises(UserError, match=r"train\.more has 2 lines, but the split has 4"):
        data.prepare()


def test_the_cache_depends_on_the_links(tmp_path: Path) -> None:
    before = corpus(tmp_path).cache_key()
    assert before != corpus(tmp_path, ("0-0", "", "", "")).cache_key()


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (("0-0", "", "3-0", ""), ["line 3: the link 3-0 ", "3 source words and 3 target words"]),
        (("0-0", "", "0-2", "0-1"), ["line 4: the link 0-1 ", "1 source words", "target-source"]),
        (("2-0", "", "", ""), ["line 1: the link 2-0 ", "2 source words and 2 target words"]),
        (("0-0", "0-0", "", ""), ["line 2: the link 0-0 ", "0 source words"]),
        (("0-0", "", "1-x", ""), ["line 3: ", "`0-0 1-2`", "'1-x'"]),
        (("0-0", "", "", "0 0 1"), ["line 4: ", "found '0'"]),
        (("0?0", "", "", ""), ["line 1: ", "'0?0' is marked as possible", "data.alignment"]),
        (("0-0", "", ""), ["links.gz has 3 lines", "4 sentence pairs"]),
        (("0-0", "2-2", ""), ["links.gz has 3 lines", "4 sentence pairs"]),
        (("0-0", "", "", "", "", ""), ["links.gz has 6 lines", "4 sentence pairs"]),
    ],
)
def test_error_for_bad_links(tmp_path: Path, links: tuple[str, ...], expected: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        list(corpus(tmp_path, links).read("train"))
    assert str(caught.value).startswith(f"{tmp_path}/train.links.gz")
    for part in expected:
        assert part in str(caught.value)


def test_error_for_a_missing_links_file(tmp_path: Path) -> None:
    expected = f"{tmp_path} has no file train.align .*data.links and data.splits"
    with pytest.raises(UserError, match=expected):
        corpus(tmp_path, links="{split}.align").prepare()
