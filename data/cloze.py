"""Corpora of cloze questions in the format of the Children's Book Test (Hill 2016).

A question is a block of numbered lines that ends at a blank line. All lines but the last are the
sentences of the passage. The last line has four columns separated by tabs: the query with XXXXX in
place of the missing word, the answer, an empty column, and the candidates separated by |.
"""

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configs.base import Config
from data.corpus import Encoded
from data.files import blocks, find, lines, only_file
from data.inputs import STREAM, Input, LabelledCorpus, decoded_lines, is_words
from data.store import ArrayField, ArrayFields
from data.vocabulary import UNK, WordVocabulary, shared_settings
from errors import UserError
from reading import check_characters

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
    for first, block in blocks(lines(path)):
        question = _parse(block, str(path), first)
        passage, _, answer, candidates, _ = question
        problems = {
            f"the answer {answer!r} is not in the passage": answer not in passage,
            f"the answer {answer!r} is not one of the candidates": answer not in candidates,
        }
        yield _checked(question, max_candidates, problems)


def _parse(block: list[str], name: str, first: int) -> Question:
    """Parse the lines of a question, which starts at line `first` of the file `name`."""
    for number, line in enumerate(block, first):
        if not line.split(" ", 1)[0].isdecimal():
            raise UserError(
                f"{name}, line {number}: every line of a question must begin with a number, but "
                f"this line begins with {line[:20]!r}: correct the line"
            )
    sentences = [line.partition(" ")[2] for line in block]
    place = f"{name}, line {first + len(block) - 1}"
    columns = sentences.pop().split("\t")
    if len(columns) < 4:
        raise UserError(
            f"{place}: the last line of a question must have four columns separated by tabs "
            f"(query, answer, an empty column, candidates), but this line has {len(columns)}: "
            "correct the line"
        )
    candidates = [candidate.strip() for candidate in columns[3].split("|")]
    passage = " ".join(sentences).split()
    return Question(passage, columns[0].split(), columns[1].strip(), candidates, place)


def _checked(question: Question, most: int, problems: dict[str, bool]) -> Question:
    """Return the question, or raise UserError if it has a common problem or one of `problems`."""
    count = len(question.candidates)
    common = {
        f"the query has no {BLANK} in place of the missing word": BLANK not in question.query,
        **problems,
        f"there are {count} candidates, more than data.max_candidates={most}": count > most,
    }
    for problem, found in common.items():
        if found:
            raise UserError(f"{question.place}: {problem}: correct or remove the question")
    return question


CORPORA: dict[str, Callable[[Config, str], Iterator[Question]]] = {"cbt": _cbt}


def _numbers(question: Question) -> dict[str, int]:
    """Return the number of each candidate, from 1."""
    return {word: i for i, word in enumerate(question.candidates, 1)}


def _words(text: Any) -> Any:
    return text.split() if isinstance(text, str) else text


def _are_strings(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


class ClozeCorpus(LabelledCorpus[Question]):
    """A corpus of cloze questions."""

    readers = CORPORA
    unit = "questions"
    typed = "a question as in the corpus"
    ends_at_blank_line = True

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
        fields, text = self.encode_input(example, vocabularies, counts)
        return {**fields, "answer": _numbers(example)[example.answer]}, text

    def read_inputs(self, lines: Iterable[bytes]) -> Iterator[Input]:
        """Read questions in the format of the corpus; the column of the answer is ignored."""
        for first, block in blocks(decoded_lines(lines)):
            question = _parse(block, STREAM, first)
            yield question._asdict(), question.place

    def make_input(self, value: Any, place: str) -> Question:
        """Return a question, given a dictionary with passage, query and candidates.

        Passage and query are texts or lists of words.
        """
        entries: dict[str, Any] = value if isinstance(value, dict) else {}
        passage, query = (_words(entries.get(name)) for name in ("passage", "query"))
        candidates: Any = entries.get("candidates")
        if not is_words(passage) or not is_words(query) or not _are_strings(candidates):
            raise UserError(
                f"{place}: a question must be a dictionary with the entries passage and query "
                "(texts or lists of words) and candidates (a list of words): correct the question"
            )
        check_characters(" ".join([*passage, *query, *candidates]), place)
        question = Question(list(passage), list(query), "", list(candidates), place)
        absent = not {*question.candidates} & {*question.passage}
        problems = {"none of the candidates is in the passage": absent}
        return _checked(question, self.data.max_candidates, problems)

    def encode_input(
        self, example: Question, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded:
        numbers = _numbers(example)
        fields = {
            **self._ids(example, vocabularies["words"]),
            "candidate": [numbers.get(word, 0) for word in example.passage],
            "answer": 0,
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
