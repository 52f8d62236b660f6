"""Cloze questions in the format of the Children's Book Test (Hill 2016).

A question is a block of numbered lines: the sentences of its passage, then the query with XXXXX in
the place of the word that is asked for, and behind tabs the answer, nothing, and the candidates,
parted by |. A blank line ends the block.
"""

import functools
import itertools
import logging
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from data.files import SPLITS, find, lines, read_split, split_files
from data.store import Field, Prepared, Writer, cached, progress
from data.vocabulary import UNK, WordVocabulary
from errors import UserError

logger = logging.getLogger("alignax")
BLANK = "XXXXX"
SHAPING = ("corpus", "splits", "holdout", "files", "max_candidates", "unknown_buckets", "vocab")
FIELDS = {
    "passage": Field(("passage",)),
    "candidate": Field(("passage",)),  # which one each of its words is, from 1; 0: none
    "query": Field(("query",)),
    "answer": Field(),  # the number of that candidate
}


class Question(NamedTuple):
    passage: list[str]
    query: list[str]
    answer: str
    candidates: list[str]
    place: str


def read_questions(data: Config, split: str) -> Iterator[Question]:
    """The questions of a split ("train", "valid" or "test")."""
    return read_split(data, split, _read, lambda question: " ".join(question.query))


def _read(data: Config, split: str) -> Iterator[Question]:
    path = find(data, split)
    block: list[str] = []
    for number, line in enumerate(itertools.chain(lines(path), [""]), 1):
        if line.strip():
            block.append(line)
        elif block:
            yield _question(block, path, number - len(block), data.max_candidates)
            block = []


def _question(block: list[str], path: Path, first: int, most: int) -> Question:
    for number, line in enumerate(block, first):
        if not line.split(" ", 1)[0].isdecimal():
            raise UserError(
                f"{path}, line {number}: every line of a question begins with its number, not with "
                f"{line[:20]!r}"
            )
    sentences = [line.partition(" ")[2] for line in block]
    place = f"{path}, line {first + len(block) - 1}"
    columns = sentences.pop().split("\t")
    if len(columns) < 4:
        raise UserError(
            f"{place}: query, answer, nothing and candidates are wanted, parted by tabs, in the "
            "last line of a question"
        )
    passage, query = " ".join(sentences).split(), columns[0].split()
    answer, candidates = columns[1].strip(), [c.strip() for c in columns[3].split("|")]
    faults = {
        f"this query has no {BLANK}, so nothing is asked": query.count(BLANK) == 0,
        f"the answer {answer!r} is not in the passage": answer not in passage,
        f"the answer {answer!r} is none of the candidates": answer not in candidates,
        f"there are {len(candidates)} candidates, data.max_candidates={most}": (
            len(candidates) > most
        ),
    }
    for fault, holds in faults.items():
        if holds:
            raise UserError(f"{place}: {fault}: mend or remove the question")
    return Question(passage, query, answer, candidates, place)


def prepare(data: Config) -> Prepared:
    """The prepared form of the corpus that `data` describes, made now if the cache lacks it."""
    make = functools.partial(_make, data)
    folder = cached(data, SHAPING, split_files(data), "cloze", make)
    return Prepared(folder, FIELDS, {"words": _load(data, folder)})


def _load(data: Config, folder: Path) -> WordVocabulary:
    return WordVocabulary.load(folder / "words.vocab", data.vocab, "en")


def _make(data: Config, folder: Path) -> dict[str, Any]:
    texts = (
        " ".join([*question.passage, *question.query])
        for question in progress(read_questions(data, "train"), "vocabulary")
    )
    WordVocabulary.learn(texts, data.vocab, "en").save(folder / "words.vocab")
    vocabulary = _load(data, folder)
    splits = [name for name in SPLITS if name != "test" or data.splits.test]
    counts = {name: _write(data, name, vocabulary, folder) for name in splits}
    return {"counts": counts, "vocabulary": {"words": len(vocabulary)}}


def encode(words: list[str], vocabulary: WordVocabulary, buckets: int) -> list[int]:
    """Ids of words; those outside the vocabulary have one of `buckets` ids behind it, by their
    spelling: names of a new book can then be told apart, and found again in passage and query."""
    ids = vocabulary.encode(" ".join(words))
    if not buckets:
        return ids
    return [
        len(vocabulary) + zlib.crc32(word.encode()) % buckets if i == UNK else i
        for i, word in zip(ids, words, strict=True)
    ]


def _write(data: Config, split: str, vocabulary: WordVocabulary, folder: Path) -> dict[str, int]:
    kept = 0
    with Writer(folder, split, FIELDS) as writer:
        for question in progress(read_questions(data, split), split):
            kept += 1
            numbers = {word: i for i, word in enumerate(question.candidates, 1)}
            own = {
                "passage": encode(question.passage, vocabulary, data.unknown_buckets),
                "candidate": [numbers.get(word, 0) for word in question.passage],
                "query": encode(question.query, vocabulary, data.unknown_buckets),
                "answer": numbers[question.answer],
            }
            writer.add(own, question._asdict())
    if not kept:
        raise UserError(f"there is no question in the split {split!r} of this corpus")
    logger.info("%s: %s questions", split, f"{kept:,}")
    return {"questions": kept}
