"""Models reach the scores that the documentation claims. Each run takes minutes on two cores."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORPORA = ROOT.parent / "shared" / "data"


def run(tmp_path, config, *flags):
    """Train and evaluate in new processes; return the scores on the test split."""
    common = {"cwd": ROOT, "check": True}
    workdir = f"--workdir={tmp_path}/run"
    train = [sys.executable, "train.py", f"--config=configs/{config}", workdir, *flags]
    subprocess.run(train, **common)
    subprocess.run([sys.executable, "eval.py", workdir, "--pictures=0"], **common)
    return json.loads((tmp_path / "run" / "eval" / "test" / "scores.json").read_text())["scores"]


EXACT = {
    "luong2015.py:data=dates": 0.99,
    "luong2015.py:align=local_m,data=dates": 0.99,
    "luong2015.py:align=local_p,data=dates": 0.99,
    "bahdanau2015.py:data=dates": 0.99,
    "xu2015.py:attention=hard,data=dates": 0.97,
    "mino2017.py:data=dates": 0.99,
    "cho2014.py:data=dates": 0.99,
    "sutskever2014.py:data=dates": 0.99,
    "vaswani2017.py:data=dates": 0.99,
    "vaswani2017.py:norm=pre,data=dates": 0.99,
}


@pytest.mark.slow
@pytest.mark.parametrize("config", EXACT)
def test_every_model_learns_the_generated_corpus(config, tmp_path):
    assert run(tmp_path, config)["exact"] >= EXACT[config]


@pytest.mark.slow
def test_a_small_model_without_attention_is_worse(tmp_path):
    assert run(tmp_path, "luong2015.py:align=none,data=dates")["exact"] < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("data", ["multi30k_de_en", "cmudict"])
def test_real_corpora_need_only_a_folder(data, tmp_path):
    folder = CORPORA / data.removesuffix("_de_en")
    if not folder.is_dir():
        pytest.skip(f"{folder} does not exist")
    flags = (f"--config.data.dir={folder}", "--config.train.steps=200")
    flags += ("--config.train.eval_every=200",)
    assert run(tmp_path, f"luong2015.py:data={data}", *flags)["perplexity"] < 300
