"""Tests of predict.py as a user runs it, with files, pipes and terminals."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.programs import ENVIRONMENT, ROOT, Conversation


def translate(workdir, *flags, text):
    command = [sys.executable, "predict.py", f"--workdir={workdir}", *flags]
    return subprocess.run(
        command, cwd=ROOT, input=text, capture_output=True, timeout=300, env=ENVIRONMENT
    )


def test_lines_are_translated_in_input_order(trained_run, tmp_path):
    _, workdir, _ = trained_run
    # The byte order mark at the start is not part of the first sentence.
    text = b"\xef\xbb\xbfMay 3, 2020\n\nMonday, January 30, 2023, 4:21 PM\n\xff bad\n4:21 PM\n"
    files = f"--attention={tmp_path}/a.jsonl", f"--pictures={tmp_path}/pictures"
    done = translate(workdir, *files, f"--alignments={tmp_path}/links", text=text)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 5 and lines[1] == lines[3] == ""
    assert b"line 4 is not UTF-8" in done.stderr
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["line"] for record in records] == [0, 1, 2, 3, 4]
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
    (tmp_path / "out.txt").write_bytes(done.stdout)
    scored = translate(
        workdir, f"--score={tmp_path}/out.txt", f"--alignments={tmp_path}/scored", text=text
    )
    assert scored.returncode == 0 and len(scored.stdout.splitlines()) == 5, scored.stderr
    assert (tmp_path / "scored").read_text() == (tmp_path / "links").read_text()


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


def test_ctrl_c_leaves_the_prompt_quietly(conversation):
    conversation.expect(b"> ")
    conversation.type(b"half a sentence", then=b"sentence")
    # A signal between the echo and the wait for the next key would take effect only at that key.
    time.sleep(0.5)
    status, rest = conversation.leave(b"\x03")
    assert status == 0 and b"Traceback" not in rest and b"interrupted" not in rest


def test_escape_sequences_in_a_file_are_not_translated(trained_run, tmp_path):
    dirty = b"\x1b[1mMay 3,\x1b[0m\t2020\x00\n\x1b[A\nMay 3, 2020\n"
    done = translate(trained_run[1], f"--attention={tmp_path}/a.jsonl", text=dirty)
    first, second, third = done.stdout.decode().split("\n")[:3]
    assert first == third and second == ""
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert records[0]["source"] == records[2]["source"]
    numbers = [records[0]["score"], *np.ravel(records[0]["attention"])]
    assert all(len(str(abs(x))) <= 11 for x in numbers)  # six digits, as in 6.66667e-10


def test_two_runs_form_an_ensemble_and_give_several_hypotheses(trained_run):
    _, workdir, _ = trained_run
    both = f"{workdir},{workdir}"
    done = translate(both, "--decode.beam=2", "--decode.nbest=2", text=b"May 3, 2020\n")
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
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
        (["--decode.bem=5"], ["'bem'", "beam"]),
        (["--attention=nowhere/a.jsonl"], ["cannot write", "nowhere/a.jsonl"]),
        (["--alignments=nowhere/links"], ["nowhere/links", "folder nowhere does not exist"]),
        (["--symmetrize=union", "--alignments=x"], ["--symmetrize has no effect"]),
        (["--align_threshold=0.5"], ["--align_threshold", "--alignments"]),
        (["--pictures=README.md/a"], ["cannot create", "README.md/a"]),
        (["--score=README.md"], ["1 lines", "README.md"]),
    ],
)
def test_a_mistake_in_a_translate_command_is_one_message(trained_run, flags, facts):
    done = translate(trained_run[1], *flags, text=b"May 3, 2020\n")
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1 and line.startswith("error: ")
    assert all(fact in line for fact in facts)
