"""Activations, initializers and regularizers that are given by their names."""

import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def _in_fans(scale: float, mode: str, distribution: str) -> Callable[[], Any]:
    return lambda: v1.variance_scaling_initializer(scale, mode, distribution)


_ACTIVATIONS: Mapping[str, Callable[[Any], Any] | None] = types.MappingProxyType(
    {
        "linear": None,
        "exponential": tf.exp,
        "gelu": tf.nn.gelu,
        "hard_sigmoid": lambda x: tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0),
        "swish": tf.nn.silu,
        **{
            name: getattr(tf.nn, name)
            for name in ("elu", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign")
        },
        "tanh": tf.tanh,
    }
)
_INITIALIZERS: Mapping[str, Callable[[], Any]] = types.MappingProxyType(
    {
        "zeros": v1.zeros_initializer,
        "ones": v1.ones_initializer,
        "constant": v1.constant_initializer,
        "uniform": lambda: v1.random_uniform_initializer(-0.05, 0.05),
        "normal": lambda: v1.random_normal_initializer(0.0, 0.05),
        "truncated_normal": lambda: v1.truncated_normal_initializer(0.0, 0.05),
        "orthogonal": v1.orthogonal_initializer,
        "identity": v1.initializers.identity,
        "variance_scaling": v1.variance_scaling_initializer,
        "glorot_uniform": v1.glorot_uniform_initializer,
        "glorot_normal": v1.glorot_normal_initializer,
        "he_uniform": _in_fans(2.0, "fan_in", "uniform"),
        "he_normal": _in_fans(2.0, "fan_in", "truncated_normal"),
        "lecun_uniform": _in_fans(1.0, "fan_in", "uniform"),
        "lecun_normal": _in_fans(1.0, "fan_in", "truncated_normal"),
    }
)
_ALIASES = {"random_uniform": "uniform", "random_normal": "normal"}
_PENALTIES: Mapping[str, tuple[float, float]] = types.MappingProxyType(
    {"l1": (0.01, 0.0), "l2": (0.0, 0.01), "l1_l2": (0.01, 0.01)}
)


def activation(given: Any) -> Any:
    """Returns an activation: a function as it is, or that of a name such as "relu".

    Raises:
      ValueError: There is no activation of this name.
      TypeError: It is neither a name nor a function, nor None.
    """
    return _found("activation", given, _ACTIVATIONS) if isinstance(given, str) else _callable(given)


def initializer(given: Any) -> Any:
    """Returns an initializer: one as it is, or that of a name such as "he_normal".

    Raises:
      ValueError: There is no initializer of this name.
    """
    if not isinstance(given, str):
        return given
    name = given.removesuffix("_initializer").lower()
    return _found("initializer", _ALIASES.get(name, name), _INITIALIZERS)()


def regularizer(given: Any) -> Any:
    """Returns a regularizer: a function as it is, or that of "l1", "l2" or "l1_l2".

    Raises:
      ValueError: There is no regularizer of this name.
      TypeError: It is neither a name nor a function, nor None.
    """
    if not isinstance(given, str):
        return _callable(given)
    absolute, squared = _found("regularizer", given, _PENALTIES)

    def penalty(weights: Any) -> Any:
        terms = []
        if absolute:
            terms.append(absolute * tf.reduce_sum(tf.abs(weights)))
        if squared:
            terms.append(squared * tf.reduce_sum(tf.square(weights)))
        return terms[0] if len(terms) == 1 else tf.add_n(terms)

    return penalty


def _found(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"There is no {kind} {name!r}. Known names: {', '.join(sorted(known))}.")
    return known[name]


def _callable(given: Any) -> Any:
    if given is not None and not callable(given):
        raise TypeError(f"A layer got {given!r}, which is neither a name nor a function nor None.")
    return given
