"""What eval.py leaves of a translator: scores, hypotheses, pictures, a page to look around."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh

from data.pair import Pair
from data.tokenizers import JOINER
from data.vocabulary import EOS, UNK, Vocabulary
from decoding.translator import Hypothesis, Translator
from errors import UserError
from evaluation.alignment import (
    Gold,
    Link,
    alignment_error_rate,
    attention_links,
    parse_links,
    words_of_tokens,
)
from evaluation.curves import Part, by_length, by_unknown
from evaluation.page import write_report_page
from evaluation.pictures import heat_map, heat_maps
from evaluation.results import Wanted
from evaluation.scores import (
    edit_rate,
    exact_match,
    paired_bootstrap,
    signatures,
    token_error_rate,
    tokenised_bleu,
)
from evaluation.statistics import AttentionStatistics, measure
from evaluation.translation import (
    Attentions,
    Evaluator,
    Translated,
    references,
    sample,
    score,
    translate_split,
)
from tasks.task import Params
from tasks.translation import Translation

Parts = dict[str, list[Part]]  # scores of parts of a split, by what divides it


def report(task: Translation, params: Params, mesh: Mesh, wanted: Wanted) -> None:
    """Scores a split, prints the scores, and writes them with all that was decoded."""
    evaluator = Evaluator(task, mesh, wanted.decode)
    theirs = read_hypotheses(wanted.against) if wanted.against else []
    if wanted.against:
        _check_same_split(len(references(task, wanted.split)), len(theirs))
    translated = evaluator.translate(params, wanted.split, attention=wanted.pictures > 0)
    scores = evaluator.losses(params, wanted.split) | all_scores(task, translated, wanted.ter)
    looks = Looks(task, task.pairs(wanted.split), [t.pair for t in translated[: wanted.pictures]])
    for i, named in evaluator.forced_attention(params, wanted.split):
        looks.add(i, named)
    parts = lengths(task, translated) | beams(task, params, mesh, wanted)
    result = _result(task, wanted, translated, scores, looks, parts)
    if wanted.against:
        result["against"] = compared(task, translated, theirs)
    folder = wanted.folder
    _keep(folder, result, translated)
    _print(task, translated, result)
    for pattern in ("attention-*.png", "heads-*.png", "report.html"):  # of an earlier report
        for old in folder.glob(pattern):
            old.unlink()
    _draw(task, translated, folder, wanted.pictures)
    looks.draw(folder)
    if wanted.page:
        sentences = _sentences(evaluator, params, translated[: wanted.page])
        write_report_page(folder / "report.html", page_content(task, result, sentences))


def report_ensemble(
    tasks: Sequence[Translation], params: Sequence[Params], mesh: Mesh, wanted: Wanted
) -> None:
    """Scores and hypotheses of several models as one, whose attention is the mean of theirs."""
    task, translator = tasks[0], Translator(tasks, mesh, wanted.decode)
    translated = translate_split(translator, params, task, wanted.split)
    looks = Looks(task, task.pairs(wanted.split))
    forced = [
        Evaluator(own, mesh, wanted.decode).forced_attention(p, wanted.split)
        for own, p in zip(tasks, params, strict=True)
    ]
    for (i, first), *others in zip(*forced, strict=True):
        named = {
            name: np.mean([weights, *(own[name] for _, own in others)], axis=0)
            for name, weights in first.items()
        }
        looks.add(i, named)
    parts, scores = lengths(task, translated), all_scores(task, translated, wanted.ter)
    result = _result(task, wanted, translated, scores, looks, parts)
    _keep(wanted.folder, result, translated)


def _result(
    task: Translation,
    wanted: Wanted,
    translated: list[Translated],
    scores: dict[str, float],
    looks: "Looks",
    parts: Parts,
) -> dict[str, Any]:
    """What scores.json has."""
    errors = looks.alignment_errors()
    if errors:
        scores["alignment_error"] = errors["attention"]
    made = signatures(task.lowercase, max(len(t.references) for t in translated))
    result = {
        "split": wanted.split, "checkpoints": list(wanted.checkpoints),
        "sentences": len(translated),
        "decode": wanted.decode.to_dict(), "scores": scores,
        "signatures": {name: own for name, own in made.items() if name in scores},
        "curves": {name: [part._asdict() for part in some] for name, some in parts.items()},
        "alignment_error": errors,
        "attention": {name: own.overall()._asdict() for name, own in looks.statistics.items()},
        "attention_by_position": looks.by_position(),
    }  # fmt: skip
    return result


def _keep(folder: Path, result: dict[str, Any], translated: list[Translated]) -> None:
    content = json.dumps(result, indent=2, ensure_ascii=False)
    (folder / "scores.json").write_text(content + "\n", "utf-8")
    lines = "".join(t.best.text.replace("\n", " ") + "\n" for t in translated)
    (folder / "hypotheses.txt").write_text(lines, "utf-8")


class Looks:
    """What is kept of the attention under forced references: links, statistics, a few pictures."""

    def __init__(self, task: Translation, pairs: list[Pair], drawn: Sequence[Pair] = ()):
        self.task, self.pairs = task, pairs
        self.statistics: dict[str, AttentionStatistics] = {}
        self._links: dict[str, list[tuple[set[Link], Gold]]] = {}
        self._drawn = [pairs.index(pair) for pair in drawn]
        self._kept: dict[int, Attentions] = {}  # of those

    def add(self, i: int, named: Attentions) -> None:
        pair = self.pairs[i]
        if i in self._drawn:
            self._kept[i] = named
        measured = measure(np.stack([*named.values()])) if named else ()
        for name, rows in zip(named, measured, strict=True):
            self.statistics.setdefault(name, AttentionStatistics()).add(rows)
        if pair.alignment:
            gold = parse_links(pair.alignment)
            source = self._words(self.task.source, pair.source)
            target = self._words(self.task.target, pair.target)
            for name, weights in named.items():
                links = attention_links(weights, source, target)
                self._links.setdefault(name, []).append((links, gold))

    def _words(self, vocabulary: Vocabulary, line: str) -> list[int]:
        return words_of_tokens(vocabulary.tokens(line), self.task.gold_words(line, vocabulary))

    def alignment_errors(self) -> dict[str, float]:
        """By name of the attention; empty where the corpus has no gold links or the model looks at
        nothing."""
        return {
            name: alignment_error_rate(*zip(*links, strict=True))
            for name, links in self._links.items()
        }

    def by_position(self) -> list[dict[str, float]]:
        own = self.statistics.get("attention")
        return [s._asdict() for s in own.by_position()] if own else []

    def draw(self, folder: Path) -> None:
        """All heads of all layers, of a model that has several."""
        for number, i in enumerate(self._drawn):
            heads = {name: own for name, own in self._kept[i].items() if " head " in name}
            if heads:
                pair, task = self.pairs[i], self.task
                source = _shown([*task.source.tokens(pair.source), "</s>"])
                target = _shown([*task.target.tokens(pair.target), "</s>"])
                layers = len({name.partition(" head ")[0] for name in heads})
                path = folder / f"heads-{number}.png"
                heat_maps(heads, layers, source, target, "the reference, forced", path)


def all_scores(task: Translation, translated: list[Translated], ter: bool) -> dict[str, float]:
    scores = score(task, translated) | word_scores(task, translated)
    if ter:
        ours, references = [t.best.text for t in translated], [t.references for t in translated]
        scores["ter"] = edit_rate(ours, references, task.lowercase)
    return scores


def word_scores(task: Translation, translated: list[Translated]) -> dict[str, float]:
    """Those over words, and exact match: quick enough for every part of a split."""
    ours, references = [t.best.text for t in translated], [t.references for t in translated]
    ours_in_words = [task.scored_words(text) for text in ours]
    references_in_words = [[task.scored_words(text) for text in several] for several in references]
    return {
        "tokenised_bleu": tokenised_bleu(ours_in_words, references_in_words),
        "exact": exact_match(ours, references, task.lowercase),
        "token_error": token_error_rate(ours_in_words, references_in_words),
    }


def read_hypotheses(folder: Path) -> list[str]:
    try:
        return (folder / "hypotheses.txt").read_text("utf-8").split("\n")[:-1]
    except OSError:
        raise UserError(
            f"{folder} has no hypotheses.txt: name a translation run that eval.py has scored"
        ) from None


def _check_same_split(ours: int, theirs: int) -> None:
    if ours != theirs:
        raise UserError(
            f"the other run has {theirs:,} hypotheses and this split {ours:,} sentences: two runs "
            "can be compared on the same corpus only"
        )


def compared(task: Translation, translated: list[Translated], theirs: list[str]) -> dict[str, Any]:
    """A paired bootstrap against the hypotheses of another run, by metric and system."""
    ours, references = [t.best.text for t in translated], [t.references for t in translated]
    return paired_bootstrap({"other": theirs, "ours": ours}, references, task.lowercase)


def lengths(task: Translation, translated: list[Translated]) -> Parts:
    """Scores by source length and by unknown source words."""
    brief = functools.partial(word_scores, task)
    ids = [task.source.encode(t.pair.source) for t in translated]
    return {
        "source length": by_length(translated, [len(x) for x in ids], brief),
        "unknown source words": by_unknown(translated, [x.count(UNK) for x in ids], brief),
    }


def beams(task: Translation, params: Params, mesh: Mesh, wanted: Wanted) -> Parts:
    """Scores by beam width, where that is asked for."""
    parts = []
    for beam in wanted.beams:
        decode = wanted.decode.copy_and_resolve_references()
        decode.update({"beam": beam, "nbest": 1, "temperature": 0.0})
        found = Evaluator(task, mesh, decode).translate(params, wanted.split)
        parts.append(Part(str(beam), len(found), word_scores(task, found)))
    return {"beam width": parts} if parts else {}


def _print(task: Translation, translated: list[Translated], result: dict[str, Any]) -> None:
    for t in translated[:: max(1, len(translated) // 5)][:5]:
        print(
            "\n".join(f"{name:>15}: {text}" for name, text in sample(task, t).items()), end="\n\n"
        )
    steps = ", ".join(map(str, result["checkpoints"]))
    print(f"{'checkpoint':>15}: {steps}, beam {result['decode']['beam']}")
    for name, value in result["scores"].items():
        print(f"{name:>15}: {value:.4f}  {result['signatures'].get(name, '')}".rstrip())
    own = result["attention"].get("attention")
    if own:
        print(
            f"{'attention':>15}: {own['effective']:.2f} effective words of {own['source']:.1f}, "
            f"largest weight {own['largest']:.2f}, {own['small']:.0%} of the weights under .01"
        )
    for metric, systems in result.get("against", {}).items():
        ours, other = systems["ours"], systems["other"]
        print(
            f"{metric:>15}: {ours['score']:.2f} ± {ours['interval']:.2f}, the other run "
            f"{other['score']:.2f} ± {other['interval']:.2f}, p = {ours['p']:.3f} (bootstrap)"
        )
    for part in result["curves"].get("beam width", []):
        values = ", ".join(f"{name} {value:.2f}" for name, value in part["scores"].items())
        print(f"{'beam ' + part['label']:>15}: {values}")


def _draw(task: Translation, translated: list[Translated], folder: Path, count: int) -> None:
    for number, t in enumerate(translated[:count]):
        if t.best.attention is None:
            return  # a model without attention
        source = task.source.tokens(t.pair.source)
        draw_hypothesis(source, t.best, folder / f"attention-{number}.png")


def draw_hypothesis(source: list[str], hypothesis: Hypothesis, path: Path) -> None:
    """What every word of a translation has read of the source."""
    assert hypothesis.attention is not None
    words = _shown([*source, "</s>"]), _shown(hypothesis.tokens)
    heat_map(hypothesis.attention, *words, "its own translation", path)


def _shown(tokens: list[str]) -> list[str]:
    return [token.removeprefix(JOINER) for token in tokens]


def _sentences(
    evaluator: Evaluator, params: Params, translated: list[Translated]
) -> list[dict[str, Any]]:
    """Sentences for the page, with every attention of every hypothesis."""
    task = evaluator.task
    flat = [(t, hypothesis) for t in translated for hypothesis in t.hypotheses]
    sources = [np.array([*task.source.encode(t.pair.source), EOS]) for t, _ in flat]
    named = evaluator.attention_of(params, sources, [h.ids for _, h in flat])
    entries = iter(named)
    return [
        {
            "text": [task.source.surface(t.pair.source), " | ".join(t.references)],
            "source": _shown([*task.source.tokens(t.pair.source), "</s>"]),
            "hypotheses": [
                {
                    "text": h.text, "tokens": _shown(h.tokens), "score": h.score,
                    "attention": {
                        name: weights.round(3).tolist() for name, weights in next(entries).items()
                    },
                }
                for h in t.hypotheses
            ],
        }
        for t in translated
    ]  # fmt: skip


def page_content(
    task: Translation,
    result: dict[str, Any],
    sentences: list[dict[str, Any]],
) -> dict[str, Any]:
    data, model = task.config.data, task.config.model
    decode, name = result["decode"], model.name
    if name == "seq2seq":
        of = model.attention
        name = model.wiring if of.align == "none" else f"{model.wiring}, {of.align}, {of.score}"
    return {
        "title": f"{name}: {data.corpus} {data.source}–{data.target}, {result['split']}",
        "about": (
            f"{result['sentences']:,} sentences, checkpoint "
            f"{', '.join(map(str, result['checkpoints']))}, beam {decode['beam']}, "
            f"length penalty {decode['length_penalty']}"
        ),
        "scores": [
            {"name": name, "value": value, "signature": result["signatures"].get(name, "")}
            for name, value in result["scores"].items()
        ],
        "terms": {
            "examples": "Translations",
            "source": "source",
            "target": "translation",
            "reference": "reference",
        },
        "pictures": [],  # the attention can be pointed at
        "curves": result["curves"],
        "selection": [{"name": name, **own} for name, own in result["attention"].items()],
        "positions": result["attention_by_position"],
        "sentences": sentences,
    }
