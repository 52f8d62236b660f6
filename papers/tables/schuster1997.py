"""Schuster & Paliwal 1997: delays, merged networks and bidirectional networks."""

from papers.claims import Claim, best
from papers.table import Row, Table

DELAYS = (0, 2, 5, 10, 15, 20)


def _unidirectional(direction: str) -> tuple[Row, ...]:
    return tuple(
        Row(f"{direction}, delay {k}", {"network": direction}, {f"model.{direction}_delay": k})
        for k in DELAYS
    )


def _table(
    data: str,
    measure: str,
    merged: tuple[Row, ...],
    claims: tuple[Claim, ...],
) -> Table:
    return Table(
        title=f"Schuster & Paliwal 1997: delays, merging, two directions ({data})",
        source="plots without numbers: a delay improves a unidirectional network up to a point "
        "(the best delays, cited from memory, are about 2 time steps forward and 5 backward), "
        "merged networks are better than either direction, and the BRNN is best",
        config="schuster1997",
        measures=(measure,),
        data=(data,),
        minutes=0.2,
        machine="two CPU cores",
        sizes=("tiny",),
        seeds=5,
        differs="The mlp and tdnn networks read ten time steps on either side of the current one. "
        "The merged networks use, for each direction, the delay that is best on the validation "
        "split of the series. "
        "Networks that are merged in one training run share no parameters, but share gradient "
        "clipping and the choice of the best checkpoint.",
        claims=claims,
        figures=("delays",),
        rows=(
            *_unidirectional("forward"), *_unidirectional("backward"),
            Row("mlp", {"network": "mlp"}), Row("tdnn", {"network": "tdnn"}),
            *merged, Row("brnn", {"network": "brnn"}),
        ),
    )  # fmt: skip


def _best_delay(direction: str, delay: int) -> tuple[Claim, ...]:
    """Return the claims that delays of 0 and 20 time steps are worse than another delay."""
    others = (f"{direction}, delay {k}" for k in (0, 20))
    return best("plots: a delay helps up to a point", f"{direction}, delay {delay}", *others)


def _merging(merged: str) -> tuple[Claim, ...]:
    return (
        *best("plots", merged, "forward, delay 15", "backward, delay 10"),
        Claim(merged, "brnn", "plots"),
    )


SERIES = _table(
    "series", "squared_error",
    (Row("merged, separately trained, delays 15 and 10",
         merges=("forward, delay 15", "backward, delay 10")),
     Row("merged in one training, delays 15 and 10", {"network": "merged"},
         {"model.forward_delay": 15, "model.backward_delay": 10})),
    (*_best_delay("forward", 15), *_best_delay("backward", 10),
     *_merging("merged, separately trained, delays 15 and 10")),
)  # fmt: skip
CLASSES = _table(
    "series_classes", "error",
    (Row("merged in one training, delays 15 and 10", {"network": "merged"},
         {"model.forward_delay": 15, "model.backward_delay": 10}),),
    (*_best_delay("forward", 15), *_best_delay("backward", 10),
     *_merging("merged in one training, delays 15 and 10")),
)  # fmt: skip
