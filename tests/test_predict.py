"""Tests of predict.py as a user runs it, with files, pipes and terminals."""

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from experiment import train_run
from tests.programs import ENVIRONMENT, ROOT, Conversation, call
from tests.small import small_config
from training.devices import make_mesh
from training.workdir import load_config


def predict(workdir, *flags, text):
    return call("predict.py", f"--workdir={workdir}", *flags, stdin=text, check=False)


def test_lines_are_translated_in_input_order(trained_run, tmp_path):
    _, workdir, _ = trained_run
    # The byte order mark at the start is not part of the first sentence.
    text = b"\xef\xbb\xbfMay 3, 2020\n\nMonday, zebra 30, 2023, 4:21 PM\n\xff bad\n4:21 PM\n"
    files = f"--attention={tmp_path}/a.jsonl", f"--pictures={tmp_path}/pictures"
    done = predict(workdir, *files, f"--alignments={tmp_path}/links", text=text)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and lines[1] == lines[3] == ""
    assert "line 4 is not UTF-8" in done.stderr
    assert "tokens outside the vocabulary, whose translations are unreliable: 1 of 5" in done.stderr
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["line"] for record in records] == [0, 1, 2, 3, 4]
    assert [record["unknown"] for record in records] == [[], [], ["zebra"], [], []]
    assert np.shape(records[0]["attention"]) == (len(records[0]["target"]), 8)
    drawn = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert drawn == {f"{r['line']}.png" for r in records if r["target"]}
    links = [line.split() for line in (tmp_path / "links").read_text().split("\n")[:-1]]
    assert len(links) == 5 and links[1] == links[3] == []
    for some, line, source in zip(links, lines, text.split(b"\n"), strict=False):
        counts = len(source.split()), len(line.split())
        for link in some:
            assert all(int(end) < n for end, n in zip(link.split("-"), counts, strict=True))
    # Scoring the output gives the same links.
    (tmp_path / "out.txt").write_text(done.stdout, "utf-8")
    scored = predict(
        workdir, f"--score={tmp_path}/out.txt", f"--alignments={tmp_path}/scored", text=text
    )
    assert scored.returncode == 0 and len(scored.stdout.splitlines()) == 5, scored.stderr
    assert "lines of the input are empty" in scored.stderr
    assert (tmp_path / "scored").read_text() == (tmp_path / "links").read_text()


def test_an_invalid_line_of_a_dictionary_is_named(trained_run, tmp_path):
    (tmp_path / "dictionary.tsv").write_text("a\tb\nc d\n")
    flags = f"--dictionary={tmp_path}/dictionary.tsv", "--decode.replace_unknown=True"
    done = predict(trained_run[1], *flags, text=b"May 3\n")
    assert done.returncode == 1 and "dictionary.tsv, line 2: a line of a dict" in done.stderr


def test_long_sentences_are_counted(trained_run):
    text = b"May 3, 2020\n" + b"May 3, 2020 " * 40
    done = predict(trained_run[1], text=text)
    fact = f"data.max_length={load_config(trained_run[1]).data.max_length} tokens), whose"
    assert fact in done.stderr and done.stderr.rstrip().endswith("1 of 2")


@pytest.mark.slow
def test_terminal_input_with_redirected_output_writes_translations_only(trained_run, tmp_path):
    ours, theirs = pty.openpty()
    command = ["predict.py", f"--workdir={trained_run[1]}", f"--pictures={tmp_path}"]
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=ENVIRONMENT, stdin=theirs,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.write(ours, b"\x1b[A\nMay 3, 2020 pizza\n\x04")  # Ctrl-D (\x04) ends the input
    printed, messages = process.communicate(timeout=300)
    assert process.returncode == 0, messages
    assert len(printed.splitlines()) == 1 and b">" not in printed
    assert b"vocabulary: pizza" in messages and b"> " in messages
    assert f"Translating with {trained_run[1]}: ".encode() in messages
    assert [path.name for path in tmp_path.iterdir()] == ["0.png"]


@pytest.fixture
def conversation(trained_run):
    command = (sys.executable, "predict.py", f"--workdir={trained_run[1]}")
    with contextlib.closing(Conversation(*command)) as conversation:
        yield conversation


def translations(shown):
    """Return the output lines after the echo of the typed line and before the next prompt."""
    text = re.sub(rb"\x1b\[[0-?]*[@-~]", b"", shown)
    return [line for line in text.replace(b"\r", b"\n").split(b"\n")[1:] if line.strip(b" >")]


@pytest.mark.slow
def test_a_terminal_has_a_banner_line_editing_and_history(trained_run, conversation):
    banner = conversation.expect(b"> ")
    workdir = trained_run[1]
    assert f"Translating with {workdir}: type one sentence per line, Ctrl-D".encode() in banner
    first = translations(conversation.type(b"May 3, 2020\n"))
    again = conversation.type(b"\x1b[A\n")  # the up arrow recalls the last sentence
    assert b"May 3, 2020" in again and translations(again) == first
    edited = conversation.type(b"May 3, 202\x1b[D\x1b[C0\n")  # arrow keys move the cursor
    assert b"not in the vocabulary" not in edited and translations(edited) == first
    status, rest = conversation.leave(b"\x04")
    assert status == 0 and b"Traceback" not in rest and b"error" not in rest


@pytest.mark.slow
def test_ctrl_c_leaves_the_prompt_quietly(conversation):
    conversation.expect(b"> ")
    conversation.type(b"half a sentence", then=b"sentence")
    # A signal between the echo and the wait for the next key would take effect only at that key.
    time.sleep(0.5)
    status, rest = conversation.leave(b"\x03")
    assert status == 0 and b"Traceback" not in rest and b"interrupted" not in rest


def test_escape_sequences_in_a_file_are_not_translated(trained_run, tmp_path):
    dirty = b"\x1b[1mMay 3,\x1b[0m\t2020\x00\n\x1b[A\nMay 3, 2020\n"
    workdir = tmp_path / "luong2015,dates"  # reproduce.py and sweep.py create such names
    workdir.symlink_to(trained_run[1])
    done = predict(workdir, f"--attention={tmp_path}/a.jsonl", text=dirty)
    first, second, third = done.stdout.split("\n")[:3]
    assert first == third and second == ""
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert records[0]["source"] == records[2]["source"]
    assert records[0]["text"] == first
    numbers = [records[0]["score"], *np.ravel(records[0]["attention"])]
    assert all(len(str(abs(x))) <= 11 for x in numbers)  # six digits, as in 6.66667e-10


@pytest.mark.slow
def test_two_runs_form_an_ensemble_and_give_several_hypotheses(trained_run, tmp_path):
    _, workdir, _ = trained_run
    shutil.copytree(workdir, tmp_path / "copy")
    both = f"{workdir},{tmp_path}/copy"
    done = predict(both, "--decode.beam=2", "--decode.nbest=2", text=b"May 3, 2020\n")
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["0", "0"]
    scores = [float(row[1]) for row in rows]
    assert len(scores) == 2 and scores[0] >= scores[1]


@pytest.mark.parametrize(
    ("flags", "facts"),
    [
        (["--decode.beam=0"], ["decode.beam=0"]),
        (["--decode.nbest=3"], ["nbest=3"]),
        (["--checkpoint=first"], ["'first'", "best, last"]),
        (["--dictionary=nowhere.tsv"], ["--dictionary", "--decode.replace_unknown=True"]),
        (["--dictionary=nowhere.tsv", "--decode.replace_unknown=True"], ["tsv does not exist"]),
        (["--dictionary", "decode.tsv", "--decode.replace_unknown=True"], ["decode.tsv does not"]),
        (["--decode.bem=5"], ["'bem'", "beam"]),
        (["--attention=nowhere/a.jsonl"], ["cannot write", "nowhere/a.jsonl"]),
        (["--alignments=nowhere/links"], ["nowhere/links", "folder nowhere does not exist"]),
        (["--symmetrize=union", "--alignments=x"], ["--symmetrize has no effect"]),
        (["--align_threshold=0.5"], ["--align_threshold", "--alignments"]),
        (["--pictures=README.md/a"], ["cannot create", "README.md/a"]),
        (["--score=README.md"], ["1 lines", "README.md"]),
        (["in.txt"], ["unexpected argument 'in.txt'", "standard input: add < FILE"]),
        (["--score=nowhere.txt"], ["nowhere.txt does not exist", "--score"]),
        (["--score=README.md", "--output=json"], ["--score", "--output"]),
        (["--attention=-"], ["--output=json"]),
    ],
)
def test_a_mistake_in_a_translation_command_is_one_message(trained_run, flags, facts):
    done = predict(trained_run[1], *flags, text=b"May 3, 2020\n")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("error: ")
    assert all(fact in line for fact in facts)


# Tasks other than translation


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a function that trains a small run of a task once and returns its workdir."""
    found = {}

    def run(name):
        if name not in found:
            folder = tmp_path_factory.mktemp(name)
            config = small_config(name, folder)
            config.data.update({"max_length": 6} if name == "sentence" else {})
            train_run(config, folder / "run", make_mesh(jax.devices()[:1]))
            found[name] = folder / "run"
        return found[name]

    return run


@pytest.mark.slow
def test_texts_are_classified_in_input_order(runs, tmp_path):
    text = b"\xef\xbb\xbfthe film was good\n\nzzz\n\xff\n" + b"film " * 20 + b"\x1b[1m\n"
    flags = "--output=json", f"--attention={tmp_path}/a.jsonl", f"--pictures={tmp_path}/pictures"
    done = predict(runs("sentence"), *flags, text=text)
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["input"] for record in shown] == [0, 1, 2, 3, 4]
    assert [record["label"] is None for record in shown] == [False, True, False, True, False]
    assert shown[0]["tokens"] == ["the", "film", "was", "good"] and shown[2]["unknown"] == ["zzz"]
    assert shown[4]["tokens"] == ["film"] * 6 and "attention" not in shown[0]
    assert shown[0]["p"] == max(shown[0]["probabilities"].values())
    assert "texts truncated to data.max_length or data.max_sentences: 1 of 5" in done.stderr
    assert "texts in which no word is in the vocabulary" in done.stderr
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert np.shape(records[0]["attention"]["hops"]) == (2, 4)
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"0.png", "2.png", "4.png"}
    lines = predict(runs("sentence"), text=text).stdout.splitlines()
    assert [line.split(" ")[0] for line in lines] == [record["label"] or "" for record in shown]


@pytest.mark.slow
def test_words_are_labelled_from_a_file_and_at_a_terminal(runs):
    workdir = runs("columns")
    done = predict(workdir, text=b"the\nfilm\n\nwas\n")
    assert done.returncode == 0, done.stderr
    rows = [line.split(" ") for line in done.stdout.split("\n")]
    assert [row[0] for row in rows] == ["the", "film", "", "was", "", ""]
    labels = [row[1] for row in rows if len(row) == 2]
    command = (sys.executable, "predict.py", f"--workdir={workdir}", "--output=tsv")
    with contextlib.closing(Conversation(*command)) as conversation:
        banner = conversation.expect(b"> ")
        assert b"Predicting with" in banner and b"one sentence per line" in banner
        typed = translations(conversation.type(b"the film\n"))
        expected = [f"0\t{i}\t{x}\t{labels[i]}\t" for i, x in enumerate(("the", "film"))]
        shown = zip(typed, expected, strict=True)
        assert all(line.decode().startswith(start) for line, start in shown), typed
        assert conversation.leave(b"\x04")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags", "text", "facts"),
    [
        ("columns", ["--score=x"], b"", ["--score", "labelling run"]),
        ("columns", ["--align_threshold=0.5"], b"", ["--align_threshold", "labelling run"]),
        ("columns", ["--decode.beam=2"], b"", ["--decode.beam", "labelling run"]),
        ("columns", ["--attention=a.jsonl"], b"", ["--attention", "labelling run"]),
        ("columns", ["--pictures=p"], b"", ["--pictures", "labels words"]),
        ("columns", ["--checkpoint=best,last"], b"", ["ensemble", "one checkpoint"]),
        ("columns", ["--output=xml"], b"", ["output", "text"]),
        ("columns", [], b"a b c d\n", ["line 1", "1 column (word)", "3 columns"]),
        ("sentence", ["--attention=nowhere/a.jsonl"], b"film\n", ["folder nowhere does not"]),
    ],
)
def test_a_mistake_in_a_prediction_command_is_one_message(runs, name, flags, text, facts):
    done = predict(runs(name), *flags, text=text)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("error: ") and not done.stdout
    assert all(fact in line for fact in facts)


@pytest.mark.slow
def test_a_question_is_answered_at_a_terminal(runs):
    command = (sys.executable, "predict.py", f"--workdir={runs('reader')}")
    with contextlib.closing(Conversation(*command)) as conversation:
        assert b"blank line" in conversation.expect(b"> ")
        conversation.type(b"1 the film was good .\n")
        assert b"error: " in conversation.type(b"\n")  # the last line has no columns
        conversation.type(b"1 the film was good .\n")
        conversation.type(b"2 so XXXXX .\t\t\tfilm|good\n")
        shown = conversation.type(b"\n")
        assert re.search(rb"(film|good) 0\.\d{4}", shown)
