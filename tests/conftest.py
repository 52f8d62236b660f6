"""Fixtures and strict settings for all tests.

There are eight devices, rank promotion is an error, warnings are errors (pyproject.toml), and type
annotations, including array shapes, are checked at every call.
"""

# ruff: noqa: E402  (the import hook must be installed before the imports that it checks)

import fcntl
import os
import signal

from tests.programs import ENVIRONMENT, FAST, SMALL, call

os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {FAST}"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Background jobs of a shell ignore Ctrl-C, and the programs that tests start would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from jaxtyping import install_import_hook

from tests.typecheck import checked

# Install the hook before these packages are imported, or jaxtyping does not check their types.
PACKAGES = ["models", "tasks", "decoding", "training", "evaluation"]
install_import_hook(PACKAGES, f"{checked.__module__}.{checked.__name__}")

import pickle
from pathlib import Path

import jax
import pytest

from configs import vaswani2017
from configs.base import Config
from configs.luong2015 import get_config
from tasks.translation import Translation
from tests.browser import start_browser
from training.devices import make_mesh

jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_collection_modifyitems(items):
    """Run the slowest files first, so that all worker processes end at about the same time."""
    long = ("test_hosts.py", "test_programs.py", "test_predict.py", "test_campaign.py",
            "test_step.py", "test_docs.py")  # fmt: skip
    items.sort(key=lambda item: item.path.name not in long)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """The folder that all worker processes of this test session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def compilations(shared):
    """Share compiled programs between tests, worker processes and the programs they start."""
    settings = {
        "jax_compilation_cache_dir": str(shared / "xla"),
        # In seconds. JAX's default of 1 would leave small programs out of the cache.
        "jax_persistent_cache_min_compile_time_secs": 0.1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
        ENVIRONMENT[name.upper()] = str(value)


@pytest.fixture(scope="session", autouse=True)
def signing_key(shared):
    """Sign workdirs with a key of this test session instead of the user's key."""
    os.environ["XDG_CONFIG_HOME"] = ENVIRONMENT["XDG_CONFIG_HOME"] = str(shared / "config")


def tiny_config(cache: Path, arguments: str = "") -> Config:
    """Return a config with a tiny model and corpus, whose run time is mostly compilation."""
    config = get_config(f"data=dates,{arguments}")
    config.data.cache = str(cache)
    config.data.examples.update({"train": 96, "valid": 12, "test": 12})
    config.data.batch_size = 16
    for stack in (config.model.encoder, config.model.decoder):
        stack.features = stack.embedding = 8
    config.model.encoder.features = 4
    config.model.dropout = 0.2
    config.train.update({"steps": 6, "eval_every": 3, "log_every": 2, "samples": 1})
    return config


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def tiny_task(cache):
    return Translation(tiny_config(cache))


@pytest.fixture(scope="session")
def transformer_task(cache):
    """A tiny Transformer with several layers and heads, with the corpus of `tiny_task`."""
    config = vaswani2017.get_config("data=dates")
    config.data = tiny_config(cache).data
    config.model.update({"features": 8, "heads": 2, "feed_forward": 8})
    return Translation(config)


@pytest.fixture(scope="session")
def mesh():
    return make_mesh(jax.devices()[:2])


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A headless browser."""
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def trained_run(shared):
    """The flags of a small translation run, its workdir, and the process that trained it.

    The first worker process that needs the run trains it for all of them. Only
    tests/test_programs.py may change it.
    """
    folder = shared / "a run"  # printed commands must quote the space
    folder.mkdir(exist_ok=True)
    flags = [*SMALL, f"--config.data.cache={folder}/cache", f"--workdir={folder}/run"]
    record = folder / "process.pickle"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            record.write_bytes(pickle.dumps(call("train.py", *flags)))
    return flags, folder / "run", pickle.loads(record.read_bytes())
