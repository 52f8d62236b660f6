"""Reads Markdown documents: their code blocks, shell commands, links and anchors."""

import functools
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tests.programs import ROOT

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)


class Block(NamedTuple):
    """A fenced block of code; `line` is the line of its fence, counted from 1."""

    document: str
    line: int
    language: str
    text: str
    before: str  # the paragraph above it


class Command(NamedTuple):
    """A simple shell command, without redirections and assignments."""

    document: str
    line: int
    text: str  # the whole line of the shell
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"


@functools.cache
def read(document: str) -> tuple[str, tuple[Block, ...]]:
    """Return the text with empty lines in place of code blocks, and the blocks."""
    prose: list[str] = []
    blocks: list[Block] = []
    fence, opened = None, []
    for number, line in enumerate((ROOT / document).read_text("utf-8").splitlines(), 1):
        if fence is None:
            fence = re.match(r"(?P<indent> *)(?P<ticks>```+)(?P<language>[\w-]*)", line)
            prose.append("" if fence else line)
            opened = [number]
        elif line.strip() == fence["ticks"]:
            first, *lines = opened
            code = "".join(f"{text.removeprefix(fence['indent'])}\n" for text in lines)
            before = re.split(r"\n\s*\n", "\n".join(prose[: first - 1]).rstrip())[-1]
            blocks.append(Block(document, first, fence["language"], code, before))
            fence = None
            prose.append("")
        else:
            opened.append(line)
            prose.append("")
    assert fence is None, f"{document}:{opened[0]}: the code block is not closed"
    return "\n".join(prose), tuple(blocks)


# Links


def links(document: str) -> Iterator[tuple[int, str]]:
    """Yield line and target of every link and image."""
    text = re.sub(r"`[^`]*`", lambda span: re.sub(r"[^\n]", " ", span[0]), read(document)[0])
    patterns = (
        r"\]\(\s*<?([^)\s>]+)",  # [text](target), ![text](target)
        r"^ {0,3}\[[^\]]+\]:\s*(\S+)",  # [label]: target
        r"(?:href|src)=\"([^\"]+)\"",
    )
    for pattern in patterns:
        for found in re.finditer(pattern, text, re.M):
            yield text.count("\n", 0, found.start(1)) + 1, found[1]


@functools.cache
def anchors(document: str) -> frozenset[str]:
    """Return the anchors of headings, as GitHub and the site make them, and those in HTML."""
    text, found = read(document)[0], {}
    for heading in re.findall(r"^#{1,6} +(.*?)#* *$", text, re.M):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # links become their text
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return frozenset(found) | {*re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)}


def code_spans(document: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of code in the prose."""
    text = read(document)[0]
    for found in re.finditer(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", text, re.S):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[2].split())


# Shell commands

_STARTS = re.compile(r"(?:#!|python |make |srun |gcloud |pip |pytest |\.venv/bin/)")


def is_shell(block: Block) -> bool:
    """Whether a block has commands: it says so, or says nothing and begins with a command."""
    untagged = not block.language and _STARTS.match(block.text) and "…" not in block.text
    return block.language == "sh" or bool(untagged)


def commands(document: str) -> list[Command]:
    """Return all commands of a document's shell blocks."""
    return [
        command for block in read(document)[1] if is_shell(block) for command in _commands(block)
    ]


def _commands(block: Block) -> Iterator[Command]:
    loop: dict[str, str] = {}  # variables of loops, with their first value
    for number, line in _logical_lines(block):
        for words in split(line):
            if words[0] in ("do", "then", "else"):
                words = words[1:]
            if not words or words[0] in ("done", "fi"):
                continue
            if words[0] == "for" and words[2] == "in":
                loop[words[1]] = words[3]
                continue
            for name, value in loop.items():
                words = [re.sub(rf"\${name}\b|\${{{name}}}", value, word) for word in words]
            yield Command(block.document, number, line, tuple(words))


def _logical_lines(block: Block) -> Iterator[tuple[int, str]]:
    """Join lines that end in a backslash or within quotes; leave here-documents out."""
    lines = iter(enumerate(block.text.splitlines(), block.line + 1))
    for number, line in lines:
        while line.endswith("\\") or _is_open(line):
            following = next(lines, None)
            assert following, f"{block.document}:{number}: the command has no end: {line}"
            line = " ".join((line.removesuffix("\\").rstrip(), following[1].strip()))
        if line.strip():
            yield number, line.strip()
        here = re.search(r"<<-?\s*['\"]?(\w+)", line)
        if here:
            for _, text in lines:
                if text.strip() == here[1]:
                    break


def _is_open(line: str) -> bool:
    try:
        split(line)
    except ValueError:
        return True
    return False


def split(line: str) -> list[list[str]]:
    """Split a line into simple commands, without redirections, assignments and comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    tokens = iter(lexer)
    for token in tokens:
        if token in ("|", "||", "&", "&&", ";"):
            found.append([])
        elif token and not token.strip("<>&") and token.strip("&"):
            if found[-1] and found[-1][-1] in ("1", "2"):
                found[-1].pop()
            next(tokens, None)
        elif found[-1] or not re.fullmatch(r"[A-Za-z_]\w*=.*", token, re.S):
            found[-1].append(token)
    return [words for words in found if words]
