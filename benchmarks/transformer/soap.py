"""SOAP for Keras: Adam in the eigenbasis of Shampoo's factors.

For a gradient G [m, n] with the averages L of G Gᵀ and R of Gᵀ G, and their eigenvectors U and V:
moments of Uᵀ G V are those of Adam, and their step N makes the step U N Vᵀ. The bases follow by one
step of orthogonal iteration now and then. Weights of other ranks are matrices of their last axes;
vectors have Adam's step.

References:
  Vyas et al. (2024), "SOAP: improving and stabilizing Shampoo using Adam", arXiv:2409.11321.
"""

import math
from typing import Any

import keras
import tensorflow as tf

BETA = 0.95
EPSILON = 1e-8


class Soap(keras.optimizers.Optimizer):
    """SOAP with β₁ = β₂ = 0.95, whose bases move every `every` steps."""

    def __init__(self, learning_rate: Any, every: int) -> None:
        super().__init__(learning_rate, name="soap")
        self._every = every
        self._state: list[list[Any]] = []

    def build(self, variables: Any) -> None:
        """Makes the first moment, the second one, and of matrices L, R, U and V."""
        if self.built:
            return
        super().build(variables)
        for number, variable in enumerate(variables):
            m, n = _matrix_shape(variable.shape)
            shapes = [(m, n), (m, n)]
            if m > 1:
                shapes += [(m, m), (n, n), (m, m), (n, n)]
            self._state.append(
                [
                    self.add_variable(shape, name=f"soap_{number}_{part}", initializer="zeros")
                    for part, shape in enumerate(shapes)
                ]
            )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Makes one step; see `keras.optimizers.Optimizer`."""
        first, second, *rest = (
            kept.value for kept in self._state[self._get_variable_index(variable)]
        )
        g = tf.reshape(tf.convert_to_tensor(gradient), first.shape)
        step = tf.cast(self.iterations.value, tf.float32) + 1
        first.assign(BETA * first + (1 - BETA) * g)
        if rest:
            left, right, u, v = rest
            left.assign(BETA * left + (1 - BETA) * tf.matmul(g, g, transpose_b=True))
            right.assign(BETA * right + (1 - BETA) * tf.matmul(g, g, transpose_a=True))
            self._turn(left, u, step)
            self._turn(right, v, step)
        into = (lambda x: tf.transpose(u) @ x @ v) if rest else tf.identity
        second.assign(BETA * second + (1 - BETA) * tf.square(into(g)))
        correction = tf.sqrt(1 - BETA**step) / (1 - BETA**step)
        change = correction * into(first) / (tf.sqrt(second) + EPSILON)
        change = u @ change @ tf.transpose(v) if rest else change
        rate = tf.cast(learning_rate, change.dtype)
        self.assign_sub(variable, tf.reshape(rate * change, variable.shape))

    def _turn(self, moment: Any, basis: Any, step: Any) -> None:
        """Sets a basis to eigenvectors in the first step, and moves it towards them in others."""

        def moved() -> Any:
            return tf.cond(
                tf.equal(step, 1),
                lambda: tf.linalg.eigh(moment)[1],
                lambda: tf.linalg.qr(moment @ basis)[0],
            )

        is_due = tf.equal(tf.math.floormod(step - 1, self._every), 0)
        basis.assign(tf.cond(is_due, moved, lambda: tf.identity(basis)))


def _matrix_shape(shape: Any) -> tuple[int, int]:
    sizes = list(shape)
    if len(sizes) < 2:
        return 1, math.prod(sizes)
    # Heads [features, heads, size] have their outputs at the end, [heads, size, features] before.
    first = sizes[0] if sizes[0] >= sizes[-1] else math.prod(sizes[:-1])
    return first, math.prod(sizes) // first
