// The cards of classification, labelling and cloze runs.

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
    node.classList.add("labelled");
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
