// Tokens that can be shaded, chosen, replaced and removed.

// Change the source: `text` replaces the unit at place i, null removes it, undefined restores it.
function changeUnit(panel, run, i, text) {
  const changes = { ...(panel.edit?.run === run.name ? panel.edit.changes : {}) };
  if (text === undefined) delete changes[i];
  else changes[i] = text;
  panel.edit = Object.keys(changes).length ? { run: run.name, changes } : null;
  refresh(panel);
}

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
