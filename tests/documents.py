"""Read Markdown documents: their code blocks, shell commands, links and anchors."""

import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tests.check_commands import PROGRAMS
from tests.programs import ROOT

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)
# Top-level folders with Python packages or documents; a path or module in them must exist.
FOLDERS = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} | {"docs"}


class Block(NamedTuple):
    """A fenced code block; `line` is the line number (from 1) of its opening fence."""

    document: str
    line: int
    language: str
    text: str
    before: str  # the paragraph before the block, which may name its file


class Command(NamedTuple):
    """One shell command, without redirections and assignments."""

    document: str
    line: int
    text: str  # the whole shell line, which may contain several commands
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"


@functools.cache
def read(document: str) -> tuple[str, tuple[Block, ...]]:
    """Return the text of a document, with code blocks replaced by empty lines, and the blocks."""
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


# Functions that find links and the anchors of headings


def links(document: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the target of every link and image in a document."""
    text = re.sub(r"`[^`]*`", lambda span: re.sub(r"[^\n]", " ", span[0]), read(document)[0])
    patterns = (
        r"\]\(\s*<?([^)\s>]+)",  # links [text](target) and images ![text](target)
        r"^ {0,3}\[[^\]]+\]:\s*(\S+)",  # link definitions [label]: target
        r"(?:href|src)=\"([^\"]+)\"",
    )
    for pattern in patterns:
        for found in re.finditer(pattern, text, re.M):
            yield text.count("\n", 0, found.start(1)) + 1, found[1]


@functools.cache
def anchors(document: str) -> frozenset[str]:
    """Return the anchors that GitHub and the site create for headings, and HTML anchors."""
    text, found = read(document)[0], {}
    for heading in re.findall(r"^#{1,6} +(.*?)#* *$", text, re.M):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)  # anchors omit link targets
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
        if found[slug]:
            found[f"{slug}-{found[slug]}"] = 0
    return frozenset(found) | {*re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)}


def code_spans(document: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of every code span outside code blocks."""
    text = read(document)[0]
    for found in re.finditer(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", text, re.S):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[2].split())


# Functions that find shell commands in documents

_SCRIPT = re.compile(r"#!|srun |gcloud ")
_COMMAND = re.compile(r"python |make |pip |pytest |\.venv/bin/")


def is_shell(block: Block) -> bool:
    """Return whether a block contains shell commands.

    These are blocks tagged "sh", blocks that begin like a script, and untagged blocks that begin
    with a command and contain no placeholder.
    """
    if block.language in ("", "text") and _SCRIPT.match(block.text):
        return True
    untagged = not block.language and _COMMAND.match(block.text) and "…" not in block.text
    return block.language == "sh" or bool(untagged)


def commands(document: str) -> list[Command]:
    """Return all commands of a document's shell blocks."""
    return [
        command for block in read(document)[1] if is_shell(block) for command in _commands(block)
    ]


def _commands(block: Block) -> Iterator[Command]:
    for number, line in _logical_lines(block):
        for words in split(line):
            yield Command(block.document, number, line, tuple(words))


def _logical_lines(block: Block) -> Iterator[tuple[int, str]]:
    """Join lines that end in a backslash or within quotes."""
    lines = iter(enumerate(block.text.splitlines(), block.line + 1))
    for number, line in lines:
        while line.endswith("\\") or _is_open(line):
            following = next(lines, None)
            assert following, f"{block.document}:{number}: the command has no end: {line}"
            line = " ".join((line.removesuffix("\\").rstrip(), following[1].strip()))
        if line.strip():
            yield number, line.strip()


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


# Functions that check shell commands

SHELL = {"cat", "cd", "echo", "sed"}  # accepted with any arguments, which the tests do not check
TARGETS = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)}


def simple(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the commands that a wrapper such as srun runs, or the command itself."""
    name, *rest = words
    if name == "srun":
        while rest[0].startswith("-") or rest[0].isdecimal():
            rest = rest[1:]
        yield from simple(tuple(rest))
    elif name == "gcloud":
        inner = [word.partition("=")[2] for word in rest if word.startswith("--command=")]
        for command in itertools.chain(*map(split, inner)):
            yield from simple(tuple(command))
    else:
        yield (re.sub(r"^\.venv/bin/", "", name), *rest)


def fault(words: tuple[str, ...]) -> str:
    """Return the mistake in a command that runs no program of this project, or ""."""
    name, *rest = words
    if name == "make":
        unknown = [word for word in rest if "=" not in word and word not in TARGETS]
        return f"the Makefile has no target {unknown[0]}" if unknown else ""
    if name in ("source", "."):
        return "" if rest == [".venv/bin/activate"] else "only .venv/bin/activate is sourced"
    if name in ("pip", "pip3"):
        files = [after for word, after in itertools.pairwise(rest) if word == "-r"]
        return next((f"there is no {file}" for file in files if not (ROOT / file).exists()), "")
    if name in ("pytest", "ruff", "pyright", "mkdocs"):
        paths = [word.partition("::") for word in rest if "/" in word or word.endswith(".py")]
        for path, _, test in paths:
            if not (ROOT / path).exists():
                return f"there is no {path}"
            if test and f"def {test.partition('[')[0]}(" not in (ROOT / path).read_text("utf-8"):
                return f"{path} has no {test}"
        return ""
    if name == "python" and rest[0].startswith("exported/"):
        return ""  # export.py wrote this program, and tests/test_export.py runs it
    return "" if name in SHELL else f"tests/documents.py does not know the command {name}"


def parsed_by_program(words: tuple[str, ...]) -> list[str]:
    """Return the words after `python` or `python -m`; [] if they run no code of this project."""
    if words[0] not in ("python", "python3"):
        return []
    if words[1:2] == ("-m",):
        return list(words[2:]) if words[2].partition(".")[0] in FOLDERS else []
    return list(words[1:]) if words[1:2] and words[1] in PROGRAMS else []
