// Build the comparison of compare.py. elements.js defines the functions that all pages share.

// The content of the page is the JSON text that the program has written into it.
const content = JSON.parse(byId("data").textContent);

const COLORS = 8;  // --system-0 to --system-7 in page.css; further systems repeat them with dashes
const MOST_COLUMNS = 60;  // of a heat map; longer texts are shown as shaded words
const MOST_SYSTEM_COLUMNS = 6;  // of the table of scores
const MOST_CARDS = 4;  // runs that are shown side by side at first
const colorOf = system => `var(--system-${system % COLORS})`;
const dashesOf = system => ["", "6 3", "2 3", "8 3 2 3"][Math.floor(system / COLORS) % 4];
const hidden = new Set();  // systems whose curves are hidden

function addSwatch(parent, system) {
  add(parent, "span", "", { className: "swatch" }).style.setProperty("--color", colorOf(system));
}

function buildSystems() {
  content.systems.forEach(({ name, seeds }, i) => {
    const button = add(add(byId("systems"), "li"), "button", "", { type: "button" });
    addSwatch(button, i);
    add(button, "span", name);
    add(button, "small", ` seed${seeds.includes(",") ? "s" : ""} ${seeds}`);
    button.setAttribute("aria-pressed", true);
    button.onclick = () => {
      if (!hidden.delete(i)) hidden.add(i);
      button.setAttribute("aria-pressed", !hidden.has(i));
      drawCharts();
    };
  });
}


// ---- Tables ------------------------------------------------------------------------------------

const TESTS = {
  "": "Below a score is its difference from that of the chosen system, with its two-sided p-value.",
  bootstrap: "p is that of a paired bootstrap over the examples (1,000 samples).",
  t: "(t) marks the p-values of Welch's t-test over seeds.",
};

function buildScores() {
  if (content.validation) byId("scores-title").textContent = "Best validation scores during training";
  const found = content.scores.flatMap(({ contrasts }) => contrasts.flat()).filter(Boolean);
  const used = new Set(found.map(({ test }) => test));
  if (found.length) used.add("");
  byId("tests").textContent = Object.keys(TESTS).filter(test => used.has(test)).map(test => TESTS[test]).join(" ");
  content.systems.forEach(({ name }, i) => add(byId("baseline"), "option", name, { value: i }));
  byId("baseline").parentNode.hidden = content.systems.length < 2;
  byId("baseline").onchange = () => {
    fillScores(byId("scores"), content.scores);
    if (content.faithfulness.length) buildFaithfulness();
  };
  fillScores(byId("scores"), content.scores);
}

function buildFaithfulness() {
  fillScores(byId("faithfulness"), content.faithfulness);
  const texts = content.faithfulness.flatMap(({ cells }) => cells.map(({ text }) => text));
  const contrasts = content.faithfulness.flatMap(({ contrasts }) => contrasts.flat());
  const notes = [
    [texts.some(text => text.includes("±")), "±: mean and standard deviation over seeds."],
    [texts.some(text => text.includes("[")), "[low, high]: one seed, with its 95 % confidence interval over examples."],
    [contrasts.some(contrast => contrast?.p), "p-values are those of Welch's t-test over seeds."],
  ];
  byId("faithfulness-note").textContent = notes.filter(([used]) => used).map(([, note]) => note).join(" ");
}

// Few systems are columns, because there are many scores; many systems are rows.
function fillScores(table, scores) {
  const baseline = Number(byId("baseline").value);
  const wide = content.systems.length > MOST_SYSTEM_COLUMNS;
  const heads = scores.map(score => cell => addScoreName(cell, score));
  const names = content.systems.map(({ name }, i) => cell => addSystemName(cell, i, name));
  const value = (i, k) => cell => addScore(cell, scores[k].cells[i], scores[k].contrasts[i][baseline]);
  table.replaceChildren();
  const top = add(table, "tr");
  add(top, "th", wide ? "System" : "Score");
  for (const fill of wide ? heads : names) fill(add(top, "th"));
  (wide ? names : heads).forEach((fill, row) => {
    const line = add(table, "tr");
    fill(add(line, "td"));
    (wide ? heads : names).forEach((_, column) => (wide ? value(row, column) : value(column, row))(add(line, "td")));
  });
}

function addSystemName(cell, system, name) {
  addSwatch(cell, system);
  add(cell, "span", name);
}

function addScoreName(cell, { name, unit, direction, note }) {
  add(cell, "span", `${name}${unit === "%" ? " (%)" : ""}`);
  cell.title = [unit, note].filter(Boolean).join(": ");
  add(cell, "small", direction);
}

function addScore(cell, { text, best }, contrast) {
  cell.textContent = text;
  cell.classList.toggle("best", best);
  if (!contrast) return;
  const p = contrast.p && `, p ${/^</.test(contrast.p) ? contrast.p : `= ${contrast.p}`}`;
  add(cell, "small", `${contrast.difference}${p}${contrast.test === "t" ? " (t)" : ""}`);
  cell.classList.toggle("significant", /^<|^\.0[0-4]/.test(contrast.p));
}

function buildDifferences() {
  fillTable(
    byId("differences"),
    ["Field", ...content.systems.map(({ name }) => name)],
    content.differences.map(({ name, values }) => [name, ...values]),
  );
}

function buildCost() {
  const { head, rows } = content.cost;
  fillTable(byId("cost"), head, rows);
  rows.forEach((_, i) => {
    const cell = byId("cost").rows[i + 1].cells[0], name = cell.textContent;
    cell.textContent = "";
    addSystemName(cell, i, name);
  });
}


// ---- Learning curves ---------------------------------------------------------------------------

const SIZE = { width: 560, height: 290, left: 62, right: 18, top: 10, bottom: 40 };
const SVG = byId("svg-space").namespaceURI;  // of an element of the template
const charts = [];  // functions that draw the charts again

function addSvg(parent, tag, attributes, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  parent.append(node);
  return node;
}

function buildCurves() {
  const loss = content.curves.findIndex(({ label }) => label === "Training loss");
  for (const first of new Set([0, loss > 0 ? loss : Math.min(1, content.curves.length - 1)])) addChart(first);
  byId("axis").onchange = drawCharts;
  drawCharts();
}

function drawCharts() {
  charts.forEach(draw => draw());
}

function addChart(first) {
  const box = add(byId("charts"), "div", "", { className: "line-chart" });
  const select = add(box, "select", "", { ariaLabel: "Value of the chart" });
  content.curves.forEach(({ label }, i) => add(select, "option", label, { value: i, selected: i === first }));
  const svg = addSvg(box, "svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img" });
  const values = add(box, "p", "", { className: "values" });
  const draw = () => drawChart(svg, values, content.curves[Number(select.value)]);
  select.onchange = draw;
  charts.push(draw);
}

// Return about `count` round numbers; the first is at most `low` and the last at least `high`.
function ticks(low, high, count) {
  const rough = (high - low) / count || Math.abs(high) || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough * .999);
  const found = [];
  for (let i = Math.floor(low / step + 1e-9); !found.length || found.at(-1) < high - 1e-9 * step; i++) {
    found.push(i * step);
    if (found.length > 3 * count) break;  // rounding errors of huge numbers
  }
  return found;
}

const numberText = value => Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 }).replace("-", "−");

function drawChart(svg, values, { label, curves }) {
  const axis = byId("axis").value;
  const shown = curves.map((curve, run) => ({ ...curve, run, system: content.runs[run].system }))
    .filter(({ values, system }) => values && !hidden.has(system));
  svg.replaceChildren();
  values.replaceChildren();
  svg.setAttribute("aria-label", `${label} by ${axis === "steps" ? "training step" : "minutes"}`);
  if (!shown.length) return;
  const range = numbers => [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
  const across = ticks(...range(shown.flatMap(curve => curve[axis]).concat(0)), 6), up = ticks(...range(shown.flatMap(curve => curve.values)), 5);
  const [left, right] = range(across), [low, high] = range(up);
  const { width, height } = SIZE;
  const x = value => SIZE.left + (value - left) / (right - left || 1) * (width - SIZE.left - SIZE.right);
  const y = value => height - SIZE.bottom - (value - low) / (high - low || 1) * (height - SIZE.top - SIZE.bottom);
  for (const tick of up) {
    addSvg(svg, "line", { class: "grid", x1: SIZE.left, x2: width - SIZE.right, y1: y(tick), y2: y(tick) });
    addSvg(svg, "text", { x: SIZE.left - 8, y: y(tick) + 4, "text-anchor": "end" }, numberText(tick));
  }
  for (const tick of across)
    addSvg(svg, "text", { x: x(tick), y: height - SIZE.bottom + 18, "text-anchor": "middle" }, numberText(tick));
  addSvg(svg, "text", { x: (SIZE.left + width - SIZE.right) / 2, y: height - 4, "text-anchor": "middle" }, axis === "steps" ? "training step" : "minutes");
  for (const curve of shown) {
    const points = curve.values.map((value, i) => `${x(curve[axis][i]).toFixed(1)},${y(value).toFixed(1)}`);
    const line = addSvg(svg, "polyline", { class: "curve", points: points.join(" "), "stroke-dasharray": dashesOf(curve.system) });
    line.style.stroke = colorOf(curve.system);
    addSvg(line, "title", {}, content.runs[curve.run].name);
  }
  const cursor = addSvg(svg, "line", { class: "cursor", y1: SIZE.top, y2: height - SIZE.bottom, visibility: "hidden" });
  svg.onmousemove = event => {
    const place = event.offsetX / svg.clientWidth * width;
    const at = left + (place - SIZE.left) / (width - SIZE.left - SIZE.right) * (right - left);
    if (at < left || at > right) return;
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    cursor.setAttribute("visibility", "visible");
    showValues(values, shown, axis, at);
  };
}

// List the value of every curve at the last logged position before `at`.
function showValues(box, shown, axis, at) {
  box.replaceChildren();
  add(box, "span", `${axis === "steps" ? "step" : "minutes"} ${numberText(axis === "steps" ? Math.round(at) : at)}`);
  for (const curve of shown) {
    const last = curve[axis].findLastIndex(value => value <= at);
    if (last < 0) continue;
    const line = add(box, "span");
    addSwatch(line, curve.system);
    add(line, "span", `${content.runs[curve.run].name} ${numberText(curve.values[last])}`);
  }
}


// ---- Examples ----------------------------------------------------------------------------------

const ORDERS = {
  disagreement: { label: "disagreement of predictions", key: x => [x.disagreement, x.attention], text: x => percent(x.disagreement) },
  attention: { label: "disagreement of attention", key: x => [x.attention, x.disagreement], text: x => percent(x.attention) },
  number: { label: "order in the corpus", key: x => [-x.number], text: x => `${x.number}` },
  length: { label: "length of the source", key: x => [x.length], text: x => `${x.length}` },
};
const percent = value => value === null ? "–" : `${(100 * value).toFixed(0)} %`;
const shownRuns = new Set();
let current = null;  // the example that is shown

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
  const attended = content.examples.some(x => x.attention !== null);
  for (const [name, { label }] of Object.entries(ORDERS))
    if (attended || name !== "attention") add(byId("order"), "option", label, { value: name });
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
  const sorted = content.examples.map(example => [order.key(example), example]).sort((a, b) => compareKeys(a[0], b[0]) || a[1].number - b[1].number);
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
  else if (!tokens) add(card, "p", "This example is not in the run's report.html, which has the attention weights.", { className: "muted" });
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

byId("title").textContent = document.title = content.title;
byId("about").textContent = content.about;
buildSystems();
buildPart("notes-section", content.notes.length, () => content.notes.forEach(note => add(byId("notes"), "li", note)));
buildPart("scores-section", content.scores.length, buildScores);
buildPart("faithfulness-section", content.faithfulness.length, buildFaithfulness);
buildPart("differences-section", content.differences.length, buildDifferences);
buildPart("curves-section", content.curves.length, buildCurves);
buildCost();
buildPart("examples-section", content.examples.length, buildExamples);
window.addEventListener("resize", () => content.examples.length && fitHeatMaps());
