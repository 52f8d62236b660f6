"""Measure the memory of a process that prepares a large corpus and reads training batches.

    python -m benchmarks.corpus_memory --pairs=5000000

Write a parallel corpus of --pairs sentence pairs with hundreds of thousands of distinct words, then
prepare it and read training batches in a separate process. Exit with status 1 if the memory of that
process exceeded --limit.
"""

import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from absl import flags

from data import dates
from program import run

_PAIRS = flags.DEFINE_integer(
    "pairs", 5_000_000, "Number of training sentence pairs.", lower_bound=1
)
_FOLDER = flags.DEFINE_string(
    "folder", "cache/corpus_memory", "Folder to create for the corpus; it must not exist yet."
)
_KEEP = flags.DEFINE_bool("keep", False, "Keep --folder instead of deleting it at the end.")
_LIMIT = flags.DEFINE_integer("limit", 2048, "Memory limit in MiB.")
_MEASURE = flags.DEFINE_bool(
    "measure", False, "Internal: prepare and read the existing corpus in --folder."
)

BATCHES = 2000  # number of training batches to read
# Sentences are dates, repeated after SENTENCES pairs. A numbered word such as "en17" is appended to
# each sentence; each language has WORDS different numbered words.
WORDS = 400_000
SENTENCES = 4000


def write_corpus(folder: Path, pairs: int) -> None:
    """Write the train, valid and test files of a parallel corpus."""
    for split, count in (("train", pairs), ("valid", 1000), ("test", 1000)):
        sentences = list(itertools.islice(dates.examples(split), min(count, SENTENCES)))
        for language, side in (("en", 0), ("de", 1)):
            texts = itertools.cycle([pair[side] for pair in sentences])
            with (folder / f"{split}.{language}").open("w", encoding="utf-8") as file:
                for i, text in zip(range(count), texts, strict=False):
                    file.write(f"{text} {language}{i % WORDS}\n")


def measure(folder: Path) -> dict[str, float]:
    """Prepare a corpus and read BATCHES batches in this process; return seconds and MiB."""
    from configs.base import Config, base_config
    from data.batches import Batches, plan_buckets, train_iterator
    from data.translation import TranslationCorpus

    data: Config = base_config().data
    data.update({"dir": str(folder), "cache": str(folder / "cache")})
    data.source_vocab.tokenizer = data.target_vocab.tokenizer = "split"
    start = time.perf_counter()
    prepared = TranslationCorpus(data).prepare()
    figures = {"prepare_s": time.perf_counter() - start, "prepare_mb": _status("VmHWM")}

    import grain  # noqa: F401 (train_iterator imports it, which is not part of the first batch)

    start = time.perf_counter()
    split = prepared.split("train")
    plan = plan_buckets(
        split.fields,
        split.lengths,
        data.buckets,
        data.batch_size,
        data.batch_unit,
        data.batch_multiple,
    )
    source = Batches(split, *plan)
    # Read across the end of an epoch, so that memory includes the batch plans of two epochs.
    batches = train_iterator(source, max(0, source.steps_per_epoch - BATCHES // 2))
    next(batches)
    figures["first_batch_s"] = time.perf_counter() - start
    start = time.perf_counter()
    rows = sum(len(batch["index"]) for batch in itertools.islice(batches, BATCHES - 1))
    figures["read_s"] = time.perf_counter() - start
    # RssAnon excludes memory-mapped files, because Linux can reclaim their pages at any time.
    return figures | {"rows": rows, "read_mb": _status("RssAnon")}


def _status(name: str) -> float:
    """Return an entry of /proc/self/status, such as VmHWM (peak memory), in MiB.

    getrusage is not used, because its peak includes the memory of the parent process before exec.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def prepare_and_read(pairs: int, folder: Path, keep: bool = False) -> dict[str, float]:
    """Write a corpus of `pairs` sentence pairs, then prepare and read it in a new process.

    Return the sizes of the text and of the prepared corpus in MB, and the results of `measure`.
    """
    # The folder is deleted at the end, so mkdir must fail if the folder already exists.
    folder.mkdir(parents=True)
    try:
        write_corpus(folder, pairs)
        text = sum(path.stat().st_size for path in folder.iterdir())
        command = [sys.executable, "-m", "benchmarks.corpus_memory", f"--folder={folder}"]
        result = subprocess.run([*command, "--measure"], stdout=subprocess.PIPE, check=True)
        prepared = sum(path.stat().st_size for path in folder.glob("cache/*/*"))
        sizes = {"text_mb": text / 1e6, "prepared_mb": prepared / 1e6}
        return sizes | json.loads(result.stdout)
    finally:
        if not keep:
            shutil.rmtree(folder)


def main() -> None:
    """Print the measurements of a corpus; exit with status 1 if its memory exceeds --limit."""
    folder = Path(_FOLDER.value)
    if _MEASURE.value:
        print(json.dumps(measure(folder)))
        return
    found = prepare_and_read(_PAIRS.value, folder, _KEEP.value)
    peak = max(found["prepare_mb"], found["read_mb"])
    for name, value in {
        "sentence pairs": f"{_PAIRS.value:,}",
        "text files": f"{found['text_mb']:,.0f} MB",
        "prepared corpus": f"{found['prepared_mb']:,.0f} MB",
        "preparing": f"{found['prepare_s']:,.0f} s, "
        f"{_PAIRS.value / found['prepare_s']:,.0f} pairs/s",
        "time to first batch": f"{found['first_batch_s']:.1f} s",
        "reading batches": f"{(BATCHES - 1) / found['read_s']:,.0f} batches/s, "
        f"{found['rows'] / found['read_s']:,.0f} rows/s",
        "peak memory of preparing": f"{found['prepare_mb']:,.0f} MiB",
        "memory after reading": f"{found['read_mb']:,.0f} MiB without memory-mapped files",
        "memory limit": f"{_LIMIT.value:,} MiB",
    }.items():
        print(f"{name:26}{value}")
    sys.exit(peak > _LIMIT.value)


if __name__ == "__main__":
    run(main)
