import contextlib
import functools
import importlib
import json
import time
import types
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from benchmarks import growth, options, report, speed, startup, startup_process
from benchmarks.kernels import operations
from benchmarks.measure import repeated
from benchmarks.subjects import recurrent, transformer
from benchmarks.turns import Timed
from errors import UserError


def timed(prepared):
    """Run each prepared function once, as if it had taken one second."""
    for function in prepared.values():
        function.run(1)
    return {name: Timed(1.0, function.facts) for name, function in prepared.items()}


TINY = recurrent(layers=1, features=8, vocabulary_size=50, batch=4, length=5, dtype="float32")


@pytest.mark.slow
def test_training_and_decoding_are_measured_and_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(speed.WIDTHS, "beam", 2)
    step, search = (timed(speed.prepare_training(TINY)), timed(speed.prepare_decoding(TINY)))
    rows = {"training": {"tiny": speed.training_row({speed.OURS: step}, 20, 1e12)}}
    rows["decoding"] = {"tiny": speed.decoding_row({speed.OURS: search}, 4)}
    figures = [x for part in rows.values() for row in part.values() for x in row.values()]
    assert all(x == {} or x > 0 for x in figures)  # PyTorch has no setups here
    for part in rows.values():
        part["tiny"]["versions"] = "jax 0"
    rows["whole"] = {
        "a run": {
            "tokens_per_second": 95.0, "bare_tokens_per_second": 100.0, "steps": 10,
            "seconds": 3.0, "test_sentences": 7, "test_seconds": 0.5, "versions": "jax 0",
        }
    }  # fmt: skip
    report.FOLDER.mkdir(parents=True)
    (report.FOLDER / "cpu.json").write_text(json.dumps({"device": "here", **rows}))
    grown = [{"pairs": 1, "s": 2.0}, {"pairs": 10, "s": 3.0}]
    (report.FOLDER / "cpu-growth.json").write_text(json.dumps({"device": "here", "corpus": grown}))
    notes = f"\n{report.NOTES}\n\n- one\n"
    (tmp_path / "docs/performance.md").write_text(f"# Old\n{notes}", "utf-8")
    report.main()
    page = (tmp_path / "docs/performance.md").read_text("utf-8")
    assert page.endswith(notes) and "# Old" not in page
    assert "| a run | 95 | 100 | 95 % | 10 | 3 | 7 | 0.50 |" in page
    assert "| tiny | " in page and "| 10 | 3 |" in page
    assert (report.FOLDER / "cpu-growth.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("device", "name"), [("NVIDIA H200", "nvidia-h200"), ("two x86_64 cores", "cpu-x86-64")]
)
def test_readme_gives_the_measured_ratios(device, name):
    results = json.loads(Path(f"docs/performance/{name}.json").read_text("utf-8"))

    def ratios(part, model):
        for row in (row for key, row in results[part].items() if key.startswith(model)):
            for peer in (key for key in row if key.startswith("torch_")):
                speeds = [speed for speed in row[peer].values() if speed]
                yield row[peer.removeprefix("torch_")] / max(speeds)

    groups = (("training", "recurrent"), ("training", "Transformer"), ("decoding", ""))
    found = [sorted(ratios(*group)) for group in groups]
    ranges = [f"{values[0]:.2f} to {values[-1]:.2f}" for values in found]
    assert f"| {device} | {' | '.join(ranges)} |" in Path("README.md").read_text("utf-8")


def test_the_page_is_generated_from_the_results():
    assert Path("docs/performance.md").read_text("utf-8").startswith(report.generated())


@pytest.mark.parametrize(
    ("prepare", "arguments"),
    [
        (growth.prepare_decoding, (6, "local_p")),
        pytest.param(growth.prepare_long_source, (7, "local_m"), marks=pytest.mark.slow),
        pytest.param(growth.prepare_training_step, (30, 4), marks=pytest.mark.slow),
        pytest.param(growth.prepare_beam, (3,), marks=pytest.mark.slow),
    ],
)
def test_growth_is_prepared(prepare, arguments, monkeypatch):
    monkeypatch.setitem(growth.SIZES, "cpu", (1, 8, 4, "float32"))
    prepared = prepare("cpu", *arguments)
    assert list(timed(prepared)) == ["step"]


def test_growth_is_reported(monkeypatch):
    def prepare_nothing(prepares):
        return {name: {"step": Timed(2.0, {"temporary": 3e6})} for name in prepares}

    monkeypatch.setattr(growth, "time_in_turn", prepare_nothing)
    monkeypatch.setattr(growth, "ALIGNMENTS", ("global", "local_p"))
    monkeypatch.setattr(growth, "BEAMS", (1, 5))
    row = growth.measure_training("cpu")[0]
    assert row == {
        "source length": 64, "global ms": 2000, "global temporary MB": 3,
        "local_p ms": 2000, "local_p temporary MB": 3,
    }  # fmt: skip
    assert growth.measure_beams("cpu")[1] == {"beam": 5, "ms": 2000, "sentences per second": 16}
    steps = growth.measure_vocabularies("cpu")[0], growth.measure_batch_sizes("cpu")[1]
    assert [row["tokens per second"] for row in steps] == [320, 40]


@pytest.mark.filterwarnings("ignore")  # PyTorch emits warnings, which would fail the test
def test_the_pytorch_models_run():
    torch = pytest.importorskip("torch")
    from benchmarks import torch_models

    for subject in (TINY, transformer("tiny", 50, 4, 5, "float32")):
        model, words = subject.torch_model(), torch.tensor(subject.sentences()).long()
        torch_models.loss(model, words, words, words).backward()
        functions = torch_models.start_beam, torch_models.advance_beam
        found = torch_models.beam_search(model.eval(), words, 2, 3, *functions)
        assert found.shape == (4, 3)
        found = torch_models.beam_search(model, words, 1, 3, *functions)
        start = torch.full((4, 1), torch_models.BOS)
        logits = model(words, torch.cat([start, found[:, :-1]], dim=1))
        logits[..., : torch_models.EOS + 1] = -torch.inf
        assert torch.equal(logits.argmax(dim=-1), found)  # as under teacher forcing


@pytest.mark.filterwarnings("ignore")
def test_pytorch_is_prepared():
    torch = pytest.importorskip("torch")
    from benchmarks import peers

    eager = peers.Setup("float32", "eager")
    assert eager.name == "float32, eager"
    prepared = peers.prepare_training(TINY, eager) | peers.prepare_decoding(TINY, eager, {"two": 2})
    assert set(timed(prepared)) == {"step", "two"}
    threads = torch.get_num_threads()
    try:
        halves = peers.prepare_training(TINY, peers.Setup("float32", "eager", processes=2))
        assert set(timed(halves)) == {"step"}
    finally:
        torch.distributed.destroy_process_group()  # ends the other process
        torch.set_num_threads(threads)


@pytest.mark.filterwarnings("ignore")
def test_gpus_have_setups_with_cuda_graphs(monkeypatch):
    pytest.importorskip("torch")
    from benchmarks import peers

    monkeypatch.setattr(peers, "GPU", False)
    names = ["float32, eager", "float32, compiled (default)"]
    assert [x.name for x in peers.setups("decoding")] == names
    names += ["float32, eager, 2 processes", "float32, compiled (default), 2 processes"]
    assert [x.name for x in peers.setups("training")] == names
    monkeypatch.setattr(peers, "GPU", True)
    names = [x.name for x in peers.setups("training") if x.precision == "bfloat16"]
    assert names == [
        "bfloat16, eager", "bfloat16, compiled (default)", "bfloat16, compiled (reduce-overhead)",
        "bfloat16, compiled (default, one CUDA graph)",
    ]  # fmt: skip


MODEL = "recurrent 1 × 128"
FACTS = {"flops": 6e9, "gigabytes": 9.0, "parameters": 7e6}


@pytest.fixture
def times(monkeypatch):
    """Return the times of the setups "slow" and "failed" of PyTorch, which a test can change."""
    times = {
        f"training, {MODEL}, Alignax": {"step": Timed(0.5, FACTS)},
        f"training, {MODEL}, slow": {"step": Timed(3.0, {})},
        f"decoding, {MODEL}, Alignax": {"greedy": Timed(1.0, {}), "beam": Timed(2.0, {})},
    }
    monkeypatch.setattr(speed, "time_in_turn", lambda _prepares: times)
    monkeypatch.setattr(speed, "torch_setups", lambda _part: {"slow": "setup", "failed": "setup"})
    return times


def compare(*parts):
    rows = [row for row in speed.rows_of(MODEL, parts) if row.dropout]
    return [row for _, _, row in speed.compare("cpu", MODEL, rows, rate=1e12)]


def test_setups_that_fail_have_no_speed_and_are_reported(times):
    training, decoding = compare("training", "decoding")
    assert training["torch_tokens_per_second"] == {"slow": pytest.approx(640 / 3), "failed": None}
    assert "| 213 | 6.00 × | slow; failed: failed |" in report.training({MODEL: training})
    assert decoding["torch_beam_per_second"] == {"slow": None, "failed": None}
    assert f"| {MODEL} | 32 | – | – | – | 16 | – | – | – |" in report.decoding({MODEL: decoding})


def test_a_failure_of_alignax_is_an_error(times):
    del times[f"training, {MODEL}, Alignax"]
    with pytest.raises(UserError, match="Alignax failed"):
        compare("training")


def test_rows_are_selected_by_a_regular_expression(monkeypatch):
    monkeypatch.setattr(options.flags, "FLAGS", types.SimpleNamespace(subjects="× 128|d.tes"))
    assert options.selected([MODEL, "base", "x, dates"]) == [MODEL, "x, dates"]
    with pytest.raises(UserError, match=r"--subjects=× 128\|d\.tes matches none of .*: base"):
        options.selected(["base"])
    assert speed.rows_of("base", ["decoding", "whole"]) == [("decoding", "base", True)]
    assert [row.name for row in speed.rows_of("x", ["training"])] == ["x", "x, no dropout"]


@pytest.mark.filterwarnings("ignore")
def test_a_recorded_call_is_replayed_and_its_tensors_are_kept(monkeypatch):
    torch = pytest.importorskip("torch")
    from benchmarks import peers

    events = []
    graph = types.SimpleNamespace(replay=lambda: events.append("replay"))

    @contextlib.contextmanager
    def record(_graph):
        events.append("record")
        yield
        events.append("recorded")

    stream = types.SimpleNamespace(wait_stream=lambda _other: None)
    for name, fake in {
        "Stream": lambda: stream, "current_stream": lambda: stream, "CUDAGraph": lambda: graph,
        "stream": lambda _stream: contextlib.nullcontext(), "graph": record,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, fake)
    tensor = torch.ones(2)
    kept = weakref.ref(tensor)
    call = functools.partial(lambda _tensor: events.append("call"), tensor)
    run = peers.Setup("bfloat16", peers.RECORDED).repeated(call)
    del call, tensor
    assert events == ["call"] * peers.WARM_UP + ["record", "call", "recorded"]
    events.clear()
    run(3)
    assert events == ["replay"] * 3 and kept() is not None


def test_the_fastest_setup_of_pytorch_is_reported():
    times = {"Alignax": {"step": Timed(0.5, FACTS)}, "slow": {"step": Timed(3.0, {})}}
    times["fast"] = {"step": Timed(2.0, {})}
    trained = speed.training_row(times, tokens=100, rate=24e9)
    line = "| x | 7.0 M | 200 | 50 | 4.00 × | fast | 500.0 | 0.012 | 50 % | 9.00 |"
    assert line in report.training({"x": trained})
    times = {
        "Alignax": {"greedy": Timed(1.0, {}), "beam": Timed(2.0, {})},
        "a": {"greedy": Timed(3.0, {}), "beam": Timed(8.0, {})},
        "b": {"greedy": Timed(4.0, {}), "beam": Timed(5.0, {})},
    }
    decoded = speed.decoding_row(times, sentences=60)
    line = "| x | 60 | 20 | 3.00 × | a | 30 | 12 | 2.50 × | b |"
    assert line in report.decoding({"x": decoded})
    machine = {"device": "here", "training": {"x": trained}, "decoding": {"x": decoded}}
    expected = "- here: Alignax trains 4.00 times and decodes 2.50 to 3.00 times as fast"
    assert report.summary([machine, {"device": "other"}]).startswith(expected)
    del machine["training"]
    assert report.summary([machine]).startswith("- here: Alignax decodes 2.50 to 3.00 times")


@pytest.mark.filterwarnings("ignore")
def test_the_transformer_in_pytorch_drops_only_embeddings_and_sublayer_outputs():
    torch = pytest.importorskip("torch")
    from benchmarks import torch_models

    subject, dropped = transformer("tiny", 50, 4, 5, "float32"), []
    model, tokens = subject.torch_model(), torch.tensor(subject.sentences()).long()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(lambda _module, _inputs, output: dropped.append(output))
    torch_models.loss(model, tokens, tokens, tokens)
    sublayers = 5 * subject.config.model.layers  # 2 per encoder layer and 3 per decoder layer
    assert [x.shape for x in dropped] == [(4, 5, 64)] * (2 + sublayers)
    attention = [m for m in model.modules() if isinstance(m, torch.nn.MultiheadAttention)]
    assert attention and all(module.dropout == 0 for module in attention)


def test_operations_are_counted_and_the_longest_is_first():
    x = jnp.ones((64, 64))
    product = jax.jit(lambda x: jnp.tanh(x @ x) @ x)
    found = operations(lambda: product(x))
    assert sum(operation.count for operation in found) >= 2
    times = [operation.microseconds for operation in found]
    assert times == sorted(times, reverse=True) and times[-1] >= 0


def test_phases_add_up_to_the_time_since_the_start():
    began = time.time() - 1
    clock = startup_process.Clock(began)
    inner = clock.timed(lambda: time.sleep(0.02), startup_process.COMPILATION)
    clock.switch(startup_process.REST)
    clock.timed(lambda: (time.sleep(0.01), inner()), startup_process.FIRST)()
    clock.switch(startup_process.REST)
    seconds = clock.seconds
    assert seconds[startup_process.IMPORTS] >= 1
    assert seconds[startup_process.COMPILATION] >= 0.02 > 0 < seconds[startup_process.FIRST]
    assert sum(seconds.values()) == pytest.approx(time.time() - began, abs=0.1)


@pytest.mark.parametrize("name", startup_process.PHASES)
def test_the_timed_functions_exist(name):
    for path in (*startup_process.PHASES[name], startup_process.ENDS[name]):
        module, _, names = path.partition(":")
        owner = importlib.import_module(module)
        for part in names.split("."):
            owner = getattr(owner, part)
        assert callable(owner)


def test_starts_are_summarized_and_reported(monkeypatch, tmp_path):
    starts = []

    def seconds_by_phase(name, words, cache):
        starts.append((name, cache))
        return {"imports": 1.0, "compilation": float(len(starts))}

    monkeypatch.setattr(startup, "prepare", lambda *_: {"train": ["--a"], "predict": ["--b"]})
    monkeypatch.setattr(startup, "seconds_by_phase", seconds_by_phase)
    rows = startup.measure_starts("x", tmp_path, repeats=3)
    assert rows["train.py, x, cold cache"] == {"total": 6.0, "imports": 1.0, "compilation": 5.0}
    assert len(rows) == 4 and len(set(starts)) == 6  # both states of the cache share a folder
    page = report.startup(rows)
    assert "| train.py, x, cold cache | 6.00 | 1.00 | – | – | 5.00 | – | – |" in page


def test_repeated_calls_are_counted_and_finished():
    results = []
    repeated(lambda: results.append(jnp.ones(3)) or {"x": results[-1]})(40)
    assert len(results) == 40 and all(x.is_ready() for x in results)
