"""tf.contrib.framework: scopes of arguments and functions on variables from tf-slim, and the rest.

The names that stand here need no tf-slim.
"""

from typing import Any

import tensorflow as tf

from replicate.compat.contrib.framework import nest
from replicate.compat.contrib.framework.deprecation import (
    deprecated,
    deprecated_arg_values,
    deprecated_args,
)
from replicate.compat.contrib.framework.names import (
    get_placeholders,
    prepend_name_scope,
    strip_name_scope,
)
from replicate.compat.contrib.framework.tensors import (
    argsort,
    assert_same_float_dtype,
    assert_scalar,
    assert_scalar_int,
    broadcast_to,
    is_tensor,
    reduce_sum_n,
    remove_squeezable_dimensions,
    smart_case,
    smart_cond,
    smart_constant_value,
    sort,
    with_same_shape,
    with_shape,
)
from replicate.compat.contrib.repaired_slim.loading import name_of_slim, names_of_slim

v1 = tf.compat.v1

TensorSpec = tf.TensorSpec
CriticalSection = tf.CriticalSection
create_global_step = v1.train.create_global_step
get_global_step = v1.train.get_global_step
get_or_create_global_step = v1.train.get_or_create_global_step
assert_global_step = v1.train.assert_global_step
init_from_checkpoint = v1.train.init_from_checkpoint
list_variables = v1.train.list_variables
load_checkpoint = v1.train.load_checkpoint
load_variable = v1.train.load_variable

__all__ = [
    "CriticalSection",
    "TensorSpec",
    "argsort",
    "assert_global_step",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_scalar_int",
    "broadcast_to",
    "create_global_step",
    "deprecated",
    "deprecated_arg_values",
    "deprecated_args",
    "get_global_step",
    "get_or_create_global_step",
    "get_placeholders",
    "init_from_checkpoint",
    "is_tensor",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "nest",
    "prepend_name_scope",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "smart_case",
    "smart_cond",
    "smart_constant_value",
    "sort",
    "strip_name_scope",
    "with_same_shape",
    "with_shape",
]

_HOMES = ("ops.arg_scope", "ops.variables", "ops.framework_ops", "ops")


def __dir__() -> list[str]:
    return sorted({*__all__, *names_of_slim(_HOMES)})


def __getattr__(name: str) -> Any:
    return name_of_slim(name, _HOMES, __name__)
