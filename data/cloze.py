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

import numpy as np

from configs.base import Config
from data.files import find, lines, read_split, refuse_nothing, split_files, split_names
from data.store import Field, Prepared, Writer, cached, progress
from data.vocabulary import UNK, WordVocabulary
from errors import UserError

logger = logging.getLogger("alignax")
BLANK = "XXXXX"
SHAPING = (
    "corpus", "splits", "holdout", "files", "max_candidates", "anonymous", "anonymous_ids", "vocab",
)  # fmt: skip
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
    return read_split(data, split, _read, lambda question: " ".join(question.passage))


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
    counts = {name: _write(data, name, vocabulary, folder) for name in split_names(data)}
    return {"counts": counts, "vocabulary": {"words": len(vocabulary)}}


def encode(data: Config, question: Question, vocabulary: WordVocabulary) -> dict[str, list[int]]:
    """The ids of passage and query.

    `data.anonymous` words have ids behind the vocabulary's, drawn anew for each question: what such
    a word is cannot be learnt by heart, only where it stands and where it stands again (the
    anonymous entities of Hermann 2015). They are those the vocabulary lacks, and the candidates.
    """
    texts = {"passage": question.passage, "query": question.query}
    ids = {name: vocabulary.encode(" ".join(words)) for name, words in texts.items()}
    if data.anonymous == "none":
        return ids
    hidden = set(question.candidates) if data.anonymous == "candidates" else set()
    pairs = [pair for name, words in texts.items() for pair in zip(words, ids[name], strict=True)]
    nameless = list(dict.fromkeys(word for word, i in pairs if i == UNK or word in hidden))
    rng = np.random.default_rng(zlib.crc32(" ".join(question.passage).encode()))
    drawn = len(vocabulary) + rng.permutation(data.anonymous_ids)
    # More of them than there are ids share some.
    own = {word: int(drawn[i % len(drawn)]) for i, word in enumerate(nameless)}
    return {
        name: [own.get(word, i) for word, i in zip(words, ids[name], strict=True)]
        for name, words in texts.items()
    }


def _write(data: Config, split: str, vocabulary: WordVocabulary, folder: Path) -> dict[str, int]:
    kept = 0
    with Writer(folder, split, FIELDS) as writer:
        for question in progress(read_questions(data, split), split):
            kept += 1
            numbers = {word: i for i, word in enumerate(question.candidates, 1)}
            own = {
                **encode(data, question, vocabulary),
                "candidate": [numbers.get(word, 0) for word in question.passage],
                "answer": numbers[question.answer],
            }
            writer.add(own, question._asdict())
    refuse_nothing(kept, data, split)
    logger.info("%s: %s questions", split, f"{kept:,}")
    return {"questions": kept}
