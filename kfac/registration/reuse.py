"""Reuse: a registration makes a new layer or loss, or adds a tower to a known one.

Called by the layer collection and the loss table.
"""

import tensorflow as tf

v1 = tf.compat.v1

VARIABLE_SCOPE = "VARIABLE_SCOPE"
"""Value of `reuse` that takes the answer from the active variable scope."""


def is_reuse(reuse: bool | str | None, exists: bool) -> bool:
    """Resolves a `reuse` argument.

    Args:
      reuse: True, False or None, AUTO_REUSE (add a tower if there is something to add to), or
        VARIABLE_SCOPE for the flag of the current variable scope. None means False.
      exists: Whether the thing has been registered before.

    Returns:
      True to add a tower, False to register something new.

    Raises:
      ValueError: `reuse` is anything else.
    """
    flag = v1.get_variable_scope().reuse if reuse == VARIABLE_SCOPE else reuse
    if flag is None:
        return False
    if flag is v1.AUTO_REUSE:
        return exists
    if not isinstance(flag, bool):
        raise ValueError(
            f"Cannot register for K-FAC: reuse={reuse!r}. Accepted are True, False, "
            "tf.compat.v1.AUTO_REUSE and kfac.layer_collection.VARIABLE_SCOPE."
        )
    return flag
