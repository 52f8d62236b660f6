import contextlib

import jax
import jax.numpy as jnp
import pytest

from benchmarks import scan

CASES = {
    "luong2015": scan.Case(scan.luong(2, 8), 20, 4, 5, "float32"),
    "bahdanau2015": scan.Case(scan.bahdanau(8), 20, 4, 5, "float32"),
    "encoder": scan.Case(scan.encoder(8), 20, 4, 5, "float32"),
    "classifier": scan.Case(scan.classifier(8), 20, 4, 5, "float32"),
}


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(scan, "ROUNDS", 1)
    monkeypatch.setattr(scan, "ROUND_SECONDS", 0.0)


SLOW = (
    "luong2015",
    "bahdanau2015",
    "classifier",
)  # these cases take long to compile, so they are marked slow


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES]
)
def test_rows_are_measured_and_rendered(name):
    row = scan.measure(CASES[name])
    assert row["alignax_milliseconds"] > 0 and row["lax_milliseconds"] > 0
    assert row["gradient_difference"] < 1e-5
    line = scan.render({name: row}).splitlines()[-1]
    assert line.startswith(f"| {name} | 4 × 5 | ") and f"| {row['alignax_ratio']:.2f} × |" in line


def test_wrong_gradients_are_detected():
    @contextlib.contextmanager
    def no_weight_gradients():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                scan.models.scan.Linear, "gradient", lambda self, xs, gs, W: jnp.zeros_like(W)
            )
            yield

    variants = {"alignax": no_weight_gradients, "lax": scan.lax_scan}
    with pytest.raises(AssertionError, match="gradient_difference"):
        scan.measure(CASES["encoder"], variants)


def equations_in_loops(W, keys, b):
    """Return the number of jaxpr equations inside the loops of a scan's gradient.

    The body of the scan has a matrix product, an attention product and a bias.
    """

    def loss(*shared):
        W, keys, b = shared
        step = lambda h, x: (jnp.tanh(h @ W + x + b[None] + (keys @ h[..., None])[..., 0]), None)  # noqa: E731
        return scan.models.scan.scan(step, jnp.ones((3, 4)), jnp.ones((5, 3, 4)))[0].sum()

    jaxpr = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1, 2)))(W, keys, b).jaxpr
    loops = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    return sum(len(loop.params["jaxpr"].jaxpr.eqns) for loop in loops)


@pytest.mark.parametrize("variant", scan.ABLATIONS)
def test_ablations_leave_more_work_in_the_loop(variant):
    arguments = jnp.ones((4, 4)), jnp.ones((3, 4, 4)), jnp.ones(4)
    whole = equations_in_loops(*arguments)
    with scan.ABLATIONS[variant]():
        assert equations_in_loops(*arguments) > whole
