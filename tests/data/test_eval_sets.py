"""Tests of test sets that are given as files: names, formats, references and mistakes."""

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from configs.base import base_config
from data.classification import ClassificationCorpus
from data.cloze import ClozeCorpus
from data.corpus import Corpus
from data.eval_sets import EvalSet, parse_eval_sets
from data.labelling import NOTES, LabellingCorpus
from data.pair import Pair
from data.store import Split
from data.translation import TranslationCorpus
from errors import UserError
from tests.small import small_config


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_names_and_files_are_parsed():
    found = parse_eval_sets(["news-2016.b=a.de,b=1.en,c.en", "0=x.tsv"])
    assert found == [
        EvalSet("news-2016.b", (Path("a.de"), Path("b=1.en"), Path("c.en"))),
        EvalSet("0", (Path("x.tsv"),)),
    ]


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        (["a.en,a.de"], "a name and the files"),
        (["news"], "a name and the files"),
        (["news="], "a name and the files"),
        (["news=a,,b"], "a name and the files"),
        (["=a"], "'' is not the name"),
        (["..=a"], "'..' is not the name"),
        (["a/b=a"], "'a/b' is not the name"),
        (["-a=a"], "'-a' is not the name"),
        (["a b=a"], "'a b' is not the name"),
        (["ä=a"], "'ä' is not the name"),
        ([f"{'a' * 101}=a"], "is not the name"),
        (["a\n=a"], r"'a\n' is not the name"),
        (["train=a"], "that of a split"),
        (["tests.md=a"], "a file of eval.py"),
        (["x=a", "x=b"], "given twice"),
    ],
)
def test_error_for_an_invalid_flag(values, fact):
    with pytest.raises(UserError) as error:
        parse_eval_sets(values)
    assert fact in str(error.value)


def test_error_for_a_file_that_cannot_be_read(tmp_path):
    for path, problem in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "is not a file"),
        (Path("x" * 300), "File name too long"),
    ):
        with pytest.raises(UserError, match=problem) as error:
            EvalSet("news", (path,)).digests()
        assert str(path) in str(error.value) and "--test" in str(error.value)


# Translation


def pairs(*paths: Path, **changes) -> list[Pair]:
    data = base_config().data
    data.update(changes)
    return list(TranslationCorpus(data).read_files(paths))


@pytest.mark.parametrize("corpus", ["dates", "text", "tsv", "tfds"])
def test_parallel_text_and_tsv_are_read_for_every_translation_run(corpus, tmp_path):
    expected = [Pair("a cat", "eine Katze"), Pair("", ""), Pair("tea", "Tee")]
    with gzip.open(tmp_path / "a.en.gz", "wt", encoding="utf-8-sig") as file:
        file.write("a cat\r\n\n tea\n")
    with lzma.open(tmp_path / "a.de.xz", "wt", encoding="utf-8") as file:
        file.write("eine Katze\n\nTee")
    assert pairs(tmp_path / "a.en.gz", tmp_path / "a.de.xz", corpus=corpus) == expected
    tsv = write(tmp_path / "a", "a cat\teine Katze\tmore\n\ntea\tTee\n")
    assert pairs(tsv, corpus=corpus) == expected


def test_every_line_has_one_pair_per_reference(tmp_path):
    source = write(tmp_path / "a", "tea\ntea\n")
    first = write(tmp_path / "b", "Tee\nTee!\n")
    second = write(tmp_path / "c", "der Tee\n\n")
    assert pairs(source, first, second) == [
        Pair("tea", "Tee", line=1),
        Pair("tea", "der Tee", line=1),
        Pair("tea", "Tee!", line=2),
        Pair("tea", "", line=2),
    ]


@pytest.mark.parametrize("counts", [(3, 4, 3), (4, 3, 3), (1207, 2, 5), (0, 0, 1)])
def test_error_for_different_numbers_of_lines_names_all_files(counts, tmp_path):
    paths = [write(tmp_path / f"{i}", "x\n" * n) for i, n in enumerate(counts)]
    with pytest.raises(UserError) as error:
        pairs(*paths)
    first, second, third = (f"{path} has {n:,}" for path, n in zip(paths, counts, strict=True))
    assert str(error.value).startswith(f"{first} lines, {second} and {third}: line n of one file")


def test_error_for_invalid_text_names_the_line(tmp_path):
    source = write(tmp_path / "a", "tea\ntea\n")
    (tmp_path / "b").write_bytes("Tee\nTür\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"b, line 2: not valid UTF-8"):
        pairs(source, tmp_path / "b")
    with pytest.raises(UserError, match=r"a, line 1: expected two columns.*add the reference file"):
        pairs(source)


# Other tasks


CORPORA: dict[str, type[Corpus]] = {
    "classification": ClassificationCorpus,
    "cloze": ClozeCorpus,
    "labelling": LabellingCorpus,
}


def read(name: str, folder: Path, content: str, **changes) -> list:
    config = small_config(name, folder / "corpus")
    config.data.update(changes)
    return list(
        CORPORA[config.task](config.data).read_files([write(folder / "given.txt", content)])
    )


def test_labelled_texts_have_the_format_of_the_corpus(tmp_path):
    for corpus, text in (("tsv", "x\tpos\tgood film\n"), ("lines", "pos good film\n")):
        changes = {"corpus": corpus, "label": "1", "text": "2"}
        (found,) = read("sentence", tmp_path, text, **changes)
        assert (found.label, found.text) == ("pos", "good film")
        assert found.place == f"{tmp_path}/given.txt, line 1"
    tfds = {"corpus": "tfds", "label": "stars", "text": "review"}
    (found,) = read("sentence", tmp_path, "pos\tgood film\n", **tfds)
    assert (found.label, found.text) == ("pos", "good film")
    with pytest.raises(UserError, match=r"given.txt, line 1: this text has no label"):
        read("sentence", tmp_path, "\tgood film\n")


def test_series_are_columns_of_numbers(tmp_path):
    found = read("series", tmp_path, "0.5 1e-3\n1 0\n\n\n.25 2\n")
    assert [x.columns["x"].tolist() for x in found] == [[[0.5], [1.0]], [[0.25]]]
    assert [x.columns["label"].tolist() for x in found] == [[[0.001], [0.0]], [[2.0]]]
    (found,) = read("classes", tmp_path, "0.5 over\n1 under\n")
    assert found.columns["label"] == ["over", "under"]


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("series", "0.5 1\n0.5 x\n", r"given.txt, line 2: 'x' is not a finite number"),
        ("series", "0.5 1\n\nnan 1\n", r"given.txt, line 3: 'nan' is not a finite number"),
        ("classes", "0.5\n", r"given.txt, line 1: expected 2 columns \(x, label\), found 1"),
        ("columns", "the B-NP\n", r"line 1: expected 3 columns .*columns of the run's corpus"),
        ("reader", "1 a\n2 XXXXX\tb\t\ta|b\n", r"given.txt, line 2: the answer 'b' is not in"),
        ("music", "x", r"given.txt is not a MATLAB file"),
    ],
)
def test_error_for_an_invalid_file_names_the_line(name, text, fact, tmp_path):
    with pytest.raises(UserError, match=fact):
        read(name, tmp_path, text)


def test_error_for_music_without_the_variable(tmp_path):
    config = small_config("music", tmp_path)
    frames = np.empty((1, 1), object)
    frames[0, 0] = np.zeros((2, NOTES), np.uint8)
    scipy.io.savemat(tmp_path / "songs.mat", {"songs": frames})
    with pytest.raises(UserError, match=r"no variable 'testdata'.*\(songs\).*rename the variable"):
        list(LabellingCorpus(config.data).read_files([tmp_path / "songs.mat"]))


@pytest.mark.parametrize("name", ["sentence", "columns", "reader"])
def test_error_for_several_files(name, tmp_path):
    config = small_config(name, tmp_path)
    with pytest.raises(UserError, match=r"a.txt, b.txt are 2 files.*one labelled file"):
        CORPORA[config.task](config.data).read_files([Path("a.txt"), Path("b.txt")])


def test_test_sets_are_encoded_with_the_vocabularies_of_the_corpus(tmp_path):
    config = small_config("sentence", tmp_path / "corpus")
    corpus = ClassificationCorpus(config.data)
    prepared = corpus.prepare()
    given = write(tmp_path / "given.tsv", "1\tthe film was unknown\n")
    corpus.write_files(tmp_path, "given", [given], prepared.vocabularies)
    split = Split(tmp_path, "given", corpus.fields)
    (example,) = split.examples(np.arange(1))
    words = prepared.vocabularies["words"]
    assert example["words"].tolist() == words.encode("the film was unknown")
    assert split.texts() == [{"words": ["the", "film", "was", "unknown"], "label": "1"}]
    for text, fact in (
        ("1\tthe\n7\tfilm\n", r"given.tsv, line 2: the label '7' is not one of the labels"),
        ("", r"given.tsv: no usable examples \(0 of 0 texts kept"),
    ):
        write(given, text)
        with pytest.raises(UserError, match=fact):
            corpus.write_files(tmp_path, "given", [given], prepared.vocabularies)


def test_long_sentences_are_kept_even_if_the_test_set_has_no_links(tmp_path):
    config = base_config()
    for name in ("train.en", "train.de", "train.links"):
        write(tmp_path / name, "0-0\n")
    config.data.update({"dir": str(tmp_path), "cache": str(tmp_path / "cache"), "max_length": 1})
    config.data.update({"links": "{split}.links"})
    config.data.splits.update({"valid": "train", "test": ""})
    corpus = TranslationCorpus(config.data)
    prepared = corpus.prepare()
    paths = [write(tmp_path / side, "0-0 0-0 0-0\n") for side in ("a", "b")]
    corpus.write_files(tmp_path, "given", paths, prepared.vocabularies)
    assert len(Split(tmp_path, "given", corpus.fields)) == 1


def test_error_for_a_config_that_names_files_outside_the_vocabulary_folder(tmp_path):
    """The config of a run of another user must not decide which files are read or written."""
    config = small_config("columns", tmp_path / "corpus")
    config.data.update({"columns": ("word", "../x", "label"), "inputs": ("word", "../x")})
    with pytest.raises(UserError, match=r"'../x' cannot be part of a file name"):
        LabellingCorpus(config.data).open(tmp_path)
