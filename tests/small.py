"""Small corpora and configs for all tasks except translation."""

from pathlib import Path

import jax
import numpy as np
import scipy.io

from configs import cui2017, lin2017, schuster1997, yang2016
from configs.base import Config
from tasks.task import Task

WORDS = ["the", "film", "was", "good", "bad", "long", "short", "and", "very", "dull"]


def columns(folder: Path, rng: np.random.Generator) -> None:
    """Write a corpus of words with part-of-speech tags and chunk labels."""
    for split in ("train", "valid", "test"):
        lines = []
        for length in rng.integers(1, 7, 12):
            for word in rng.choice(WORDS, length):
                lines.append(f"{word} {'NN' if len(word) > 3 else 'DT'} {chunk(word)}\n")
            lines.append("\n")
        (folder / f"{split}.txt").write_text("".join(lines))


def chunk(word: str) -> str:
    return {"the": "B-NP", "film": "I-NP", "was": "B-VP"}.get(word, "O")


def music(folder: Path, rng: np.random.Generator) -> None:
    """Write a corpus of piano rolls."""

    def pieces() -> np.ndarray:
        cell = np.empty((1, 9), object)
        for i in range(9):
            cell[0, i] = (rng.uniform(size=(int(rng.integers(2, 9)), 88)) < 0.1).astype(np.uint8)
        return cell

    names = ("traindata", "validdata", "testdata")
    scipy.io.savemat(folder / "all.mat", {name: pieces() for name in names})


def texts(folder: Path, rng: np.random.Generator) -> None:
    """Write a corpus of labelled texts of one to three sentences."""
    for split in ("train", "valid", "test"):
        lines = []
        for i in range(16):
            lengths = rng.integers(1, 6, rng.integers(1, 4))
            sentences = [" ".join(rng.choice(WORDS, n)) for n in lengths]
            lines.append(f"{i % 2}\t{'. '.join(sentences)} <b>{split}</b>\n")
        (folder / f"{split}.tsv").write_text("".join(lines))


def questions(folder: Path, rng: np.random.Generator) -> None:
    """Write a corpus of cloze questions with two candidate answers."""
    for split in ("train", "valid", "test"):
        blocks = []
        for _ in range(12):
            sentences = [rng.choice(WORDS, n) for n in rng.integers(2, 6, 3)]
            answer, other = rng.choice(np.unique(np.concatenate(sentences)), 2, replace=False)
            lines = [f"{i} {' '.join(words)}\n" for i, words in enumerate(sentences, 1)]
            blocks.append("".join(lines) + f"4 so XXXXX .\t{answer}\t\t{other}|{answer}\n")
        (folder / f"{split}.txt").write_text("\n".join(blocks))


SPLITS = {"train": "traindata", "valid": "validdata", "test": "testdata"}
# Each entry: config module, config arguments, function that writes the corpus, changed fields.
TASKS = {
    "series": (schuster1997, "data=series,network=merged", None, {}),
    "classes": (schuster1997, "data=series_classes,network=tdnn", None, {}),
    "columns": (schuster1997, "data=columns,cell=lstm", columns, {}),
    "music": (
        schuster1997, "data=jsb,cell=gru", music, {"data.files": "all.mat", "data.splits": SPLITS},
    ),
    "sentence": (lin2017, "data=tsv", texts, {"model.hops": 2, "model.attention_features": 3}),
    "pooled": (lin2017, "data=tsv,pooling=max", texts, {}),
    "han": (yang2016, "data=tsv", texts, {"model.attention_features": 3}),
    "reader": (cui2017, "data=cbt", questions, {"data.anonymous": "unknown"}),
    "sum": (cui2017, "data=cbt,reader=attention_sum", questions, {}),
}  # fmt: skip


def small_config(name: str, folder: Path) -> Config:
    """Write a small corpus to `folder`; return a config with two training steps."""
    module, arguments, write, changes = TASKS[name]
    config = module.get_config(arguments)
    folder.mkdir(exist_ok=True)
    if write:
        write(folder, np.random.default_rng(0))
    config.update_from_flattened_dict({
        "data.dir": str(folder), "data.cache": str(folder / "cache"), "data.batch_size": 8,
        "data.buckets": 1, "model.features": 3, "train.steps": 2, "train.eval_every": 2,
        "train.log_every": 2, "train.samples": 1, "model.dtype": "float32", **changes,
    })  # fmt: skip
    for field in ("embedding", "small_embedding"):
        if field in config.model:
            config.model[field] = 4
    if config.task == "labelling":
        config.data.examples.update({"train": 9, "valid": 5, "test": 5})
        config.data.series_length = 12
    return config


def random_weights(task: Task, mean: float = 0.0) -> dict:
    """Draw the parameters of a task; unlike its initialization, this needs no compilation."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(task.init, jax.random.key(0))
    return jax.tree.map(lambda x: rng.normal(mean, 0.5, x.shape).astype(x.dtype), shapes)
