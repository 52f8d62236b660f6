"""Helpers that read checkpoints with Orbax, without the code in training/."""

from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp


def saved_arrays(workdir, step):
    """Return the arrays of a saved train state as NumPy arrays, by their path in the pytree."""
    manager = ocp.CheckpointManager(
        workdir.absolute() / "checkpoints",
        options=ocp.CheckpointManagerOptions(read_only=True, create=False),
        item_handlers={"state": ocp.PyTreeCheckpointHandler()},
    )
    tree = manager.item_metadata(step)["state"].tree
    plain = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
    args = ocp.args.Composite(state=ocp.args.PyTreeRestore(restore_args=plain))
    state = manager.restore(step, args=args)["state"]
    manager.close()
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}


def committed(workdir):
    """Return a dict from training step to folder of the committed checkpoints, in step order."""
    folder = workdir.absolute() / "checkpoints"
    if not folder.exists():
        return {}
    found = ocp.path.step.standard_name_format().find_all(folder)
    return {m.step: Path(m.path) for m in sorted(found, key=lambda m: m.step)}


def uncommitted(workdir):
    """Return the checkpoint folders that a running or killed process has not committed."""
    folder = workdir.absolute() / "checkpoints"
    present = sorted(folder.iterdir()) if folder.exists() else []
    names = {path.name for path in committed(workdir).values()}
    return [path for path in present if path.name not in names]
