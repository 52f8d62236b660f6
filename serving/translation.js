// The cards of translation runs.

const shownHypothesis = run => run.now.hypotheses[run.hypothesis];

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
    const node = add(box, "span", "", { className: "token labelled loss" });
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
    ? "Each strip: p(source token | candidate), the posterior of the attention, and the source token with the largest p."
    : "Each strip: where the model attends after this candidate, and the source token with the largest weight.", { className: "readout" });
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
