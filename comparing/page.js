// Build the comparison of compare.py. The page contains elements.js of the reports, which defines the
// functions that all pages share, then the other scripts of this folder, and this one at the end.

// The content of the page is the JSON text that the program has written into it.
const content = JSON.parse(byId("data").textContent);

const COLORS = 8;  // --system-0 to --system-7 in page.css; further systems repeat them with dashes
const colorOf = system => `var(--system-${system % COLORS})`;
const dashesOf = system => ["", "6 3", "2 3", "8 3 2 3"][Math.floor(system / COLORS) % 4];

function addSwatch(parent, system) {
  add(parent, "span", "", { className: "swatch" }).style.setProperty("--color", colorOf(system));
}

function buildSystems() {
  content.systems.forEach(({ name, seeds }, i) => {
    const button = add(add(byId("systems"), "li"), "button", "", { type: "button" });
    addSwatch(button, i);
    add(button, "span", name);
    add(button, "small", ` seed${seeds.includes(",") ? "s" : ""} ${seeds}`);
    button.setAttribute("aria-pressed", true);
    button.onclick = () => {
      if (!hidden.delete(i)) hidden.add(i);
      button.setAttribute("aria-pressed", !hidden.has(i));
      drawCharts();
    };
  });
}

byId("title").textContent = document.title = content.title;
byId("about").textContent = content.about;
buildSystems();
buildPart("notes-section", content.notes.length, () => content.notes.forEach(note => add(byId("notes"), "li", note)));
buildPart("scores-section", content.scores.length, buildScores);
buildPart("faithfulness-section", content.faithfulness.length, buildFaithfulness);
buildPart("differences-section", content.differences.length, buildDifferences);
buildPart("curves-section", content.curves.length, buildCurves);
buildCost();
buildPart("examples-section", content.examples.length, buildExamples);
window.addEventListener("resize", () => content.examples.length && fitHeatMaps());
