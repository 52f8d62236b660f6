// The examples of the comparison, side by side.

const MOST_COLUMNS = 60;  // of a heat map; longer texts are shown as shaded words
const MOST_CARDS = 4;  // runs that are shown side by side at first

const ORDERS = {
  disagreement: { label: "disagreement of predictions", key: x => [x.disagreement, x.attention], text: x => percent(x.disagreement) },
  attention: { label: "disagreement of attention", key: x => [x.attention, x.disagreement], text: x => percent(x.attention) },
  number: { label: "order in the corpus", key: x => [-x.number], text: x => `${x.number}` },
  length: { label: "length of the source", key: x => [x.length], text: x => `${x.length}` },
};
const NO_ATTENTION =
  "The report.html of this run has no attention weights for this example. To add them, score the run again with "
  + "eval.py --sentences=1000, which writes those of 1,000 examples.";
const percent = value => value === null ? "–" : `${(100 * value).toFixed(0)} %`;
const shownRuns = new Set();
let current = null;  // the example that is shown

// Return how many runs have attention weights for an example: their reports may lack those of most examples.
const attended = example => example.runs.filter(run => run.attention).length;

// Compare two lists of numbers, the largest first; null comes last.
function compareKeys(a, b) {
  for (let i = 0; i < a.length; i++) {
    const difference = (b[i] ?? -1e9) - (a[i] ?? -1e9);
    if (difference) return difference;
  }
  return 0;
}

function buildExamples() {
  byId("examples-title").textContent = `${content.terms.examples ?? "Examples"} side by side`;
  byId("examples-about").textContent =
    "The disagreement of an example is the mean distance between the predictions, or between the attention weights, "
    + "of two runs of different systems: 0\u00a0% if they are equal, and at most 100\u00a0%.";
  const known = content.examples.some(x => x.attention !== null);
  for (const [name, { label }] of Object.entries(ORDERS))
    if (known || name !== "attention") add(byId("order"), "option", label, { value: name });
  byId("order").onchange = () => fillList(true);
  byId("find").oninput = () => fillList(false);
  byId("list").onkeydown = event => moveInList(event, current?.number);
  buildChoice();
  fillList(true);
}

// One run of every system is shown at first, as far as the screen allows.
function buildChoice() {
  const known = content.runs.map((_, i) => content.examples.some(x => x.runs[i].prediction !== null));
  content.systems.slice(0, MOST_CARDS).forEach((_, system) => {
    const first = content.runs.findIndex((run, i) => run.system === system && known[i]);
    if (first >= 0) shownRuns.add(first);
  });
  if (shownRuns.size === 1)
    content.runs.forEach((_, i) => { if (known[i] && shownRuns.size < MOST_CARDS) shownRuns.add(i); });
  content.runs.forEach(({ name, system }, i) => {
    if (!known[i]) return;
    const label = add(byId("chosen"), "label");
    const box = add(label, "input", "", { type: "checkbox", checked: shownRuns.has(i) });
    box.onchange = () => {
      if (box.checked) shownRuns.add(i);
      else shownRuns.delete(i);
      showExample(current);
    };
    add(label, "span", " ");
    addSwatch(label, system);
    add(label, "span", name);
  });
}

function fillList(reset) {
  const list = byId("list"), wanted = byId("find").value.toLowerCase();
  const order = ORDERS[byId("order").value];
  const sorted = content.examples.map(example => [[attended(example), ...order.key(example)], example]).sort((a, b) => compareKeys(a[0], b[0]) || a[1].number - b[1].number);
  const matches = ({ text, reference, runs }) =>
    [text, reference, ...runs.map(run => run.prediction ?? "")].some(x => x.toLowerCase().includes(wanted));
  list.replaceChildren();
  for (const [, example] of sorted) {
    if (!matches(example)) continue;
    const line = add(list, "li", "", { id: `example-${example.number}`, title: example.text });
    line.setAttribute("role", "option");
    add(line, "span", example.text || example.reference, { dir: "auto" });
    add(line, "small", order.text(example));
    line.onclick = () => showExample(example);
  }
  list.scrollTop = 0;
  if (reset && list.firstChild) list.firstChild.click();
  else markInList(current?.number);
}

function showExample(example) {
  current = example;
  markInList(current?.number);
  byId("readout").textContent = "";
  byId("texts").replaceChildren();
  const line = (term, value) => {
    add(byId("texts"), "dt", term);
    add(byId("texts"), "dd", value, { dir: "auto" });
  };
  if (example.text) line(content.terms.text ?? (content.task === "translation" ? "Source" : "Text"), example.text);
  if (content.task !== "labelling") line(content.terms.reference ?? "Reference", example.reference);
  line("Disagreement", `predictions ${percent(example.disagreement)}, attention ${percent(example.attention)}`);
  byId("cards").replaceChildren();
  [...shownRuns].sort((a, b) => a - b).forEach(run => addCard(example, run));
  fitHeatMaps();
}

function addCard(example, run) {
  const { prediction, correct, tokens, gold, attention, source, note } = example.runs[run];
  if (prediction === null) return;
  const { name, system } = content.runs[run];
  const card = add(byId("cards"), "div", "", { className: "card" });
  card.style.setProperty("--color", colorOf(system));
  add(card, "h3", name);
  const words = example.sources[source] ?? [], rows = attention?.attention;
  const line = add(card, "p", "");
  add(line, "span", correct ? "✓ " : "✗ ", { className: correct ? "mark" : "mark wrong", title: correct ? "correct" : "differs from the reference" });
  if (gold) {
    add(line, "span", `${tokens.filter((label, i) => label === gold[i]).length} of ${gold.length} labels correct`);
    addLabels(add(card, "div", "", { className: "tokens plain" }), words, tokens, gold);
  } else {
    add(line, "span", prediction, { dir: "auto" });
  }
  if (rows?.length) {
    if (content.task === "translation" && words.length <= MOST_COLUMNS) addHeatMap(card, words, tokens, rows);
    else addShadedText(card, words, tokens, rows);
  }
  if (note) add(card, "p", note, { className: "muted" });
  else if (!tokens) add(card, "p", NO_ATTENTION, { className: "muted" });
}

function addHeatMap(card, words, tokens, rows) {
  const heat = add(add(card, "div", "", { className: "scroll" }), "div", "", { className: "heat" });
  fillHeatMap(heat, tokens, words, rows, (t, s) => {
    if (t !== null && s !== null)
      byId("readout").textContent = `“${tokens[t]}” gives the weight ${weightText(rows[t][s])} to “${words[s]}”.`;
    markColumn(s);
  });
  heat.onmouseleave = () => markColumn(null);
}

// Make cells as wide as the cards allow, but wide enough for the labels; wider heat maps scroll. The
// width of a card depends on the number of cards, so all of them must exist.
function fitHeatMaps() {
  for (const heat of byId("cards").querySelectorAll(".heat")) {
    const columns = heat.querySelectorAll(".column-label").length;
    const label = largestOf([...heat.querySelectorAll(".row-label")].map(node => node.offsetWidth));
    const free = heat.parentNode.clientWidth - label - columns - 2;
    heat.style.setProperty("--cell", `${Math.max(13, Math.min(22, free / columns)).toFixed(1)}px`);
  }
}

// Mark the same source token in the heat maps of all runs.
function markColumn(chosen) {
  for (const heat of byId("cards").querySelectorAll(".heat"))
    heat.querySelectorAll(".column-label").forEach((node, s) => node.classList.toggle("marked", s === chosen));
}

// Show a text whose words are shaded by one row of weights, such as those of an attention hop.
function addShadedText(card, words, names, rows) {
  const select = add(card, "select", "", { ariaLabel: "Row of attention weights" });
  names.forEach((name, i) => add(select, "option", name, { value: i }));
  select.hidden = names.length < 2;
  const box = add(card, "div", "", { className: "tokens", dir: RIGHT_TO_LEFT.test(words.join("")) ? "rtl" : "ltr" });
  const show = () => {
    const values = rows[Number(select.value)], largest = largestOf(values);
    box.replaceChildren();
    words.forEach((word, i) => {
      const node = add(box, "span", "", { className: "token" });
      setShade(node, values[i], largest);
      add(node, "bdi", word);
      add(node, "small", values[i] < .005 ? "" : round(values[i]));
    });
  };
  select.onchange = show;
  show();
}
