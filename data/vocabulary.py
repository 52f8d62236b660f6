"""Text to token ids and back: words as in the papers, or SentencePiece.

Every vocabulary starts with the same four ids, so that models and decoding need not ask.
"""

import collections
import io
import itertools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, Self

from configs.base import Config
from data.tokenizers import Tokenizer, make_tokenizer
from errors import UserError

logger = logging.getLogger("alignax")
PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
# An unknown word in a text, as SentencePiece writes it: tokenizers would make three words of <unk>,
# all of them wrong (3.6 points of BLEU on Multi30k, of whose test words 4 % are unknown).
UNKNOWN = "⁇"
SENTENCEPIECE_SAMPLE = 1_000_000  # sentences SentencePiece learns from; bounds its memory


class Vocabulary(Protocol):
    def __len__(self) -> int: ...
    def tokens(self, text: str) -> list[str]:
        """The surface tokens of a text, also those the vocabulary does not hold."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end."""
        ...

    def ids(self, tokens: list[str]) -> list[int]:
        """The ids of surface tokens."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; stops at the first end, leaves out padding and begin."""
        ...

    def detokenize(self, tokens: list[str]) -> str:
        """The text of surface tokens, without begin and end."""
        ...

    def surface(self, text: str) -> str:
        """A line of the corpus as one should read it: pieces joined, where it came in pieces."""
        ...

    def words(self, text: str) -> list[str]:
        """The words of a readable line, as the papers' BLEU counts them."""
        ...

    def token(self, index: int) -> str: ...
    def save(self, path: Path) -> None: ...


def content(ids: Iterable[int]) -> list[int]:
    """The ids before the first end, without padding and begin."""
    before_end = itertools.takewhile(lambda i: i != EOS, map(int, ids))
    return [i for i in before_end if i not in (PAD, BOS)]


class WordVocabulary:
    """The most frequent words of a corpus; the rest is <unk>. Saved as one word a line."""

    def __init__(self, words: list[str], tokenizer: Tokenizer, lowercase: bool):
        self._words = [*SPECIALS, *words]
        # A literal "</s>" in a text is no end, so the specials cannot be encoded.
        self._ids = {word: i for i, word in enumerate(words, len(SPECIALS))}
        self._tokenizer, self._lowercase = tokenizer, lowercase

    @classmethod
    def learn(cls, texts: Iterable[str], settings: Config, language: str) -> Self:
        vocabulary = cls([], make_tokenizer(settings.tokenizer, language), settings.lowercase)
        counts = collections.Counter[str]()
        for text in texts:
            counts.update(vocabulary.tokens(text))
        for special in SPECIALS:  # a corpus may hold a literal "<unk>"
            counts.pop(special, None)
        # Ties are broken by the word itself: the vocabulary is a function of the text alone.
        frequent = sorted((-n, word) for word, n in counts.items() if n >= settings.min_count)
        if len(frequent) < settings.size:
            logger.info(
                "vocabulary (%s): %d words asked for, the corpus has %d: all of them are kept",
                language, settings.size, len(frequent),
            )  # fmt: skip
        return cls([w for _, w in frequent[: settings.size]], *vocabulary._manner)

    @property
    def _manner(self) -> tuple[Tokenizer, bool]:
        return self._tokenizer, self._lowercase

    @classmethod
    def load(cls, path: Path, settings: Config, language: str) -> Self:
        words = path.read_bytes().decode().split("\n")[:-1]  # U+2028 or a \r may be a word
        tokenizer = make_tokenizer(settings.tokenizer, language)
        return cls(words[len(SPECIALS) :], tokenizer, settings.lowercase)

    def save(self, path: Path) -> None:
        path.write_text("".join(f"{word}\n" for word in self._words), "utf-8")

    def __len__(self) -> int:
        return len(self._words)

    def tokens(self, text: str) -> list[str]:
        return self._tokenizer.tokenize(text.lower() if self._lowercase else text)

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
        return self._tokenizer.surface(text)

    def words(self, text: str) -> list[str]:
        return self._tokenizer.words(text)

    def token(self, index: int) -> str:
        return self._words[index]


class SentencePieceVocabulary:
    """A SentencePiece model (unigram or bpe) of exactly the size asked for."""

    def __init__(self, model: bytes, lowercase: bool, language: str):
        import sentencepiece

        self._model, self._lowercase, self._language = model, lowercase, language
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def learn(cls, texts: Iterable[str], settings: Config, language: str) -> Self:
        import sentencepiece

        model, failures = io.BytesIO(), []

        def lines() -> Iterator[str]:
            try:
                for text in texts:
                    yield text.lower() if settings.lowercase else text
            except (Exception, KeyboardInterrupt) as error:
                failures.append(error)
                raise

        sentencepiece.set_random_generator_seed(0)  # its sample of a large corpus
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
            if failures:  # of the corpus, in SentencePiece's wrapping
                raise failures[0] from None
            # its text ends in what to do: "[some C++] ... set it to a value <= 57."
            raise UserError(
                f"SentencePiece cannot learn a vocabulary of {settings.size} (vocab.size) from "
                f"this corpus ({language}): {str(error).split('] ')[-1].strip() or 'it is empty'}"
            ) from None
        return cls(model.getvalue(), settings.lowercase, language)

    @classmethod
    def load(cls, path: Path, settings: Config, language: str) -> Self:
        return cls(path.read_bytes(), settings.lowercase, language)

    def save(self, path: Path) -> None:
        path.write_bytes(self._model)

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def tokens(self, text: str) -> list[str]:
        return self._processor.encode(text.lower() if self._lowercase else text, out_type=str)

    def encode(self, text: str) -> list[int]:
        return self._processor.encode(text.lower() if self._lowercase else text)

    def ids(self, tokens: list[str]) -> list[int]:
        return self._processor.piece_to_id(tokens)

    def decode(self, ids: Iterable[int]) -> str:
        return self._processor.decode(content(ids))

    def detokenize(self, tokens: list[str]) -> str:
        return self._processor.decode_pieces(tokens)

    def surface(self, text: str) -> str:
        return text

    def words(self, text: str) -> list[str]:
        return make_tokenizer("moses", self._language).words(text)

    def token(self, index: int) -> str:
        return self._processor.id_to_piece(int(index))


VOCABULARIES: dict[str, type[WordVocabulary] | type[SentencePieceVocabulary]] = {
    "words": WordVocabulary,
    "unigram": SentencePieceVocabulary,
    "bpe": SentencePieceVocabulary,
}
