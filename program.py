"""Code shared by all programs: flags, loading and checking the config, and error messages."""

import contextlib
import ctypes
import dataclasses
import logging
import os
import platform
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import absl.logging
from absl import app, flags
from ml_collections import config_flags

from configs.base import Config, base_config
from configs.check import changed_decode, check, check_path
from configs.load import load_config_file
from errors import Stopped, UserError, first_line, suggest
from terminal import CleanFormatter, clean_lines, protect_stdout
from training.device_errors import explain_device_error
from training.workdir import check_name, flat

# Compiled programs are cached between runs, separately for each kind of machine.
COMPILATIONS = Path("cache") / f"xla-{platform.machine()}"
_CONFIG_HELP = (
    "Config file and its arguments, such as configs/luong2015.py:score=dot,data=dates; "
    "--config.SECTION.FIELD=VALUE sets any field (docs/configuration.md)."
)


_NO_CONFIG = "--config is missing: name a file, such as --config=configs/luong2015.py"


def define_config() -> None:
    """Define --config, which `_load_config` replaces with flags for all config fields."""
    define_required("config", _CONFIG_HELP)


def define_required(name: str, description: str, unless: str = "") -> flags.FlagHolder[str]:
    """Define a flag that --help calls required; the program must check that it has a value.

    `unless` is another flag, with which this one is not required.
    """
    exception = f", except with --{unless}" if unless else ""
    holder = flags.DEFINE_string(name, "", f"{description}\n(required{exception})")
    flags.FLAGS[name].default_as_str = None  # --help does not show the empty default
    show_in_help(name)
    return holder


def show_in_help(*names: str) -> None:
    """Show flags of this module in --help, which otherwise shows only flags of the main module."""
    for name in names:
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS[name])


def define_hosts() -> None:
    """Define the flags of multi-host runs."""
    flags.DEFINE_bool(
        "distributed", False, "Multi-host runs: let JAX find the other processes, under SLURM, "
        "Open MPI or Kubernetes, or on Cloud TPU.",
    )  # fmt: skip
    flags.DEFINE_string("coordinator", None, "Multi-host runs: HOST:PORT of the first process.")
    flags.DEFINE_integer("processes", None, "Multi-host runs: number of processes.", lower_bound=1)
    flags.DEFINE_integer(
        "process", None, "Multi-host runs: index of this process, from 0.", lower_bound=0
    )
    show_in_help("distributed", "coordinator", "processes", "process")


def connect_hosts() -> None:
    """Connect the processes of a multi-host run, if its flags are given."""
    names = ("coordinator", "processes", "process")
    given = [flags.FLAGS[name].value for name in names]
    missing = [name for name, value in zip(names, given, strict=True) if value is None]
    if not flags.FLAGS["distributed"].value:
        if len(missing) == len(names):
            return
        if missing:
            raise UserError(
                f"--{missing[0]} is missing: give --coordinator, --processes and --process together"
            )
    from training.hosts import connect  # imported late, because training.hosts imports JAX

    connect(*given, fail=_fail)


def define_decode() -> None:
    """Define --decode.FIELD for the fields of config.decode."""
    decode = base_config().decode
    # Check sys.argv before DEFINE_config_dict, which parses it.
    for word in sys.argv[1:]:
        name = word.lstrip("-").partition("=")[0]
        is_flag = word.startswith("-") and name.startswith("decode.")
        if is_flag and name[7:] not in decode:
            advice = f"{suggest(name[7:], decode)}use one of {', '.join(decode)}"
            _fail(f"--{name}: decode has no field {name[7:]!r}: {advice}")
    config_flags.DEFINE_config_dict(
        "decode",
        decode,
        "Overrides of the run's config.decode, such as --decode.beam=5. "
        "Fields that are not given keep the run's values, not the defaults listed here.",
    )
    show_in_help("decode")


def decode_settings(config: Config) -> Config:
    """Apply the --decode overrides to the run's decode settings, check and return them.

    Return None if the run's task has no decoding.
    """
    changes = config_flags.get_override_values(flags.FLAGS["decode"])
    if "decode" not in config:
        if changes:
            raise UserError(
                f"--decode.{next(iter(changes))} has no effect on a {config.task} run: leave it out"
            )
        return None
    return changed_decode(config, changes)


def run(main: Callable[..., None], words: int = 0, hint: str = "") -> None:
    """Run a program that takes at most `words` positional arguments (`hint`: advice about more).

    A UserError, or another error with a known remedy, ends the program with a one-line message and
    exit status 1.
    """

    def guarded(argv: list[str]) -> None:
        if len(argv) > 1 + words:
            _fail(f"unexpected argument {_unexpected(argv[1 + words])}{hint}")
        protect_stdout()
        _show_messages()
        # Python switches threads every .5 ms (default: 5 ms), so that threads that read batches do
        # not delay the main thread, which dispatches training steps. Measurements:
        # docs/performance_decisions.md.
        sys.setswitchinterval(5e-4)
        keep_freed_memory()
        try:
            main(*argv[1:])
        except UserError as error:
            _fail(str(error))
        except MemoryError as error:
            _fail(
                f"{error or 'there is not enough memory'}: reduce data.batch_size or the model size"
            )
        except RuntimeError as error:  # JAX's errors are RuntimeErrors; JAX is not imported here
            message = explain_device_error(error)
            if not message:
                raise
            _fail(message)
        except Stopped as stopped:
            sys.stderr.write(clean_lines(f"{stopped}\n"))
            sys.exit(128 + stopped.number)  # shells use 128 + n for signal n
        except OSError as error:
            if not error.filename:
                raise
            _fail(
                f"cannot use {error.filename} ({error.strerror}): correct the path, its "
                "permissions or the disk"
            )

    # Set these variables here: JAX reads them when it is imported, which happens inside `main`.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILATIONS.absolute()))
    # In seconds. JAX's default of 1 would leave small programs out of the cache.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        app.run(guarded, flags_parser=_parse_flags)
    # The reader of stdout, such as `head`, has ended; Python's final flush must not fail.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        _exit(128 + signal.SIGINT)


def _unexpected(argument: str) -> str:
    """Return an argument that the program does not take, and advice about it."""
    is_config = argument.partition(":")[0].endswith(".py")
    if is_config and "config" in flags.FLAGS and not _given.file:
        return f"{argument!r}: did you mean --config={argument}?"
    shown = "with a URL" if "://" in argument else repr(argument)  # URLs may contain passwords
    return f"{shown}: write flags as --name=value, without spaces"


def keep_freed_memory() -> None:
    """Let malloc reuse the memory of freed arrays instead of returning it to the system.

    By default, glibc maps every large array anew, and Linux clears all of its pages, which takes up
    to a quarter of a training step on a CPU (docs/performance_decisions.md).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt and platform.libc_ver()[0] == "glibc":
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # parameters of mallopt, from malloc.h


def _interrupt(number: int, frame: Any) -> NoReturn:
    """Handle Ctrl-C: raise KeyboardInterrupt, or exit if the program is importing modules.

    Extension modules turn an exception during their import into an ImportError or a crash.
    """
    while frame:
        if "importlib._bootstrap" in frame.f_code.co_filename:
            _exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt


def folder(name: str | None, what: str = "run") -> Path:
    """Return --workdir as a path; raise UserError if it is missing or cannot be used."""
    if not name:
        raise UserError(f"--workdir is missing: name a folder, such as --workdir={what}s/a")
    check_name(Path(name))
    return Path(name)


def checked_config(changes: dict[str, Any] | None = None) -> tuple[Config, list[str]]:
    """Check and return the config of the command line, with the flags that define it.

    `changes` are the values of fields that other flags than --config.FIELD set.
    """
    if not _given.file:
        raise UserError(_NO_CONFIG)
    config: Config = flags.FLAGS["config"].value
    changes = changes or {}
    config.update_from_flattened_dict(changes)
    check(config)
    overrides = [f"--config.{name}={value}" for name, value in changes.items()]
    return config, given_config().flags + overrides


@dataclasses.dataclass
class ConfigFlags:
    """The parts of a command line that define the config."""

    file: str = ""  # FILE in --config=FILE:ARGUMENTS
    arguments: str = ""  # ARGUMENTS in --config=FILE:ARGUMENTS
    overrides: list[str] = dataclasses.field(default_factory=list)  # flags --config.FIELD=VALUE

    @property
    def flags(self) -> list[str]:
        value = f"{self.file}:{self.arguments}" if self.arguments else self.file
        return [f"--config={value}", *self.overrides]


_given = ConfigFlags()  # _load_config replaces this empty default


def given_config() -> ConfigFlags:
    """Return the config file, its arguments and the overrides of the command line."""
    return _given


def _parse_flags(argv: list[str]) -> list[str]:
    argv = ["--help" if word == "-h" else word for word in argv]
    try:
        if "config" in flags.FLAGS:
            argv = _load_config(flags.FLAGS.read_flags_from_files(argv, force_gnu=False))
        try:
            return flags.FLAGS(argv)
        except SystemExit:  # absl ends --help with exit status 1
            sys.exit(0)
    except UserError as error:
        _fail(str(error))
    except flags.UnrecognizedFlagError as error:
        name = f"--{error.flagname}"
        _fail(f"unknown command line flag {name}: {suggest(name, _flag_names())}see --help")
    except flags.Error as error:
        _fail(_plain_types(str(error).removeprefix("flag ")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        _fail(f"a --config override has an invalid value: {first_line(error)}")


def _flag_names() -> list[str]:
    """Return the names of all flags, including those of the fields of the config."""
    names = list(flags.FLAGS)
    for name in ("config", "decode"):
        value = flags.FLAGS[name].value if name in names else None
        names += [f"{name}.{field}" for field in flat(value)] if value else []
    return [f"--{name}" for name in dict.fromkeys(names)]


def _plain_types(message: str) -> str:
    """Replace Python's messages about types in an error message of absl."""
    message = re.sub(r"invalid literal for int\(\) .*", "the value must be an integer", message)
    message = re.sub(r"\('Non-boolean .*", "the value must be true or false", message)
    return re.sub(r"could not convert string to float.*", "the value must be a number", message)


def _load_config(argv: list[str]) -> list[str]:
    """Load the config that --config names, and define a flag --config.FIELD for each of its fields.

    Return the arguments of the command line without --config.
    """
    value = _config_value(argv)
    if not value:
        if any(word.lstrip("-").startswith("config.") for word in argv[1:]):
            raise UserError(_NO_CONFIG)
        return argv
    _given.file, _, _given.arguments = value.partition(":")
    config = load_config_file(_given.file, _given.arguments)
    rest, _given.overrides = _split_overrides(argv, config)
    parsed = [*rest[:1], *_given.overrides, *rest[1:]]
    delattr(flags.FLAGS, "config")
    config_flags.DEFINE_config_dict("config", config, _CONFIG_HELP, sys_argv=parsed)
    return parsed


def _config_value(argv: list[str]) -> str:
    """Return the value of --config; if --config is given twice, the last value counts."""
    value = ""
    for word, following in zip(argv[1:], [*argv[2:], ""], strict=False):
        name, equals, given = word.partition("=")
        if name in ("-config", "--config"):
            value = given if equals else following
    return value


def _split_overrides(argv: list[str], config: Config) -> tuple[list[str], list[str]]:
    """Separate the config's overrides, each as --config.FIELD=VALUE, from the other flags."""
    rest, overrides, words = argv[:1], [], iter(argv[1:])
    for word in words:
        name, equals, value = word.partition("=")
        prefix, dot, path = name.lstrip("-").partition(".")
        if not name.startswith("-") or prefix not in ("config", "noconfig"):
            rest.append(word)
        elif not dot:  # --config=FILE is no override, so skip its value
            value = value if equals else next(words, "")
        else:
            present = check_path(config, path.split("."))
            # Flags of booleans need no value: --config.x means True and --noconfig.x means False.
            if not equals and isinstance(present, bool):
                value = str(prefix == "config")
            elif not equals:
                value = next(words, "")
            overrides.append(f"--config.{path}={value}")
    return rest, overrides


def _show_messages() -> None:
    """Show the log messages of this project and silence those of libraries.

    Libraries report errors as exceptions, which `run` turns into messages.
    """
    absl.logging.set_verbosity(absl.logging.FATAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    sys.unraisablehook = _show_unraisable
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter("%(message)s"))
    logger = logging.getLogger("alignax")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _show_unraisable(unraisable: Any) -> None:
    """Show an exception that cannot be raised, except those of TensorStore after a failed read.

    Orbax closes its event loop at the first array that cannot be read. The threads that read the
    other arrays then fail to report their results to the loop.
    """
    if str(unraisable.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(unraisable)


def _fail(message: str) -> NoReturn:
    """Print an error message and exit with status 1."""
    sys.stderr.write(clean_lines(f"error: {message}\n"))
    _exit(1)


def _exit(status: int) -> NoReturn:
    """Exit immediately: joining worker threads could only append tracebacks to the message."""
    with contextlib.suppress(OSError):  # flush fails if the reader of stdout has ended
        sys.stdout.flush()
    os._exit(status)
