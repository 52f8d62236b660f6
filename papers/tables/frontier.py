"""All translation architectures at equal budgets: tokens, operations and device time."""

from papers.table import Row, Table
from papers.tables.luong2015 import DEFAULT_LOCAL

_BIDIRECTIONAL = {"encoder": "bidirectional"}
# The first architecture defines the budgets. Architectures with fewer operations per token, or
# faster training steps, are trained for more epochs. On Multi30k, an epoch has 228 training steps,
# or 134 of the Transformer, so that there are evaluations after 3, 6 and 12 epochs.
_EPOCHS = 12
_RECURRENT, _TRANSFORMER = (0.001, 0.002, 0.004), (0.0025, 0.005, 0.01)


def _rows(
    name: str, arguments: dict[str, str], config: str = "", epochs: int = _EPOCHS,
    rates: tuple[float, ...] = _RECURRENT, every: int = 342,
) -> list[Row]:  # fmt: skip
    """Return one row per learning rate; the schedule does not depend on the number of epochs."""
    changes = {
        "train.steps": 0,
        "train.epochs": float(epochs),
        "train.eval_every": every,
        "train.eval_metric": "bleu",
        "train.ema": 0.99,
        "optimizer.schedule": "inverse_sqrt",
        "optimizer.warmup_steps": 200,
    }
    return [
        Row(f"{name}, rate {rate:g}", arguments, {**changes, "optimizer.learning_rate": rate},
            config=config)
        for rate in rates
    ]  # fmt: skip


FRONTIER = Table(
    title="Translation architectures at equal budgets",
    source="no publication; this is our comparison",
    differs="All runs have a learning rate that falls with the inverse square root of the step "
    "after 200 steps of warm-up, and are evaluated with a moving average of the parameters "
    "(train.ema=0.99); apart from that, the rows are the configs of this size, with their batch "
    "sizes and numbers of parameters. Recurrent encoders are bidirectional, except for those of "
    "Sutskever and Cho; marginal attention has no input feeding; the Transformer is pre-norm."
    + DEFAULT_LOCAL,
    config="luong2015",
    measures=("bleu", "perplexity"),
    from_logs=True,  # the budgets are read off the learning curves, which are in the logs
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    sizes=("small", "tiny"),
    minutes=0.8,
    figures=("budgets",),
    rows=(
        *_rows("Luong 2015, global", _BIDIRECTIONAL),
        *_rows("Luong 2015, local-p", {**_BIDIRECTIONAL, "align": "local_p"}),
        *_rows(
            "Deng 2018, marginal",
            {**_BIDIRECTIONAL, "align": "marginal", "feed": "no"},
            every=228,
        ),
        *_rows("Mino 2017, split", {**_BIDIRECTIONAL, "keys": "split"}, "mino2017", 13),
        *_rows("Bahdanau 2015", {}, "bahdanau2015", 16),
        *_rows("Xu 2015, hard", {"attention": "hard"}, "xu2015"),
        *_rows("Sutskever 2014", {}, "sutskever2014", 20),
        *_rows("Cho 2014", {}, "cho2014", 24),
        *_rows("Transformer", {"norm": "pre"}, "vaswani2017", 70, _TRANSFORMER, 402),
    ),
)
