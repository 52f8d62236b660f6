// The tables of the comparison: scores, faithfulness, differences between configs, and cost.

const MOST_SYSTEM_COLUMNS = 6;  // of the table of scores

function buildScores() {
  if (content.validation) byId("scores-title").textContent = "Best validation scores during training";
  byId("tests").textContent = content.tests;
  content.systems.forEach(({ name }, i) => add(byId("baseline"), "option", name, { value: i }));
  const every = [...content.scores, ...content.faithfulness];
  byId("baseline").parentNode.hidden = !every.some(({ contrasts }) => contrasts.flat().some(Boolean));
  byId("baseline").onchange = () => {
    fillScores(byId("scores"), content.scores);
    if (content.faithfulness.length) buildFaithfulness();
  };
  fillScores(byId("scores"), content.scores);
}

// The effective number of attended tokens is also in the report pages of runs, with another value.
const TWO_COUNTS =
  "The rows of sampled predictions differ from the attention statistics in the report.html of a run, which describe "
  + "the references of the whole split and include </s>: these rows describe the predictions of the sample, and their "
  + "weights are normalized without the </s> of the source.";

function buildFaithfulness() {
  const sample = content.faithfulness_sample;
  byId("faithfulness-sample").textContent = sample && ` of ${sample}`;
  fillScores(byId("faithfulness"), content.faithfulness);
  const texts = content.faithfulness.flatMap(({ cells }) => cells.map(({ text }) => text));
  const contrasts = content.faithfulness.flatMap(({ contrasts }) => contrasts.flat());
  const notes = [
    [texts.some(text => text.includes("±")), "±: mean and standard deviation over seeds."],
    [texts.some(text => text.includes("[")), "[low, high]: one seed, with its 95 % confidence interval over examples."],
    [contrasts.some(contrast => contrast?.p), "p-values are those of Welch's t-test over seeds."],
    [content.task === "translation" && content.faithfulness.some(({ key }) => key === "effective_tokens"), TWO_COUNTS],
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
  const p = contrast.p && `, ${contrast.p}`;
  add(cell, "small", `${contrast.difference}${p}${contrast.test === "t" ? " (t)" : ""}`);
  cell.classList.toggle("significant", /^p <|^p = \.0[0-4]/.test(contrast.p));
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
