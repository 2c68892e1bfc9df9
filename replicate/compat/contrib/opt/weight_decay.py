"""Optimizers whose weights decay by themselves, apart from the gradient.

Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2017), algorithms 1 and 2.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from replicate._types import Gradient, Operation, Tensor, Variable

v1 = tf.compat.v1


class DecoupledWeightDecayExtension:
    """Adds weight decay to an optimizer that it stands before in a class's list of bases.

    At each step weight_decay times a weight, not multiplied by the learning rate, is taken from it,
    before the optimizer's own update.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        """Keeps the decay: a number, tensor or function. Other arguments are the optimizer's."""
        self._weight_decay = weight_decay
        self._decay_names: set[str] | None = None
        super().__init__(**kwargs)

    def minimize(
        self,
        loss: Tensor,
        global_step: Variable | None = None,
        var_list: Any = None,
        gate_gradients: int = v1.train.Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Tensor | None = None,
        decay_var_list: Iterable[Variable] | None = None,
    ) -> Operation:
        """Minimizes a loss as the optimizer does, with its arguments.

        `decay_var_list` are the variables that decay, None for all that are trained.
        """
        self._decay_names = _names(decay_var_list)
        return super().minimize(  # type: ignore[misc]
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
        decay_var_list: Iterable[Variable] | None = None,
    ) -> Operation:
        """Applies gradients as the optimizer does.

        `decay_var_list` are the variables that decay. None for those given to `minimize`, or all.
        """
        if decay_var_list is not None:
            self._decay_names = _names(decay_var_list)
        return super().apply_gradients(  # type: ignore[misc]
            grads_and_vars, global_step=global_step, name=name
        )

    def _prepare(self) -> None:
        decay = self._weight_decay
        decay = decay() if callable(decay) else decay
        self._decay = tf.convert_to_tensor(decay, name="weight_decay")
        super()._prepare()  # type: ignore[misc]

    def _decayed(self, variable: Variable, indices: Tensor | None = None) -> list[Operation]:
        if self._decay_names is not None and variable.op.name not in self._decay_names:
            return []
        share = tf.cast(self._decay, variable.dtype.base_dtype)
        if indices is None:
            loss = share * tf.convert_to_tensor(variable)
            return [v1.assign_sub(variable, loss, use_locking=self._use_locking)]  # type: ignore[attr-defined]
        unique, _ = tf.unique(indices)
        loss = share * tf.gather(variable, unique)
        return [v1.scatter_sub(variable, unique, loss, use_locking=self._use_locking)]  # type: ignore[attr-defined]

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Tensor, var: Variable) -> Any:
        with tf.control_dependencies(self._decayed(var)):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Variable) -> Any:
        with tf.control_dependencies(self._decayed(var, grad.indices)):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Tensor, handle: Variable, indices: Tensor) -> Any:
        with tf.control_dependencies(self._decayed(handle, indices)):
            return super()._resource_apply_sparse(grad, handle, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type[Any]) -> type[Any]:
    """Makes the class of an optimizer with weight decay.

    Returns:
      A class whose first argument is weight_decay, and whose others are those of the optimizer.
    """

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """An optimizer with weight decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            self._weight_decay = weight_decay
            self._decay_names = None
            base_optimizer.__init__(self, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, v1.train.AdamOptimizer):
    """Adam with weight decay. Its variables are "<name>/AdamW" and "<name>/AdamW_1"."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        """Takes the arguments of `tf.compat.v1.train.AdamOptimizer` besides.

        `weight_decay` is the share of the weights that is taken at each step.
        """
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )


class MomentumWOptimizer(DecoupledWeightDecayExtension, v1.train.MomentumOptimizer):
    """Momentum with weight decay. Its variables are "<name>/MomentumW"."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        """Takes the arguments of `tf.compat.v1.train.MomentumOptimizer` besides.

        `weight_decay` is the share of the weights that is taken at each step.
        """
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


def _names(variables: Iterable[Variable] | None) -> set[str] | None:
    return None if variables is None else {variable.op.name for variable in variables}
