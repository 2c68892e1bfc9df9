"""Names for TensorFlow's types, which carry no annotations of their own."""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

Device: TypeAlias = str
Gradient: TypeAlias = Any
"""A Tensor or an IndexedSlices."""
Graph: TypeAlias = Any
ModelFn: TypeAlias = Callable[..., Any]
"""model_fn(features, labels, mode, params, config) → EstimatorSpec; the last four optional."""
Nest: TypeAlias = Any
"""A Tensor, or a nest of Tensors in dicts, tuples and lists."""
Operation: TypeAlias = Any
Path: TypeAlias = str | bytes | os.PathLike[str]
"""The path of a file or directory."""
Spec: TypeAlias = Any
"""An EstimatorSpec: ours, or that of tf.estimator."""
Tensor: TypeAlias = Any
Variable: TypeAlias = Any
