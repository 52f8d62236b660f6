"""Start a run from the parameters of another run (`train.init_from`).

Parameters are matched by their names and shapes. Embeddings and output layers are matched token by
token, because the vocabularies may differ. Layers of a Transformer are matched by their numbers,
whether they are stacked (`model.scan`) or not.
"""

import dataclasses
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax.sharding import Mesh

from configs.base import Config
from configs.registry import TASKS, resolve
from errors import UserError
from models.layers import has_stacked_layers, stack_layers, unroll_layers
from training.checkpoints import has_checkpoints
from training.devices import compiled, state_sharding
from training.hosts import raise_on_all_hosts
from training.restore import RestoredRun, restore_run
from training.state import Params, TrainState
from training.tables import aligned_table, layer_pattern, layer_range, shape_text
from training.vocabularies import DIGESTS, check_vocabularies, kept_initial
from training.workdir import VOCABULARY_FOLDER, load_config

logger = logging.getLogger("alignax")
_FLAG = "--init_from"  # the flag of train.py that sets train.init_from
_FEW = 0.5  # a warning is logged if a smaller fraction of the parameters is loaded


class OtherRun(NamedTuple):
    """The run that `train.init_from` names."""

    folder: Path
    checkpoint: str
    config: Config


def find_run(config: Config) -> OtherRun:
    """Return the run that `train.init_from` names; raise UserError if it cannot be used.

    No path in its config is opened, so the run may come from another machine or another user.
    """
    value = config.train.init_from
    folder, checkpoint = value, "best"
    if "@" in value and not Path(value).is_dir():  # the name of a folder may contain an @
        folder, _, checkpoint = value.rpartition("@")
        if checkpoint not in ("best", "last", "average") and not checkpoint.isdecimal():
            raise UserError(
                f"{_FLAG}={value} has the unknown checkpoint {checkpoint!r}: write "
                "FOLDER@CHECKPOINT with best, last, average or a training step"
            )
    other = load_config(Path(folder), _FLAG)
    if other.task != config.task:
        raise UserError(
            f"{_FLAG}={value} is a {other.task} run, but this config is for {config.task}: "
            f"parameters can be loaded only from a {config.task} run"
        )
    check_vocabularies(Path(folder) / VOCABULARY_FOLDER)
    return OtherRun(Path(folder), checkpoint, other)


def initial_vocabularies(config: Config, workdir: Path | None) -> dict[str, Path]:
    """Return the vocabularies of another run that the corpus keeps or extends, by name.

    A run that has been started in `workdir` has copies of them, so that the other run is needed
    again only if a copy is damaged.
    """
    if not config.train.init_from:
        return {}
    folder = workdir / VOCABULARY_FOLDER if workdir else None
    if not folder or not (folder / DIGESTS).exists():  # the last file that the first start writes
        return _other_vocabularies(config)
    try:
        return kept_initial(folder)
    except UserError as error:
        damage = error
    try:
        found = _other_vocabularies(config)
    except UserError as error:
        raise UserError(
            f"{damage}. The run with the original file, {config.train.init_from}, cannot be used "
            f"now ({error})"
        ) from error
    logger.warning("%s. Using the file of %s", damage, config.train.init_from)
    return found


def _other_vocabularies(config: Config) -> dict[str, Path]:
    """Return the vocabularies in the folder of the other run that the corpus keeps or extends."""
    other = find_run(config)
    mode, found = config.data.vocabularies, {}
    here = {} if mode == "learn" else _settings(config)
    there = _settings(other.config)
    for name, settings in here.items():
        different = _differences(settings, there.get(name, {}), strict=mode == "auto")
        if mode == "auto":
            keep = settings["kind"] in ("unigram", "bpe")
            if keep and different:
                logger.warning(
                    "the SentencePiece model %s is learned from this corpus, because that of %s "
                    "has other settings (%s): few of its tokens will match", name, other.folder,
                    "; ".join(different),
                )  # fmt: skip
            if not keep or different:
                continue
        elif different:
            raise UserError(
                f"config.data.vocabularies={mode} needs vocabularies with the same settings, but "
                f"{name}.vocab of {other.folder} has others ({'; '.join(different)}): change the "
                "settings of this config, or set config.data.vocabularies=learn"
            )
        found[name] = other.folder / VOCABULARY_FOLDER / f"{name}.vocab"
    return found


def _settings(config: Config) -> dict[str, dict[str, Any]]:
    corpus = resolve(TASKS[config.task].task).corpus
    return corpus(config.data).vocabulary_settings()


def _differences(here: dict[str, Any], there: dict[str, Any], strict: bool) -> list[str]:
    """Return the settings in which two vocabularies differ, for messages.

    Unless `strict`, vocabularies of different languages are allowed, but not a vocabulary of two
    languages (data.shared_vocab) instead of one.
    """
    if not there:
        return ["it does not exist"]
    names = sorted(here.keys() | there.keys())
    values = {name: (there.get(name), here.get(name)) for name in names}
    if not strict and (languages := values.pop("languages", None)):
        values["number of languages"] = (len(languages[0] or ()), len(languages[1] or ()))
    return [f"{name}: {a} there, {b} here" for name, (a, b) in values.items() if a != b]


class Match(NamedTuple):
    """One parameter, and what is loaded into it."""

    name: str
    shape: tuple[int, ...]
    loaded: int  # number of loaded elements
    note: str = ""  # why elements are not loaded
    axis: int = 0  # axis along which the positions `here` are copied from the positions `there`
    here: np.ndarray | None = None  # None: the whole parameter is loaded, or nothing
    there: np.ndarray | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class InitialParams(NamedTuple):
    """The parameters of another run, and how those of a new run are initialized from them."""

    params: Params  # of the other run
    matches: list[Match]
    report: str  # Markdown: what is loaded, initialized and left out

    def apply(self, state: TrainState, mesh: Mesh) -> TrainState:
        """Return the initial state with the parameters of the other run.

        The optimizer state stays as it is: for all optimizers, it depends only on the shapes.
        """
        sharding = state_sharding(mesh, state.params)
        params = compiled(mesh, self.merge, sharding)(state.params, self.params)
        ema = None if state.ema is None else jax.tree.map(jnp.copy, params)
        return dataclasses.replace(state, params=params, ema=ema)

    def merge(self, fresh: Params, other: Params) -> Params:
        """Return the `fresh` parameters of a run, with those that match replaced by `other`'s."""
        merged, source = _by_name(fresh), _by_name(other)
        for name, _, loaded, _, axis, here, there in self.matches:
            if here is not None and there is not None:
                rows = jnp.take(source[name], there, axis=axis)
                merged[name] = merged[name].at[(*[slice(None)] * axis, here)].set(rows)
            elif loaded:
                merged[name] = source[name]
        nested = traverse_util.unflatten_dict(merged, sep="/")
        return stack_layers(nested) if has_stacked_layers(fresh) else nested


def load_initial(task: Any, config: Config, workdir: Path, mesh: Mesh) -> InitialParams | None:
    """Load the parameters of the run `train.init_from`.

    Return None if there is no such run, or if `workdir` already has a checkpoint, from which the
    run resumes.
    """
    if not config.train.init_from or has_checkpoints(workdir):
        return None
    with raise_on_all_hosts():
        other = find_run(config)
    run = restore_run(other.config, other.folder, mesh, other.checkpoint, corpus=False)
    initial = match_run(task, config, other, run)
    logger.info("%s", initial.report)
    return initial


def match_run(task: Any, config: Config, other: OtherRun, run: RestoredRun) -> InitialParams:
    """Match the parameters of a restored run with those of a task; raise UserError if none match.

    Log a warning if most parameters do not match.
    """
    shapes = jax.eval_shape(task.init, jax.random.key(0))
    here, there = ({n: x.shape for n, x in _named_shapes(p).items()} for p in (shapes, run.params))
    matches = [_match(name, shape, there.get(name), task, run.task) for name, shape in here.items()]
    loaded = sum(match.loaded for match in matches)
    if not loaded:
        raise UserError(
            f"no parameter of {other.folder} ({other.config.model.name}) has the name and the "
            f"shape of a parameter of this config ({config.model.name}): set {_FLAG} to a run "
            "with a similar architecture"
        )
    left_out = [
        Match(name, shape, 0, "left out") for name, shape in there.items() if name not in here
    ]
    if loaded < _FEW * sum(match.size for match in matches):
        logger.warning(
            "less than half of the parameters are loaded from %s: the table below shows why",
            other.folder,
        )
    report = _report(other, run.steps, matches, left_out, sum(map(math.prod, there.values())))
    # The parameters wait in host memory, so that devices need no second copy of the model.
    return InitialParams(jax.device_get(run.params), matches, report)


def _by_name(params: Params) -> dict[str, Any]:
    """Return parameters by their names, with unstacked layers."""
    unrolled = unroll_layers(params) if has_stacked_layers(params) else params
    return dict(traverse_util.flatten_dict(unrolled, sep="/"))


def _named_shapes(params: Params) -> dict[str, Any]:
    return jax.eval_shape(_by_name, params)


def _match(
    name: str, shape: tuple[int, ...], other: tuple[int, ...] | None, task: Any, other_task: Any
) -> Match:
    """Return what is loaded into one parameter; `other` is its shape in the other run."""
    if other is None:
        return Match(name, shape, 0, "not in the other run")
    tokens, other_tokens = task.token_axis(name), other_task.token_axis(name)
    if tokens is None and other_tokens is None and shape == other:
        return Match(name, shape, math.prod(shape))
    if tokens is None or tokens != other_tokens or _without(shape, tokens[0]) != _without(
        other, tokens[0]
    ):  # fmt: skip
        same = "another kind of output in the other run"
        return Match(
            name, shape, 0, same if shape == other else f"{shape_text(other)} in the other run"
        )
    axis, vocabulary = tokens
    names, other_names = (t.token_names(vocabulary) for t in (task, other_task))
    if names == other_names:
        return Match(name, shape, math.prod(shape))
    position = {token: i for i, token in enumerate(other_names)}
    pairs = [(i, position[token]) for i, token in enumerate(names) if token in position]
    here, there = np.array(pairs, np.int32).reshape(-1, 2).T
    size = math.prod(_without(shape, axis))
    unit = "labels" if vocabulary == "label" else "tokens"
    note = f"{len(pairs):,} of {len(names):,} {unit}"
    if len(pairs) < len(other_names):
        note += f", {len(other_names) - len(pairs):,} of the other run left out"
    if not pairs:
        return Match(name, shape, 0, note)
    return Match(name, shape, len(pairs) * size, note, axis, here, there)


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _report(
    other: OtherRun, steps: Sequence[int], matches: list[Match], left_out: list[Match], there: int
) -> str:
    """Describe in Markdown what is loaded, initialized and left out."""
    total, loaded = (sum(x) for x in zip(*((m.size, m.loaded) for m in matches), strict=True))
    at = "step" if len(steps) == 1 else "the mean of the steps"
    rows = [("parameter", "shape", "elements", "loaded", "not loaded")]
    rows += _rows(matches)
    rows.append(("total", "", f"{total:,}", f"{loaded:,}", ""))
    text = (
        f"Initial parameters from {other.folder}, checkpoint {other.checkpoint} ({at} "
        f"{', '.join(f'{step:,}' for step in steps)}): {loaded:,} of {total:,} are loaded "
        f"({loaded / total:.1%}), {total - loaded:,} are initialized, and {there - loaded:,} of "
        f"the other run are left out.\n\n{aligned_table(rows, right=(2, 3))}"
    )
    if left_out:
        rows = [("left out", "shape", "elements"), *(row[:3] for row in _rows(left_out))]
        text += f"\n{aligned_table(rows, right=(2,))}"
    return text


def _rows(matches: list[Match]) -> list[tuple[str, ...]]:
    """Return one table row per parameter; equal rows of several layers become one row."""
    groups: dict[Any, list[Match]] = {}
    for match in matches:
        key = layer_pattern(match.name), match.shape, match.loaded, match.note
        groups.setdefault(key, []).append(match)
    return [
        (
            layer_range([match.name for match in group]),
            shape_text(group[0].shape),
            f"{sum(match.size for match in group):,}",
            f"{sum(match.loaded for match in group):,}",
            group[0].note,
        )
        for group in groups.values()
    ]
