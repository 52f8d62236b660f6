"""Schuster & Paliwal 1997: delays, merged networks and bidirectional networks."""

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
    claims: tuple[tuple[str, str], ...],
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


def _best_delay(direction: str, best: int) -> tuple[tuple[str, str], ...]:
    """Return the claims that delays of 0 and 20 time steps are worse than the delay `best`."""
    return tuple((f"{direction}, delay {k}", f"{direction}, delay {best}") for k in (0, 20))


SERIES = _table(
    "series", "squared_error",
    (Row("merged, separately trained, delays 15 and 10",
         merges=("forward, delay 15", "backward, delay 10")),
     Row("merged in one training, delays 15 and 10", {"network": "merged"},
         {"model.forward_delay": 15, "model.backward_delay": 10})),
    (*_best_delay("forward", 15), *_best_delay("backward", 10),
     ("forward, delay 15", "merged, separately trained, delays 15 and 10"),
     ("backward, delay 10", "merged, separately trained, delays 15 and 10"),
     ("merged, separately trained, delays 15 and 10", "brnn")),
)  # fmt: skip
CLASSES = _table(
    "series_classes", "error",
    (Row("merged in one training, delays 15 and 10", {"network": "merged"},
         {"model.forward_delay": 15, "model.backward_delay": 10}),),
    (*_best_delay("forward", 15), *_best_delay("backward", 10),
     ("forward, delay 15", "merged in one training, delays 15 and 10"),
     ("backward, delay 10", "merged in one training, delays 15 and 10"),
     ("merged in one training, delays 15 and 10", "brnn")),
)  # fmt: skip
