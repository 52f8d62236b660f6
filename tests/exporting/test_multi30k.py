"""CTranslate2 gives the translations of this repository for 500 sentences of Multi30k."""

import gzip
from pathlib import Path

import ctranslate2
import jax
import pytest

from decoding.translator import Translator
from exporting.programs.ctranslate2_translate import translations
from exporting.run import export_run
from exporting.text import read_vocabulary
from tests.programs import ROOT, call
from training.devices import make_mesh
from training.restore import restore_run
from training.workdir import load_config

CORPUS = ROOT.parent / "shared" / "data" / "multi30k"
SENTENCES = 500
TRAIN = [
    "--config=configs/vaswani2017.py:data=multi30k_de_en",
    f"--config.data.dir={CORPUS}",
    "--config.data.source_vocab.kind=bpe",
    "--config.data.source_vocab.size=4000",
    "--config.data.shared_vocab=True",
    "--config.model.share_embeddings=True",
    "--config.train.steps=300",
    "--config.train.eval_every=300",
    "--config.train.eval_metric=loss",
]
SETTINGS = {
    "greedy": {},
    "beam 5": {"beam": 5},
    "beam 5, average": {"beam": 5, "length_penalty": "average", "alpha": 1.0},
    "beam 5, gnmt": {"beam": 5, "length_penalty": "gnmt", "alpha": 0.6},
}


def compare(workdir: Path, folder: Path, name: str, lines: list[str]) -> tuple[int, float]:
    """Return the number of different translations, and the largest difference of their scores."""
    config, mesh = load_config(workdir), make_mesh(jax.devices()[:1])
    run = restore_run(config, workdir, mesh, "last", corpus=False)
    settings = config.decode.copy_and_resolve_references().unlock()
    settings.update(SETTINGS[name])
    expected = Translator([run.task], mesh, settings).in_order([run.params], lines)
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    source, target = (read_vocabulary(folder, side) for side in ("source", "target"))
    sources = [source.tokens(line) for line in lines]
    found = dict(translations(translator, dict(settings.items()), sources))
    different, largest = 0, 0.0
    for i, [hypothesis] in enumerate(expected):
        [(score, tokens)] = found[i]
        largest = max(largest, abs(score - hypothesis.score))
        if target.text(tokens) != hypothesis.text:
            different += 1
            print(f"{lines[i]}\n  {hypothesis.score:.6f} {hypothesis.text}")
            print(f"  {score:.6f} {target.text(tokens)}")
    return different, largest


@pytest.mark.slow
def test_multi30k(tmp_path):
    if not CORPUS.is_dir():
        pytest.skip(f"{CORPUS} does not exist")
    workdir, folder = tmp_path / "run", tmp_path / "out"
    call("train.py", *TRAIN, f"--config.data.cache={tmp_path}/cache", f"--workdir={workdir}")
    export_run(load_config(workdir), workdir, "last", "ctranslate2", folder)
    with gzip.open(CORPUS / "test_2016_flickr.de.gz", "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file][:SENTENCES]
    for name in SETTINGS:
        different, largest = compare(workdir, folder, name, lines)
        # Nearly equal scores can be ranked differently (docs/export.md).
        assert different <= 2, name
        assert largest < 0.1 or different, name
