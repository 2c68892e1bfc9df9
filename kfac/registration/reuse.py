"""Reuse: a registration makes a new layer or loss, or adds a tower to a registered one.

Called by the layer collection and the loss table.
"""

import tensorflow as tf

v1 = tf.compat.v1

VARIABLE_SCOPE = "VARIABLE_SCOPE"
"""Value of `reuse` that takes the flag of the current variable scope."""


def is_reuse(reuse: bool | str | None, exists: bool) -> bool:
    """Resolves a `reuse` argument.

    Args:
      reuse: True, False, None, AUTO_REUSE or VARIABLE_SCOPE. AUTO_REUSE adds a tower if there is
        something to add to; VARIABLE_SCOPE takes the flag of the current variable scope; None means
        False.
      exists: True if the layer or loss has been registered before.

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
