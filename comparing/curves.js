// The learning curves of the comparison.

const hidden = new Set();  // systems whose curves are hidden

const SIZE = { width: 560, height: 290, left: 62, right: 18, top: 10, bottom: 40 };
const SVG = byId("svg-space").namespaceURI;  // of an element of the template
const charts = [];  // functions that draw the charts again

function addSvg(parent, tag, attributes, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  parent.append(node);
  return node;
}

function buildCurves() {
  const loss = content.curves.findIndex(({ label }) => label === "Training loss");
  for (const first of new Set([0, loss > 0 ? loss : Math.min(1, content.curves.length - 1)])) addChart(first);
  byId("axis").onchange = drawCharts;
  drawCharts();
}

function drawCharts() {
  charts.forEach(draw => draw());
}

function addChart(first) {
  const box = add(byId("charts"), "div", "", { className: "line-chart" });
  const select = add(box, "select", "", { ariaLabel: "Value of the chart" });
  content.curves.forEach(({ label }, i) => add(select, "option", label, { value: i, selected: i === first }));
  const svg = addSvg(box, "svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img" });
  const values = add(box, "p", "", { className: "values" });
  const draw = () => drawChart(svg, values, content.curves[Number(select.value)]);
  select.onchange = draw;
  charts.push(draw);
}

// Return about `count` round numbers; the first is at most `low` and the last at least `high`.
function ticks(low, high, count) {
  const rough = (high - low) / count || Math.abs(high) || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough * .999);
  const found = [];
  for (let i = Math.floor(low / step + 1e-9); !found.length || found.at(-1) < high - 1e-9 * step; i++) {
    found.push(i * step);
    if (found.length > 3 * count) break;  // rounding errors of huge numbers
  }
  return found;
}

const numberText = value => Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 }).replace("-", "−");

function drawChart(svg, values, { label, curves }) {
  const axis = byId("axis").value;
  const shown = curves.map((curve, run) => ({ ...curve, run, system: content.runs[run].system }))
    .filter(({ values, system }) => values && !hidden.has(system));
  svg.replaceChildren();
  values.replaceChildren();
  svg.setAttribute("aria-label", `${label} by ${axis === "steps" ? "training step" : "minutes"}`);
  if (!shown.length) return;
  const range = numbers => [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
  const across = ticks(...range(shown.flatMap(curve => curve[axis]).concat(0)), 6), up = ticks(...range(shown.flatMap(curve => curve.values)), 5);
  const [left, right] = range(across), [low, high] = range(up);
  const { width, height } = SIZE;
  const x = value => SIZE.left + (value - left) / (right - left || 1) * (width - SIZE.left - SIZE.right);
  const y = value => height - SIZE.bottom - (value - low) / (high - low || 1) * (height - SIZE.top - SIZE.bottom);
  for (const tick of up) {
    addSvg(svg, "line", { class: "grid", x1: SIZE.left, x2: width - SIZE.right, y1: y(tick), y2: y(tick) });
    addSvg(svg, "text", { x: SIZE.left - 8, y: y(tick) + 4, "text-anchor": "end" }, numberText(tick));
  }
  for (const tick of across)
    addSvg(svg, "text", { x: x(tick), y: height - SIZE.bottom + 18, "text-anchor": "middle" }, numberText(tick));
  addSvg(svg, "text", { x: (SIZE.left + width - SIZE.right) / 2, y: height - 4, "text-anchor": "middle" }, axis === "steps" ? "training step" : "minutes");
  for (const curve of shown) {
    const points = curve.values.map((value, i) => [x(curve[axis][i]).toFixed(1), y(value).toFixed(1)]);
    const line = points.length === 1
      ? addSvg(svg, "circle", { class: "curve", cx: points[0][0], cy: points[0][1], r: 4 })  // a line of one point is invisible
      : addSvg(svg, "polyline", { class: "curve", points: points.join(" "), "stroke-dasharray": dashesOf(curve.system) });
    line.style.stroke = colorOf(curve.system);
    addSvg(line, "title", {}, content.runs[curve.run].name);
  }
  const cursor = addSvg(svg, "line", { class: "cursor", y1: SIZE.top, y2: height - SIZE.bottom, visibility: "hidden" });
  svg.onmousemove = event => {
    const place = event.offsetX / svg.clientWidth * width;
    const at = left + (place - SIZE.left) / (width - SIZE.left - SIZE.right) * (right - left);
    if (at < left || at > right) return;
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    cursor.setAttribute("visibility", "visible");
    showValues(values, shown, axis, at);
  };
}

// List the value of every curve at the last logged position before `at`.
function showValues(box, shown, axis, at) {
  box.replaceChildren();
  add(box, "span", `${axis === "steps" ? "step" : "minutes"} ${numberText(axis === "steps" ? Math.round(at) : at)}`);
  for (const curve of shown) {
    const last = curve[axis].findLastIndex(value => value <= at);
    if (last < 0) continue;
    const line = add(box, "span");
    addSwatch(line, curve.system);
    add(line, "span", `${content.runs[curve.run].name} ${numberText(curve.values[last])}`);
  }
}
