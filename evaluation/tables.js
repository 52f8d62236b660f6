// The tables and charts of the report.

function buildScores() {
  const withUnit = ({ value, unit }) => unit === "%" ? `${value} %` : value;
  const name = ({ name, unit }) => unit && unit !== "%" ? `${name} (${unit})` : name;
  const rows = content.scores.map(score => [
    [name(score), score.signature], withUnit(score), score.direction,
  ]);
  fillTable(byId("scores"), ["Score", "Value", "Direction"], rows);
}

function buildComparison() {
  const { run, rows, sentences } = content.comparison;
  byId("other-run").textContent = run;
  fillTable(
    byId("comparison"),
    ["Score", "This run", "Other run", "Difference", "p"],
    rows.map(row => [row.label, row.this, row.other, row.difference, row.p]),
  );
  byId("differences-part").hidden = !sentences.length;
  for (const sentence of sentences) {
    const list = add(add(byId("differences"), "div", "", { className: "difference" }), "dl");
    for (const [term, text, chrf] of [
      ["Source", sentence.source], ["Reference", sentence.reference],
      ["This run", sentence.this, sentence.chrf_this],
      ["Other run", sentence.other, sentence.chrf_other],
    ]) {
      add(list, "dt", term);
      const node = add(list, "dd", text, { dir: "auto" });
      if (chrf !== undefined) add(node, "small", `  (chrF ${chrf.toFixed(1)})`);
    }
  }
}

function buildChartGroup({ title, charts, notes }) {
  const section = add(byId("chart-groups"), "section");
  add(section, "h2", title);
  const box = add(section, "div", "", { className: "charts" });
  charts.forEach(chart => addBars(box, chart));
  if (notes.length) add(section, "p", notes.join(" "), { className: "muted" });
}

function addBars(parent, { title, bars }) {
  const chart = add(parent, "div", "", { className: "chart" });
  add(chart, "h3", title);
  const box = add(chart, "div", "", { className: "bars" });
  const largest = largestOf(bars.map(bar => bar.value));
  for (const { label, value, text, note } of bars) {
    add(box, "span", label);
    add(add(box, "div"), "div", "", { className: "bar" }).style.width = `${100 * value / largest}%`;
    add(add(box, "span", text, { className: "value" }), "small", ` · ${note}`);
  }
}

function addColumns(parent, { title, bars }) {
  const chart = add(parent, "div", "", { className: "chart" });
  add(chart, "h3", title);
  const box = add(chart, "div", "", { className: "columns" });
  const largest = largestOf(bars.map(bar => bar.value));
  const every = Math.ceil(bars.length / 12);  // more labels would overlap on a narrow screen
  bars.forEach(({ label, value, text, note }, i) => {
    const column = add(box, "div", "", { title: `position ${label}: ${text}, ${note}` });
    add(column, "span", i % every ? "" : text);
    add(column, "div", "", { className: "bar" }).style.height = `${75 * value / largest}%`;
    add(column, "span", i % every ? "" : label);
  });
}

function buildAttention() {
  const layered = content.attention.some(row => isLayer(row.name));
  const rows = content.attention.filter(row => !layered || isLayer(row.name));
  fillTable(
    byId("attention"),
    ["Attention", "Entropy (nats)", "Effective number of attended tokens", "Source length (tokens)",
      "Weights below 0.01 (%)", "Largest weight"],
    rows.map(row => [
      mapLabel(row.name), round(row.entropy), round(row.effective), row.source.toFixed(1),
      (100 * row.small).toFixed(1), round(row.largest),
    ]),
  );
  if (content.positions) addColumns(byId("positions"), content.positions);
}

function buildFaithfulness() {
  const { sample, rows } = content.faithfulness;
  byId("faithfulness-sample").textContent = sample;
  byId("two-counts").hidden = !content.attention.length;
  fillTable(
    byId("faithfulness"),
    ["Measure", "Value", "95 % confidence interval", "Unit"],
    rows.map(row => [row.name, row.value, `${row.low} to ${row.high}`, row.unit]),
  );
}

function buildConfusion() {
  const names = Object.keys(content.confusion), table = byId("confusion");
  fillTable(table, ["", ...names], names.map(gold => [gold, ...Object.values(content.confusion[gold]).map(String)]));
  names.forEach((gold, i) => {
    const counts = Object.values(content.confusion[gold]), total = counts.reduce((a, b) => a + b, 0);
    counts.forEach((count, j) => {
      const cell = table.rows[i + 1].cells[j + 1];
      cell.className = "count";
      setShade(cell, count, Math.max(1, total));
    });
  });
}

function buildPictures() {
  content.pictures.forEach(([name, source]) => add(byId("pictures"), "img", "", { src: source, alt: name }));
}
