// The cards of the runs: what the cards of all tasks share.

const percent = p => p >= .9995 ? "100 %" : p < .0005 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`;
const heaviest = values => values.indexOf(largestOf(values));

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

function showError(run, error) {
  run.asked = null;
  run.content.replaceChildren();
  add(run.content, "p", error.message, { className: "error" }).setAttribute("role", "alert");
}
