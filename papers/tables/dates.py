"""The generated corpus of dates: dates that are longer than those in training."""

from papers.table import Row, Table
from papers.tables.lake2018 import ARCHITECTURES, overall

LENGTH = Table(
    title="Dates that are longer than those in training",
    source="no publication; the networks of the first two rows are those of Lake & Baroni 2018",
    config="lake2018",
    measures=("exact", "perplexity", "aer"),
    data=("dates_long",),
    minutes=3.0,
    sizes=("tiny", "small"),
    machine="two CPU cores",
    differs="Training and validation pairs have at most 14 tokens, and test pairs have 15 to 17. "
    "Five in six test pairs are dates with weekday and time; in training, a date has a weekday or "
    "a time, but never both. The other test pairs are dates with time whose day and hour have two "
    "digits. All rows are trained with one recipe, that of configs/lake2018.py.",
    rows=(overall(), Row("GRU, 1 × 50, attention", {"model": "gru_attention"}), *ARCHITECTURES),
)
