"""The texts of README.md in exported folders."""

SAFETENSORS_README = """\
`config.json` is the config of the run, and `vocabulary/` contains its vocabularies.
`model.safetensors` contains {arrays} arrays with {parameters:,} parameters in float32. Read it with
the package safetensors in any framework, or load vocabularies, model and weights with Alignax:

```python
from exporting.safetensors_files import load_export

run = load_export("path/to/this/folder")  # run.task, run.params
```
"""

CTRANSLATE2_README = """\
Translate one sentence per line with the program in this folder, which applies the decode settings
in `export.json`:

```sh
python translate.py < input.txt > output.txt
```

It needs the package ctranslate2, and sentencepiece or sacremoses if the vocabularies do.
`--device=cuda` uses a GPU, and `--compute_type=int8` quantizes the weights when they are loaded.

The function `options` in `translate.py` converts the decode settings to options of
`ctranslate2.Translator.translate_batch`. For a source sentence of 10 tokens, they are:

```python
{options}
```
"""

TRANSLATION_README = """\
Translate one sentence per line with the program in this folder (greedy decoding). It needs the
packages jax, flatbuffers and safetensors, and sentencepiece or sacremoses if the vocabularies do:

```sh
python translate.py < input.txt > output.txt
```

`encode.stablehlo` and `step.stablehlo` are functions for `jax.export.deserialize`, lowered for the
platforms cpu and cuda:

| function | arguments | results |
|---|---|---|
| encode | weights, source [b, {width}], room [t] | memory, state |
| step | weights, memory, state, tokens [b] | scores [b, v], state |

- weights: the arrays of `model.safetensors` by name, cast to the dtypes of the function.
- source: token ids in int32, padded with 0; every sentence ends in `</s>` (id 2). A sentence has
  {length}.
- room: any int32 array of length t, the maximum number of target tokens.
- memory, state: tuples of arrays. The batch is the first axis of each array, so beam search repeats
  the rows of both and selects rows of the state.
- tokens: the last token of each target sentence, at first `<s>` (id 1).
- scores: log p of each next token; −inf for `<pad>` and `<s>`, which are never generated.

`export.json` describes tokenization and the decode settings of the run.
"""

PREDICT_README = """\
Predict the examples in a file of arrays with the program in this folder. It needs the packages jax,
flatbuffers and safetensors:

```sh
python predict.py inputs.npz outputs.npz
```

`predict.stablehlo` is a function for `jax.export.deserialize`, lowered for the platforms cpu and
cuda. Its arguments are the arrays of `model.safetensors` by name, and a dictionary with these
arrays. b is the number of examples. The other named sizes are at least 2; examples are padded with
zeros to the same sizes:

| input | shape | dtype |
|---|---|---|
{inputs}

It returns two dictionaries: predictions and attention weights. Line n of a file in `vocabulary/` is
the token or label with the id n, counted from 0.
"""
