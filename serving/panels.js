// The panels: one per task, with an input and one card per run.

const PAUSE = 200;  // milliseconds without typing before a request is sent

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
  showState();
}

function buildPanel(panel) {
  panel.node = add(byId("panels"), "div");
  panel.node.append(byId(panel.task).content.cloneNode(true));
  panel.fields = Object.fromEntries([...panel.node.querySelectorAll("[name]")].map(node => [node.name, node]));
  panel.first = panel.fields.text ?? panel.fields.passage;
  panel.edit = panel.fixed = null;
  panel.draw = 0;
  panel.cards = add(panel.node, "div", "", { className: "runs" });
  panel.runs.forEach(run => buildCard(panel, run, panel.cards));
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

// Sampling draws one translation, so a temperature and a beam exclude each other.
function fitSettings({ fields }, changed = "") {
  if (changed === "temperature" && Number(fields.temperature.value) > 0) fields.beam.value = 1;
  if (changed === "beam" && Number(fields.beam.value) > 1) fields.temperature.value = 0;
  fields.draw.hidden = !(Number(fields.temperature.value) > 0);
  fields.alpha.disabled = fields.length_penalty.value === "none";
}

// Return why the value of a number field cannot be used; "" if it can.
function mistake({ value, min, max, step, disabled }) {
  const number = Number(value), whole = step === "1";
  const usable = value !== "" && number >= Number(min) && number <= Number(max) && (!whole || Number.isInteger(number));
  return disabled || usable ? "" : `Use a ${whole ? "whole number" : "number"} from ${min}\u00a0to\u00a0${max}.`;
}

// Show the mistakes in the number fields of a panel, each below its field. The fields belong to all
// runs, so the runs are not asked while there is a mistake, and their cards show the previous answers.
function showMistakes(panel) {
  const fields = Object.values(panel.fields).filter(field => field.type === "number");
  for (const field of fields) {
    const message = mistake(field);
    byId(`${field.name}-error`).textContent = message;
    field.setAttribute("aria-invalid", Boolean(message));
  }
  panel.mistaken = fields.some(mistake);
  panel.node.classList.toggle("mistaken", panel.mistaken);
  panel.cards.inert = panel.mistaken;  // their tokens may belong to another text
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
    alpha: fields.alpha.disabled ? undefined : Number(fields.alpha.value), temperature: Number(fields.temperature.value),
  };
}

function refresh(panel) {
  panel.control?.abort();
  panel.control = new AbortController();
  showMistakes(panel);
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
  if (panel.mistaken) {
    run.control?.abort();
    return setOutdated(run, false);
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
