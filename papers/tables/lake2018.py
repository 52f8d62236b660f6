"""Lake & Baroni 2018: every translation architecture on four splits of the SCAN commands."""

from papers.table import Row, Table

_NAMES = {
    "sutskever": "Sutskever 2014 (no attention)",
    "cho": "Cho 2014 (no attention)",
    "bahdanau": "Bahdanau 2015",
    "luong": "Luong 2015, global",
    "local_m": "Luong 2015, local-m",
    "local_p": "Luong 2015, local-p",
    "hard": "Xu 2015, hard",
    "marginal": "Deng 2018, marginal",
    "mino": "Mino 2017, split",
    "transformer": "Transformer",
}
ARCHITECTURES = tuple(Row(name, {"model": model}) for model, name in _NAMES.items())
_OVERALL = "LSTM, 2 × 200, no attention"
_DIFFERS = (
    "All rows are trained with one recipe, that of configs/lake2018.py, and scored with the best "
    "checkpoint on held-out training commands (one in 20). The first two rows are networks of the "
    "paper: the best one over all splits, and the best one for this split. The paper's recipe is "
    "size=paper: 100,000 training steps with one example each; the final model is scored. In half "
    "of these steps, the paper's decoder reads its own output; here it always reads the "
    "target prefix. The windows of local attention have D = 4, because D = 10 would contain all of "
    "a command."
)


def overall(exact: float | None = None) -> Row:
    """Return the row of the network that is best over all splits of the paper."""
    return Row(_OVERALL, {"model": "lstm"}, {}, {} if exact is None else {"exact": exact})


def _split(name: str, title: str, source: str, *paper: Row) -> Table:
    return Table(
        title=f"Lake & Baroni 2018, SCAN: {title}",
        source=f"Lake & Baroni 2018, mean of five runs, quoted from memory: {source}",
        config="lake2018",
        measures=("exact", "perplexity"),
        data=(f"scan_{name}",),
        minutes=1.5,
        same_data=True,
        differs=_DIFFERS,
        rows=(*paper, *ARCHITECTURES),
    )


SIMPLE = _split(
    "simple",
    "random commands",
    "99.8 % for the best network; 99.7 % for the best one over all splits is quoted from the "
    "README of a reimplementation (vesteinn/SCAN)",
    overall(99.7),
    Row("LSTM, 2 × 200, no dropout", {"model": "lstm"}, {"model.dropout": 0.0}, {"exact": 99.8}),
)
LENGTH = _split(
    "length",
    "longer action sequences than in training",
    "20.8 % for the best network, 13.8 % for the best one over all splits",
    overall(13.8),
    Row("GRU, 1 × 50, attention", {"model": "gru_attention"}, {}, {"exact": 20.8}),
)
JUMP = _split(
    "jump",
    "a verb that occurs in training only on its own",
    "1.2 % for the best network, .08 % for the best one over all splits; the size of the best "
    "network is that of a reimplementation (vesteinn/SCAN)",
    overall(0.08),
    Row("LSTM, 1 × 100, attention", {"model": "lstm_attention"}, {}, {"exact": 1.2}),
)
TURN_LEFT = _split(
    "turn_left",
    "a phrase that occurs in training only on its own",
    "90.3 % for the best network, whose size is that of a reimplementation (vesteinn/SCAN)",
    overall(),
    Row("GRU, 1 × 100, attention", {"model": "gru_attention"}, {
        "model.encoder.features": 100, "model.encoder.embedding": 100,
        "model.decoder.features": 100, "model.decoder.embedding": 100,
        "model.decoder.maxout": 100, "model.dropout": 0.1,
    }, {"exact": 90.3}),
)  # fmt: skip
