"""Runs of the lab with random parameters, and a server for them."""

import contextlib
import threading

import jax
import pytest

from serving.app import Lab, ServerLimits
from serving.runs import LAB_RUNS
from serving.server import listen, make_server
from serving.translation import TranslationRun
from serving.worker import ModelWorker
from tasks.registry import make_task
from tests.small import small_config
from training.devices import make_mesh
from training.restore import RestoredRun

HOSTILE = "runs/<img src=x onerror=fail()>"  # a folder may have this name


@pytest.fixture(scope="session")
def one_device():
    return make_mesh(jax.devices()[:1])


def restored(task, seed):
    return RestoredRun(task, jax.jit(task.init)(jax.random.key(seed)), [seed])


@pytest.fixture(scope="session")
def translations(tiny_task, transformer_task, one_device):
    """Two translation runs with the same vocabularies."""
    return {
        name: TranslationRun(name, restored(task, seed), one_device)
        for seed, (name, task) in enumerate({"a": tiny_task, HOSTILE: transformer_task}.items())
    }


@pytest.fixture(scope="session")
def predictions(tmp_path_factory, one_device):
    """One run per other task, by the names of their configs in tests/small.py."""
    runs = {}
    for name in ("sentence", "columns", "reader"):
        config = small_config(name, tmp_path_factory.mktemp(name))
        if name == "columns":
            config.data.inputs = ("word", "pos")
        runs[name] = LAB_RUNS[config.task](name, restored(make_task(config), 0), one_device)
    return runs


@contextlib.contextmanager
def serving(runs, limits, worker=None):
    """Serve runs in a thread; yield the address."""
    worker = worker or ModelWorker(limits.waiting)
    worker.start()
    with listen("127.0.0.1", 0) as listener:
        server = make_server(Lab(runs, worker, limits).app())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            worker.close()


@pytest.fixture(scope="session")
def address(translations, predictions):
    with serving({**translations, **predictions}, ServerLimits(rate=10_000)) as address:
        yield address
