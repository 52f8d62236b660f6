"""Explore trained runs in a local web page.

python lab.py --runs=runs/a,runs/b

Open the address that the program prints. Translation: type a sentence to see the translation and
the attention weights of every run, remove or replace source tokens, fix the first target tokens,
and see the distribution of the next token. Classification, labelling and cloze: see the
probabilities of the labels or candidates and the words that the model attends to. Runs of different
tasks can be explored together. The program does not store or log what you type (docs/lab.md).
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import os

from absl import flags

import program
from errors import UserError, require_packages

_RUNS = program.define_required(
    "runs", "Folders of runs that train.py created, separated by commas. A pattern in "
    "quotes, such as 'runs/*', names all runs that it matches.",
)  # fmt: skip
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", "best", "best, last, the number of a training step, or average."
)
_HOST = flags.DEFINE_string(
    "host",
    "127.0.0.1",
    "Address to listen on. The default is reachable only from this machine; 0.0.0.0 is reachable "
    "from the network, and the lab has no passwords.",
)
_PORT = flags.DEFINE_integer(
    "port", 8000, "Port to listen on; 0: any free port.", lower_bound=0, upper_bound=65535
)
_ALLOWED_HOSTS = flags.DEFINE_list(
    "allowed_hosts",
    [],
    "Additional host names, separated by commas, under which browsers may open the lab (besides "
    "localhost and IP addresses).",
)
_TIMEOUT = flags.DEFINE_float(
    "timeout", 60.0, "Seconds after which a request without an answer fails.", lower_bound=1.0
)
_RATE = flags.DEFINE_float(
    "rate", 50.0, "Maximum number of requests per second of each client.", lower_bound=1.0
)


def main() -> None:
    from training.finding import find_workdirs
    from training.workdir import load_config

    workdirs = find_workdirs(_RUNS.value, "--runs")
    if not workdirs:
        raise UserError("--runs is missing: name the folders of runs, such as --runs=runs/a,runs/b")
    require_packages("lab.py", "starlette", "uvicorn")
    for workdir in workdirs:
        load_config(workdir, flag="--runs")
    # The flags are checked before JAX is imported, which takes seconds.
    from serving.runs import load_runs

    runs = load_runs(workdirs, _CHECKPOINT.value)
    from serving.app import ServerLimits
    from serving.server import serve

    limits = ServerLimits(_TIMEOUT.value, _RATE.value, hosts=_ALLOWED_HOSTS.value)
    serve(runs, _HOST.value, _PORT.value, limits)
    # If SIGINT was ignored at the start, as in the background, `serve` returns at an interrupt;
    # otherwise it raises. Python would abort at its end while the worker's thread runs a model.
    os._exit(0)


if __name__ == "__main__":
    program.run(main)
