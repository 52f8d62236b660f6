"""Corpora of cloze questions in the format of the Children's Book Test (Hill 2016).

A question is a block of numbered lines that ends at a blank line. All lines but the last are the
sentences of the passage. The last line has four columns separated by tabs: the query with XXXXX in
place of the missing word, the answer, an empty column, and the candidates separated by |.
"""

import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configs.base import Config
from data.corpus import Corpus, Encoded
from data.files import find, lines, only_file
from data.store import ArrayField, ArrayFields
from data.vocabulary import UNK, WordVocabulary, shared_settings
from errors import UserError

BLANK = "XXXXX"
FIELDS = {
    "passage": ArrayField(("passage",)),
    # Per passage position: the 1-based index of the candidate there, or 0 if there is none.
    "candidate": ArrayField(("passage",)),
    "query": ArrayField(("query",)),
    "answer": ArrayField(),  # 1-based index of the correct candidate
}


class Question(NamedTuple):
    """One cloze question: a passage, a query with a blank, and the candidate answers."""

    passage: list[str]
    query: list[str]
    answer: str
    candidates: list[str]
    place: str  # file and line of the question, for error messages


def _cbt(data: Config, split: str) -> Iterator[Question]:
    return _questions(find(data, split), data.max_candidates)


def _questions(path: Path, max_candidates: int) -> Iterator[Question]:
    block: list[str] = []
    for number, line in enumerate(itertools.chain(lines(path), [""]), 1):
        if line.strip():
            block.append(line)
        elif block:
            yield _question(block, path, number - len(block), max_candidates)
            block = []


def _question(block: list[str], path: Path, first: int, max_candidates: int) -> Question:
    """Parse the lines of a question; `first` is the 1-based file line where the question starts."""
    for number, line in enumerate(block, first):
        if not line.split(" ", 1)[0].isdecimal():
            raise UserError(
                f"{path}, line {number}: every line of a question must begin with a number, but "
                f"this line begins with {line[:20]!r}: correct the line"
            )
    sentences = [line.partition(" ")[2] for line in block]
    place = f"{path}, line {first + len(block) - 1}"
    columns = sentences.pop().split("\t")
    if len(columns) < 4:
        raise UserError(
            f"{place}: the last line of a question must have four columns separated by tabs "
            f"(query, answer, an empty column, candidates), but this line has {len(columns)}: "
            "correct the line"
        )
    passage, query = " ".join(sentences).split(), columns[0].split()
    answer, candidates = columns[1].strip(), [c.strip() for c in columns[3].split("|")]
    problems = {
        f"the query has no {BLANK} in place of the missing word": BLANK not in query,
        f"the answer {answer!r} is not in the passage": answer not in passage,
        f"the answer {answer!r} is not one of the candidates": answer not in candidates,
        f"there are {len(candidates)} candidates, more than data.max_candidates={max_candidates}": (
            len(candidates) > max_candidates
        ),
    }
    for problem, found in problems.items():
        if found:
            raise UserError(f"{place}: {problem}: correct or remove the question")
    return Question(passage, query, answer, candidates, place)


CORPORA: dict[str, Callable[[Config, str], Iterator[Question]]] = {"cbt": _cbt}


class ClozeCorpus(Corpus[Question]):
    """A corpus of cloze questions."""

    readers = CORPORA
    unit = "questions"

    @property
    def label(self) -> str:
        return "cloze"

    @property
    def fields(self) -> ArrayFields:
        return FIELDS

    def read_files(self, paths: Sequence[Path]) -> Iterator[Question]:
        """Yield the questions of a file in the format of the Children's Book Test."""
        return _questions(only_file(paths), self.data.max_candidates)

    def holdout_key(self, example: Question) -> str:
        return " ".join(example.passage)

    def learn_vocabularies(self) -> Iterator[tuple[str, WordVocabulary]]:
        texts = (
            " ".join([*question.passage, *question.query])
            for question in self.read_train("vocabulary")
        )
        learn = functools.partial(WordVocabulary.learn, texts, self.data.vocab, "en")
        load = functools.partial(WordVocabulary.load, settings=self.data.vocab, language="en")
        yield "words", self.choose_vocabulary("words", learn, load)

    def vocabulary_settings(self) -> dict[str, dict[str, Any]]:
        return {"words": shared_settings(self.data.vocab)}

    def load_vocabularies(self, folder: Path) -> dict[str, WordVocabulary]:
        return {"words": WordVocabulary.load(folder / "words.vocab", self.data.vocab, "en")}

    def encode(
        self, example: Question, split: str, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded:
        numbers = {word: i for i, word in enumerate(example.candidates, 1)}
        fields = {
            **self._ids(example, vocabularies["words"]),
            "candidate": [numbers.get(word, 0) for word in example.passage],
            "answer": numbers[example.answer],
        }
        return fields, example._asdict()

    def _ids(self, question: Question, vocabulary: WordVocabulary) -> dict[str, list[int]]:
        """Return the token ids of the passage and the query.

        Anonymous words get random ids, which are larger than all ids of the vocabulary and are
        drawn anew for each question. A model can therefore not memorize such a word and can only
        use its positions, as with the anonymized entities of Hermann 2015. If `data.anonymous` is
        "unknown", words outside the vocabulary are anonymous; if it is "candidates", all candidates
        are anonymous, too.
        """
        data = self.data
        texts = {"passage": question.passage, "query": question.query}
        ids = {name: vocabulary.encode(" ".join(words)) for name, words in texts.items()}
        if data.anonymous == "none":
            return ids
        hidden = set(question.candidates) if data.anonymous == "candidates" else set()
        pairs = [pair for name in texts for pair in zip(texts[name], ids[name], strict=True)]
        anonymous = list(dict.fromkeys(word for word, i in pairs if i == UNK or word in hidden))
        rng = np.random.default_rng(zlib.crc32(" ".join(question.passage).encode()))
        drawn = len(vocabulary) + rng.permutation(data.anonymous_ids)
        # The modulo lets words share ids if there are more anonymous words than ids.
        id_of = {word: int(drawn[i % len(drawn)]) for i, word in enumerate(anonymous)}
        return {
            name: [id_of.get(word, i) for word, i in zip(words, ids[name], strict=True)]
            for name, words in texts.items()
        }
