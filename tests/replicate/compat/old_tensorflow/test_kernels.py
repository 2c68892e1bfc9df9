"""Kernels of optimizers by their old names, with arguments by position."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.old_tensorflow import kernels

v1 = tf.compat.v1


def test_adam_by_position_is_the_formula(graph):
    variable, m, v = (v1.Variable(value, use_resource=True) for value in (1.0, 0.0, 0.0))
    step = kernels.resource_apply_adam(
        variable.handle, m.handle, v.handle, 0.9, 0.999, 0.1, 0.9, 0.999, 1e-8, 2.0,
        use_locking=False,
    )  # fmt: skip
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(step)
        # (1 − 0.9)·2 / √((1 − 0.999)·4) · 0.1·√(1 − 0.999) / (1 − 0.9)
        np.testing.assert_allclose(session.run([variable, m]), [0.9, 0.2], rtol=1e-5)


def test_names_and_numbers_of_arguments_are_checked():
    assert {"apply_adam", "sparse_apply_ftrl_v2", "sdca_optimizer"} <= set(dir(kernels))
    with pytest.raises(AttributeError, match="no operation 'apply_nothing'"):
        kernels.apply_nothing  # noqa: B018
    with pytest.raises(TypeError, match=r"apply_adam takes 13 arguments, .*; got 14"):
        kernels.apply_adam(*range(14))
