"""The format ctranslate2: a Transformer for CTranslate2 (https://opennmt.net/CTranslate2).

    model.bin, config.json, *_vocabulary.json   the model of CTranslate2
    export.json         tokenization and config.decode
    vocabulary/         the vocabularies, for tokenization
    translate.py        a program that translates with config.decode; it imports exporting/, data/
    README.md           a description of these files

CTranslate2 computes softmax(Q Kᵀ × queries_scale) V with heads whose keys and values have the same
width, so narrower keys (`key_features`) are padded with zeros. It reads positional encodings from a
table, which here has `POSITIONS` rows.
"""

import math
import pprint
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from configs.base import Config
from data.vocabulary import BOS, EOS, SPECIALS, UNK, all_tokens
from errors import UserError
from exporting.description import (
    copy_program,
    describe_translation,
    write_description,
    write_readme,
)
from exporting.folder import write_vocabularies
from exporting.formats import ExportFormat
from exporting.readmes import CTRANSLATE2_README
from models.layers import unroll_layers
from models.transformer import sinusoids
from training.restore import RestoredRun

# Number of rows of the table of positional encodings. CTranslate2 refuses longer sentences.
POSITIONS = 4096
EPSILON = 1e-6  # the ε of flax.linen.LayerNorm


class CTranslate2Format(ExportFormat):
    """The Transformer, with any combination of its options."""

    packages = ("ctranslate2",)

    def check(self, config: Config) -> None:
        if config.model.name != "transformer":
            raise UserError(
                f"--format=ctranslate2 needs a Transformer, but the model of this run is "
                f"{config.model.name} ({config.task}): use --format=safetensors or "
                "--format=stablehlo"
            )
        decode = config.decode
        if decode.coverage and decode.length_penalty == "gnmt":
            raise UserError(
                "CTranslate2 cannot combine decode.coverage with decode.length_penalty=gnmt: add "
                "--decode.coverage=0 or --decode.length_penalty=average"
            )

    def write(self, run: RestoredRun, folder: Path) -> None:
        task = run.task
        spec = _make_spec(task.config.model, run.params)
        spec.register_source_vocabulary(all_tokens(task.source))
        spec.register_target_vocabulary(all_tokens(task.target))
        spec.config.unk_token = SPECIALS[UNK]
        spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[BOS]
        spec.config.eos_token, spec.config.add_source_eos = SPECIALS[EOS], True
        spec.config.layer_norm_epsilon = EPSILON
        spec.validate()
        spec.optimize(quantization="float32")
        spec.save(str(folder))
        write_vocabularies(task, folder)
        description = describe_translation(task)
        write_description(description, folder)
        copy_program("ctranslate2_translate.py", "translate.py", folder)
        from exporting.programs.ctranslate2_translate import options  # imports ctranslate2

        shown = pprint.pformat(options(description["decode"], 10), sort_dicts=False)
        write_readme(run, folder, CTRANSLATE2_README.format(options=shown))


def _make_spec(model: Config, params: dict[str, Any]) -> Any:
    """Return the specification of CTranslate2 with all weights of a Transformer."""
    from ctranslate2.specs import TransformerSpec

    params = unroll_layers(params) if model.scan else params
    one_head = model.attention_head >= 0
    spec = TransformerSpec.from_config(
        model.layers,
        model.heads,
        pre_norm=model.norm == "pre",
        alignment_layer=model.attention_layer,
        alignment_heads=1 if one_head else model.heads,  # the mean over the first heads
    )
    target_embed = params["source_embed" if model.share_embeddings else "target_embed"]
    spec.encoder.embeddings[0].weight = params["source_embed"]["embedding"]
    spec.decoder.embeddings.weight = target_embed["embedding"]
    encodings = _position_table(model, params)
    for name in ("encoder", "decoder"):
        part, layers = getattr(spec, name), params[name]
        part.position_encodings.encodings = encodings
        if model.norm == "pre":
            _set_norm(part.layer_norm, layers["norm"])
        for i, layer in enumerate(part.layer):
            weights = layers[f"unrolled_{i}"]
            reported = name == "decoder" and i == model.attention_layer % model.layers
            _set_layer(layer, weights, model, model.attention_head if reported else -1)
    if model.tie_output:
        spec.decoder.projection.weight = target_embed["embedding"]
    else:
        spec.decoder.projection.weight = _transposed(params["output"])
    return spec


def _position_table(model: Config, params: dict[str, Any]) -> np.ndarray:
    """Return the positional encodings; positions beyond learned ones use the last of them."""
    positions = np.arange(POSITIONS)
    if model.positions == "sinusoidal":
        return np.asarray(sinusoids(jnp.asarray(positions), model.features))
    table = params["positions"]["embedding"]
    return table[np.minimum(positions, len(table) - 1)]


def _set_layer(spec: Any, weights: dict[str, Any], model: Config, first_head: int) -> None:
    """Set the weights of an encoder or decoder layer.

    Head `first_head` of the cross-attention becomes the first one, because CTranslate2 reports the
    weights of the first heads; −1 keeps the order.
    """
    if "attention" in weights:  # an encoder layer
        blocks = [(spec.self_attention, weights["attention"], -1)]
    else:
        blocks = [
            (spec.self_attention, weights["self_attention"], -1),
            (spec.attention, weights["source_attention"], first_head),
        ]
    for i, (block, inner, first) in enumerate(blocks):
        _set_attention(block, inner, model, first)
        _set_norm(block.layer_norm, weights[f"residuals_{i}"]["norm"])
    _set_norm(spec.ffn.layer_norm, weights[f"residuals_{len(blocks)}"]["norm"])
    for linear, name in ((spec.ffn.linear_0, "W_1"), (spec.ffn.linear_1, "W_2")):
        linear.weight = _transposed(weights["feed_forward"][name])
        linear.bias = weights["feed_forward"][name]["bias"]


def _set_attention(spec: Any, weights: dict[str, Any], model: Config, first_head: int) -> None:
    from ctranslate2.converters import utils
    from ctranslate2.specs.common_spec import LinearSpec

    heads, width = model.heads, model.features // model.heads
    order = np.argsort(np.arange(heads) != first_head, kind="stable")
    parts: list[Any] = []
    for name in ("W_Q", "W_K", "W_V"):
        by_head = _transposed(weights[name]).reshape(heads, -1, model.features)[order]
        missing = width - by_head.shape[1]  # zeros in queries and keys change no product
        padded = np.pad(by_head, ((0, 0), (0, missing), (0, 0)))
        part: Any = LinearSpec()
        part.weight = padded.reshape(-1, model.features)
        parts.append(part)
    if len(spec.linear) == 2:  # self-attention
        utils.fuse_linear(spec.linear[0], parts)
    else:
        spec.linear[0].weight = parts[0].weight
        utils.fuse_linear(spec.linear[1], parts[1:])
    output = _transposed(weights["W_O"]).reshape(-1, heads, width)[:, order]
    spec.linear[-1].weight = np.ascontiguousarray(output.reshape(-1, model.features))
    spec.queries_scale = np.float32(1 / math.sqrt(model.key_features or width))


def _set_norm(spec: Any, weights: dict[str, Any]) -> None:
    spec.gamma, spec.beta = weights["scale"], weights["bias"]


def _transposed(layer: dict[str, Any]) -> Any:
    """Return a kernel with one row per output, as CTranslate2 expects it."""
    return np.ascontiguousarray(layer["kernel"].T)
