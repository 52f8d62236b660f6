"""Workdirs with constructed logs and reports, as train.py and eval.py would write them."""

import json
from pathlib import Path

import numpy as np

from configs.load import load_config_file
from evaluation.bootstrap import mean_statistics
from evaluation.examples import ScoredExample, write_examples
from evaluation.page import ReportPage, write_report_page

SOURCES = ["May 3 , 2020", "one week", "June 4 , 1999"]
GOLD = ["3. Mai 2020", "eine Woche", "4. Juni 1999"]
WRONG = ["3. Mai 2020", "eine Woche", "4. Juli 1999"]
TASKS = {
    "translation": ("luong2015", "data=dates"),
    "classification": ("lin2017", "data=tsv"),
    "cloze": ("cui2017", "data=cbt"),
    "labelling": ("schuster1997", "data=columns"),
}


def write_run(folder, seed=0, predictions=GOLD, task="translation", report=True, **changes):
    """Write the workdir of a run; return its path.

    `changes` are fields of its config, with __ instead of dots.
    """
    folder.mkdir(parents=True)
    name, arguments = TASKS[task]
    config = load_config_file(f"configs/{name}.py", arguments)
    config.seed = seed
    config.update_from_flattened_dict({k.replace("__", "."): x for k, x in changes.items()})
    (folder / "config.json").write_text(config.to_json())
    start = {"data": "dates-1", "commit": "0" * 40, "devices": ["cpu"]}
    (folder / "run.json").write_text(json.dumps([start]))
    log = [{"step": 0, "kind": "run", "parameters": 1234, "time": 100.0}]
    for step in (10, 20, 30):
        values = {"loss": 3 / step + seed / 50, "count": 8.0 * step, "count_per_second": 40.0,
                  "teraflops": 0.5}  # fmt: skip
        log.append({"step": step, "kind": "train", "time": 100.0 + step, **values})
        scores = {"loss": 4 / step, "exact": step / 40, "bleu": step + seed}
        log.append({"step": step, "kind": "valid", "time": 101.0 + step, **scores})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    if report:
        write_report(folder / "eval" / "test", task, predictions, seed)
    return folder


def write_report(folder: Path, task, predictions, seed=0, sources=SOURCES, gold=GOLD):
    """Write scores.json, examples.jsonl and report.html."""
    folder.mkdir(parents=True)
    key = "exact" if task == "translation" else "accuracy"
    right = [prediction == true for prediction, true in zip(predictions, gold, strict=True)]
    scores = {"loss": 0.5 + seed / 10, key: sum(right) / len(right)}
    content = {"scores": scores, "signatures": {"loss": "−log p"}, "checkpoints": [30]}
    (folder / "scores.json").write_text(json.dumps(content))
    rows = mean_statistics(right).tolist()
    examples = [
        ScoredExample(text, [true], prediction, {key: row})
        for text, true, prediction, row in zip(sources, gold, predictions, rows, strict=True)
    ]
    write_examples(folder, examples)
    shown = [_shown(task, example, seed) for example in examples]
    terms = {"examples": "Translations", "source": "Source tokens", "reference": "Reference"}
    page = ReportPage("a run", "3 sentences", terms, shown, opening=0, scores=[])
    write_report_page(folder / "report.html", page)


def _shown(task, example, seed):
    """Return the entry of an example in report.html."""
    source = example.text.split(" ")
    labels = {
        "labelling": example.prediction.split(" "),
        "translation": example.prediction.split(" "),
    }
    target = labels.get(task, ["mean of the hops", "hop 0"])
    rng = np.random.default_rng(seed + len(example.text))
    weights = rng.dirichlet(np.ones(len(source)), len(target)).round(3).tolist()
    best = {"text": example.prediction, "tokens": target, "score": -1.0, "note": "", "focus": 0,
            "attention": {"attention": weights}}  # fmt: skip
    if task == "labelling":
        best |= {"attention": {}, "gold": example.references[0].split(" ")}
    return {"text": example.text, "reference": example.references[0], "correct": False,
            "source": source, "hypotheses": [best]}  # fmt: skip
