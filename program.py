"""What the programs share: flags, a checked config, errors as one sentence."""

import contextlib
import logging
import os
import platform
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import absl.logging
from absl import app, flags
from ml_collections import ConfigDict, config_flags

from configs.base import Config, base_config
from configs.check import check
from errors import Stopped, UserError, first_line

# Where JAX keeps compiled programs between runs; they are of one kind of machine.
COMPILATIONS = Path("cache") / f"xla-{platform.machine()}"


def define_config() -> None:
    config_flags.DEFINE_config_file(
        "config", None, "Config file and arguments, as configs/luong2015.py:score=dot,data=dates; "
        "and --config.part.field=VALUE for every field of configs/base.py.",
    )  # fmt: skip
    _show_in_help("config")


def _show_in_help(*names: str) -> None:
    """A program's help has the flags of its own file by itself, and not those of this one."""
    for name in names:
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])


def define_hosts() -> None:
    flags.DEFINE_bool(
        "distributed", False, "One of several processes, which JAX finds by itself: under SLURM, "
        "Open MPI or Kubernetes, or on Cloud TPU.",
    )  # fmt: skip
    flags.DEFINE_string("coordinator", None, "HOST:PORT of the first of several processes.")
    flags.DEFINE_integer("processes", None, "How many there are.", lower_bound=1)
    flags.DEFINE_integer("process", None, "Which of them this one is, from 0.", lower_bound=0)
    _show_in_help("distributed", "coordinator", "processes", "process")


def connect_hosts() -> None:
    """Joins the other processes of the run, if the command line speaks of any."""
    names = ("coordinator", "processes", "process")
    given = [flags.FLAGS[name].value for name in names]
    missing = [name for name, value in zip(names, given, strict=True) if value is None]
    if not flags.FLAGS["distributed"].value:
        if len(missing) == len(names):
            return
        if missing:
            raise UserError(
                f"--{missing[0]} is missing: --coordinator, --processes and --process go together"
            )
    from training.hosts import connect

    connect(*given)


def define_decode() -> None:
    decode = base_config().decode
    for word in sys.argv[1:]:  # before the definition, which reads them already
        name = word.lstrip("-").partition("=")[0]
        if name.startswith("decode.") and name[7:] not in decode:
            _fail(f"decode has no field {name[7:]!r}: it has {', '.join(decode)}")
    config_flags.DEFINE_config_dict(
        "decode", decode, "Changes of the run's config.decode, as --decode.beam=5."
    )
    _show_in_help("decode")


def decode_settings(config: Config) -> Config:
    """The run's way to decode with the changes of the command line, checked; None for a task that
    decodes nothing."""
    changes = config_flags.get_override_values(flags.FLAGS["decode"])
    if "decode" not in config:
        if changes:
            name = next(iter(changes))
            raise UserError(
                f"--decode.{name}: a run of {config.task} decodes nothing: leave it out"
            )
        return None
    config = config.copy_and_resolve_references()
    config.decode.update(changes)
    check(config)
    return config.decode


def run(main: Callable[..., None], words: int = 0) -> None:
    """Runs a program, which is given so many words beside its flags; a user's mistake ends it with
    one sentence and status 1."""

    def guarded(argv: list[str]) -> None:
        if len(argv) > 1 + words:
            _fail(f"what is {argv[1 + words]!r}? Flags are written as --name=value")
        _show_messages()
        # Steps go to a device in short calls, each of which would wait 5 ms for its turn behind a
        # thread that reads batches: luong2015 on Multi30k trains 8 % faster on an H200 so.
        sys.setswitchinterval(5e-4)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILATIONS.absolute()))
        try:
            main(*argv[1:])
        except UserError as error:
            _fail(str(error))
        except MemoryError as error:
            _fail(f"{error or 'there is not enough memory'}: make the model or its batches smaller")
        except RuntimeError as error:  # JAX's own, which this file does not import
            sentence = _explained(error)
            if not sentence:
                raise
            _fail(sentence)
        except Stopped as stopped:
            sys.stderr.write(f"{stopped}\n")
            sys.exit(128 + stopped.number)  # as shells count it: a run that ends so is not over
        except KeyboardInterrupt:
            _fail("interrupted")
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    app.run(guarded, flags_parser=_parse_flags)


def _explained(error: RuntimeError) -> str:
    """What a user can do about an error of JAX's; "" for what is no user's business."""
    text = str(error)
    if "BF16" in text and "Unsupported element type" in text:
        return "XLA has no bfloat16 for this CPU: --config.model.dtype=float32"
    if any(word in text for word in ("Gloo", "NCCL", "heartbeat")):
        return (
            f"another process of this run has gone ({first_line(error)}): give all of them the "
            "same command again, to go on from the latest checkpoint"
        )
    if any(words in text for words in ("Unable to initialize backend", "initialize BLAS")):
        return (
            f"JAX cannot use the device ({first_line(error)}): another program may have all of its "
            "memory, as nvidia-smi tells of a GPU; JAX_PLATFORMS=cpu does without it"
        )
    if "RESOURCE_EXHAUSTED" in text:
        return (
            f"the device has not enough memory ({first_line(error)}): make data.batch_size, or "
            "decode.beam and decode.batch, smaller"
        )
    return ""


def folder(name: str | None, what: str = "run") -> Path:
    """The value of --workdir, which every program needs."""
    if not name:
        raise UserError(
            f"--workdir is missing: name the folder of the {what}, as --workdir={what}s/a"
        )
    return Path(name)


def checked_config() -> tuple[Config, list[str]]:
    """The config of the command line, after all its checks, and the overrides it was given."""
    config = flags.FLAGS["config"].value
    if config is None:
        raise UserError("--config is missing: name a file, as --config=configs/luong2015.py")
    if not isinstance(config, ConfigDict):  # a stand-in that holds the loader's error
        name = config_flags.get_config_filename(flags.FLAGS["config"])
        raise UserError(_no_config(name))
    check(config)
    return config, config_arguments(sys.argv)


def config_arguments(argv: list[str]) -> list[str]:
    """--config and its overrides, each as --name=value, however it was spelt."""
    found, words = [], iter(argv[1:])
    for word in words:
        name, equals, _ = word.partition("=")
        if name.startswith("-") and name.lstrip("-").split(".")[0] == "config":
            found.append(word if equals else f"{word}={next(words, '')}")
    return found


def _parse_flags(argv: list[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except UserError as error:
        _fail(str(error))
    except OSError:
        _fail(_no_config(config_file(argv)[0]))
    except SyntaxError as error:
        _fail(f"{error.filename}, line {error.lineno}: {error.msg}")
    except flags.Error as error:
        message = str(error).removeprefix("flag ")
        if "before a value for --config" in message:
            message += ": put --config=FILE before its overrides"
        _fail(message)
    except (AttributeError, KeyError) as error:
        _fail(_unknown_field(argv) or str(error))
    except (TypeError, ValueError) as error:
        _fail(f"the config cannot be set so: {error}")


def _no_config(name: str) -> str:
    there = sorted(path.name for path in Path("configs").glob("*[0-9].py"))
    return f"there is no config file {name.partition(':')[0]}: configs/ holds {', '.join(there)}"


def config_file(argv: list[str]) -> tuple[str, str]:
    """The config's file and the arguments behind its colon."""
    values = [a.partition("=")[2] for a in config_arguments(argv) if "." not in a.partition("=")[0]]
    file, _, arguments = (values or [""])[0].partition(":")
    return file, arguments


def _unknown_field(argv: list[str]) -> str:
    """Names the first override whose field the config does not have, and the fields there are."""
    given = [a.lstrip("-").partition("=") for a in config_arguments(argv)]
    file, arguments = config_file(argv)
    get_config = runpy.run_path(file).get("get_config")
    if get_config is None:
        return f"{file} is no config file: it has no get_config; see configs/luong2015.py"
    try:
        config = get_config(arguments)
    except (AttributeError, KeyError) as error:
        return f"{file}: {error}".replace("\\n", " ")
    for dotted, _, _ in given:
        node, path = config, dotted.split(".")
        for depth, name in enumerate(path[1:], 1):
            if not isinstance(node, ConfigDict) or name not in node:
                where = ".".join(path[:depth])
                known = ", ".join(node) if isinstance(node, ConfigDict) else "no fields"
                return f"{where} has no field {name!r}: it has {known}"
            node = node[name]
    return ""


def _show_messages() -> None:
    """Our own messages in full, of the libraries' none: what they cannot do is an exception, and
    becomes a message of ours."""
    absl.logging.set_verbosity(absl.logging.FATAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("alignax")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _fail(message: str) -> NoReturn:
    """The sentence is the last word. Threads that still write, or wait for other hosts, could only
    add tracebacks to it, so nobody asks them."""
    sys.stderr.write(f"error: {message}\n")
    with contextlib.suppress(OSError):  # nobody may be reading any more
        sys.stdout.flush()
    os._exit(1)
