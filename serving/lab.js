// The page of the lab. It sends what is typed to the server (serving/app.py) and shows the answers.
// elements.js defines the functions that all pages share.

const PAUSE = 200;  // milliseconds without typing before a request is sent
const RETRIES = 3;
const POLL = 500;  // milliseconds between questions what the server compiles

const percent = p => p >= .9995 ? "100 %" : p < .0005 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`;
const heaviest = values => values.indexOf(largestOf(values));


// ---- Requests ----------------------------------------------------------------------------------

// Return the JSON answer to a request. Not every answer is JSON: a server with too many connections
// answers with plain text.
async function getJson(path, options = {}, retries = RETRIES) {
  const otherwise = message => error => { throw error.name === "AbortError" ? error : new Error(message); };
  const response = await fetch(path, options).catch(otherwise("The server does not answer: is lab.py running?"));
  if ([429, 503, 504].includes(response.status) && retries) {
    await new Promise(done => setTimeout(done, 1000 * Number(response.headers.get("retry-after") ?? 1)));
    return getJson(path, options, retries - 1);
  }
  const answer = await response.json().catch(otherwise(`The server answered with the status ${response.status}: try again.`));
  if (response.ok) return answer;
  throw new Error(answer.error);
}

function post(kind, body, signal) {
  const headers = { "content-type": "application/json" };
  return getJson(`/api/${kind}`, { method: "POST", headers, body: JSON.stringify(body), signal });
}


// ---- Panels: one per task, with an input and one card per run -----------------------------------

// A panel has the fields of its input by name, its `runs`, the present `edit` ({run, changes} or
// null) and, for translation, `fixed`: the tokens of the prefix ({run, tokens}) if they were chosen
// by clicking, not typed. A run has the answers to its last requests (see `ask`), and it is `outdated`
// if newer ones are expected.
const panels = {};

async function begin() {
  server = await getJson("/api/runs");
  const { runs } = server;
  for (const run of runs) (panels[run.task] ??= { task: run.task, runs: [] }).runs.push(run);
  Object.values(panels).forEach(buildPanel);
  const tabs = Object.values(panels);
  if (tabs.length > 1) tabs.forEach(buildTab);
  showPanel(tabs[0]);
  showState();
  setInterval(askState, POLL);
}

// What the server does, as /api/runs reports it: `done` of `total` sample requests, and the run and
// the beam that it compiles now.
let server = null;

const waiting = () => Object.values(panels).flatMap(({ runs }) => runs).filter(run => run.busy);

// The page is ready only if it has all answers.
function showState() {
  const { done, total, compiling } = server, names = waiting().map(run => run.name);
  byId("progress").textContent =
    names.length && compiling ? `compiling for ${compiling} …`
    : done < total ? `compiling: ${done} of ${total} sample requests`
    : names.length ? `waiting for ${names.join(", ")} …`
    : "ready";
}

let asking = false;

async function askState() {
  if (asking || !waiting().length && server.done >= server.total) return;
  asking = true;
  server = await getJson("/api/runs", {}, 0).catch(() => server);
  asking = false;
  showState();
}

function buildTab(panel) {
  const count = panel.runs.length, name = panel.task[0].toUpperCase() + panel.task.slice(1);
  panel.tab = add(byId("tabs"), "button", `${name} (${count})`, { type: "button" });
  panel.tab.setAttribute("role", "tab");
  panel.tab.onclick = () => showPanel(panel);
  panel.tab.onkeydown = event => {
    const tabs = Object.values(panels), at = tabs.indexOf(panel);
    const next = tabs[at + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? tabs.length)];
    if (next) showPanel(next, next.tab);
  };
}

function showPanel(panel, focused = panel.first) {
  for (const other of Object.values(panels)) {
    other.node.hidden = other !== panel;
    other.tab?.setAttribute("aria-selected", other === panel);
    if (other.tab) other.tab.tabIndex = other === panel ? 0 : -1;
  }
  focused.focus();
}

function buildPanel(panel) {
  panel.node = add(byId("panels"), "div");
  panel.node.append(byId(panel.task).content.cloneNode(true));
  panel.fields = Object.fromEntries([...panel.node.querySelectorAll("[name]")].map(node => [node.name, node]));
  panel.first = panel.fields.text ?? panel.fields.passage;
  panel.edit = panel.fixed = null;
  panel.draw = 0;
  const box = add(panel.node, "div", "", { className: "runs" });
  panel.runs.forEach(run => buildCard(panel, run, box));
  for (const node of Object.values(panel.fields)) node.oninput = () => typed(panel, node.name);
  const [{ decode, ranges, length_penalties: penalties, typed: hint, lines }] = panel.runs;
  if (hint) panel.fields.text.placeholder = `Type ${hint}`;
  if (lines) panel.fields.text.rows = 6;
  if (decode) {
    for (const [name, [min, max]] of Object.entries(ranges)) Object.assign(panel.fields[name], { min, max });
    penalties.forEach(name => add(panel.fields.length_penalty, "option", name));
    for (const [name, value] of Object.entries(decode)) panel.fields[name].value = value;
    panel.fields.draw.onclick = () => { panel.draw += 1; refresh(panel); };
    fitSettings(panel);
  }
}

function buildCard(panel, run, box) {
  run.card = add(box, "section", "", { className: "run" });
  run.card.setAttribute("aria-label", run.name);
  add(run.card, "h2", run.name);
  add(run.card, "p", run.about, { className: "muted" });
  run.content = add(run.card, "div", "", { className: "content" });
}

function typed(panel, name) {
  if (["text", "passage"].includes(name)) panel.edit = null;  // edits refer to the tokens of the text
  if (["text", "prefix"].includes(name)) {
    if (panel.fixed) panel.fields.prefix.value = name === "prefix" ? panel.fields.prefix.value : "";
    panel.fixed = null;
  }
  if (panel.task === "translation") fitSettings(panel, name);
  panel.runs.forEach(run => setOutdated(run, true));
  clearTimeout(panel.timer);
  panel.timer = setTimeout(() => refresh(panel), PAUSE);
}

function setBusy(run, busy) {
  if (!waiting().length) server.compiling = "";  // it belongs to an earlier request
  run.busy = busy;
  run.card.setAttribute("aria-busy", busy);
  showState();
}

function setOutdated(run, outdated) {
  run.outdated = outdated;
  setBusy(run, outdated);
}

// Sampling draws one translation, so a temperature and a beam exclude each other.
function fitSettings({ fields }, changed = "") {
  if (changed === "temperature" && Number(fields.temperature.value) > 0) fields.beam.value = 1;
  if (changed === "beam" && Number(fields.beam.value) > 1) fields.temperature.value = 0;
  fields.draw.hidden = !(Number(fields.temperature.value) > 0);
  fields.alpha.disabled = fields.length_penalty.value === "none";
}

// The request of a panel without a run and an edit; null if nothing is typed.
function request(panel) {
  const { fields } = panel;
  if (!panel.first.value.trim()) return null;
  if (panel.task === "cloze") {
    const candidates = fields.candidates.value.split(/[\s,|]+/).filter(Boolean);
    if (!fields.query.value.trim() || !candidates.length) return null;
    return { passage: fields.passage.value, query: fields.query.value, candidates };
  }
  if (panel.task !== "translation") return { text: fields.text.value };
  return {
    text: fields.text.value, prefix: panel.fixed ?? fields.prefix.value, draw: panel.draw,
    beam: Number(fields.beam.value), length_penalty: fields.length_penalty.value,
    alpha: Number(fields.alpha.value), temperature: Number(fields.temperature.value),
  };
}

function refresh(panel) {
  panel.control?.abort();
  panel.control = new AbortController();
  return Promise.all(panel.runs.map(run => refreshRun(panel, run, panel.control.signal)));
}

async function refreshRun(panel, run, signal) {
  const body = request(panel);
  if (!body) {
    run.control?.abort();
    run.asked = null;
    setOutdated(run, false);
    return run.content.replaceChildren();
  }
  setOutdated(run, true);
  try {
    const answers = await ask(panel.task, run, body, panel.edit, signal);
    run.control?.abort();  // a token that was clicked meanwhile belongs to the previous answers
    Object.assign(run, answers);
    show(panel, run);
  } catch (error) {
    if (error.name === "AbortError") return;
    run.control?.abort();
    showError(run, error);
  }
  setOutdated(run, false);
}

function showError(run, error) {
  run.asked = null;
  run.content.replaceChildren();
  add(run.content, "p", error.message, { className: "error" }).setAttribute("role", "alert");
}

// Request the answers that the card of a run shows. They become fields of the run together, because
// all of them must belong to the same request: `base` is the answer without the edit, `now` the answer
// with it, and `before` inspects the translation of `base`, given the edited source. `asked` is the
// request of `base` as a text, and `next` the distribution of the `selected` token.
async function ask(task, run, body, edit, signal) {
  const kind = task === "translation" ? "translate" : "predict", asked = JSON.stringify(body);
  const base = run.asked === asked ? run.base : await post(kind, { run: run.name, ...body }, signal);
  const now = edit ? await post(kind, { run: run.name, ...body, edit }, signal) : base;
  const answers = { body, edit, asked, base, now };
  if (kind !== "translate") return answers;
  const target = base.hypotheses[0].tokens.map(token => token.id), inspected = edit && target.length > 0;
  const before = inspected ? await post("inspect", { run: run.name, text: body.text, edit, target }, signal) : null;
  const { tokens } = now.hypotheses[0];
  const selected = Math.max(0, Math.min(run.chosen ?? now.prefix, tokens.length - 1));
  const next = await askNext(run, body, edit, tokens.slice(0, selected), signal);
  return { ...answers, before, next, selected, hypothesis: 0 };
}

// Request the distribution of the token after the first tokens of a hypothesis.
function askNext(run, { text, temperature }, edit, tokens, signal) {
  const prefix = { run: run.name, tokens: tokens.map(token => token.token) };
  return post("next", { run: run.name, text, edit, prefix, temperature }, signal);
}

const shownHypothesis = run => run.now.hypotheses[run.hypothesis];

// Change the source: `text` replaces the unit at place i, null removes it, undefined restores it.
function changeUnit(panel, run, i, text) {
  const changes = { ...(panel.edit?.run === run.name ? panel.edit.changes : {}) };
  if (text === undefined) delete changes[i];
  else changes[i] = text;
  panel.edit = Object.keys(changes).length ? { run: run.name, changes } : null;
  refresh(panel);
}


// ---- Cards -------------------------------------------------------------------------------------

// Show the answers of a run. The focus stays on the same token.
function show(panel, run) {
  const focused = run.content.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  run.content.replaceChildren();
  run.shading = [];
  SHOW[panel.task](panel, run);
  if (focused) run.content.querySelector(`[data-key="${focused}"]`)?.focus();
  run.rest();
}

const SHOW = { translation: showTranslation, classification: showClasses, labelling: showLabels, cloze: showAnswer };

function heading(run, text) {
  return add(run.content, "h3", text);
}

function showUnknown(run) {
  const { unknown, truncated } = run.now;
  if (truncated) add(run.content, "p", "The text is truncated, as in training.", { className: "muted" });
  if (unknown.length) add(run.content, "p", `Not in the vocabulary: ${unknown.join(", ")}`, { className: "muted" });
}

function select(parent, label, names, value, onchange) {
  const box = add(parent, "label", `${label} `, { className: "muted" });
  const node = add(box, "select");
  names.forEach((name, i) => add(node, "option", name, { value: i }));
  node.value = value;
  node.dataset.key = label;
  node.onchange = () => onchange(Number(node.value));
}

function undoButton(panel, run, parent) {
  if (!run.edit) return;
  add(parent, "button", "Undo the edit", { type: "button", onclick: () => { panel.edit = null; refresh(panel); } });
}

function showTranslation(panel, run) {
  const { now } = run, shown = shownHypothesis(run), best = run.hypothesis === 0;
  add(run.content, "p", shown.text, { className: "output", dir: "auto" });
  const line = add(run.content, "div", "", { className: "line" });
  const log_p = best ? now.best.log_p.reduce((sum, x) => sum + x, 0) : shown.log_p;
  const total = best ? "log p" : now.prefix ? "log p after the prefix" : "log p";
  add(line, "span", `${total} ${round(log_p)} · score ${round(shown.score)}`, { className: "muted" });
  if (now.hypotheses.length > 1) {
    const names = now.hypotheses.map((h, i) => `${i + 1}: ${h.text} (${round(h.score)})`);
    select(line, "Hypothesis", names, run.hypothesis, i => showHypothesis(panel, run, i));
  }
  undoButton(panel, run, line);
  showUnknown(run);
  heading(run, "Source tokens");
  const source = unitChips(panel, run, run.base.source.map(token => token.shown), now.source.map(token => token.shown));
  heading(run, "Translation tokens");
  const target = add(run.content, "div", "", { className: "tokens editable" });
  shown.tokens.forEach((token, t) => {
    const node = chip(target, token.shown, `target-${t}`, t);
    node.classList.toggle("fixed", t < now.prefix);
    node.classList.toggle("changed", Boolean(run.before) && run.base.hypotheses[0].tokens[t]?.token !== token.token);
    node.setAttribute("role", "button");
    node.onclick = () => selectTarget(panel, run, t);
  });
  moveInside(target);
  point(run, target, "target");
  if (run.before) showBefore(run);
  const pair = add(run.content, "div", "", { className: "pair" });
  showMap(panel, run, add(pair, "div"), source, target);
  showNext(panel, run, add(pair, "div"));
}

function showHypothesis(panel, run, i) {
  selectTarget(panel, run, Math.min(run.selected, run.now.hypotheses[i].tokens.length - 1), i);
}

// Select a token of a hypothesis; a later selection replaces the request of an earlier one.
async function selectTarget(panel, run, selected, hypothesis = run.hypothesis) {
  run.control?.abort();
  run.control = new AbortController();
  run.chosen = selected;
  setBusy(run, true);
  const tokens = run.now.hypotheses[hypothesis].tokens.slice(0, selected);
  try {
    const next = await askNext(run, run.body, run.edit, tokens, run.control.signal);
    Object.assign(run, { next, selected, hypothesis });
    show(panel, run);
  } catch (error) {
    if (error.name === "AbortError") return;
    showError(run, error);
  }
  setBusy(run, run.outdated);
}

// Show the translation of the unedited source, with the change of log p that the edit causes.
function showBefore(run) {
  const { hypotheses, best } = run.base, changes = run.before.log_p.map((x, t) => x - best.log_p[t]);
  const total = changes.reduce((sum, x) => sum + x, 0);
  heading(run, `Translation before the edit: its log p changes by ${total > 0 ? "+" : ""}${round(total)}`);
  const box = add(run.content, "div", "", { className: "tokens plain before" });
  const largest = Math.max(1, largestOf(changes.map(x => -x)));
  hypotheses[0].tokens.forEach((token, t) => {
    const node = add(box, "span", "", { className: "token labeled loss" });
    add(node, "bdi", token.shown);
    add(node, "small", Math.abs(changes[t]) < .005 ? "0" : round(changes[t]));
    setShade(node, -changes[t], largest);
  });
}

function showNext(panel, run, part) {
  const { next, selected } = run, tokens = shownHypothesis(run).tokens;
  const after = next.prefix.map(token => token.shown).slice(-6).join(" ");
  add(part, "h3", next.prefix.length ? `Next token after “${next.prefix.length > 6 ? "… " : ""}${after}”` : "First token");
  const box = add(part, "div", "", { className: "candidates" });
  const looks = next.candidates.some(candidate => candidate.looks);
  next.candidates.forEach((candidate, rank) => {
    const button = add(box, "button", candidate.shown, { type: "button", disabled: candidate.token === "</s>" });
    button.dataset.key = `candidate-${rank}`;
    button.title = candidate.token === "</s>" ? "The translation ends here." : `Begin with “${candidate.text}”`;
    button.setAttribute("aria-pressed", candidate.token === tokens[selected]?.token);
    button.onclick = () => fixPrefix(panel, run, next.prefix, candidate);
    add(add(box, "span"), "span", "", { className: "bar" }).style.width = `${100 * candidate.p}%`;
    add(box, "span", percent(candidate.p), { className: "value" });
    showStrip(run, box, candidate.posterior ?? candidate.looks);
  });
  if (!looks) return;
  add(part, "p", next.candidates[0].posterior
    ? "Cells: p(source token | candidate), the posterior of the attention, and its maximum."
    : "Cells: attention weights of the time step after each candidate, and their maximum.", { className: "readout" });
}

function showStrip(run, box, weights) {
  const strip = add(box, "span", weights ? "" : "–", { className: weights ? "strip" : "strip absent" });
  if (!weights) return;
  const largest = largestOf(weights), most = run.now.source[heaviest(weights)].shown;
  weights.forEach((weight, s) => {
    const cell = add(strip, "span", "", { className: "cell", title: `${run.now.source[s].shown}: ${round(weight)}` });
    setShade(cell, weight, largest);
  });
  add(strip, "bdi", most);
}

function fixPrefix(panel, run, prefix, candidate) {
  panel.fixed = { run: run.name, tokens: [...prefix.map(token => token.token), candidate.token] };
  panel.fields.prefix.value = candidate.text;
  run.chosen = undefined;
  refresh(panel);
}

// Show the attention weights of a hypothesis as a heat map, and shade the tokens at the pointer.
function showMap(panel, run, part, source, target) {
  const shown = shownHypothesis(run), named = run.hypothesis === 0 ? run.now.best.attention : { attention: shown.attention };
  const names = Object.keys(named).filter(name => named[name]);
  const mark = (row, column) => {
    const rows = named[run.map];
    shade(source, rows && row !== null ? rows[row] : null);
    shade(target, rows && row === null && column !== null ? rows.map(weights => weights[column]) : null);
    [...target.children].forEach((node, t) => node.classList.toggle("marked", t === row));
    run.heat?.(row, column);
  };
  run.point = (side, i) => mark(side === "target" ? i : null, side === "source" ? i : null);
  run.rest = () => mark(Math.min(run.selected, shown.tokens.length - 1), null);
  run.heat = null;
  if (!names.length) return void add(part, "p", "This model has no attention.", { className: "muted" });
  if (!names.includes(run.map)) run.map = names[0];
  const line = add(part, "div", "", { className: "line" });
  add(line, "h3", "Attention weights");
  if (names.length > 1) select(line, "Layer and head", names, names.indexOf(run.map), i => { run.map = names[i]; show(panel, run); });
  const rows = shown.tokens.map(token => token.shown), columns = run.now.source.map(token => token.shown);
  run.heat = heatMap(run, part, named[run.map], rows, columns, mark, t => selectTarget(panel, run, t));
}

// Build a heat map; return a function that marks a row and a column.
function heatMap(run, part, weights, rows, columns, mark, choose) {
  const grid = add(add(part, "div", "", { className: "map" }), "div", "", { className: "heat" });
  const readout = add(part, "p", "", { className: "readout" });
  const side = Math.max(9, Math.min(21, Math.floor((run.content.clientWidth - 130) / columns.length) - 1));
  grid.style.setProperty("--cell", `${side}px`);
  const { labels, heads } = fillHeatMap(grid, rows, columns, weights, mark, choose);
  grid.onmouseleave = () => run.rest();
  return (row, column) => {
    labels.forEach((node, t) => node.classList.toggle("marked", t === row));
    heads.forEach((node, s) => node.classList.toggle("marked", s === column));
    readout.textContent = describe(weights, rows, columns, row, column);
  };
}

function describe(weights, rows, columns, row, column) {
  if (row === null && column === null) return "";
  if (row === null) {
    const values = weights.map(line => line[column]), t = heaviest(values);
    return `“${columns[column]}” receives its largest weight, ${round(values[t])}, from “${rows[t]}”.`;
  }
  const s = column ?? heaviest(weights[row]), most = column === null ? "largest weight" : "weight";
  return `“${rows[row]}” gives the ${most} ${round(weights[row][s])} to “${columns[s]}”.`;
}


// ---- Tokens ------------------------------------------------------------------------------------

function chip(box, text, key, i) {
  const node = add(box, "span", "", { className: "token", tabIndex: -1 });
  node.dataset.key = key;
  node.dataset.place = i;
  add(node, "bdi", text);
  add(node, "small");
  return node;
}

// Move between the tokens of a box with the arrow keys. Enter clicks a token.
function moveInside(box) {
  const nodes = [...box.children];
  if (nodes.length) nodes[0].tabIndex = 0;
  box.addEventListener("keydown", event => {
    if (event.target.tagName === "INPUT") return;
    const at = nodes.indexOf(event.target), next = nodes[at + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? nodes.length)];
    if (next) next.focus();
    else if (event.key !== "Enter" && event.key !== " ") return;
    else event.target.click();
    event.preventDefault();
  });
}

// Show the units of the source, which can be edited. `base` are the units before the edit and `now`
// those that the model has read, perhaps with </s> at the end. Return the box; the attribute
// data-place of a token is its place in `now`, and tokens that were removed have none.
function unitChips(panel, run, base, now) {
  const box = add(run.content, "div", "", { className: "tokens editable source" });
  const { edit } = run, { origin } = run.now;
  if (edit && !origin) {
    now.forEach((text, i) => chip(box, text, `source-${i}`, i));
    const note = `This run splits the text differently, so it reads the edited text of ${edit.run}.`;
    add(run.content, "p", note, { className: "muted" });
    return point(run, box);
  }
  const end = panel.task === "translation" ? base.length - 1 : base.length;  // </s> is not edited
  base.forEach((text, i) => {
    const change = edit && i < end ? edit.changes[i] : undefined;
    const places = origin && i < end ? origin.flatMap((from, place) => from === i ? [place] : []) : [origin ? now.length - 1 : i];
    const node = chip(box, places.map(place => now[place]).join(" ") || text, `source-${i}`, places[0] ?? "");
    if (i === end) return;
    node.classList.toggle("removed", change === null);
    node.classList.toggle("replaced", typeof change === "string");
    node.classList.toggle("unknown", run.now.unknown.includes(text));
    if (change !== undefined) node.title = `originally “${text}”; Delete restores it`;
    makeEditable(panel, run, node, i, text, change !== undefined);
  });
  moveInside(box);
  return point(run, box);
}

function makeEditable(panel, run, node, i, text, changed) {
  node.setAttribute("role", "button");
  const remove = () => changeUnit(panel, run, i, changed ? undefined : null);
  const button = add(node, "button", changed ? "↺" : "×", { type: "button", className: "remove", tabIndex: -1 });
  button.setAttribute("aria-label", changed ? `Restore ${text}` : `Remove ${text}`);
  button.onclick = event => { event.stopPropagation(); remove(); };
  node.onclick = () => startReplacing(panel, run, node, i, text);
  node.addEventListener("keydown", event => {
    if (event.target === node && ["Delete", "Backspace"].includes(event.key)) remove();
  });
}

function startReplacing(panel, run, node, i, text) {
  if (node.querySelector("input")) return;
  const shown = node.firstChild, input = document.createElement("input");
  Object.assign(input, { value: shown.textContent, spellcheck: false });
  input.setAttribute("aria-label", `Replacement of ${text}`);
  node.replaceChild(input, shown);
  input.select();
  const stop = () => { if (input.isConnected) node.replaceChild(shown, input); };
  input.onclick = event => event.stopPropagation();
  input.onblur = stop;
  input.onkeydown = event => {
    event.stopPropagation();
    if (event.key === "Escape") { stop(); node.focus(); }
    if (event.key !== "Enter") return;
    const value = input.value.trim();
    input.onblur = null;
    stop();
    node.focus();
    if (value !== shown.textContent) changeUnit(panel, run, i, value === text ? undefined : value || null);
  };
}

// Call run.point when the pointer or the focus is at a token of the box.
function point(run, box, side = "source") {
  const at = event => {
    const place = event.target.closest(".token")?.dataset.place;
    if (place) run.point?.(side, Number(place));
  };
  box.addEventListener("mouseover", at);
  box.addEventListener("focusin", at);
  for (const leaving of ["mouseleave", "focusout"]) box.addEventListener(leaving, () => run.rest());
  return box;
}

// Shade tokens relative to the largest weight, and write the weights below them.
function shade(box, values) {
  const largest = values ? largestOf(values) : 1;
  for (const node of box.children) {
    const weight = values && node.dataset.place ? values[node.dataset.place] : null;
    setShade(node, weight, largest);
    node.dataset.weight = weight ?? "";
    node.querySelector("small").textContent = weight === null || weight < .005 ? "" : round(weight);
  }
}


// ---- Classification, labelling and cloze ---------------------------------------------------------

// Show the probabilities of labels or candidates; with an edit, also those before it.
function showDistribution(panel, run) {
  const [best] = run.now.distribution;
  add(run.content, "p", `${best.label} ${percent(best.p)}`, { className: "output", dir: "auto" });
  undoButton(panel, run, add(run.content, "div", "", { className: "line" }));
  showUnknown(run);
  const before = new Map(run.base.distribution.map(({ label, p }) => [label, p]));
  const box = add(run.content, "div", "", { className: "bars" });
  for (const { label, p } of run.now.distribution) {
    add(box, "span", label);
    add(add(box, "span"), "span", "", { className: "bar" }).style.width = `${100 * p}%`;
    const value = add(box, "span", percent(p), { className: "value" });
    if (run.edit && before.has(label)) add(value, "small", ` · was ${percent(before.get(label))}`);
  }
}

function showWeights(panel, run, title) {
  const { maps } = run.now, names = Object.keys(maps);
  const line = add(run.content, "div", "", { className: "line" });
  add(line, "h3", names.length ? title : "Words (this model has no attention)");
  if (!names.includes(run.map)) run.map = names[0];
  if (names.length > 1) select(line, "Weights", names, names.indexOf(run.map), i => { run.map = names[i]; show(panel, run); });
  const box = unitChips(panel, run, run.base.units, run.now.units);
  run.rest = () => shade(box, maps[run.map] ?? null);
  return box;
}

function showClasses(panel, run) {
  showDistribution(panel, run);
  showWeights(panel, run, "Words and their attention weights");
}

function showAnswer(panel, run) {
  showDistribution(panel, run);
  const { words, weights, rows } = run.now.query;
  heading(run, weights ? "Query and the weights of its words" : "Query");
  const query = add(run.content, "div", "", { className: "tokens query" });
  words.forEach((word, i) => chip(query, word, `query-${i}`, i));
  moveInside(query);
  if (weights) shade(query, weights);
  const passage = showWeights(panel, run, "Passage and its attention weights");
  [...query.children].forEach((node, i) => {
    if (rows) node.onmouseenter = node.onfocus = () => shade(passage, rows[i]);
    node.onmouseleave = node.onblur = () => run.rest();
  });
}

function showLabels(panel, run) {
  const { steps, origin } = run.now;
  undoButton(panel, run, add(run.content, "div", "", { className: "line" }));
  showUnknown(run);
  heading(run, "Labels");
  const box = unitChips(panel, run, run.base.units, run.now.units);
  for (const node of box.children) {
    if (!node.dataset.place) continue;
    const i = Number(node.dataset.place), [{ label, p }] = steps[i], note = node.querySelector("small");
    node.classList.add("labeled");
    note.textContent = label;
    if (p !== null) node.title = steps[i].map(entry => `${entry.label} ${percent(entry.p)}`).join("\n");
    node.classList.toggle("changed", Boolean(origin) && run.base.steps[origin[i]][0].label !== label);
    if (p !== null) setShade(node, 1 - p, 1);
  }
  const readout = add(run.content, "p", "", { className: "readout" });
  run.rest = () => { readout.textContent = steps[0][0].p === null ? "" : "Point at a word to see its labels. Uncertain labels are shaded."; };
  run.point = (side, i) => {
    readout.textContent = steps[i].filter(entry => entry.p !== null).map(entry => `${entry.label} ${percent(entry.p)}`).join(" · ");
  };
}

begin().catch(error => { byId("progress").textContent = error.message; });
