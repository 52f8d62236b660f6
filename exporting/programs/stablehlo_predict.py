"""Predict the examples in a file of arrays with the exported function.

python predict.py inputs.npz outputs.npz

README.md lists the arrays of inputs.npz. Predictions are written to outputs.npz under their names,
and attention weights as "attention.NAME".
"""

import sys
from pathlib import Path

import jax
import jax.export
import numpy as np
from safetensors.numpy import load_file

_FOLDER = Path(__file__).resolve().parent


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python predict.py inputs.npz outputs.npz")
    content = (_FOLDER / "predict.stablehlo").read_bytes()
    predict = jax.jit(jax.export.deserialize(bytearray(content)).call)
    with np.load(sys.argv[1], allow_pickle=False) as inputs:
        results = predict(load_file(_FOLDER / "model.safetensors"), dict(inputs))
    predictions, attention = jax.device_get(results)
    named = {f"attention.{name}": weights for name, weights in attention.items()}
    np.savez(sys.argv[2], **predictions, **named)


if __name__ == "__main__":
    main()
