"""The format stablehlo: functions that JAX runs without this project (`jax.export`).

    *.stablehlo         serialized functions: encode and step of a translation model, else predict
    model.safetensors   the weights, the first argument of these functions
    export.json         the inputs, or tokenization and config.decode of a translation model
    vocabulary/         the vocabularies
    translate.py        an example program, or predict.py for other tasks
    README.md           a description of these files

The functions accept any batch size and, if the model allows it, any source length. They are lowered
for CPUs and for NVIDIA GPUs. Weights are arguments and not constants, so that the functions share
one copy of them.
"""

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax import Array
from jaxtyping import Float, Int

from data.store import ArrayFields, axes
from data.vocabulary import PAD
from decoding.next_tokens import mask_invalid
from exporting.description import (
    copy_program,
    describe_translation,
    write_description,
    write_readme,
)
from exporting.folder import write_vocabularies
from exporting.formats import ExportFormat
from exporting.readmes import PREDICT_README, TRANSLATION_README
from exporting.safetensors_files import write_weights
from tasks.task import Predicted
from training.restore import RestoredRun
from writing import write_bytes

logger = logging.getLogger("alignax")
PLATFORMS = ("cpu", "cuda")
Weights = dict[str, Array]  # parameters by the path of their names, joined with dots
Arrays = tuple[Array, ...]  # the arrays of a memory or of a state; the first axis is the batch


class StableHLOFormat(ExportFormat):
    """Functions and weights of a run of any task."""

    packages = ("safetensors", "flatbuffers")  # jax.export serializes with flatbuffers

    def write(self, run: RestoredRun, folder: Path) -> None:
        is_translation = run.task.config.task == "translation"
        (_write_translation if is_translation else _write_predict)(run, folder)
        write_vocabularies(run.task, folder)


def _write_translation(run: RestoredRun, folder: Path) -> None:
    task = run.task
    model, params = task.for_decoding(run.params)
    structure = _Structure(model, params)
    # Matrices of a bfloat16 model are cast where they are loaded: model.safetensors is in float32.
    write_weights(jax.tree.map(lambda x: np.asarray(x, np.float32), params), run.steps, folder)
    weights = _abstract(traverse_util.flatten_dict(params, sep="."))
    width = task.config.data.max_length + 1

    def export_both(source_length: str) -> dict[str, jax.export.Exported]:
        b, s, t = jax.export.symbolic_shape(f"b, {source_length}, t")
        encode = _exported(structure.encode, weights, _integers(b, s), _integers(t))
        memory, state = jax.tree.unflatten(encode.out_tree, encode.out_avals)
        step = _exported(structure.step, weights, memory, state, _integers(b))
        return {"encode": encode, "step": step}

    exported, fixed = _any_length(export_both, "s", width)
    _write_functions(exported, folder)
    # A source length of null stands for any length.
    write_description({"source_length": fixed, **describe_translation(task)}, folder)
    copy_program("stablehlo_translate.py", "translate.py", folder)
    length = f"{fixed} tokens; shorter ones are padded" if fixed else "any number of tokens"
    write_readme(run, folder, TRANSLATION_README.format(length=length, width=fixed or "s"))


class _Structure:
    """The functions of a translation model, with flat dictionaries and tuples as arguments.

    The memory and the state of a model are instances of classes of this project. Other programs
    cannot create these, so they are exported as tuples of their arrays.
    """

    def __init__(self, model: Any, params: Any):
        self._model = model
        source = jax.ShapeDtypeStruct((1, 2), jnp.int32)
        memory, state = jax.eval_shape(functools.partial(self._start, length=3), params, source)
        self._memory, self._state = jax.tree.structure(memory), jax.tree.structure(state)

    def _start(self, params: Any, source: Int[Array, "b s"], length: Any) -> tuple[Any, Any]:
        apply = functools.partial(self._model.apply, {"params": params})
        memory = apply(source, source != PAD, method="encode")
        return memory, apply(memory, length, method="start")

    def encode(
        self, weights: Weights, source: Int[Array, "b s"], room: Int[Array, " t"]
    ) -> tuple[Arrays, Arrays]:
        """Return the memory and the initial state, for up to t target tokens per sentence."""
        params = traverse_util.unflatten_dict(weights, sep=".")
        memory, state = self._start(params, source, room.shape[0])
        return tuple(jax.tree.leaves(memory)), tuple(jax.tree.leaves(state))

    def step(
        self, weights: Weights, memory: Arrays, state: Arrays, tokens: Int[Array, " b"]
    ) -> tuple[Float[Array, "b v"], Arrays]:
        """Return the log-probability of each next token, and the next state."""
        params = traverse_util.unflatten_dict(weights, sep=".")
        logits, following, _ = self._model.apply(
            {"params": params},
            jax.tree.unflatten(self._memory, memory),
            jax.tree.unflatten(self._state, state),
            tokens,
            method="step",
        )
        log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
        scores = mask_invalid(log_p, jnp.zeros(tokens.shape, bool))
        return scores, tuple(jax.tree.leaves(following))


def _write_predict(run: RestoredRun, folder: Path) -> None:
    write_weights(run.params, run.steps, folder)
    weights = _abstract(traverse_util.flatten_dict(run.params, sep="."))
    predict = functools.partial(_predict, run.task)
    inputs = _inputs(predict, weights, _symbolic_batch(run.task.prepared.fields))
    _write_functions({"predict": _exported(predict, weights, inputs)}, folder)
    described = {
        name: {"shape": [str(n) for n in x.shape], "dtype": x.dtype.name}
        for name, x in inputs.items()
    }
    write_description({"inputs": described}, folder)
    copy_program("stablehlo_predict.py", "predict.py", folder, modules=False)
    rows = [
        f"| `{name}` | {', '.join(x['shape'])} | {x['dtype']} |" for name, x in described.items()
    ]
    write_readme(run, folder, PREDICT_README.format(inputs="\n".join(rows)))


def _predict(task: Any, weights: Weights, inputs: dict[str, Array]) -> Predicted:
    """Return predictions and attention weights, by name.

    Fields that are not among the inputs, such as labels, only contribute their shapes.
    """
    fields, params = task.prepared.fields, traverse_util.unflatten_dict(weights, sep=".")
    sizes: dict[Any, Any] = {}
    for name, x in inputs.items():
        sizes |= dict(zip(("b", *fields[name].axes), x.shape, strict=True))
    batch = dict(inputs)
    for name in fields.keys() - inputs.keys():
        shape = [sizes.get(axis, axis) for axis in ("b", *fields[name].axes)]
        batch[name] = jnp.zeros(shape, fields[name].dtype)
    return task.predict(params, batch)


def _symbolic_batch(fields: ArrayFields) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes of a batch; the batch size b and the named axes have symbolic sizes."""
    names = ["b", *axes(fields)]
    # The label of a music frame is the next frame, so a piece needs two frames.
    constraints = [f"{name} >= 2" for name in names[1:]]
    symbols = jax.export.symbolic_shape(", ".join(names), constraints=constraints)
    sizes: dict[Any, Any] = dict(zip(names, symbols, strict=True))
    return {
        name: jax.ShapeDtypeStruct(
            [sizes.get(axis, axis) for axis in ("b", *field.axes)], np.dtype(field.dtype)
        )
        for name, field in fields.items()
    }


def _inputs(
    predict: Callable[..., Predicted], weights: Any, batch: dict[str, jax.ShapeDtypeStruct]
) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the fields of a batch whose values predictions depend on; labels are none of them."""
    jaxpr = jax.jit(predict).trace(weights, batch).jaxpr.jaxpr
    used = {id(x) for equation in jaxpr.eqns for x in equation.invars}
    variables = dict(zip(sorted(batch), jaxpr.invars[len(weights) :], strict=True))
    return {name: x for name, x in batch.items() if id(variables[name]) in used}


def _any_length(
    export: Callable[[str], dict[str, jax.export.Exported]], symbol: str, fixed: int
) -> tuple[dict[str, jax.export.Exported], int | None]:
    """Export functions for any length, or for a fixed length if the model needs to know it."""
    try:
        return export(symbol), None
    except jax.errors.InconclusiveDimensionOperation:
        logger.info("this model needs a fixed source length: sources have %d tokens", fixed)
        return export(str(fixed)), fixed


def _exported(function: Callable[..., Any], *arguments: Any) -> jax.export.Exported:
    return jax.export.export(jax.jit(function), platforms=PLATFORMS)(*arguments)


def _write_functions(functions: dict[str, jax.export.Exported], folder: Path) -> None:
    for name, function in functions.items():
        write_bytes(folder / f"{name}.stablehlo", bytes(function.serialize()))


def _integers(*shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def _abstract(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)
