"""Bai et al. 2018: Elman, LSTM and GRU cells on the music of Boulanger-Lewandowski 2012."""

from papers.claims import ranked
from papers.table import Row, Table


def _table(name: str, data: str, elman: float, lstm: float, gru: float) -> Table:
    order = ("Elman", "LSTM", "GRU") if gru < lstm else ("Elman", "GRU", "LSTM")
    return Table(
        title=f"Recurrent cells on {name}: predicting the next frame",
        source=f"Bai, Kolter & Koltun 2018, table on polyphonic music, {name}",
        config="schuster1997",
        measures=("frame",),
        data=(data,),
        minutes=1.5,
        same_data=True,
        sizes=("small",),
        claims=ranked("table on polyphonic music", *order),
        rows=(
            Row("Elman", {"cell": "elman"}, {}, {"frame": elman}),
            Row("LSTM", {"cell": "lstm"}, {}, {"frame": lstm}),
            Row("GRU", {"cell": "gru"}, {}, {"frame": gru}),
        ),
    )


JSB = _table("JSB chorales", "jsb", 8.91, 8.45, 8.43)
NOTTINGHAM = _table("Nottingham", "nottingham", 4.05, 3.29, 3.46)
