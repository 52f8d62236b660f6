"""The benchmarked models, with training steps and beam searches on random batches."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from configs import luong2015, vaswani2017
from configs.base import Config
from configs.recipes import set_stacks
from configs.registry import MODELS
from data.vocabulary import SPECIALS
from decoding.translator import Translator
from tasks.translation import Translation
from training.devices import make_mesh, put, replicated

DROPOUT = 0.1
SENTENCES = 64  # number of sentences per decoding batch
BEAM = 5  # beam width of the tables


class Subject(NamedTuple):
    """A model to benchmark, with batches of `batch` sentence pairs of `length` tokens.

    The source and target vocabularies have `vocabulary_size` entries each.
    """

    config: Config
    vocabulary_size: int
    batch: int
    length: int
    make_torch_model: Callable[[float], Any]  # creates the same model in PyTorch, with dropout

    @property
    def concurrent(self) -> bool:
        """Whether training runs independent GPU kernels at the same time."""
        return MODELS[self.config.model.name].concurrent

    def torch_model(self) -> Any:
        """Create the same model in PyTorch."""
        return self.make_torch_model(self.config.model.dropout)

    def without_dropout(self) -> "Subject":
        """Return the same model without dropout."""
        config = self.config.copy_and_resolve_references().unlock()
        config.model.dropout = 0.0
        return self._replace(config=config.lock())

    def task(self) -> Translation:
        """Return a translation task without a corpus; the words of its vocabularies are numbers."""
        with tempfile.TemporaryDirectory() as folder:
            numbers = "".join(f"{i}\n" for i in range(self.vocabulary_size - len(SPECIALS)))
            for side in ("source", "target"):
                (Path(folder) / f"{side}.vocab").write_text("\n".join(SPECIALS) + "\n" + numbers)
            return Translation(self.config, Path(folder))

    def training_step(self, mesh: Mesh | None = None) -> tuple[Any, ...]:
        """Return a function that computes loss and gradient, and the arguments for the function.

        The default is a mesh of one device.
        """
        task, mesh = self.task(), mesh or make_mesh(jax.devices()[:1])
        params, key = jax.device_put(
            (jax.jit(task.init)(jax.random.key(0)), jax.random.key(1)), replicated(mesh)
        )
        batch = put({"source": self.sentences(0), "target": self.sentences(1)}, mesh)

        def step(params: Any, batch: Any, key: Any) -> Any:
            loss = lambda params: task.loss(params, batch, key)["loss"]  # noqa: E731
            return jax.value_and_grad(loss)(params)

        return step, params, batch, key

    def beam_search(self, width: int = BEAM) -> Callable[[], Any]:
        """Return a function that decodes one batch of sentences.

        All hypotheses have the same length, so that the amount of computation does not depend on
        the random parameters.
        """
        task, mesh = self.task(), make_mesh(jax.devices()[:1])
        params = jax.jit(task.init)(jax.random.key(0))
        sentences = self.sentences()[:SENTENCES]
        batch = {"source": sentences, "index": np.arange(len(sentences), dtype=np.int32)}
        batch = put(batch | {"number": batch["index"]}, mesh)
        settings = self.config.decode.copy_and_resolve_references().unlock()
        settings.update({"beam": width, "min_ratio": 1.0, "max_ratio": 1.0, "max_extra": 0})
        translator = Translator([task], mesh, settings)
        return lambda: translator.decode([params], batch)

    def sentences(self, seed: int = 0) -> np.ndarray:
        """Return a batch [batch, length] of random token ids."""
        rng = np.random.default_rng(seed)
        shape = (self.batch, self.length)
        return rng.integers(len(SPECIALS), self.vocabulary_size, shape, dtype=np.int32)


def recurrent(
    layers: int, features: int, vocabulary_size: int, batch: int, length: int, dtype: str
) -> Subject:
    """Return Luong's model (2015) with global attention, general score and input feeding."""
    config = luong2015.get_config("size=small").unlock()
    set_stacks(config, layers, features)
    config.model.dtype, config.model.dropout = dtype, DROPOUT
    config.train.label_smoothing = 0.0

    sizes = vocabulary_size, vocabulary_size, layers, features
    torch_model = functools.partial(_torch_model, "TorchRecurrent", *sizes)
    return Subject(config.lock(), vocabulary_size, batch, length, torch_model)


def transformer(size: str, vocabulary_size: int, batch: int, length: int, dtype: str) -> Subject:
    """Return the Transformer (Vaswani 2017) with shared embeddings."""
    config = vaswani2017.get_config(f"size={size}").unlock()
    model = config.model
    model.dtype, model.dropout, config.train.label_smoothing = dtype, DROPOUT, 0.0
    model.share_embeddings = config.data.shared_vocab = True

    sizes = vocabulary_size, model.layers, model.features, model.heads, model.feed_forward
    torch_model = functools.partial(_torch_model, "TorchTransformer", *sizes)
    return Subject(config.lock(), vocabulary_size, batch, length, torch_model)


def _torch_model(name: str, *arguments: Any) -> Any:
    """Create the model in PyTorch that benchmarks/torch_models.py defines under this name."""
    from benchmarks import torch_models

    return getattr(torch_models, name)(*arguments)


SUBJECTS: dict[str, dict[str, Subject]] = {
    "gpu": {
        "recurrent 4 × 1024": recurrent(4, 1024, 50_000, 128, 50, "bfloat16"),
        "recurrent 2 × 512": recurrent(2, 512, 17_000, 128, 50, "bfloat16"),
        "Transformer base": transformer("paper", 37_000, 256, 64, "bfloat16"),
        "Transformer small": transformer("small", 10_000, 256, 32, "bfloat16"),
    },
    "cpu": {
        "recurrent 2 × 256": recurrent(2, 256, 5_000, 32, 20, "float32"),
        "recurrent 1 × 128": recurrent(1, 128, 5_000, 32, 20, "float32"),
        "Transformer small": transformer("small", 5_000, 32, 20, "float32"),
    },
}
