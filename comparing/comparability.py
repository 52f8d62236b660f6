"""Which scores of the runs of a comparison can be compared."""

from collections.abc import Sequence
from typing import NamedTuple

from comparing.examples import same_examples
from comparing.runs import ComparedRun

OTHER_CORPORA = (
    "The scores of the runs are not comparable, because their corpora differ: the page shows no "
    "differences, no best scores and no examples. To compare the runs, score all of them on the "
    "same split of the same corpus, or on the same test set (eval.py --test)."
)


class Comparability(NamedTuple):
    """What can be compared between runs."""

    corpora: bool = True  # whether the scores describe the same corpus; if not, none is compared
    examples: bool = False  # whether the reports are known to have the same examples
    notes: Sequence[str] = ()  # why scores are not compared

    def compares(self, key: str) -> bool:
        """Return whether a score, given by its name in scores.json, can be compared."""
        return self.corpora


def comparability(runs: Sequence[ComparedRun], split: str) -> Comparability:
    """Return what can be compared between the reports of a split or a test set."""
    examples = same_examples(runs)
    if _different_corpora(runs, split, examples):
        return Comparability(corpora=False, notes=[OTHER_CORPORA])
    return Comparability(examples=examples)


def _different_corpora(runs: Sequence[ComparedRun], split: str, same: bool) -> bool:
    """Return whether the reports are of different corpora; `same` means of the same examples.

    Without examples, the languages and the names of the corpora are compared. A test set is not a
    part of these corpora.
    """
    scored = [run for run in runs if run.report]
    if not same and any(run.examples for run in scored):
        return True
    unknown = [run for run in scored if not run.examples]
    named = {_corpus_names(run) for run in scored if run.corpus}
    return bool(unknown) and split in ("valid", "test") and len(named) > 1


def _corpus_names(run: ComparedRun) -> tuple[object, ...]:
    """Return the names of a run's corpus, which do not depend on its vocabularies."""
    label = run.corpus.rpartition("-")[0]  # without the digest
    return label, *(run.fields.get(f"data.{name}") for name in ("name", "files"))
