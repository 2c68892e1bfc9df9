"""Variants of Adam. Their variables have the names of Adam's."""

from typing import Any

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable

v1 = tf.compat.v1


class LazyAdamOptimizer(v1.train.AdamOptimizer):
    """Adam that leaves the moments of rows without a gradient as they are.

    Adam lets all moments decay at each step; the two differ for sparse gradients only.
    """

    def _apply_sparse(self, grad: Any, var: Variable) -> Operation:
        return self._lazy(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation:
        return self._lazy(grad, var, indices)

    def _lazy(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation:
        return _row_step(self, grad, var, indices, nesterov=False)


class NadamOptimizer(v1.train.AdamOptimizer):
    """Adam with Nesterov momentum: Dozat (2016), algorithm 8 with a constant momentum."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        return tf.raw_ops.ApplyAdam(
            var=var,
            m=first,
            v=second,
            use_locking=self._use_locking,
            use_nesterov=True,
            **_settings(self, grad),
        )

    def _resource_apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        return tf.raw_ops.ResourceApplyAdam(
            var=var.handle,
            m=first.handle,
            v=second.handle,
            use_locking=self._use_locking,
            use_nesterov=True,
            **_settings(self, grad),
        )

    def _apply_sparse(self, grad: Any, var: Variable) -> Operation:
        return self._all_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation:
        return self._all_rows(grad, var, indices)

    def _all_rows(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation:
        dense = tf.scatter_nd(
            tf.expand_dims(indices, 1), grad, tf.shape(var, out_type=indices.dtype)
        )
        rows = tf.range(tf.shape(var)[0])
        return _row_step(self, dense, var, rows, nesterov=True)


class AdaMaxOptimizer(v1.train.AdamOptimizer):
    """Adam with the infinity norm: Kingma and Ba (2014), algorithm 2."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        """Keeps the settings; they are those of `tf.compat.v1.train.AdamOptimizer`."""
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._step(grad, var, tf.range(tf.shape(var)[0]) if var.shape.rank else None)

    def _resource_apply_dense(self, grad: Tensor, var: Variable) -> Operation:
        return self._apply_dense(grad, var)

    def _apply_sparse(self, grad: Any, var: Variable) -> Operation:
        return self._step(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Tensor, var: Variable, indices: Tensor) -> Operation:
        return self._step(grad, var, indices)

    def _step(self, grad: Tensor, var: Variable, rows: Tensor | None) -> Operation:
        set_ = _settings(self, grad)
        first, norm = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_first = set_["beta1"] * _read(first, rows) + (1 - set_["beta1"]) * grad
        new_norm = tf.maximum(set_["beta2"] * _read(norm, rows), tf.abs(grad))
        rate = set_["lr"] / (1 - set_["beta1_power"])
        step = rate * new_first / (new_norm + set_["epsilon"])
        updates = [
            _write(first, rows, new_first, self._use_locking),
            _write(norm, rows, new_norm, self._use_locking),
            _subtract(var, rows, step, self._use_locking),
        ]
        return tf.group(*updates)


def _settings(optimizer: Any, grad: Tensor) -> dict[str, Tensor]:
    """Returns the settings of Adam's operations, in the type of a gradient."""
    beta1_power, beta2_power = optimizer._get_beta_accumulators()
    values = {
        "beta1_power": beta1_power,
        "beta2_power": beta2_power,
        "lr": optimizer._lr_t,
        "beta1": optimizer._beta1_t,
        "beta2": optimizer._beta2_t,
        "epsilon": optimizer._epsilon_t,
        "grad": grad,
    }
    return {name: tf.cast(value, grad.dtype) for name, value in values.items()}


def _row_step(
    optimizer: Any, grad: Tensor, var: Variable, rows: Tensor, nesterov: bool
) -> Operation:
    """Makes a step of Adam on some rows of a variable."""
    set_ = _settings(optimizer, grad)
    lock = optimizer._use_locking
    first, second = optimizer.get_slot(var, "m"), optimizer.get_slot(var, "v")
    scaled = (1 - set_["beta1"]) * grad
    new_first = set_["beta1"] * _read(first, rows) + scaled
    new_second = set_["beta2"] * _read(second, rows) + (1 - set_["beta2"]) * tf.square(grad)
    used = scaled + set_["beta1"] * new_first if nesterov else new_first
    rate = set_["lr"] * tf.sqrt(1 - set_["beta2_power"]) / (1 - set_["beta1_power"])
    step = rate * used / (tf.sqrt(new_second) + set_["epsilon"])
    return tf.group(
        _write(first, rows, new_first, lock),
        _write(second, rows, new_second, lock),
        _subtract(var, rows, step, lock),
    )


def _read(variable: Variable, rows: Tensor | None) -> Tensor:
    return tf.convert_to_tensor(variable) if rows is None else tf.gather(variable, rows)


def _write(variable: Variable, rows: Tensor | None, values: Tensor, locks: bool) -> Any:
    if rows is None:
        return v1.assign(variable, values, use_locking=locks)
    return v1.scatter_update(variable, rows, values, use_locking=locks)


def _subtract(variable: Variable, rows: Tensor | None, values: Tensor, locks: bool) -> Any:
    if rows is None:
        return v1.assign_sub(variable, values, use_locking=locks)
    return v1.scatter_sub(variable, rows, values, use_locking=locks)
