"""Word links of sentence pairs, from the attention weights of a run, an ensemble or two directions.

The decoder reads the target sentence by teacher forcing, so any pair of texts can be linked.
"""

from collections.abc import Sequence
from typing import NamedTuple

from data.links import Link, words_of_tokens
from data.vocabulary import SPECIALS, UNK, UNKNOWN
from decoding.forced import ForcedDecoder
from decoding.translator import Hypothesis
from errors import UserError
from evaluation.alignment import LinkSettings, attention_links, symmetrize
from tasks.task import Params
from tasks.translation import Translation
from training.restore import RestoredRun


class Bitext(NamedTuple):
    """A sentence pair to link: two lines as in the files of a corpus, and their words."""

    source: str
    target: str
    source_words: list[str]
    target_words: list[str]


def bitext(task: Translation, source: str, target: str) -> Bitext:
    """Return a pair of lines; its words are separated by spaces, after subwords are joined."""
    words = task.source.surface(source).split(), task.target.surface(target).split()
    return Bitext(source, target, *words)


def hypothesis_bitext(task: Translation, source: str, hypothesis: Hypothesis) -> Bitext:
    """Return a source line and its hypothesis; its words are those of the hypothesis text."""
    tokens = [t for t in hypothesis.tokens if t != "</s>"]
    # Subwords of the tokenizer bpe must stay apart, because this tokenizer cannot split words.
    line = " ".join(UNKNOWN if token == SPECIALS[UNK] else token for token in tokens)
    same = task.target.surface(line) == hypothesis.text
    return bitext(task, source, line if same else hypothesis.text)


class Aligner:
    """Links the words of sentence pairs by the attention weights of one run or an ensemble.

    `reverse` links words in the reverse direction. `settings.symmetrize` names the method that
    combines the links of both directions.
    """

    def __init__(
        self,
        decoder: ForcedDecoder,
        params: Sequence[Params],
        settings: LinkSettings,
        reverse: "Aligner | None" = None,
        of: str = "--workdir",
    ):
        """Check the settings; `of` is the flag that names the runs, for messages."""
        _check_weights(decoder.attention_names(params), settings.weights, of)
        self._decoder, self._params, self._settings = decoder, params, settings
        self.reverse = reverse

    def links(self, bitexts: Sequence[Bitext]) -> list[set[Link]]:
        """Return the word links of every sentence pair."""
        links: list[set[Link]] = [set() for _ in bitexts]
        source, target = self._decoder.source, self._decoder.target
        texts = [b.source for b in bitexts], [b.target for b in bitexts]
        weights = self._decoder.attention(self._params, *texts, name=self._settings.weights)
        for i, attention in weights:
            links[i] = attention_links(
                attention,
                words_of_tokens(source.tokens(bitexts[i].source), bitexts[i].source_words),
                words_of_tokens(target.tokens(bitexts[i].target), bitexts[i].target_words),
                self._settings.threshold,
            )
        if self.reverse is None:
            return links
        return symmetrize_all(links, self.reverse, bitexts, self._settings.symmetrize)


def symmetrize_all(
    links: list[set[Link]], reverse: Aligner, bitexts: Sequence[Bitext], method: str
) -> list[set[Link]]:
    """Combine the links of every sentence pair with those of the reverse direction."""
    swapped = [Bitext(b.target, b.source, b.target_words, b.source_words) for b in bitexts]
    both = zip(links, reverse.links(swapped), strict=True)
    return [symmetrize(forward, backward, method) for forward, backward in both]


def make_aligner(
    decoder: ForcedDecoder,
    params: Sequence[Params],
    settings: LinkSettings,
    reverse: Sequence[RestoredRun],
) -> Aligner:
    """Return the aligner of a decoder's models; `reverse` are the runs in `settings.reverse`."""
    if not reverse:
        return Aligner(decoder, params, settings)
    data = decoder.tasks[0].config.data
    for config in (run.task.config for run in reverse):
        given = f"is a {config.task} run"
        if config.task == "translation":
            given = f"translates {config.data.source} to {config.data.target}"
        wanted = f"translates {data.target} to {data.source}"
        if given != wanted:
            raise UserError(
                f"--reverse_workdir={','.join(settings.reverse)} {given}: name a run that {wanted},"
                " the reverse of --workdir"
            )
    reverse_decoder = ForcedDecoder([run.task for run in reverse], decoder.mesh, decoder.settings)
    changed = LinkSettings(settings.reverse_weights or settings.weights, settings.threshold)
    reverse_params = [run.params for run in reverse]
    backward = Aligner(reverse_decoder, reverse_params, changed, of="--reverse_workdir")
    return Aligner(decoder, params, settings, backward)


def _check_weights(names: Sequence[str], weights: str, of: str) -> None:
    """Raise a UserError if a model does not have the attention weights with the name `weights`."""
    if not names:
        raise UserError(
            f"a run without attention has no word links: set {of} to the run of a model with "
            "attention"
        )
    if weights not in names:
        flag = "--align_weights" if of == "--workdir" else "--reverse_weights"
        known = f"one of {', '.join(names)}" if len(names) > 1 else repr(names[0])
        raise UserError(
            f"the model of {of} has no attention weights {weights!r}: set {flag} to {known}"
        )
