"""Word and SentencePiece vocabularies: learning, encoding, decoding and saving."""

import itertools
import logging
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.base import Config, base_config
from data import dates
from data.tokenizers import TOKENIZERS
from data.vocabulary import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    VOCABULARIES,
    SentencePieceVocabulary,
    Vocabulary,
    WordVocabulary,
    content,
)
from errors import UserError


def options(**changes: str | int | bool) -> Config:
    settings: Config = base_config().data.source_vocab
    settings.update({"tokenizer": "split", "size": 100, **changes})
    return settings


def learn(*texts: str, **changes: str | int | bool) -> WordVocabulary:
    return WordVocabulary.learn(texts, options(**changes), "en")


def words(vocabulary: Vocabulary) -> list[str]:
    return [vocabulary.token(i) for i in range(len(SPECIALS), len(vocabulary))]


def test_special_tokens_come_first() -> None:
    vocabulary = learn("a b")
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert [vocabulary.token(i) for i in range(4)] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert len(vocabulary) == 6


def test_the_most_frequent_words_are_kept_and_ties_are_sorted() -> None:
    texts = ["d d d z z", "c a b z", "b c e"]
    assert words(learn(*texts, size=2)) == ["d", "z"]
    assert words(learn(*texts, size=4)) == ["d", "z", "b", "c"]
    assert words(learn(*reversed(texts), size=4)) == ["d", "z", "b", "c"]
    assert words(learn(*texts)) == ["d", "z", "b", "c", "a", "e"]


def test_rare_words_are_dropped() -> None:
    assert words(learn("a b a c c c b d", min_count=2)) == ["c", "a", "b"]


def test_lowercase_applies_to_learning_and_encoding() -> None:
    vocabulary = learn("Der der DER Hund", lowercase=True)
    assert words(vocabulary) == ["der", "hund"]
    assert vocabulary.tokens("DER Hund") == ["der", "hund"]
    assert vocabulary.encode("DER Hund") == [4, 5]
    assert learn("Der der der").encode("Der der DER") == [5, 4, UNK]


def test_equal_text_in_another_unicode_form_has_equal_tokens() -> None:
    vocabulary = learn("le système", tokenizer="moses")
    composed, decomposed = (unicodedata.normalize(form, "le système") for form in ("NFC", "NFD"))
    assert composed != decomposed
    assert vocabulary.encode(decomposed) == vocabulary.encode(composed)
    assert (
        vocabulary.surface(decomposed) == composed == vocabulary.decode(vocabulary.encode(composed))
    )


def test_lowercase_text_is_normalized() -> None:
    """The lower case of some letters with a mark has one character, but they have two."""
    vocabulary = learn("x", lowercase=True)
    assert vocabulary.tokens("J\u030cemal") == vocabulary.tokens("\u01f0emal") == ["\u01f0emal"]


def test_a_word_outside_the_vocabulary_is_unk() -> None:
    vocabulary = learn("the cat")
    ids = vocabulary.encode("the dog")
    assert ids == [5, UNK]
    assert vocabulary.decode(ids) == "the ⁇"
    assert vocabulary.tokens("the dog") == ["the", "dog"]


def test_literal_special_tokens_in_a_text_are_unk() -> None:
    vocabulary = learn("a <unk> <s> </s> <pad> <unk>")
    assert words(vocabulary) == ["a"]
    assert vocabulary.encode("<pad> a </s> a <s> <unk>") == [UNK, 4, UNK, 4, UNK, UNK]


def test_decoding_stops_at_the_first_eos() -> None:
    vocabulary = learn("a b c")
    assert content([BOS, 4, PAD, UNK, EOS, 5, EOS]) == [4, UNK]
    assert vocabulary.decode([BOS, 4, 5, EOS, 6, PAD]) == "a b"
    assert vocabulary.decode([4, 5]) == "a b"
    assert vocabulary.decode([EOS, 4]) == ""


def test_a_corpus_with_fewer_words_than_the_size_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "alignax"):
        assert len(learn("a b c c", size=3)) == 7
        assert not caplog.messages
        assert len(learn("a b c c", size=5)) == 7
    (message,) = caplog.messages
    assert all(fact in message for fact in ("(en)", "3 words", "vocab.size=5"))


def test_words_dropped_by_min_count_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "alignax"):
        assert len(learn("a b c c", size=5, min_count=2)) == 5
        assert len(learn("a b c c", size=5, min_count=3)) == 4
        assert len(learn("a b b c c", size=1, min_count=2)) == 5
    some, none = caplog.records
    assert "1 of the 3 words" in some.message and "vocab.min_count=2" in some.message
    assert none.levelname == "WARNING"
    assert "all 3 words" in none.message and "vocab.min_count=3" in none.message


ODD = "a\u2028b\xa0c\x85d\re\x0bf\x1cg \u200b<unk>日😀"


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(list(TOKENIZERS)), st.text(st.sampled_from(ODD) | st.characters()))
def test_a_loaded_word_vocabulary_equals_the_saved_one(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: str, text: str
) -> None:
    # A corpus line has no newline and is valid UTF-8, so remove newlines and lone surrogates.
    text = text.replace("\n", " ").encode("utf-8", "ignore").decode()
    path = tmp_path_factory.mktemp("vocabulary") / "source.vocab"
    vocabulary = learn(ODD, text, tokenizer=tokenizer)
    vocabulary.save(path)
    loaded = WordVocabulary.load(path, options(tokenizer=tokenizer), "en")
    assert words(loaded) == words(vocabulary)
    assert loaded.encode(ODD + text) == vocabulary.encode(ODD + text)


def test_line_separators_are_saved_as_words(tmp_path: Path) -> None:
    vocabulary = learn(ODD, tokenizer="characters")
    vocabulary.save(tmp_path / "vocab")
    loaded = WordVocabulary.load(tmp_path / "vocab", options(tokenizer="characters"), "en")
    assert len(loaded) == 4 + len(set(ODD))
    assert UNK not in loaded.encode(ODD)
    assert loaded.decode(loaded.encode(ODD)) == ODD


def test_a_loaded_vocabulary_uses_its_settings(tmp_path: Path) -> None:
    vocab_settings = options(tokenizer="unicode", lowercase=True)
    WordVocabulary.learn(["Am 3. März"], vocab_settings, "de").save(tmp_path / "vocab")
    loaded = WordVocabulary.load(tmp_path / "vocab", vocab_settings, "de")
    assert loaded.decode(loaded.encode("AM 3. MÄRZ")) == "am 3. märz"


SENTENCES = [pair.source for pair in itertools.islice(dates.examples("train"), 300)]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sentencepiece_encodes_decodes_and_saves(kind: str, tmp_path: Path) -> None:
    vocab_settings = options(kind=kind, size=120, lowercase=True)
    vocabulary = SentencePieceVocabulary.learn(iter(SENTENCES), vocab_settings, "en")
    assert len(vocabulary) == 120
    assert tuple(vocabulary.token(i) for i in range(4)) == SPECIALS

    vocabulary.save(tmp_path / "vocab")
    loaded = VOCABULARIES[kind].load(tmp_path / "vocab", vocab_settings, "en")
    assert words(loaded) == words(vocabulary)
    for sentence in SENTENCES:
        ids = loaded.encode(sentence)
        assert ids == vocabulary.encode(sentence)
        assert [loaded.token(i) for i in ids] == loaded.tokens(sentence)
        assert loaded.decode([BOS, *ids, EOS, 7, PAD]) == sentence.lower()
        assert not {PAD, BOS, EOS, UNK} & set(ids)
    assert sum(len(loaded.encode(s)) for s in SENTENCES) < 0.6 * sum(map(len, SENTENCES))
    assert UNK in loaded.encode("日") and EOS not in loaded.encode("march </s> 3")


def test_unigram_and_bpe_differ() -> None:
    unigram, bpe = (
        SentencePieceVocabulary.learn(SENTENCES, options(kind=kind, size=120), "en")
        for kind in ("unigram", "bpe")
    )
    assert set(words(unigram)) != set(words(bpe))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_error_for_a_sentencepiece_size_that_does_not_fit_the_corpus(kind: str) -> None:
    def learn(size: int) -> Vocabulary:
        return SentencePieceVocabulary.learn(SENTENCES, options(kind=kind, size=size), "en")

    with pytest.raises(UserError) as caught:
        learn(9999)
    head, most = str(caught.value).split(" to at most ")
    assert "vocab.size=9999" in head and "(en)" in head
    assert len(learn(int(most))) == int(most)

    with pytest.raises(UserError, match=r"vocab\.size=9 .*smaller than required_chars"):
        learn(9)


def test_error_for_sentencepiece_on_an_empty_corpus() -> None:
    with pytest.raises(UserError, match=r"\(en\): the corpus is empty$"):
        SentencePieceVocabulary.learn([], options(kind="bpe"), "en")


@pytest.mark.parametrize("error", [UserError("line 2 is bad"), KeyboardInterrupt()])
def test_errors_of_the_corpus_are_not_wrapped_by_sentencepiece(error: BaseException) -> None:
    def texts():
        yield from SENTENCES
        raise error

    with pytest.raises(type(error)) as caught:
        SentencePieceVocabulary.learn(texts(), options(kind="bpe"), "en")
    assert caught.value is error
