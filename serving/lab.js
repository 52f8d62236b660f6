// The page of the lab. It sends what is typed to the server (serving/app.py) and shows the answers.
// The page contains elements.js, which defines the functions that all pages share, then the other
// scripts of this folder, and this one at the end (_SCRIPTS of serving/app.py).

const POLL = 500;  // milliseconds between requests for the compilation status

// A panel has the fields of its input by name, its `runs`, the present `edit` ({run, changes} or
// null) and, for translation, `fixed`: the tokens of the prefix ({run, tokens}) if they were chosen
// by clicking, not typed. It is `mistaken` if the value of a number field cannot be used. A run has the
// answers to its last requests (see `ask`), and it is `outdated` if newer ones are expected.
const panels = {};

async function begin() {
  server = await getJson("/api/runs");
  const { runs } = server;
  for (const run of runs) (panels[run.task] ??= { task: run.task, runs: [] }).runs.push(run);
  Object.values(panels).forEach(buildPanel);
  const tabs = Object.values(panels);
  if (tabs.length > 1) tabs.forEach(buildTab);
  showPanel(tabs[0]);
  setInterval(askState, POLL);
}

// What the server does, as /api/runs reports it: `done` of `total` sample requests, and the run and
// the beam that it compiles now.
let server = null;

const waiting = () => Object.values(panels).flatMap(({ runs }) => runs).filter(run => run.busy);

// The page is ready only if it has all answers. It says nothing beside a mistake.
function showState() {
  const { done, total, compiling } = server, names = waiting().map(run => run.name);
  byId("progress").textContent =
    names.length && compiling ? `compiling for ${compiling} …`
    : done < total ? `compiling: ${done} of ${total} sample requests`
    : names.length ? `waiting for ${names.join(", ")} …`
    : Object.values(panels).some(({ mistaken, node }) => mistaken && !node.hidden) ? ""
    : "ready";
}

let asking = false;

async function askState() {
  if (asking || !waiting().length && server.done >= server.total) return;
  asking = true;
  server = await getJson("/api/runs", {}, 0).catch(() => server);
  asking = false;
  showState();
}

function setBusy(run, busy) {
  if (!waiting().length) server.compiling = "";  // it belongs to an earlier request
  run.busy = busy;
  run.card.setAttribute("aria-busy", busy);
  showState();
}

function setOutdated(run, outdated) {
  run.outdated = outdated;
  setBusy(run, outdated);
}

begin().catch(error => { byId("progress").textContent = error.message; });
