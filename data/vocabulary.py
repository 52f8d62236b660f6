"""Vocabularies of words or of SentencePiece subwords, which convert text to token ids and back.

The special tokens have the same ids in every vocabulary, so models and decoding use constants
such as UNK for them.
"""

import collections
import io
import itertools
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from configs.base import Config
from data.tokenizers import Tokenizer, make_tokenizer, normalized
from errors import UserError, first_line
from reading import read_bytes, read_lines, reading
from writing import write_bytes, write_text

logger = logging.getLogger("alignax")
PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
# This character replaces <unk> in readable text, as in SentencePiece. Metrics tokenize readable
# text again and would split "<unk>" into three tokens.
UNKNOWN = "⁇"
# Maximum number of sentences that a SentencePiece model is trained on, to limit memory use.
SENTENCEPIECE_SAMPLE = 1_000_000


@runtime_checkable
class Vocabulary(Protocol):
    """The interface of all vocabularies."""

    def __len__(self) -> int: ...
    def tokens(self, text: str) -> list[str]:
        """Split a text into tokens, including tokens that are not in the vocabulary."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without <s> and </s>."""
        ...

    def ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens; an unknown token gets the id UNK."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids before the first </s>, ignoring <pad> and <s>."""
        ...

    def detokenize(self, tokens: list[str]) -> str:
        """Join tokens to text; the tokens must not include <s> and </s>."""
        ...

    def surface(self, text: str) -> str:
        """Convert a line of the corpus to readable text: normalize it and join subwords."""
        ...

    def words(self, text: str) -> list[str]:
        """Split readable text into words, for BLEU on tokenized text as the papers report it."""
        ...

    def token(self, index: int) -> str:
        """Return the token whose id is `index`."""
        ...

    def save(self, path: Path) -> None:
        """Write the vocabulary to a file."""
        ...


def all_tokens(vocabulary: Vocabulary) -> list[str]:
    """Return the tokens of a vocabulary in the order of their ids."""
    return [vocabulary.token(i) for i in range(len(vocabulary))]


def content(ids: Iterable[int]) -> list[int]:
    """Return the ids before the first </s>, without <pad> and <s>."""
    before_end = itertools.takewhile(lambda i: i != EOS, map(int, ids))
    return [i for i in before_end if i not in (PAD, BOS)]


def unknown_tokens(vocabulary: Vocabulary, tokens: list[str]) -> list[str]:
    """Return those tokens that are not in the vocabulary."""
    ids = vocabulary.ids(tokens)
    return [token for token, i in zip(tokens, ids, strict=True) if i == UNK]


class WordVocabulary:
    """The most frequent words of a corpus, saved as one word per line; other words are <unk>."""

    def __init__(self, words: list[str], tokenizer: Tokenizer, lowercase: bool):
        self._words = [*SPECIALS, *words]
        # Special tokens have no entry here, so that a literal "</s>" in a text is encoded as <unk>.
        self._ids = {word: i for i, word in enumerate(words, len(SPECIALS))}
        self._tokenizer, self._lowercase = tokenizer, lowercase

    @classmethod
    def learn(cls, texts: Iterable[str], settings: Config, language: str) -> Self:
        """Collect the most frequent words; `settings` are the fields of the vocabulary."""
        vocabulary = cls([], make_tokenizer(settings.tokenizer, language), settings.lowercase)
        counts = collections.Counter[str]()
        for text in texts:
            counts.update(vocabulary.tokens(text))
        for special in SPECIALS:  # a literal "<unk>" in a corpus must not become a word
            counts.pop(special, None)
        # Sorting words of equal frequency makes the vocabulary independent of the text order.
        frequent = sorted((-n, word) for word, n in counts.items() if n >= settings.min_count)
        if counts and not frequent:
            logger.warning(
                "vocabulary (%s): no word occurs at least vocab.min_count=%d times, so all %d "
                "words of the corpus become <unk>; set vocab.min_count to a smaller number",
                language, settings.min_count, len(counts),
            )  # fmt: skip
        elif len(frequent) < min(len(counts), settings.size):
            logger.info(
                f"vocabulary ({language}): {len(frequent):,} of the {len(counts):,} words of the "
                f"corpus occur at least vocab.min_count={settings.min_count} times and are kept; "
                f"vocab.size={settings.size:,} is not reached"
            )  # fmt: skip
        elif counts and len(frequent) < settings.size:
            logger.info(
                f"vocabulary ({language}): all {len(frequent):,} words of the corpus are kept; "
                f"vocab.size={settings.size:,} is not reached"
            )  # fmt: skip
        words = [word for _, word in frequent[: settings.size]]
        return cls(words, vocabulary._tokenizer, vocabulary._lowercase)

    @classmethod
    def load(cls, path: Path, settings: Config, language: str) -> Self:
        """Load a vocabulary that `save` wrote."""
        words = read_lines(path)
        with reading(path):
            if words[: len(SPECIALS)] != [*SPECIALS]:
                raise ValueError(f"its first lines are not {' '.join(SPECIALS)}")
        tokenizer = make_tokenizer(settings.tokenizer, language)
        return cls(words[len(SPECIALS) :], tokenizer, settings.lowercase)

    def extended(self, other: "WordVocabulary") -> Self:
        """Return this vocabulary, followed by the words of `other` that it does not contain."""
        words = [word for word in other._ids if word not in self._ids]
        return type(self)([*self._ids, *words], self._tokenizer, self._lowercase)

    def save(self, path: Path) -> None:
        write_text(path, "".join(f"{word}\n" for word in self._words))

    def __len__(self) -> int:
        return len(self._words)

    def tokens(self, text: str) -> list[str]:
        return self._tokenizer.tokenize(normalized(text, self._lowercase))

    def encode(self, text: str) -> list[int]:
        return self.ids(self.tokens(text))

    def ids(self, tokens: list[str]) -> list[int]:
        return [self._ids.get(token, UNK) for token in tokens]

    def decode(self, ids: Iterable[int]) -> str:
        return self.detokenize([self._words[i] for i in content(ids)])

    def detokenize(self, tokens: list[str]) -> str:
        written = [UNKNOWN if token == SPECIALS[UNK] else token for token in tokens]
        return self._tokenizer.detokenize(written)

    def surface(self, text: str) -> str:
        return self._tokenizer.surface(normalized(text))

    def words(self, text: str) -> list[str]:
        return self._tokenizer.words(text)

    def token(self, index: int) -> str:
        return self._words[index]


class SentencePieceVocabulary:
    """A SentencePiece model, unigram or bpe, of exactly the configured size."""

    def __init__(self, model: bytes, lowercase: bool, language: str):
        import sentencepiece

        self._model, self._lowercase, self._language = model, lowercase, language
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def learn(cls, texts: Iterable[str], settings: Config, language: str) -> Self:
        """Train a SentencePiece model; `settings` are the fields of the vocabulary."""
        import sentencepiece

        model, failures = io.BytesIO(), []

        def lines() -> Iterator[str]:
            try:
                for text in texts:
                    yield normalized(text, settings.lowercase)
            except (Exception, KeyboardInterrupt) as error:
                failures.append(error)
                raise

        sentencepiece.set_random_generator_seed(0)  # a fixed seed always draws the same sentences
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=lines(),
                model_writer=model,
                model_type=settings.kind,
                vocab_size=settings.size,
                input_sentence_size=SENTENCEPIECE_SAMPLE,
                character_coverage=1.0,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                pad_piece=SPECIALS[PAD],
                minloglevel=2,
            )
        except RuntimeError as error:
            if failures:  # reading the corpus failed, and SentencePiece wrapped the exception
                raise failures[0] from None
            # Remove the "[C++ source]" with which SentencePiece's message begins.
            reason = str(error).split("] ")[-1].strip() or "the corpus is empty"
            limit = re.search(r"value <= (\d+)", reason)
            if limit:
                reason = (
                    "set the size of this vocabulary, such as --config.data.source_vocab.size, to "
                    f"at most {limit[1]}"
                )
            raise UserError(
                f"SentencePiece cannot learn vocab.size={settings.size} tokens from this corpus "
                f"({language}): {reason}"
            ) from None
        return cls(model.getvalue(), settings.lowercase, language)

    @classmethod
    def load(cls, path: Path, settings: Config, language: str) -> Self:
        """Load a vocabulary that `save` wrote."""
        model = read_bytes(path)
        with reading(path):
            if not model:
                raise ValueError("it is empty")
            try:
                return cls(model, settings.lowercase, language)
            except RuntimeError as error:
                raise ValueError(f"SentencePiece cannot read it: {first_line(error)}") from error

    def save(self, path: Path) -> None:
        write_bytes(path, self._model)

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def tokens(self, text: str) -> list[str]:
        return self._processor.encode(normalized(text, self._lowercase), out_type=str)

    def encode(self, text: str) -> list[int]:
        return self._processor.encode(normalized(text, self._lowercase))

    def ids(self, tokens: list[str]) -> list[int]:
        return self._processor.piece_to_id(tokens)

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode(content(ids))

    def detokenize(self, tokens: list[str]) -> str:
        return self._processor.decode_pieces(tokens)

    def surface(self, text: str) -> str:
        return normalized(text)

    def words(self, text: str) -> list[str]:
        return make_tokenizer("moses", self._language).words(text)

    def token(self, index: int) -> str:
        return self._processor.id_to_piece(int(index))

    def score(self, index: int) -> float:
        """Return the log-probability of a token (unigram) or the negative rank of a merge (bpe)."""
        return self._processor.get_score(int(index))


VOCABULARIES: dict[str, type[WordVocabulary] | type[SentencePieceVocabulary]] = {
    "words": WordVocabulary,
    "unigram": SentencePieceVocabulary,
    "bpe": SentencePieceVocabulary,
}


def shared_settings(settings: Config, languages: Iterable[str] = ()) -> dict[str, Any]:
    """Return the settings with which a vocabulary of another run can be kept or extended."""
    shared = {name: settings[name] for name in ("kind", "tokenizer", "lowercase")}
    if settings.kind != "words":
        del shared["tokenizer"]
    return shared | {"languages": sorted(languages)}
