"""Cloze corpora: reading, preparation and error messages."""

from pathlib import Path

import numpy as np
import pytest

from configs.base import Config, base_config
from configs.datasets import DATASETS
from data.cloze import ClozeCorpus
from data.vocabulary import UNK
from errors import UserError

SHARED = Path(__file__).parents[3] / "shared" / "data"
FIRST = "1 Anna saw Bert .\n2 Bert ran to Anna .\n21 XXXXX saw Bert .\tAnna\t\tBert|Anna\n"
SECOND = "1 Carl met Dora .\n2 Dora sat .\n21 Who sat ? XXXXX !\tDora\t\tCarl|Dora\n"


def make(folder: Path, test: str = f"{FIRST}\n{SECOND}", **changes) -> Config:
    for split, text in (("train", FIRST), ("valid", FIRST), ("test", test)):
        (folder / f"{split}.txt").write_text(text)
    data: Config = base_config("reader").data
    data.update({"dir": str(folder), "cache": str(folder / "cache"), **changes})
    return data


def examples(data: Config) -> list[dict[str, np.ndarray]]:
    split = ClozeCorpus(data).prepare().split("test")
    return list(split.examples(np.arange(len(split))))


def test_questions_are_blocks_of_lines(tmp_path):
    first, second = ClozeCorpus(make(tmp_path)).read("test")
    assert first.passage == ["Anna", "saw", "Bert", ".", "Bert", "ran", "to", "Anna", "."]
    assert first.query == ["XXXXX", "saw", "Bert", "."]
    assert (first.answer, first.candidates) == ("Anna", ["Bert", "Anna"])
    assert second.place.endswith("test.txt, line 7")


def test_questions_become_ids(tmp_path):
    data = make(tmp_path)
    words = ClozeCorpus(data).prepare().vocabularies["words"]
    first, second = examples(data)
    assert words.decode(first["passage"]) == "Anna saw Bert . Bert ran to Anna ."
    assert first["candidate"].tolist() == [2, 0, 1, 0, 1, 0, 0, 2, 0] and first["answer"] == 2
    assert second["passage"].tolist().count(UNK) == 5  # tokens of Carl met Dora, Dora sat
    assert ClozeCorpus(data).prepare().split("test").texts()[1]["answer"] == "Dora"


def test_anonymous_words_get_ids_after_the_vocabulary(tmp_path):
    data = make(tmp_path, anonymous="unknown", anonymous_ids=50)
    size = len(ClozeCorpus(data).prepare().vocabularies["words"])
    first, second = examples(data)
    assert first["passage"].max() < size  # no anonymous ids: all words are known
    passage, query = second["passage"], second["query"]
    carl, met, dora = passage[:3]
    assert len({carl, met, dora}) == 3 and min(carl, met, dora) >= size
    assert (
        passage[4] == dora
        and passage[5] == query[1]
        and max(passage.max(), query.max()) < (size + 50)
    )
    data.anonymous = "candidates"
    first, _ = examples(data)
    anna, bert = first["passage"][0], first["passage"][2]
    assert min(anna, bert) >= size and anna != bert == first["query"][2]
    assert first["passage"][1] < size  # "saw" is no candidate, so its vocabulary id is kept


def test_anonymous_words_share_ids_if_there_are_too_few(tmp_path):
    data = make(tmp_path, anonymous="unknown", anonymous_ids=2)
    size = len(ClozeCorpus(data).prepare().vocabularies["words"])
    _, second = examples(data)
    assert set(second["passage"][second["passage"] >= size]) == {size, size + 1}


@pytest.mark.parametrize(
    ("line", "facts", "old", "new"),
    [
        (3, "query .*no XXXXX", "XXXXX saw", "Anna saw"),
        (3, "'Karl' .*not in the passage", "\tAnna\t\tBert|", "\tKarl\t\tKarl|"),
        (3, "'ran' .*candidates", "\tAnna\t", "\tran\t"),
        (3, r"3 candidates.*data\.max_candidates=2", "Bert|", "Bert|ran|"),
        (3, "four columns .*has 2", "\t\t", " "),
        (2, "number.*'two Bert", "2 B", "two B"),
    ],
)
def test_error_for_an_invalid_question_names_the_line(tmp_path, line, facts, old, new):
    data = make(tmp_path, FIRST.replace(old, new), max_candidates=2)
    with pytest.raises(UserError, match=rf"test\.txt, line {line}: .*{facts}"):
        ClozeCorpus(data).prepare()


def test_error_for_a_lone_surrogate_in_a_question():
    corpus = ClozeCorpus(base_config("reader").data)
    question = {"passage": "a \ud800", "query": "XXXXX", "candidates": ["a"]}
    with pytest.raises(UserError, match=r"input 3 contains .* half of a surrogate pair"):
        corpus.make_input(question, "input 3")


def test_error_for_a_split_without_questions(tmp_path):
    with pytest.raises(UserError, match=r"'test' .*0 of 0 questions kept.*data\.splits\.test"):
        ClozeCorpus(make(tmp_path, "\n\n")).prepare()


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the corpora are not in {SHARED}")
@pytest.mark.parametrize(("name", "count"), [("novels_ne", 419), ("novels_cn", 619)])
def test_real_corpora_are_read(name, count):
    data = base_config("reader").data
    data.update({**DATASETS["cloze"][name], "dir": str(SHARED / "cloze")})
    assert sum(1 for _ in ClozeCorpus(data).read("test")) == count
