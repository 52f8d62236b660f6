import json

import jax
import jax.numpy as jnp
import pytest

from benchmarks import growth, report, speed
from benchmarks.measure import count_flops
from benchmarks.subjects import recurrent, transformer

TINY = recurrent(layers=1, features=8, words=50, batch=4, length=5, dtype="float32")


def test_flops_are_counted_in_every_loop_iteration():
    def loop(x, w):
        return jax.lax.scan(lambda h, _: (h @ w, None), x, length=5)[0]

    x, w = jnp.ones((3, 4)), jnp.ones((4, 4))
    assert count_flops(loop, x, w) == 5 * 2 * 3 * 4 * 4
    # The gradient takes three times the FLOPs: each iteration has one matrix product in the
    # forward pass and two in the backward pass.
    gradient = jax.grad(lambda x, w: loop(x, w).sum(), argnums=(0, 1))
    assert count_flops(gradient, x, w) == 3 * 5 * 2 * 3 * 4 * 4


def test_training_and_decoding_are_measured_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.measure.REPEATS", 1)
    monkeypatch.setattr(speed, "HAS_TORCH", False)
    monkeypatch.setattr(speed, "BEAM", 2)
    monkeypatch.chdir(tmp_path)
    rows = {"training": {"tiny": speed.training(TINY, rate=1e12)}}
    rows["decoding"] = {"tiny": speed.decoding(TINY)}
    figures = [x for part in rows.values() for row in part.values() for x in row.values()]
    assert all(x > 0 for x in figures)
    for part in rows.values():
        part["tiny"]["versions"] = "jax 0"
    rows["whole"] = {
        "a run": {
            "tokens_per_second": 95.0, "bare_tokens_per_second": 100.0, "steps": 10,
            "seconds": 3.0, "test_sentences": 7, "test_seconds": 0.5, "versions": "jax 0",
        }
    }  # fmt: skip
    report.FOLDER.mkdir(parents=True)
    (report.FOLDER / "cpu.json").write_text(
        json.dumps({"device": "here", "matrix_rate": 1e12, **rows})
    )
    grown = [{"pairs": 1, "s": 2.0}, {"pairs": 10, "s": 3.0}]
    (report.FOLDER / "cpu-growth.json").write_text(json.dumps({"device": "here", "corpus": grown}))
    decisions = f"\n{report.DECISIONS}\n\n- one\n"
    (tmp_path / "docs/performance.md").write_text(f"# Old\n{decisions}", "utf-8")
    report.main()
    page = (tmp_path / "docs/performance.md").read_text("utf-8")
    assert page.endswith(decisions) and "# Old" not in page
    assert "| a run | 95 | 100 | 95% | 10 | 3 | 7 | 0.50 |" in page
    assert "| tiny | " in page and "| 10 | 3 |" in page
    assert (report.FOLDER / "cpu-growth.png").stat().st_size > 1000


@pytest.mark.parametrize("align", ["global", "local_p"])
def test_a_decoding_step_is_measured(align, monkeypatch):
    monkeypatch.setattr("benchmarks.measure.REPEATS", 1)
    monkeypatch.setattr(growth, "SOURCES", (6,))
    monkeypatch.setattr(growth, "ALIGNMENTS", (align,))
    monkeypatch.setitem(growth.SIZES, "cpu", (1, 8, 4, "float32"))
    (row,) = growth.measure_source_lengths("cpu")
    assert row["source length"] == 6 and row[f"{align} ms"] > 0


@pytest.mark.filterwarnings("ignore")  # PyTorch emits warnings, which would fail the test
def test_the_pytorch_models_run():
    torch = pytest.importorskip("torch")
    from benchmarks import torch_models

    for subject in (TINY, transformer("tiny", 50, 4, 5, "float32")):
        model, words = subject.torch_model(), torch.tensor(subject.sentences()).long()
        torch_models.loss(model, words, words, words).backward()
        found = torch_models.beam_search(model.eval(), words, 2, 3)
        assert found.shape == (4, 4)
