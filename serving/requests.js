// The requests to the server (serving/app.py).

const RETRIES = 3;

// Return the JSON answer to a request. Not every answer is JSON: a server with too many connections
// answers with plain text.
async function getJson(path, options = {}, retries = RETRIES) {
  const otherwise = message => error => { throw error.name === "AbortError" ? error : new Error(message); };
  const response = await fetch(path, options).catch(otherwise("The server does not answer: is lab.py running?"));
  if ([429, 503, 504].includes(response.status) && retries) {
    await new Promise(done => setTimeout(done, 1000 * Number(response.headers.get("retry-after") ?? 1)));
    return getJson(path, options, retries - 1);
  }
  const answer = await response.json().catch(otherwise(`The server answered with the status ${response.status}: try again.`));
  if (response.ok) return answer;
  throw new Error(answer.error);
}

function post(kind, body, signal) {
  const headers = { "content-type": "application/json" };
  return getJson(`/api/${kind}`, { method: "POST", headers, body: JSON.stringify(body), signal });
}

// Request the answers that the card of a run shows. They become fields of the run together, because
// all of them must belong to the same request: `base` is the answer without the edit, `now` the answer
// with it, and `before` inspects the translation of `base`, given the edited source. `asked` is the
// request of `base` as a text, and `next` the distribution of the `selected` token.
async function ask(task, run, body, edit, signal) {
  const kind = task === "translation" ? "translate" : "predict", asked = JSON.stringify(body);
  const base = run.asked === asked ? run.base : await post(kind, { run: run.name, ...body }, signal);
  const now = edit ? await post(kind, { run: run.name, ...body, edit }, signal) : base;
  const answers = { body, edit, asked, base, now };
  if (kind !== "translate") return answers;
  const target = base.hypotheses[0].tokens.map(token => token.id), inspected = edit && target.length > 0;
  const before = inspected ? await post("inspect", { run: run.name, text: body.text, edit, target }, signal) : null;
  const { tokens } = now.hypotheses[0];
  const selected = Math.max(0, Math.min(run.chosen ?? now.prefix, tokens.length - 1));
  const next = await askNext(run, body, edit, tokens.slice(0, selected), signal);
  return { ...answers, before, next, selected, hypothesis: 0 };
}

// Request the distribution of the token after the first tokens of a hypothesis.
function askNext(run, { text, temperature }, edit, tokens, signal) {
  const prefix = { run: run.name, tokens: tokens.map(token => token.token) };
  return post("next", { run: run.name, text, edit, prefix, temperature }, signal);
}
