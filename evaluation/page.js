// Build the report of eval.py. The page contains elements.js, explorer.js, tables.js and then this
// script: the first defines the functions that all pages share, the others build parts of the page.

// The content of the page is the JSON text that the program has written into it.
const content = JSON.parse(byId("data").textContent);

byId("title").textContent = document.title = content.title;
byId("about").textContent = content.about;
buildPart("explorer", content.examples.length, buildExplorer);
buildPart("scores-section", content.scores.length, buildScores);
buildPart("comparison-section", content.comparison, buildComparison);
content.chart_groups.forEach(buildChartGroup);
buildPart("attention-section", content.attention.length, buildAttention);
buildPart("faithfulness-section", content.faithfulness, buildFaithfulness);
buildPart("confusion-section", Object.keys(content.confusion).length, buildConfusion);
buildPart("pictures-section", content.pictures.length, buildPictures);
window.addEventListener("resize", () => content.examples.length && weights() && fitCells());
