"""Checkpoints of a run, written and read by Orbax."""

import dataclasses
import errno
import functools
import itertools
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import absl.logging
import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from jax.sharding import Mesh
from orbax.checkpoint import checkpoint_managers as policies

from configs.base import Config
from errors import UserError, first_line
from training.checksums import checksum, seal, structure
from training.devices import replicated
from training.hosts import all_agree, is_first_process, lost_process, raise_on_all_hosts
from training.state import Params, Progress, TrainState
from training.workdir import check_name

logger = logging.getLogger("alignax")
T = TypeVar("T")
Fields = dict[str, Any]  # fields of a train state by name


class CorruptCheckpoint(UserError):
    """A checkpoint cannot be read, or its checksum is wrong."""


def has_checkpoints(workdir: Path) -> bool:
    """Return whether a run has checkpoints, which may be damaged; all hosts get the same answer."""
    found = any(path.name.isdecimal() for path in workdir.glob("checkpoints/*"))
    return not all_agree(not found)


class Checkpoints:
    """Saves and restores the checkpoints in the folder `checkpoints` of a workdir.

    A checkpoint has two items: the train state (arrays) and a record (JSON). The record contains
    the run's progress, a checksum and a structure digest of each field of the state, and a digest
    of the record itself (its seal). Orbax commits a checkpoint by renaming its folder, so a killed
    run leaves no partial checkpoint; the digests detect files that change later.
    """

    def __init__(self, workdir: Path, keep: int = 1, every: int = 1, read_only: bool = False):
        """Open the folder of checkpoints, or create it unless `read_only`.

        Saving deletes all checkpoints except the best, the latest two, and the latest `keep` whose
        step is a multiple of `every`, the interval between evaluations.
        """
        check_name(workdir)
        self._folder = (workdir / "checkpoints").absolute()
        self._saved: int | None = None  # the step of the checkpoint that was saved last
        self._quarantine_folder = self._folder.with_name("quarantine")
        if read_only and not self._folder.is_dir():
            raise UserError(f"{workdir} has no checkpoints: train first with --workdir={workdir}")
        self._keep, self._every = keep, every
        self._policy = Preserve(keep, every)
        self._names = ocp.path.step.standard_name_format()
        options = ocp.CheckpointManagerOptions(
            step_name_format=self._names,
            preservation_policy=self._policy,
            read_only=read_only,
            create=not read_only,
            # A killed run may leave unfinished checkpoints; only a run that writes may remove them.
            cleanup_tmp_directories=not read_only,
        )
        verbosity = absl.logging.get_verbosity()
        if read_only:  # hide Orbax's warning about options of read-only folders
            absl.logging.set_verbosity(absl.logging.ERROR)
        try:
            self._manager = self._open(options)
        finally:
            absl.logging.set_verbosity(verbosity)

    def _open(self, options: ocp.CheckpointManagerOptions) -> ocp.CheckpointManager:
        """Open the folder with Orbax, which fails if metadata of a checkpoint have wrong types.

        Nothing depends on these metadata, so a run that writes deletes them and tries again.
        """
        try:
            return ocp.CheckpointManager(
                self._folder, options=options, item_names=("state", "record")
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            damaged = [*self._folder.glob("*/_CHECKPOINT_METADATA")]
            if options.read_only or not damaged:
                raise UserError(
                    f"a file {self._folder}/*/_CHECKPOINT_METADATA is corrupt "
                    f"({first_line(error)}): delete these files, which are not needed"
                ) from error
            logger.warning("deleting corrupt metadata of the checkpoints in %s", self._folder)
            for path in damaged:
                path.unlink(missing_ok=True)  # another host may have deleted it
            return self._open(options)

    @property
    def latest(self) -> int | None:
        """The training step of the latest checkpoint, or None if there is no checkpoint."""
        return self._manager.latest_step()

    def path(self, step: int) -> Path:
        """Return the folder of the committed checkpoint of a training step."""
        return Path(self._names.find_step(self._folder, step).path)

    def save(self, state: TrainState, progress: Progress) -> None:
        """Start to save a checkpoint; a background thread writes its files."""
        self._policy.best_step = progress.best_step
        fields = _fields(state)
        record = {
            "progress": progress._asdict(),
            "structures": _each(structure, fields),
            "checksums": _each(checksum, fields),
        }
        record["seal"] = seal(record)
        # Copy the state, because the next training step donates it while a thread still saves it.
        state = jax.tree.map(jnp.copy, state)
        args = ocp.args.Composite(
            state=ocp.args.PyTreeSave(state), record=ocp.args.JsonSave(record)
        )
        try:
            self._manager.save(int(state.step), args=args)
            self._check_saved()
        except Exception as error:  # this save or the previous one, in the background, has failed
            raise self._not_written(error) from error
        self._saved = int(state.step)

    def _check_saved(self) -> None:
        """Raise an error if the last checkpoint that is completely written cannot be found."""
        # The first host commits checkpoints, and other hosts may see them later.
        if self._saved is not None and is_first_process():
            arrays = self.path(self._saved) / "state" / "manifest.ocdbt"
            if not arrays.is_file():
                raise FileNotFoundError(errno.ENOENT, "it has no arrays", str(arrays))

    def restore(self, like: TrainState, step: int) -> tuple[TrainState, Progress]:
        """Restore the checkpoint of `step`, with the shapes and shardings of `like`."""
        fields, progress = self._restore_fields(_fields(like), step)
        return TrainState(**fields), progress

    def _restore_fields(self, like: Fields, step: int) -> tuple[Fields, Progress]:
        """Restore only the fields in `like` of the train state, and read no other arrays."""
        record = self._read(step, lambda: self._record(step))
        if not _each(structure, like).items() <= record.get("structures", {}).items():
            raise UserError(
                f"{self._describe(step)} does not fit this model, because another version of this "
                "program wrote it: use the commit that run.json in the same workdir records"
            )
        restore_args = ocp.checkpoint_utils.construct_restore_args(like)
        item = ocp.args.PyTreeRestore(like, restore_args, partial_restore=True)
        args = ocp.args.Composite(state=item)
        fields = self._read(step, lambda: self._manager.restore(step, args=args)["state"])
        # All hosts compute checksums together, so every host must have read the fields first.
        expected = record["checksums"].items()
        self._read(step, lambda: _expect(_each(checksum, fields).items() <= expected))
        return fields, Progress(**record["progress"])

    def restore_latest(self, like: TrainState) -> tuple[TrainState, Progress] | None:
        """Restore the newest intact checkpoint; return None if no checkpoint was ever saved.

        Newer checkpoints that are corrupt are moved to the folder `quarantine` of the workdir.
        """
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                state, progress = self.restore(like, step)
            except CorruptCheckpoint as error:
                with raise_on_all_hosts():
                    if is_first_process():
                        self._quarantine(step, error)
                self._manager.reload()
            else:
                self._policy.best_step = progress.best_step
                return state, progress
        if self._quarantine_folder.exists():
            raise UserError(
                f"all checkpoints of {self._folder} are corrupt and were moved to "
                f"{self._quarantine_folder}: use another --workdir, or delete this one to start "
                "again"
            )
        return None

    def _quarantine(self, step: int, error: CorruptCheckpoint) -> None:
        """Move a corrupt checkpoint out of the folder that Orbax manages."""
        self._quarantine_folder.mkdir(exist_ok=True)
        names = (f"step-{step}" + (f"-{i}" if i > 1 else "") for i in itertools.count(1))
        paths = (self._quarantine_folder / name for name in names)
        target = next(path for path in paths if not path.exists())
        logger.warning("%s: moving it to %s", error, target)
        self.path(step).rename(target)

    def _record(self, step: int) -> dict[str, Any]:
        """Read the record of a checkpoint and check its seal."""
        args = ocp.args.Composite(record=ocp.args.JsonRestore())
        record = self._manager.restore(step, args=args)["record"]
        _expect(record.pop("seal") == seal(record))
        return record

    def _progress(self, step: int) -> Progress:
        return Progress(**self._read(step, lambda: self._record(step))["progress"])

    def _read(self, step: int, read: Callable[[], T]) -> T:
        """Call `read` on all hosts; raise CorruptCheckpoint on all if it fails on any of them."""
        result, problem = None, ""
        with raise_on_all_hosts():
            try:
                result = read()
            except (PermissionError, MemoryError, jax.errors.JaxRuntimeError):
                raise  # these errors have other causes than a corrupt checkpoint
            except Exception as error:  # reading corrupt files can raise any exception
                problem = _summary(error)
        if not all_agree(not problem):
            reason = problem or "another process cannot read it"
            raise CorruptCheckpoint(f"{self._describe(step)} is corrupt ({reason})")
        return cast(T, result)

    def _describe(self, step: int) -> str:
        return f"the checkpoint of step {step} in {self._folder}"

    def find(self, which: str) -> list[int]:
        """Return the training steps of the checkpoints that a name selects.

        The name is "best", "last", a training step, or "average", which selects the latest
        train.keep checkpoints that were saved at an evaluation. Checkpoints that were saved at a
        signal are excluded, so that the average does not depend on interruptions.
        """
        steps = sorted(self._manager.all_steps())
        if not steps:
            raise UserError(
                f"{self._folder} contains no checkpoint yet: wait until the first evaluation of "
                "the run, which saves one"
            )
        if which == "average":
            return self._averaged(steps)
        if which == "last":
            return steps[-1:]
        if which == "best":
            return [self._best(steps)]
        if which.isdecimal() and int(which) in steps:
            return [int(which)]
        known = ", ".join(map(str, steps))
        raise UserError(
            f"{self._folder} has no checkpoint {which!r}: use best, last, average or one of the "
            f"training steps {known}"
        )

    def _averaged(self, steps: list[int]) -> list[int]:
        if self._keep == 1:
            raise UserError(
                "an average needs several checkpoints, but this run was trained with "
                "train.keep=1: use the checkpoint best, or train a run with --config.train.keep=5"
            )
        # Step 0 has the initial parameters of train.init_from, which are not evaluated.
        evaluated = [s for s in steps if s and (s % self._every == 0 or self._progress(s).done)]
        return evaluated[-self._keep :] or steps[-1:]

    def _best(self, steps: list[int]) -> int:
        """Return the best training step according to the newest checkpoint that can be read."""
        for step in reversed(steps):
            try:
                best = self._progress(step).best_step
            except CorruptCheckpoint as error:
                logger.warning("%s: reading the best step from an older checkpoint", error)
                continue
            if best in steps:
                return best
            if best is None:
                logger.warning(
                    "no checkpoint has been evaluated yet: using the latest, of step %d", step
                )
            else:
                logger.warning(
                    "the best checkpoint (step %d) is missing: using that of step %d", best, step
                )
            return step
        return steps[-1]

    def restore_params(self, task: Any, config: Config, mesh: Mesh, steps: Sequence[int]) -> Params:
        """Restore the parameters used for evaluation, averaged over the checkpoints of `steps`."""
        field, whole = "ema" if config.train.ema else "params", replicated(mesh)
        shapes = jax.eval_shape(task.init, jax.random.key(0))
        like = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), shapes
        )
        try:
            trees = (self._restore_fields({field: like}, step)[0][field] for step in steps)
            total = functools.reduce(lambda *two: jax.tree.map(jnp.add, *two), trees)
        except CorruptCheckpoint as error:
            raise UserError(
                f"{error}: choose another checkpoint, or resume training to replace this one"
            ) from error
        return jax.tree.map(lambda x: x / len(steps), total) if steps[1:] else total

    def close(self) -> None:
        """Wait until the last checkpoint is committed, and close the manager."""
        try:
            self._manager.wait_until_finished()
            self._check_saved()
        except Exception as error:
            raise self._not_written(error) from error
        finally:
            self._manager.close()

    def _not_written(self, error: Exception) -> UserError:
        # In a run with one process, the words that mean a lost connection are part of a path.
        if jax.process_count() > 1 and (message := lost_process(error)):
            return UserError(message)
        return UserError(
            f"a checkpoint could not be written to {self._folder} ({_summary(error)}): fix this, "
            "for example by freeing disk space, and run the same command again to resume from the "
            "latest checkpoint"
        )


class Preserve(policies.PreservationPolicy):
    """Preserves the best checkpoint, the latest two, and the latest `keep` saved at evaluations."""

    def __init__(self, keep: int, every: int):
        self.best_step: int | None = None
        self._keep, self._every = keep, every

    def should_preserve(
        self,
        # The elements are PolicyCheckpointInfo, a type that beartype cannot check.
        checkpoints: Sequence[Any],
        *,
        context: policies.PreservationContext,
    ) -> Sequence[bool]:
        steps = [checkpoint.step for checkpoint in checkpoints]
        evaluated = [step for step in steps if step and step % self._every == 0]
        latest = steps[-2:]  # keep two checkpoints, because the latest may be corrupt
        wanted = {self.best_step, *latest, *evaluated[-self._keep :]}
        return [step in wanted for step in steps]


def _fields(state: TrainState) -> Fields:
    return {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}


def _each(function: Callable[[Any], T], fields: Fields) -> dict[str, T]:
    return {name: function(tree) for name, tree in fields.items()}


def _summary(error: Exception) -> str:
    """Return the cause of an error in one line.

    A full disk is searched for in the whole message, because TensorStore reports it in the middle.
    """
    full = os.strerror(errno.ENOSPC)
    return full if full in str(error) else first_line(error)


def _expect(intact: bool) -> None:
    if not intact:
        raise ValueError("its checksum differs from the saved one")
