"""Every field of a config with its default. Papers' files change fields; they add none."""

from typing import Any

from ml_collections import ConfigDict

Config = Any  # a ConfigDict, whose fields type checkers cannot know


def base_config(model: str = "seq2seq") -> Config:
    """All fields of a config for this kind of model, which decides the task."""
    task = next(task for task, models in TASKS.items() if model in models)
    config = ConfigDict()
    config.task = task
    config.seed = 0  # of weights, data order and dropout
    config.data = {**_any_data(), **_DATA[task]()}
    config.model = TASKS[task][model]()
    config.optimizer = _optimizer()
    config.train = {**_any_training(), **_TRAINING[task]}
    config.mesh = {"state_shards": 1}  # devices that share one copy of the train state
    if task == "translation":
        config.decode = _decode()
    return config.lock()  # so that a slip in a config file is no new field


def _any_data() -> dict:
    return {
        "dir": "",  # the corpus' folder (TFDS: its data_dir)
        "splits": {"train": "train", "valid": "valid", "test": "test"},  # the corpus' own names
        "holdout": 50,  # where splits.valid is "": one in so many training examples
        "cache": "cache",  # prepared corpora
        "buckets": 6,  # batch shapes, so compilations, at the most
        "batch_size": 128,
        "batch_unit": "sentences",  # sentences (examples) | tokens (padded, of the longest part)
        # Rows of a batch are a multiple of it; of token batches, devices × accumulation divide it.
        "batch_multiple": 8,
    }  # fmt: skip


def _vocab() -> dict:
    return {
        "kind": "words",  # words | unigram | bpe (the last two by SentencePiece)
        "tokenizer": "moses",  # for words: moses | unicode | plain | split | bpe | characters
        "size": 50_000,  # the most frequent words, or SentencePiece's size
        "min_count": 1,  # rarer words are <unk>
        "lowercase": False,
    }  # fmt: skip


def _translation_data() -> dict:
    return {
        "corpus": "text",  # dates | text | tsv | tfds
        "name": "",  # TFDS catalogue name
        "files": "{split}.{lang}",  # file names in dir; .gz and .xz are found as well
        "source": "en",
        "target": "de",
        "alignment": "",  # file of the test split's gold word links, as "{split}.align"
        "alignment_base": 0,  # whether it counts from 0 or 1
        "alignment_order": "source-target",  # or target-source
        "several_references": False,  # pairs of one source are its references, and scored once
        "seed": 0,  # of the dates corpus
        "examples": {"train": 100_000, "valid": 1000, "test": 1000},  # of the dates corpus
        "max_length": 50,  # training pairs with a longer side are left out
        "source_vocab": _vocab(),
        "target_vocab": _vocab(),
        "shared_vocab": False,  # one vocabulary over both sides, made by source_vocab
        "reverse_source": False,  # read the source from its end (Sutskever 2014)
    }  # fmt: skip


def _labelling_data() -> dict:
    return {
        "corpus": "series",  # series | series_classes | columns | polymusic
        "files": "{split}.txt",  # polymusic: one .mat file, whose variables the splits name
        "columns": ("word", "pos", "label"),  # what stands in a line of a columns file
        "inputs": ("word",),  # columns that are read, and suffix, characters: of the word
        "suffix": 3,  # letters
        "vocab": {**_vocab(), "tokenizer": "split"},  # of the words
        "seed": 0,  # of the series
        "examples": {"train": 100, "valid": 20, "test": 100},  # series of
        "series_length": 100,  # steps each
        "max_length": 500,  # longer sequences are cut, in training alone
    }  # fmt: skip


def _classification_data() -> dict:
    return {
        "corpus": "tsv",  # lines ("label text") | tsv | tfds
        "name": "",  # TFDS catalogue name
        "files": "{split}.tsv",
        "label": "0",  # tsv: the column of the label, counted from 0; TFDS: the feature
        "text": "1",  # and of the text
        "documents": False,  # texts as sentences of words, for hierarchical models
        "max_length": 400,  # words of a text that are read; of a sentence, where documents,
        "max_sentences": 40,  # which have so many sentences that are read
        "vocab": {**_vocab(), "tokenizer": "plain", "lowercase": True},
    }  # fmt: skip


def _cloze_data() -> dict:
    return {
        "corpus": "cbt",  # files of the Children's Book Test's format
        "files": "{split}.txt",
        "max_candidates": 10,
        "anonymous": "none",  # words without a name of their own: none | unknown | candidates
        "anonymous_ids": 200,  # that each question gives to them, at random
        "vocab": {**_vocab(), "tokenizer": "split"},
    }  # fmt: skip


def _seq2seq() -> Config:
    stack = {"cell": "lstm", "layers": 2, "features": 512, "embedding": 512, "residual": False}
    return ConfigDict({
        "name": "seq2seq",
        "encoder": {**stack, "bidirectional": False},  # features: of each direction
        "decoder": {**stack, "maxout": 500},  # maxout: output layer of the cho and bahdanau wiring
        "bridge": "copy",  # encoder to decoder states: copy | dense | backward
        "wiring": "luong",  # plain | cho | luong | bahdanau
        "attention": {
            "align": "global",  # none | global | local_m | local_p | hard
            "score": "general",  # dot | scaled_dot | general | concat | location
            "input_feeding": True,  # of the luong wiring
            "max_source": 64,  # positions the location score can rate
            "D": 10,  # local: positions on either side of p_t
            "sigma": 0.0,  # local_p: width of the Gaussian; 0: D/2
            "renormalise": False,  # local_p: weights sum to 1 again after the Gaussian
            "key_value": "none",  # none | split | zero (Mino 2017)
        },
        "dropout": 0.2,
        "init": "uniform",  # uniform | normal | xavier | bahdanau
        "init_scale": 0.1,
        "dtype": "float32",  # of the computation; parameters are float32
    })  # fmt: skip


def _transformer() -> Config:
    return ConfigDict({
        "name": "transformer",
        "layers": 6,  # N, of encoder and decoder each
        "features": 512,  # d_model
        "heads": 8,  # h
        "key_features": 0,  # d_k of a head; 0: features / heads
        "feed_forward": 2048,  # d_ff
        "norm": "post",  # post (the paper's) | pre
        "positions": "sinusoidal",  # sinusoidal | learned
        "max_positions": 512,  # learned ones
        "share_embeddings": True,  # of source and target; needs data.shared_vocab
        "tie_output": True,  # the target's embeddings are the output matrix
        "attention_layer": -1,  # decoder layer whose heads' mean is shown as the attention
        "dropout": 0.1,
        "attention_dropout": 0.0,  # of weights; Tensor2Tensor's, the paper has none
        "dtype": "float32",  # of the computation; parameters are float32
        "scan": False,  # one layer is compiled, for all
        "remat": False,  # activations are computed again in the backward pass
    })  # fmt: skip


def _tagger() -> Config:
    return ConfigDict({
        "name": "tagger",
        "network": "brnn",  # mlp | tdnn | forward | backward | merged | brnn (Schuster 1997)
        "cell": "lstm",  # of the recurrent ones: elman | lstm | gru
        "layers": 1,
        "features": 64,  # of each direction
        "forward_delay": 0,  # forward, merged: step t is labelled so many steps later
        "backward_delay": 0,  # backward, merged: so many steps earlier
        "window": 10,  # mlp, and each layer of tdnn: steps read on either side
        "embedding": 100,  # of words
        "small_embedding": 30,  # of suffixes, characters and other columns
        "dropout": 0.0,
        "init": "xavier",  # uniform | normal | xavier | bahdanau
        "init_scale": 1.0,
        "dtype": "float32",
    })  # fmt: skip


def _sentence() -> Config:
    return ConfigDict({
        "name": "sentence",
        "cell": "lstm",
        "layers": 1,
        "features": 300,  # u, of each direction
        "embedding": 100,
        "pooling": "attention",  # attention (Lin 2017) | mean | max | last
        "hops": 30,  # r, of attention
        "attention_features": 350,  # d_a
        "hidden": 512,  # ReLU layer before the classes; 0: none
        "dropout": 0.5,
        "init": "xavier",
        "init_scale": 1.0,
        "dtype": "float32",
    })  # fmt: skip


def _han() -> Config:
    return ConfigDict({
        "name": "han",
        "cell": "gru",
        "features": 50,  # of each direction, of words and of sentences
        "embedding": 200,
        "attention_features": 100,  # of the context vectors u_w and u_s
        "dropout": 0.0,
        "init": "xavier",
        "init_scale": 1.0,
        "dtype": "float32",
    })  # fmt: skip


def _reader() -> Config:
    return ConfigDict({
        "name": "reader",
        "reader": "attention_over_attention",  # Cui 2017 | attention_sum (Kadlec 2016)
        "cell": "gru",
        "layers": 1,
        "features": 256,  # of each direction
        "embedding": 384,
        "dropout": 0.1,
        "init": "xavier",
        "init_scale": 1.0,
        "dtype": "float32",
    })  # fmt: skip


TASKS = {  # and their models
    "translation": {"seq2seq": _seq2seq, "transformer": _transformer},
    "labelling": {"tagger": _tagger},
    "classification": {"sentence": _sentence, "han": _han},
    "cloze": {"reader": _reader},
}
MODELS = {name: fields for models in TASKS.values() for name, fields in models.items()}
_DATA = {
    "translation": _translation_data,
    "labelling": _labelling_data,
    "classification": _classification_data,
    "cloze": _cloze_data,
}
_TRAINING = {
    "translation": {
        "label_smoothing": 0.0,
        "eval_greedily": True,  # translate the dev split so, which is quick; else as decode says
        "doubly_stochastic": 0.0,  # λ of Xu 2015: every source word should be read once
        "reinforce": {"weight": 1.0, "entropy": 0.002},  # hard attention (Xu 2015)
    },
    "labelling": {},
    "classification": {
        "label_smoothing": 0.0,
        "word_dropout": 0.0,  # share of the words that are read as <unk>
        "penalty": 0.0,  # of ‖AAᵀ − I‖²_F (Lin 2017 eq. 8)
    },
    "cloze": {"word_dropout": 0.0},
}


def _optimizer() -> Config:
    return ConfigDict({
        "name": "adam",  # sgd | momentum | adam | adamw | adadelta | rmsprop | rprop
        "learning_rate": 1e-3,
        "momentum": 0.9,
        "b1": 0.9,
        "b2": 0.999,
        "eps": 1e-8,
        "rho": 0.95,  # adadelta
        "weight_decay": 0.0,  # adamw
        "clip_norm": 5.0,  # gradients are scaled down to this norm; 0: never
        "schedule": "constant",  # constant | halving | inverse_sqrt | cosine | plateau
        "warmup_steps": 0,
        "halve_from": 5.0,  # halving: epochs at the full rate,
        "halve_every": 1.0,  # then a halving each so many epochs
        "plateau_factor": 0.5,  # plateau: the rate is multiplied by this
        "plateau_patience": 3,  # after so many evaluations without a better one
    })  # fmt: skip


def _any_training() -> dict:
    return {
        "steps": 0,  # length of the run; 0: epochs decide
        "epochs": 10.0,
        "loss_per": "token",  # what gradients are divided by: token | sentence (the SGD papers)
        "accumulation": 1,  # micro-batches a batch is cut into
        "ema": 0.0,  # decay of the averaged weights that are evaluated; 0: none
        "eval_every": 1000,  # steps; also the time for a checkpoint
        "eval_metric": "loss",  # what "best" means: loss, or a score of the task
        "patience": 0,  # evaluations without a better one before stopping; 0: never stop early
        "keep": 1,  # latest checkpoints that an average is of; two are always kept, and the best
        "log_every": 100,
        "samples": 3,  # examples shown at each evaluation
        "max_skipped": 20,  # non-finite steps in a row before the run stops
    }  # fmt: skip


def _decode() -> Config:
    return ConfigDict({
        "max_ratio": 2.0,  # the longest output: so many times the input,
        "max_extra": 10,  # and so many words more
        "min_ratio": 0.0,  # the shortest
        "batch": 64,  # sentences at a time
        "beam": 1,  # hypotheses a sentence; 1: greedy, as train.eval_greedily asks for
        "nbest": 1,  # those of them that are kept
        "length_penalty": "none",  # none | gnmt | average, with exponent alpha
        "alpha": 0.6,
        "coverage": 0.0,  # β of Wu 2016: source words should be read
        "temperature": 0.0,  # above 0, words are drawn by p^(1/temperature)
        "top_k": 0,  # of the likeliest so many; 0: of all
        "top_p": 1.0,  # of the fewest that make up so much probability
        "seed": 0,  # of the drawing
        "replace_unknown": False,  # <unk> by the source word it attends to most (Luong 2015)
    })  # fmt: skip
