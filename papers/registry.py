"""All tables and figures that can be reproduced, by name."""

from papers import (
    bahdanau2015,
    bai2018,
    cui2017,
    lin2017,
    luong2015,
    mino2017,
    multi30k,
    schuster1997,
    sutskever2014,
    toshniwal2016,
    vaswani2017,
    yang2016,
)
from papers.table import Table

TARGETS: dict[str, Table] = {
    "schuster1997.series": schuster1997.SERIES,
    "schuster1997.classes": schuster1997.CLASSES,
    "bai2018.jsb": bai2018.JSB,
    "bai2018.nottingham": bai2018.NOTTINGHAM,
    "sutskever2014.table1": sutskever2014.TABLE1,
    "sutskever2014.depth": sutskever2014.DEPTH,
    "bahdanau2015.table1": bahdanau2015.TABLE1,
    "luong2015.table1": luong2015.TABLE1,
    "luong2015.table3": luong2015.TABLE3,
    "luong2015.table4": luong2015.TABLE4,
    "luong2015.table6": luong2015.TABLE6,
    "luong2015.figure6": luong2015.FIGURE6,
    "toshniwal2016.cmudict": toshniwal2016.CMUDICT,
    "mino2017.keys": mino2017.KEYS,
    "vaswani2017.table3": vaswani2017.TABLE3,
    "multi30k.german": multi30k.GERMAN,
    "multi30k.english": multi30k.ENGLISH,
    "lin2017.hops": lin2017.HOPS,
    "yang2016.flat": yang2016.FLAT,
    "cui2017.readers": cui2017.READERS,
}
