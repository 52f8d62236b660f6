"""Which scores of the runs of a comparison can be compared."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from comparing.examples import same_examples
from comparing.runs import ComparedRun
from comparing.systems import System
from evaluation.metrics import FAITHFULNESS, in_sentence, metric_of

OTHER_CORPORA = (
    "The scores of the runs are not comparable, because their corpora differ: the page shows no "
    "differences, no best scores and no examples. To compare the runs, score all of them on the "
    "same split of the same corpus, or on the same test set (eval.py --test)."
)


def _setting(run: ComparedRun, name: str) -> object:
    """Return a setting of the vocabulary of target texts; None if the task has none."""
    return run.fields.get(f"data.{_target(run)}_vocab.{name}")


def _target(run: ComparedRun) -> str:
    """Return which vocabulary encodes the target texts of a translation run: source or target."""
    return "source" if run.fields.get("data.shared_vocab") else "target"


def _tokens(run: ComparedRun) -> object:
    settings = [_setting(run, name) for name in ("kind", "tokenizer", "lowercase")]
    return run.vocabularies.get(f"{_target(run)}.vocab", ""), *settings


def _all_tokens(run: ComparedRun) -> object:
    names = (".kind", ".tokenizer", ".lowercase")
    settings = {name: value for name, value in run.fields.items() if name.endswith(names)}
    return tuple(sorted(run.vocabularies.items())), tuple(sorted(settings.items()))


def _words(run: ComparedRun) -> object:
    """Return the tokenizer of `Vocabulary.words`; subwords are joined, and split with Moses."""
    return _setting(run, "tokenizer") if _setting(run, "kind") == "words" else "moses"


def _case(run: ComparedRun) -> object:
    return bool(_setting(run, "lowercase"))


class Condition(NamedTuple):
    """What two runs must have in common so that some scores are comparable."""

    scores: Sequence[str]  # their names in scores.json
    of_run: Callable[[ComparedRun], object]  # equal for runs that can be compared
    runs: str  # describes the runs that can be compared, and why
    name: str = ""  # names all of these scores together; "": each is listed


CONDITIONS = (
    Condition(
        ("loss", "perplexity", "accuracy"),
        _tokens,
        "with the same target vocabulary: means over target tokens depend on how texts are divided "
        "into tokens",
    ),
    Condition(
        ("tokenized_bleu", "token_error"),
        _words,
        "with the same tokenizer of target texts, which determines the words that are counted",
    ),
    Condition(
        ("bleu", "chrf", "ter", "exact", "token_error"),
        _case,
        "with the same `lowercase` setting of the target vocabulary: if it is set, these scores "
        "ignore the case",
    ),
    Condition(
        tuple(FAITHFULNESS),
        _all_tokens,
        "with the same vocabularies: they describe single tokens, and depend on how texts are "
        "divided into tokens",
        "the measures of faithfulness",
    ),
)


class Comparability(NamedTuple):
    """What can be compared between runs."""

    corpora: bool = True  # whether the scores describe the same corpus; if not, none is compared
    examples: bool = False  # whether the reports are known to have the same examples
    notes: Sequence[str] = ()  # why scores are not compared

    def groups(self, key: str, systems: Sequence[System]) -> list[object]:
        """Return the group of every system; a score is compared only within a group.

        The score is given by its name in scores.json.
        """
        if not self.corpora:
            return [*range(len(systems))]
        found = [condition for condition in CONDITIONS if key in condition.scores]
        return [
            {tuple(condition.of_run(run) for condition in found) for run in system.runs}
            for system in systems
        ]


def comparability(runs: Sequence[ComparedRun], split: str) -> Comparability:
    """Return what can be compared between the reports of a split or a test set."""
    examples = same_examples(runs)
    if _different_corpora(runs, split, examples):
        return Comparability(corpora=False, notes=[OTHER_CORPORA])
    return Comparability(examples=examples, notes=_notes(runs))


def _notes(runs: Sequence[ComparedRun]) -> list[str]:
    """Return one message per condition that the scored runs do not meet."""
    scored = [run for run in runs if run.report]
    reports = [run.report for run in scored if run.report]
    present = {key for report in reports for key in report["scores"]}
    present |= {key for report in reports for key in report.get("faithfulness", {})}
    notes = []
    for condition in CONDITIONS:
        keys = [key for key in condition.scores if key in present]
        if keys and len({condition.of_run(run) for run in scored}) > 1:
            named = condition.name or listed([in_sentence(metric_of(key).name) for key in keys])
            notes.append(f"The page compares {named} only between runs {condition.runs}.")
    return notes


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence, such as "loss, perplexity and accuracy"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


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
