"""Base class of tasks: a prepared corpus, its batches and a model."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Int, Key

from configs.base import Config
from data.batches import Batch, Batches, Bucket, eval_batches, plan_buckets
from data.corpus import NO_INITIAL, Corpus
from data.eval_sets import EvalSet
from data.sampling import SubwordSampler, plan_lengths
from data.store import Split
from data.vocabulary import PAD, UNK, all_tokens

Params = Any
TokenAxis = tuple[str, int, str]
Predicted = tuple[dict[str, Array], dict[str, Array]]  # predictions and attention weights, by name


class LabelledInput(NamedTuple):
    """An input and its prediction. An empty input has no prediction: its label is None.

    The label is a class label, the answer to a question, one class label per word or time step, an
    array [time, 1] of predicted values, or, for music, an array [frame, note] with the
    probabilities of the notes of the next frame.
    """

    text: Mapping[str, Any]  # the words, sentences or columns; the passage, query and candidates
    label: Any = None
    p: Any = None  # probability of the label, or one per time step; None for values and notes
    probabilities: Any = None  # by class label or candidate, or [time, class] for sequences
    attention: Mapping[str, np.ndarray] = {}  # attention weights by name, if they were asked for
    unknown: Sequence[str] = ()  # the words that are not in the vocabulary
    words: int = 0  # number of words


def drop_words(words: Int[Array, "*b"], rate: float, key: Key[Array, ""]) -> Int[Array, "*b"]:
    """Replace a random fraction `rate` of the word ids by <unk>, except padding (word dropout)."""
    dropped = jax.random.bernoulli(key, rate, words.shape) & (words != PAD)
    return jnp.where(dropped, UNK, words)


class Task:
    """Base class of tasks, which combine a corpus with a model."""

    corpus: type[Corpus]
    loss_unit = ""  # plural name of the unit that losses are averaged over, such as "tokens"
    # Parameters with one row or column per token of a vocabulary: their names, the axis of the
    # tokens, and the name of the vocabulary.
    token_axes: Sequence[TokenAxis] = ()

    def __init__(
        self,
        config: Config,
        vocabularies: Path | None = None,
        initial: Mapping[str, Path] = NO_INITIAL,
    ):
        """Prepare the corpus, or load only the `vocabularies` of a run.

        `initial` are the vocabularies of another run from which the corpus is prepared.
        """
        corpus = self.corpus(config.data, initial)
        self.config = config
        self.prepared = corpus.prepare() if vocabularies is None else corpus.open(vocabularies)
        # The folder name ends in a digest of corpus settings and files, so it identifies the data.
        self.data_name = self.prepared.folder.name
        self.build(config)

    def build(self, config: Config) -> None:
        """Create the model for the vocabularies of `self.prepared`."""
        raise NotImplementedError

    def init(self, key: Key[Array, ""]) -> Params:
        """Return initial parameters of the model."""
        raise NotImplementedError

    def loss(
        self, params: Params, batch: dict[str, Array], key: Key[Array, ""] | None = None
    ) -> dict[str, Array]:
        """Return the loss and metrics of a batch, summed over loss units, and their count.

        A `key` selects the training loss, with dropout and other random parts.
        """
        raise NotImplementedError

    def use_eval_sets(self, sets: Iterable[EvalSet], folder: Path) -> None:
        """Encode test sets in `folder`; they replace the splits of the corpus."""
        corpus = self.corpus(self.config.data)
        for test in sets:
            corpus.write_files(folder, test.name, test.files, self.prepared.vocabularies)
        self.prepared = self.prepared._replace(folder=folder)

    def token_axis(self, parameter: str) -> tuple[int, str] | None:
        """Return the axis of a parameter that has one entry per token, and its vocabulary.

        The name of the parameter is its path, such as "encoder/embed/embedding".
        """
        for name, axis, vocabulary in self.token_axes:
            if parameter == name and vocabulary in self.prepared.vocabularies:
                return axis, vocabulary
        return None

    def token_names(self, vocabulary: str) -> list[str]:
        """Return the tokens to which the entries along a `token_axis` belong, in their order."""
        return all_tokens(self.prepared.vocabularies[vocabulary])

    def train_count(self) -> int:
        """Return the number of loss units (`loss_unit`) of the training split."""
        return len(self.split("train")[0])

    @functools.cache  # noqa: B019  (a task exists until its program ends, so the cache may keep it)
    def split(self, name: str) -> tuple[Split, list[Bucket], Any]:
        """Return the examples of a split, its buckets, and the bucket index of every example."""
        data, split = self.config.data, self.prepared.split(name)
        lengths = plan_lengths(split, self.samplers) if name == "train" else split.lengths
        return split, *plan_buckets(
            split.fields, lengths, data.buckets, data.batch_size, data.batch_unit,
            data.batch_multiple,
        )  # fmt: skip

    @functools.cached_property
    def samplers(self) -> dict[str, SubwordSampler]:
        """The subword samplers of training batches, by field."""
        return self.corpus(self.config.data).samplers(self.prepared.vocabularies)

    def train_batches(self, seed: int = 0, host: int = 0, hosts: int = 1) -> Batches:
        """Return the shuffled training batches; every batch contains only the rows of this host."""
        return Batches(*self.split("train"), seed, host, hosts, self.samplers)

    def eval_batches(self, name: str, host: int = 0, hosts: int = 1) -> Iterator[Batch]:
        """Yield the batches of a split, each example once, with only the rows of this host."""
        return eval_batches(*self.split(name), host, hosts)


class PredictionTask(Task):
    """Base class of all tasks except translation: they predict labels instead of target texts."""

    corpus: type[Any]  # a subclass of LabelledCorpus
    word_field = ""  # name of the array field and of the text entry that contain the words
    empty_input = LabelledInput({})  # the result of an input without words

    def predict(self, params: Params, batch: dict[str, Array]) -> Predicted:
        """Return the predictions of a batch, and the attention weights."""
        raise NotImplementedError

    def labelled_input(
        self, fields: Mapping[str, Any], text: Mapping[str, Any], p: Mapping[str, Any]
    ) -> LabelledInput:
        """Return the prediction of an input, given its fields and its text.

        `p` contains the results of `predict` for this input, with the padding of its batch.
        """
        raise NotImplementedError
