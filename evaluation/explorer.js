// The explorer of the report: examples with their tokens and attention weights.

const MOST_CELLS = 40000;  // of a heat map whose cells are elements; larger ones are pictures

// `example`, `hypothesis` and `map` (a name of attention weights) are shown. `pinned` is the pinned
// target token. `target` and `source` are the token or cell under the pointer or with the focus.
const state = { example: 0, hypothesis: 0, map: "", pinned: null, target: null, source: null };

const example = () => content.examples[state.example];
const hypothesis = () => example().hypotheses[state.hypothesis];
const mapNames = () => Object.keys(hypothesis().attention);
const weights = () => hypothesis().attention[state.map] ?? null;

// Attention maps are named "attention" or, in a Transformer, "layer 0" (the mean of its heads) and
// "layer 0 head 0". The map "attention" of a Transformer is the mean of its last layer's heads.
const isLayer = name => name.startsWith("layer ");
const isHead = name => name.includes(" head ");
const mapLabel = name => isHead(name) ? name.replace(" head", ", head") : isLayer(name) ? `${name}, mean of the heads` : name;
const initialMap = names => names.filter(name => isLayer(name) && !isHead(name)).at(-1) ?? names[0] ?? "";

function buildExplorer() {
  byId("examples-title").textContent = content.terms.examples;
  byId("find").oninput = buildList;
  byId("list").onkeydown = event => moveInList(event, state.example);
  byId("hypothesis").onchange = event => showHypothesis(Number(event.target.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    buildHeatMap();
    buildHeads();
    highlight();
  });
  buildList();
  showExample(content.opening);
}

function buildList() {
  const wanted = byId("find").value.toLowerCase();
  const matches = ({ text, reference }) => `${text} ${reference}`.toLowerCase().includes(wanted);
  byId("list").replaceChildren();
  content.examples.forEach((item, i) => {
    if (!matches(item)) return;
    const line = add(byId("list"), "li", item.text, { id: `example-${i}`, title: item.text });
    line.setAttribute("role", "option");
    line.dir = "auto";
    line.onclick = () => showExample(i);
  });
  markInList(state.example);
}

function showExample(number) {
  state.example = number;
  markInList(state.example);
  const { hypotheses } = example();
  byId("hypothesis-label").hidden = hypotheses.length < 2;
  byId("hypothesis").replaceChildren();
  hypotheses.forEach(({ score }, rank) => {
    add(byId("hypothesis"), "option", `${rank + 1} of ${hypotheses.length} (${round(score)})`, { value: rank });
  });
  showHypothesis(0);
}

function showHypothesis(rank) {
  state.hypothesis = rank;
  state.target = state.source = null;
  const names = mapNames();
  if (!names.includes(state.map)) state.map = initialMap(names);
  state.pinned = names.length ? hypothesis().focus : null;
  byId("instructions").hidden = !names.length;
  byId("maps").hidden = !names.length;
  byId("note").textContent = hypothesis().note ?? "";
  buildTexts();
  buildTokens();
  buildHeatMap();
  buildHeads();
  highlight();
}

function buildTexts() {
  const { terms } = content, { text, score } = hypothesis();
  byId("texts").replaceChildren();
  const line = (term, value) => {
    add(byId("texts"), "dt", term);
    return add(byId("texts"), "dd", value, { dir: "auto" });
  };
  if (terms.text) line(terms.text, example().text);
  const prediction = line(terms.prediction, text);
  if (score !== null) add(prediction, "small", `  (${terms.score} ${round(score)})`);
  if (example().reference) line(terms.reference, example().reference);
}

function buildTokens() {
  const { gold, tokens } = hypothesis();
  byId("source-title").textContent = content.terms.source;
  byId("target-title").textContent = content.terms.target ?? "";
  byId("target-title").hidden = byId("target").hidden = Boolean(gold) || !tokens.length;
  for (const side of ["source", "target"]) byId(side).classList.toggle("plain", !mapNames().length);
  if (gold) {
    byId("source").replaceChildren();
    addLabels(byId("source"), example().source, tokens, gold);
  } else {
    fillTokens("source", example().source);
    fillTokens("target", tokens);
  }
}

function fillTokens(side, tokens) {
  const box = byId(side);
  box.replaceChildren();
  box.dir = RIGHT_TO_LEFT.test(tokens.join("")) ? "rtl" : "ltr";  // dir=auto ignores <bdi>
  tokens.forEach((token, i) => {
    const node = add(box, "span", "", { className: "token", tabIndex: i ? -1 : 0 });
    add(node, "bdi", token);
    add(node, "small");
    if (!mapNames().length) return;
    node.setAttribute("role", "button");
    node.onmouseenter = node.onfocus = () => point({ [side]: i });
    node.onmouseleave = node.onblur = () => point({});
    if (side === "target") node.onclick = () => pin(i);
    node.onkeydown = event => {
      const direction = box.dir === "rtl" ? -1 : 1;
      moveFocus(event, [...box.children], i, { ArrowRight: direction, ArrowLeft: -direction });
      if (event.key === "Enter" || event.key === " ") {
        node.click();
        event.preventDefault();
      }
    };
  });
}

// Move the focus from item `i` by the offset to which `steps` maps the pressed key.
function moveFocus(event, items, i, steps) {
  const next = { Home: 0, End: items.length - 1 }[event.key] ?? i + steps[event.key];
  if (!items[next]) return;
  items.forEach((item, j) => { item.tabIndex = j === next ? 0 : -1; });
  items[next].focus();
  event.preventDefault();
}

function buildHeatMap() {
  const heat = byId("heat"), rows = weights();
  heat.replaceChildren();
  if (!rows) return;
  const { source } = example(), { tokens } = hypothesis();
  byId("heat-title").textContent = `Attention weights${isLayer(state.map) ? `: ${mapLabel(state.map)}` : ""}`;
  heat.setAttribute("aria-label", "Heat map of the attention weights: one row per target token, one column per source token");
  const largest = largestOf(rows.flat());
  byId("largest").textContent = weightText(largest);
  if (rows.length * source.length > MOST_CELLS) {
    buildCanvas(heat, rows, largest);
    return;
  }
  heat.style.width = "";
  heat.style.gridTemplateRows = `max-content repeat(${tokens.length}, 1.6rem)`;
  fillHeatMap(heat, tokens, source, rows, (target, source) => point({ target, source }), pin);
  heat.onmouseleave = () => point({});
  add(heat, "span", "", { id: "row-frame", className: "frame" });
  add(heat, "span", "", { id: "column-frame", className: "frame" });
  fitCells();
}

// Draw a heat map with many cells as one picture without labels, because browsers would be slow with
// one element per cell.
function buildCanvas(heat, rows, largest) {
  heat.style.width = "100%";
  heat.style.gridTemplateColumns = "minmax(0, 1fr)";
  heat.style.gridTemplateRows = "auto";
  const canvas = add(heat, "canvas");
  paintCanvas(canvas, rows, largest);
  const place = ({ offsetX, offsetY }) => ({
    target: Math.min(rows.length - 1, Math.max(0, Math.floor(offsetY / canvas.clientHeight * rows.length))),
    source: Math.min(rows[0].length - 1, Math.max(0, Math.floor(offsetX / canvas.clientWidth * rows[0].length))),
  });
  canvas.onmousemove = event => point(place(event));
  canvas.onclick = event => pin(place(event).target);
  heat.onmouseleave = () => point({});
}

// Make the cells as wide as the page allows, but wide enough for the labels. A map that is wider
// than the page scrolls.
function fitCells() {
  const heat = byId("heat"), columns = example().source.length;
  const label = largestOf([...heat.querySelectorAll(".row-label")].map(node => node.offsetWidth));
  const free = byId("maps").clientWidth - label - columns - 4;
  heat.style.setProperty("--cell", `${Math.max(15, Math.min(34, free / columns)).toFixed(1)}px`);
}

// Draw all layers and heads of a Transformer as small heat maps with a common color scale.
function buildHeads() {
  const box = byId("heads"), names = mapNames().filter(isLayer);
  box.replaceChildren();
  box.hidden = !names.length;
  const largest = largestOf(names.flatMap(name => hypothesis().attention[name].flat()));
  for (const layer of names.filter(name => !isHead(name))) {
    const members = names.filter(name => name.split(" head ")[0] === layer);
    add(box, "h3", layer[0].toUpperCase() + layer.slice(1));
    const row = add(box, "div", "", { className: "layer" });
    row.style.setProperty("--heads", members.length);
    for (const name of members) addHead(row, name, largest, members.length);
  }
}

function addHead(row, name, largest, perLayer) {
  const button = add(row, "button", "", { className: "head", type: "button" });
  button.dataset.map = name;
  button.tabIndex = name === state.map ? 0 : -1;
  button.setAttribute("aria-label", mapLabel(name));
  paintCanvas(add(button, "canvas"), hypothesis().attention[name], largest);
  add(button, "span", isHead(name) ? name.slice(name.indexOf("head")) : "mean");
  button.onclick = () => showMap(name);
  button.onkeydown = event => {
    const all = [...byId("heads").querySelectorAll(".head")];
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perLayer, ArrowUp: -perLayer };
    moveFocus(event, all, all.indexOf(button), steps);
  };
}

function showMap(name) {
  state.map = name;
  buildHeatMap();
  highlight();
}

function point({ target = null, source = null }) {
  Object.assign(state, { target, source });
  highlight();
}

function pin(target) {
  state.pinned = state.pinned === target ? null : target;
  highlight();
}

// Show the weights of the token that is pointed at, or else of the pinned token.
function highlight() {
  const rows = weights();
  if (!rows) return;
  const column = state.source;
  const row = state.target ?? (column === null ? state.pinned : null);
  shade("source", row === null ? null : rows[row]);
  shade("target", row === null && column !== null ? rows.map(weights => weights[column]) : null);
  mark("target", row);
  mark("source", column);
  [...byId("target").children].forEach((node, t) => node.setAttribute("aria-pressed", t === state.pinned));
  byId("heads").querySelectorAll(".head").forEach(node => {
    node.setAttribute("aria-pressed", node.dataset.map === state.map);
  });
  byId("readout").textContent = describe(rows, row, column);
}

// Shade the tokens of one side relative to the largest weight, and write the weights below them.
function shade(side, values) {
  const largest = values ? largestOf(values) : 1;
  [...byId(side).children].forEach((node, i) => {
    const weight = values ? values[i] ?? 0 : null;
    setShade(node, weight, largest);
    node.dataset.weight = weight ?? "";
    node.lastChild.textContent = weight === null || weight < .005 ? "" : round(weight);
  });
}

// Mark a token, its label in the heat map, and its row (target token) or column (source token).
function mark(side, chosen) {
  const labels = byId("heat").querySelectorAll(side === "target" ? ".row-label" : ".column-label");
  [byId(side).children, labels].forEach(nodes => {
    [...nodes].forEach((node, i) => node.classList.toggle("marked", i === chosen));
  });
  const frame = byId(side === "target" ? "row-frame" : "column-frame");
  if (!frame) return;  // a heat map with many cells is a canvas without frames
  frame.hidden = chosen === null;
  // The first row and the first column of the grid are labels.
  const rows = weights().length + 2, columns = example().source.length + 2, start = chosen + 2;
  frame.style.gridArea = side === "target"
    ? `${start} / 2 / ${start + 1} / ${columns}`
    : `2 / ${start} / ${rows} / ${start + 1}`;
}

function describe(rows, row, column) {
  const target = t => `“${hypothesis().tokens[t]}”`, source = s => `“${example().source[s]}”`;
  const heaviest = values => values.indexOf(Math.max(...values));
  if (row !== null && column !== null)
    return `${target(row)} gives the weight ${weightText(rows[row][column])} to ${source(column)}.`;
  if (row !== null) {
    const s = heaviest(rows[row]);
    return `${target(row)} gives its largest weight, ${weightText(rows[row][s])}, to ${source(s)}.`;
  }
  if (column !== null) {
    const values = rows.map(weights => weights[column]), t = heaviest(values);
    return `${source(column)} receives its largest weight, ${weightText(values[t])}, from ${target(t)}.`;
  }
  return "";
}
