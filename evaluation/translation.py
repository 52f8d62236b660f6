"""Validation and reports of translation runs: scores, hypotheses, heat maps and word links."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from data.links import Link, format_links
from data.vocabulary import UNK
from decoding.translator import Translator
from evaluation.alignment import LinkSettings
from evaluation.bootstrap import equation_p
from evaluation.comparison import compare_runs, comparison_rows, other_hypotheses
from evaluation.curves import Part, by_length, by_unknown
from evaluation.drawing import draw_hypothesis
from evaluation.evaluator import (
    Evaluator,
    Translated,
    forced_attention,
    references,
    sample,
    score,
    translate_split,
    translated_examples,
)
from evaluation.examples import write_examples
from evaluation.faithfulness_report import (
    check_translation,
    explain_translations,
    print_faithfulness,
)
from evaluation.forced_attention import ForcedAttention
from evaluation.links import Aligner, hypothesis_bitext, make_aligner
from evaluation.metrics import metric_of, print_scores
from evaluation.page import write_report_page
from evaluation.predictions import evenly
from evaluation.progress import announce
from evaluation.results import ReportOptions
from evaluation.scores import (
    edit_rate,
    exact_match,
    signatures,
    token_error_rate,
    tokenized_bleu,
)
from evaluation.translation_page import page_content, page_sentences
from tasks.task import Params
from tasks.translation import Translation
from training.loop import Evaluation
from writing import write_json, write_text

LOSS_NOTES = {
    "loss": "−log p per token in nats, teacher forcing",
    "accuracy": "next token, teacher forcing",
}
Parts = dict[str, list[Part]]  # maps a criterion, such as source length, to the parts of a split


def make_evaluate(task: Translation, mesh: Mesh) -> Callable[[Params], Evaluation]:
    """Return the function that scores the validation split during training."""
    decode = task.config.decode.copy_and_resolve_references()
    if task.config.train.eval_greedily:
        decode.beam = 1
    decode.update({"nbest": 1, "temperature": 0.0})  # temperature 0 disables sampling
    evaluator = Evaluator(task, mesh, decode)
    count = task.config.train.samples

    def evaluate(params: Params) -> Evaluation:
        translated = evaluator.translate(params, "valid")
        scores = evaluator.losses(params, "valid") | score(task, translated)
        shown = evenly(len(translated), count)
        return Evaluation(scores, [sample(task, translated[i]) for i in shown])

    return evaluate


def report(task: Translation, params: Params, mesh: Mesh, options: ReportOptions) -> None:
    """Score a split, print the scores, and write the report."""
    evaluator = Evaluator(task, mesh, options.decode, progress=True)
    others = other_hypotheses(task, options.split, options.against) if options.against else []
    if options.faithfulness:
        check_translation(task, params)
    aligner = _aligner(evaluator.translator, [params], options)
    number, beam = len(references(task, options.split)), evaluator.translator.settings.beam
    announce(f"translating {number:,} sentences (beam={beam})")
    translated = evaluator.translate(params, options.split, attention=options.pictures > 0)
    announce("computing losses")
    losses = evaluator.losses(params, options.split)
    announce("computing scores and attention statistics")
    scores = losses | all_scores(task, translated, options.ter)
    drawn = [t.pair for t in translated[: options.pictures]]
    forced = ForcedAttention(task, task.pairs(options.split), drawn, options.link_settings)
    for i, named in forced_attention(evaluator.translator, [params], task, options.split):
        forced.add(i, named)
    parts = lengths(task, translated) | beams(task, params, mesh, options)
    links = forced.links(aligner.reverse if aligner else None)
    result = _result(task, options, translated, scores, forced, parts, links)
    result |= explain_translations(task, params, mesh, translated, options.faithfulness)
    if options.against:
        result["against"] = compare_runs(task, translated, others, options.against)
    folder = options.folder
    _write(task, folder, result, translated)
    _write_links(task, options, translated, links, aligner)
    _print(task, translated, result)
    announce("writing the report")
    # Delete an earlier report, whose pictures and page would not match the new scores.
    for pattern in ("attention-*.png", "heads-*.png", "report.html"):
        for old in folder.glob(pattern):
            old.unlink()
    _draw(task, translated, folder, options.pictures)
    forced.draw_heads(folder)
    if options.page:
        sentences = page_sentences(evaluator, params, translated[: options.page])
        page = page_content(task, result, sentences, _notes(result))
        write_report_page(folder / "report.html", page)


def report_ensemble(
    tasks: list[Translation], params: list[Params], mesh: Mesh, options: ReportOptions
) -> None:
    """Score an ensemble; write its scores and hypotheses without printing or drawing anything.

    The attention weights of the ensemble are the mean over its models.
    """
    task, translator = tasks[0], Translator(tasks, mesh, options.decode)
    aligner = _aligner(translator, params, options)
    translated = translate_split(translator, params, task, options.split)
    forced = ForcedAttention(task, task.pairs(options.split), settings=options.link_settings)
    for i, named in forced_attention(translator, params, task, options.split):
        forced.add(i, named)
    parts, scores = lengths(task, translated), all_scores(task, translated, options.ter)
    links = forced.links(aligner.reverse if aligner else None)
    result = _result(task, options, translated, scores, forced, parts, links)
    _write(task, options.folder, result, translated)
    _write_links(task, options, translated, links, aligner)


def _aligner(
    translator: Translator, params: list[Params], options: ReportOptions
) -> Aligner | None:
    """Return the aligner; None for a model without attention, unless settings are given for it."""
    if options.link_settings == LinkSettings() and not translator.attention_names(params):
        return None
    return make_aligner(translator, params, options.link_settings, options.reverse)


def _result(
    task: Translation,
    options: ReportOptions,
    translated: list[Translated],
    scores: dict[str, float],
    forced: ForcedAttention,
    parts: Parts,
    links: list[set[Link]],
) -> dict[str, Any]:
    """Return the content of scores.json; `links` are those of the references."""
    error = forced.alignment_error(dict(enumerate(links)))
    if error is not None:
        scores["alignment_error"] = error
    made = signatures(task.lowercase, max(len(t.references) for t in translated))
    result = {
        "split": options.split, "checkpoints": list(options.checkpoints),
        "sentences": len(translated),
        "decode": options.decode.to_dict(), "scores": scores,
        "signatures": {name: text for name, text in made.items() if name in scores},
        "curves": {name: [part._asdict() for part in some] for name, some in parts.items()},
        "align": options.link_settings.record(), "alignment_error": forced.alignment_errors(),
        "attention": {name: s.overall()._asdict() for name, s in forced.statistics.items()},
        "attention_by_position": forced.by_position(),
    }  # fmt: skip
    return result


def _write(
    task: Translation, folder: Path, result: dict[str, Any], translated: list[Translated]
) -> None:
    """Write `result` to scores.json, the best hypotheses to hypotheses.txt, and examples.jsonl."""
    write_json(folder / "scores.json", result)
    lines = "".join(t.best.text.replace("\n", " ") + "\n" for t in translated)
    write_text(folder / "hypotheses.txt", lines)
    write_examples(folder, translated_examples(task, translated))


def _write_links(
    task: Translation,
    options: ReportOptions,
    translated: list[Translated],
    links: list[set[Link]],
    aligner: Aligner | None,
) -> None:
    """Write word links of the references and, if chosen, of the best hypotheses."""
    found = {"references.links": links, "hypotheses.links": []}
    if options.write_links and aligner:
        announce("computing the word links of the hypotheses")
        bitexts = [hypothesis_bitext(task, t.pair.source, t.best) for t in translated]
        found["hypotheses.links"] = aligner.links(bitexts)
    for name, lines in found.items():
        path = options.folder / name
        path.unlink(missing_ok=True)  # an earlier report may have been of another model
        if lines:
            write_text(path, "".join(format_links(line) + "\n" for line in lines))


def all_scores(task: Translation, translated: list[Translated], ter: bool) -> dict[str, float]:
    """Return all scores of the best hypotheses; TER, which is slow, only if `ter` is set."""
    scores = score(task, translated) | word_scores(task, translated)
    if ter:
        hypotheses = [t.best.text for t in translated]
        references = [t.references for t in translated]
        scores["ter"] = edit_rate(hypotheses, references, task.lowercase)
    return scores


def word_scores(task: Translation, translated: list[Translated]) -> dict[str, float]:
    """Return the scores that are also computed for each part of a split."""
    hypotheses, references = [t.best.text for t in translated], [t.references for t in translated]
    in_words = [task.scored_words(text) for text in hypotheses]
    references_in_words = [[task.scored_words(text) for text in several] for several in references]
    return {
        "tokenized_bleu": tokenized_bleu(in_words, references_in_words),
        "exact": exact_match(hypotheses, references, task.lowercase),
        "token_error": token_error_rate(in_words, references_in_words),
    }


def lengths(task: Translation, translated: list[Translated]) -> Parts:
    """Return scores by source length and by number of unknown source tokens."""
    brief = functools.partial(word_scores, task)
    ids = [task.source.encode(t.pair.source) for t in translated]
    return {
        "source length": by_length(translated, [len(x) for x in ids], brief),
        "unknown source tokens": by_unknown(translated, [x.count(UNK) for x in ids], brief),
    }


def beams(task: Translation, params: Params, mesh: Mesh, options: ReportOptions) -> Parts:
    """Return scores by beam width, for the widths that --beams lists."""
    parts = []
    for beam in options.beams:
        decode = options.decode.copy_and_resolve_references()
        decode.update({"beam": beam, "nbest": 1, "temperature": 0.0})
        announce(f"translating again (beam={beam})")
        found = Evaluator(task, mesh, decode, progress=True).translate(params, options.split)
        parts.append(Part(str(beam), len(found), word_scores(task, found)))
    return {"beam width": parts} if parts else {}


def _notes(result: dict[str, Any]) -> dict[str, str]:
    """Return the signatures of scores, or notes on how the scores are computed."""
    links = LinkSettings(**result["align"]).describe()
    return LOSS_NOTES | {"alignment_error": links} | result["signatures"]


def _print(task: Translation, translated: list[Translated], result: dict[str, Any]) -> None:
    """Print samples, checkpoints, scores, attention statistics and comparisons."""
    for i in evenly(len(translated), 5):
        lines = (f"{name:>22}: {text}" for name, text in sample(task, translated[i]).items())
        print("\n".join(lines), end="\n\n")
    steps = ", ".join(map(str, result["checkpoints"]))
    print(f"{'checkpoint':>22}: {steps}, beam {result['decode']['beam']}")
    print_scores(result["scores"], _notes(result))
    summary = result["attention"].get("attention")
    if summary:
        print(
            f"{'attention':>22}: effective number of attended tokens {summary['effective']:.2f}, "
            f"source length {summary['source']:.1f}, largest weight {summary['largest']:.2f}, "
            f"{summary['small']:.0%} of the weights below 0.01 (means over all target tokens "
            "of the references)"
        )
    print_faithfulness(result.get("faithfulness", {}))
    if "against" in result:
        print(f"{'compared with':>22}: {result['against']['run']}")
    for row in comparison_rows(result["against"]) if "against" in result else []:
        print(
            f"{row['name']:>22}: {row['this']}, other run {row['other']}, difference "
            f"{row['difference']}, {equation_p(row['p'])} (paired bootstrap)"
        )
    for part in result["curves"].get("beam width", []):
        values = ", ".join(
            f"{metric_of(key).name} {metric_of(key).text(x)}" for key, x in part["scores"].items()
        )
        print(f"{'beam ' + part['label']:>22}: {values}")


def _draw(task: Translation, translated: list[Translated], folder: Path, count: int) -> None:
    """Draw heat maps of the attention of the first `count` translations."""
    for number, t in enumerate(translated[:count]):
        if t.best.attention is None:
            return  # a model without attention has no weights to draw
        source = task.source.tokens(t.pair.source)
        draw_hypothesis(source, t.best, folder / f"attention-{number}.png")
