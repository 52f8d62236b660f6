"""Corpora of sentence pairs: the generated corpus of dates, parallel text, TSV files and TFDS.

A prepared pair consists of two sequences of token ids, each ending in </s>. With data.links, a
training pair also has the links between its tokens (`data.links.token_links`).
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from configs.base import Config
from configs.schema.translation import FILE_CORPORA
from data.catalog import read_catalog
from data.corpus import Corpus, Encoded
from data.files import find, lines
from data.links import Surfaces, add_gold, add_links, token_links, words_of_tokens
from data.pair import Pair
from data.sampling import SubwordSampler
from data.store import ArrayField, ArrayFields
from data.tokenizers import make_tokenizer, normalized
from data.vocabulary import EOS, VOCABULARIES, Vocabulary, shared_settings
from errors import UserError

FIELDS = {"source": ArrayField(("source",)), "target": ArrayField(("target",))}
LINKS = {"links": ArrayField(("links", 2), is_token=False)}
PairReader = Callable[[Config, str], Iterator[Pair]]


def _dates(data: Config, split: str) -> Iterator[Pair]:
    from data import dates  # imported here: dates needs Babel, which no other corpus needs

    try:
        endless = dates.examples(split, source=data.source, target=data.target, seed=data.seed)
        # The splits train_short and train_long have as many examples as train.
        yield from itertools.islice(endless, data.examples[split.partition("_")[0]])
    except ValueError as error:
        raise UserError(str(error)) from None


def _with_links(reader: PairReader) -> PairReader:
    """Add the word links of data.alignment (test split) and data.links (training split)."""

    @functools.wraps(reader)
    def read(data: Config, split: str) -> Iterator[Pair]:
        pairs = reader(data, split)
        if data.alignment and split == data.splits.test:
            path, base = _gold_file(data), data.alignment_base
            pairs = add_gold(pairs, path, base, data.alignment_order, _surfaces(data))
        if split == data.splits.train:
            for path in _links_files(data):
                pairs = add_links(pairs, path, _surfaces(data))
        return pairs

    return read


def _gold_file(data: Config) -> Path:
    return find(data, data.splits.test, pattern=data.alignment, field="data.alignment")


def _links_files(data: Config) -> list[Path]:
    split, field = data.splits.train, "data.links"
    return [find(data, split, pattern=pattern, field=field) for pattern in data.links.split()]


def _surfaces(data: Config) -> Surfaces:
    """Return the functions that join the subwords of a source line and of a target line."""

    def surface(side: str) -> Callable[[str], str]:
        settings = data.source_vocab if data.shared_vocab else data[f"{side}_vocab"]
        if settings.kind != "words":
            return str
        return make_tokenizer(settings.tokenizer, data[side]).surface

    return surface("source"), surface("target")


@_with_links
def _text(data: Config, split: str) -> Iterator[Pair]:
    """Read two files, one per language, with one sentence per line."""
    languages = (data.source, data.target)
    for source, target in _parallel_lines([find(data, split, language) for language in languages]):
        yield Pair(source, target)


def _parallel_lines(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Yield line n of all files, for every n."""
    sides = [lines(path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*sides)):
        if None in row:
            rest = [sum(1 for _ in side) for side in sides]
            counts = [number + (text is not None) + n for text, n in zip(row, rest, strict=True)]
            first, *others = (f"{path} has {n:,}" for path, n in zip(paths, counts, strict=True))
            raise UserError(
                f"{', '.join([f'{first} lines', *others[:-1]])} and {others[-1]}: line n of one "
                "file must translate line n of the other, so find the missing or extra line"
            )
        yield [text.strip() for text in row]


@_with_links
def _tsv(data: Config, split: str) -> Iterator[Pair]:
    """Read one file with the source and the target in the first two columns."""
    return _tsv_pairs(find(data, split), "correct or remove the line")


def _tsv_pairs(path: Path, remedy: str) -> Iterator[Pair]:
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            yield Pair("", "")
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(
                f"{path}, line {number}: expected two columns separated by a tab, found one: "
                f"{remedy}"
            )
        yield Pair(columns[0].strip(), columns[1].strip())


def _tfds(data: Config, split: str) -> Iterator[Pair]:
    for example in read_catalog(data, split, {"source": data.source, "target": data.target}):
        texts = (example[language].decode() for language in (data.source, data.target))
        yield Pair(*(text.replace("\n", " ").strip() for text in texts))


CORPORA: dict[str, PairReader] = {
    "dates": _dates,
    "text": _text,
    "tsv": _tsv,
    "tfds": _tfds,
}


class TranslationCorpus(Corpus[Pair]):
    """A corpus of sentence pairs."""

    readers = CORPORA
    without_files = ("dates",)
    unit = "pairs"
    count_messages = {
        "empty": "dropped because a side is empty",
        "long": "dropped because a side is longer than data.max_length",
    }

    @property
    def label(self) -> str:
        return f"{self.data.corpus}-{self.data.source}-{self.data.target}"

    @property
    def fields(self) -> ArrayFields:
        return {**FIELDS, **LINKS} if self.data.links else FIELDS

    @property
    def languages(self) -> Sequence[str]:
        return (self.data.source, self.data.target) if self.data.corpus == "text" else ("",)

    def local_files(self) -> list[Path]:
        data, files = self.data, super().local_files()
        if data.corpus not in FILE_CORPORA:
            return files
        if data.alignment and data.splits.test:
            files.append(_gold_file(data))
        return files + _links_files(data)

    def read_files(self, paths: Sequence[Path]) -> Iterator[Pair]:
        """Yield the pairs of one TSV file, or of a source file and its reference files.

        With several reference files, every line yields one pair per reference.
        """
        if len(paths) == 1:
            remedy = "correct the line, or add the reference file: --test=NAME=SOURCE,REFERENCE"
            yield from _tsv_pairs(paths[0], remedy)
            return
        for number, (source, *targets) in enumerate(_parallel_lines(paths), 1):
            for target in targets:
                yield Pair(source, target, line=number if len(targets) > 1 else 0)

    def holdout_key(self, example: Pair) -> str:
        return normalized(example.source)

    def learn_vocabularies(self) -> Iterator[tuple[str, Vocabulary]]:
        data = self.data
        for name, sides in self._sides().items():
            settings, language = data[f"{name}_vocab"], data[name]
            texts = self._train_texts(sides, f"vocabulary ({language})")
            kind = VOCABULARIES[settings.kind]
            learn = functools.partial(kind.learn, texts, settings, language)
            load = functools.partial(kind.load, settings=settings, language=language)
            yield name, self.choose_vocabulary(name, learn, load)

    def vocabulary_settings(self) -> dict[str, dict[str, Any]]:
        return {
            name: shared_settings(self.data[f"{name}_vocab"], [self.data[side] for side in sides])
            for name, sides in self._sides().items()
        }

    def _sides(self) -> dict[str, tuple[str, ...]]:
        """Return the sides of the corpus that each vocabulary covers."""
        if self.data.shared_vocab:
            return {"source": ("source", "target")}
        return {"source": ("source",), "target": ("target",)}

    def _train_texts(self, sides: tuple[str, ...], purpose: str) -> Iterator[str]:
        for pair in self.read_train(purpose):
            for side in sides:
                yield getattr(pair, side)

    def load_vocabularies(self, folder: Path) -> dict[str, Vocabulary]:
        """Load the vocabularies of both sides.

        Even a shared vocabulary is loaded twice, because the tokenizer depends on the language.
        """
        data, vocabularies = self.data, {}
        for side in ("source", "target"):
            name = "source" if data.shared_vocab else side
            settings = data[f"{name}_vocab"]
            load = VOCABULARIES[settings.kind].load
            vocabularies[side] = load(folder / f"{name}.vocab", settings, data[side])
        return vocabularies

    def samplers(self, vocabularies: dict[str, Any]) -> dict[str, SubwordSampler]:
        data, found = self.data, {}
        for side in ("source", "target"):
            kind = data["source_vocab" if data.shared_vocab else f"{side}_vocab"].kind
            strength = data[f"{side}_vocab"].sampling
            if strength:
                most = data.max_length + 1  # with </s>
                found[side] = SubwordSampler(vocabularies[side], kind, strength, most)
        return found

    def encode(
        self, example: Pair, split: str, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded | None:
        """Return the token ids of a pair; drop empty pairs, and in training also long pairs.

        Long pairs of other splits are kept, so that scores cover the complete test set.
        """
        source = vocabularies["source"].encode(example.source)
        target = vocabularies["target"].encode(example.target)
        if not source or not target:
            counts["empty"] += 1
            return None
        if split == "train" and max(len(source), len(target)) > self.data.max_length:
            counts["long"] += 1
            return None
        encoded: dict[str, Any] = {"source": [*source, EOS], "target": [*target, EOS]}
        if self.data.links:
            # Only the training loss uses links, so the pairs of other splits have none.
            links = example.links if split == "train" else ""
            encoded["links"] = token_links(links, *_token_words(example, vocabularies))
        text = example._replace(links="")._asdict()
        if not example.line:  # older versions cannot read the text of a corpus with this entry
            del text["line"]
        return encoded, text


def _token_words(pair: Pair, vocabularies: dict[str, Vocabulary]) -> list[list[int]]:
    """Return the word index of every token of the source and of the target."""
    sides = ((vocabularies["source"], pair.source), (vocabularies["target"], pair.target))
    return [
        words_of_tokens(vocabulary.tokens(line), vocabulary.surface(line).split())
        for vocabulary, line in sides
    ]
