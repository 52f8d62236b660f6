"""What a checkpoint holds, as plain arrays, whichever devices or hosts wrote it."""

import jax
import numpy as np
import orbax.checkpoint as ocp


def saved_arrays(workdir, step):
    """Every array by its path in the state."""
    path = workdir.absolute() / "checkpoints" / str(step) / "state"
    with ocp.PyTreeCheckpointer() as checkpointer:
        tree = checkpointer.metadata(path).item_metadata.tree
        plain = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
        state = checkpointer.restore(path, restore_args=plain)
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}
