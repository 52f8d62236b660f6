"use strict";
// Functions that all pages share. All text is inserted with textContent, so that no sentence is
// interpreted as HTML.

const byId = id => document.getElementById(id);

// Append a new element to `parent` and return it. `properties` are DOM properties.
function add(parent, tag, text = "", properties = {}) {
  const node = Object.assign(document.createElement(tag), properties);
  node.textContent = text;
  parent.append(node);
  return node;
}

const round = value => (value ?? 0).toFixed(2).replace(/^-(?!0\.00$)/, "−").replace("-", "");
const weightText = weight => weight > 0 && weight < .01 ? weight.toFixed(4) : round(weight);
// Math.max(...values) would fail for long lists, because the number of arguments is limited.
const largestOf = values => values.reduce((largest, value) => Math.max(largest, value ?? 0), 1e-9);

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

// Fill a table. A cell is a text, or [text, note] to show a note below the text.
function fillTable(table, head, rows) {
  const top = add(table, "tr");
  head.forEach(name => add(top, "th", name));
  for (const row of rows) {
    const line = add(table, "tr");
    for (const cell of row) {
      const [text, note] = [cell].flat();
      const node = add(line, "td", text);
      if (note) add(node, "small", note);
    }
  }
}

// Show each word above its predicted label; a wrong label is followed by the gold label.
function addLabels(box, words, labels, gold) {
  words.forEach((word, i) => {
    const wrong = labels[i] !== gold[i];
    const node = add(box, "span", "", { className: wrong ? "token labelled wrong" : "token labelled" });
    add(node, "bdi", word);
    add(node, "small", wrong ? `${labels[i]}, gold ${gold[i]}` : labels[i]);
  });
}

// Color a token or a cell by its weight, relative to the largest weight.
const setShade = (node, weight, largest) =>
  node.style.setProperty("--shade", (100 * Math.max(0, weight ?? 0) / largest).toFixed(1));

// Fill a grid with a heat map. `weights` has one row per target token and one column per source token,
// whose texts are `rows` and `columns`. When the pointer is at a cell, `point(t, s)` is called; t or s is
// null at a label. A click calls `choose(t)`. Return the labels of the rows and of the columns.
function fillHeatMap(grid, rows, columns, weights, point, choose = () => {}) {
  const largest = largestOf(weights.flat());
  const addPart = (tag, className, text, t, s) =>
    add(grid, tag, text, { className, title: text, onmouseenter: () => point(t, s), onclick: () => t !== null && choose(t) });
  grid.style.gridTemplateColumns = `max-content repeat(${columns.length}, var(--cell))`;
  add(grid, "span", "", { className: "corner" });
  const heads = columns.map((text, s) => addPart("bdi", "column-label", text, null, s));
  const labels = weights.map((row, t) => {
    const label = addPart("bdi", "row-label", rows[t], t, null);
    row.forEach((weight, s) => setShade(addPart("span", "cell", "", t, s), weight, largest));
    return label;
  });
  return { labels, heads };
}

// Draw attention weights with one pixel per weight.
function paintCanvas(canvas, rows, largest) {
  canvas.width = rows[0].length;
  canvas.height = rows.length;
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--heat");
  rows.forEach((row, t) => row.forEach((weight, s) => {
    if (!weight) return;
    pen.globalAlpha = weight / largest;
    pen.fillRect(s, t, 1, 1);
  }));
}

// Mark the line of the example with this number in the list, and make it visible.
function markInList(number) {
  const list = byId("list"), chosen = byId(`example-${number}`);
  for (const line of list.children) line.setAttribute("aria-selected", line === chosen);
  list.setAttribute("aria-activedescendant", chosen ? chosen.id : "");
  if (!chosen) return;
  // Scroll the list only: scrollIntoView would also scroll the page.
  const top = chosen.offsetTop - list.scrollTop, bottom = top + chosen.offsetHeight;
  if (top < 0 || bottom > list.clientHeight) list.scrollTop += top - list.clientHeight / 2;
}

// Choose the line above or below that of the example with this number, if an arrow key was pressed.
function moveInList(event, number) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const lines = [...byId("list").children];
  const next = lines[lines.findIndex(line => line.id === `example-${number}`) + step];
  if (next) next.click();
  event.preventDefault();
}

// Build a part of the page, or remove its section if the content has no such part.
function buildPart(section, present, build) {
  if (present) build();
  else byId(section).remove();
}
