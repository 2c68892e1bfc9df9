"""Training with K-FAC in the graph of a function, whatever Keras the program uses.

Owns K-FAC's variables, the numbers that may change from step to step, and the loss of the step that
is being traced. The optimizers of `kfac.keras` hand everything else in.
"""

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Graph, Scalar, Tensor, Variable
from kfac.keras.given_optimizer import ApplyGiven, step_of
from kfac.keras.step import Batch, Hyperparameters, StepSettings, build_step, check_settings
from kfac.keras.trained_variables import TrainedVariables, components, path_of
from kfac.keras.user_lines import warn
from kfac.keras.variable_store import VariableStore
from kfac.variables import CapturedVariable, name_of

v1 = tf.compat.v1

CHANGEABLE = ("damping", "momentum", "weight_decay", "norm_constraint")
"""Numbers that may change from step to step, beside the learning rate."""


@typing.final
class Training:
    """K-FAC's state and settings. The Keras model is None while it is not known."""

    def __init__(
        self,
        settings: StepSettings,
        store: VariableStore,
        model: Any,
        learning_rate: Scalar | None,
        numbers: Mapping[str, Scalar | None],
        apply_given: ApplyGiven | None = None,
    ) -> None:
        """Checks all arguments; the learning rate is not kept.

        `numbers` are the values of `CHANGEABLE` numbers: each a number, a schedule or None.
        `apply_given` makes the step of another optimizer, if such is given.

        Raises:
          ValueError: A number is out of its range, or two arguments exclude each other.
          TypeError: An argument is unknown.
        """
        known: dict[str, Any] = {n: None if callable(x) else x for n, x in numbers.items()}
        rate = None if callable(learning_rate) else learning_rate
        damping = 1.0 if known["damping"] is None else known["damping"]
        rate = 1.0 if rate is None and not settings.adaptive else rate
        check_settings(settings, Hyperparameters(rate, **{**known, "damping": damping}))
        self.settings = settings
        self.store = store
        self.model = model
        self.trained = TrainedVariables()
        self._numbers: dict[str, Any] = dict(numbers)
        self._losses: dict[int, Tensor] = {}
        self._apply_given = apply_given

    # Numbers that change.

    def make_numbers(self, make: Callable[[str, float], Variable]) -> None:
        """Puts the numbers into float variables, each made from its name and first value."""
        for name, value in self._numbers.items():
            # A momentum of zero keeps no velocities, so it cannot grow later.
            is_off = value is None or (name == "momentum" and value == 0)
            if not is_off and not callable(value):
                self._numbers[name] = make(name, value)

    def number(self, name: str) -> Any:
        """Returns the variable of a number, its schedule, or None."""
        return self._numbers[name]

    def set_number(self, name: str, value: Any) -> None:
        """Changes a number.

        Raises:
          ValueError: It is not kept, or is None, or follows a schedule.
        """
        variable = self._numbers[name]
        if not hasattr(variable, "assign") or value is None:
            raise ValueError(
                f"Cannot set K-FAC's {name} to {value!r}: it was made with {name}={variable!r}. "
                "Only a number that the optimizer was made with can be changed, to a number."
            )
        variable.assign(value)

    def _current(self, name: str, iterations: Tensor) -> Scalar | None:
        """Returns a number's value for this step: its variable, or what its schedule says."""
        value = self._numbers[name]
        if hasattr(value, "assign"):
            return components(tf.distribute.get_strategy(), value)[0]
        if not callable(value):
            return value
        return tf.convert_to_tensor(value(iterations), tf.float32)

    # The loss.

    def remember(self, loss: Tensor) -> None:
        """Keeps the loss of the step that is being traced, one per replica."""
        if not tf.executing_eagerly():
            self._losses[_replica()] = loss

    def remembered(self) -> Tensor | None:
        """Returns the loss of this replica that was kept last, or None."""
        return self._losses.get(_replica())

    def _recalled(self, graph: Graph) -> Tensor:
        """Returns the loss of this replica and step."""
        loss = self._losses.pop(_replica(), None)
        if loss is None or loss.graph is not graph:
            raise ValueError(
                "K-FAC needs the loss of the step, to find the model's predictions by it. Call "
                "minimize(loss_fn, variables), or pass loss=... beside the gradients. In a "
                "train_step of your own, the loss may go through optimizer.scale_loss, as in "
                "Keras' own."
            )
        return loss

    # The step.

    @tf.autograph.experimental.do_not_convert
    def step(
        self,
        gradients: Sequence[Tensor | None],
        variables: Sequence[Variable],
        learning_rate: Callable[[], Scalar],
        iterations: Variable,
        loss: Tensor | None = None,
    ) -> None:
        """Builds a step in the graph that is being traced, then applies constraints of variables.

        Gradients are of this replica. Variables whose gradient is None are left as they are. The
        variables are `tf.Variable`s, each with the attribute `path` or `name`. `learning_rate`
        returns α for this step. The counter `iterations` is incremented by one. The loss is that of
        this replica; None means what was kept by `remember`.

        Raises:
          RuntimeError: TensorFlow executes eagerly, or the caller is in cross-replica context.
          ValueError: The loss is not known, the optimizer was built for other variables, or as in
            `build_step`.
        """
        graph = current_graph()
        self.trained.check(variables)
        loss = self._recalled(graph) if loss is None else loss
        pairs = _with_gradients(gradients, variables)
        context = tf.distribute.get_replica_context()

        trained = [v for _, v in pairs]

        def build(strategy: Any, gradients: Any, loss: Any) -> None:
            totals = [_total(strategy.experimental_local_results(g)) for g in gradients]
            batch = Batch(
                totals,
                captured_variables(strategy, trained, v1.get_default_graph()),
                strategy.experimental_local_results(loss),
                self.model,
                self._apply_given and step_of(self._apply_given, strategy, trained),
            )
            self._build(batch, learning_rate, iterations)

        context.merge_call(build, args=([g for g, _ in pairs], loss))
        self.trained.begin(trained)
        for variable in variables:
            if getattr(variable, "constraint", None) is not None:
                variable.assign(variable.constraint(variable))

    def _build(
        self, batch: Batch, learning_rate: Callable[[], Scalar], iterations: Variable
    ) -> None:
        now = tf.convert_to_tensor(iterations)
        numbers = {name: self._current(name, now) for name in CHANGEABLE}
        has_rate = not (self.settings.adaptive or self.settings.given)
        rate = tf.convert_to_tensor(learning_rate()) if has_rate else None
        graph = v1.get_default_graph()
        self.store.name_parameters([name_of(variable) for variable in batch.variables])
        with self.store.scope(graph):
            hyperparameters = Hyperparameters(rate, **numbers, decays=self.trained.decays)
            is_made = build_step(self.settings, hyperparameters, batch)
        iterations.assign_add(tf.cast(is_made, iterations.dtype))


def current_graph() -> Graph:
    """Returns the graph of the function that is being traced.

    Raises:
      RuntimeError: TensorFlow executes eagerly, or the caller is in cross-replica context.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "K-FAC's step was called where TensorFlow executes eagerly, and it reads its "
            "statistics from a graph. In a loop of your own put the step into a tf.function; with "
            "compile, leave run_eagerly=False."
        )
    if tf.distribute.get_replica_context() is None:
        raise RuntimeError(
            "K-FAC's step was called in cross-replica context. Call it in the function that you "
            "pass to strategy.run."
        )
    return v1.get_default_graph()


def _replica() -> int:
    context = tf.distribute.get_replica_context()
    number = None if context is None else tf.get_static_value(context.replica_id_in_sync_group)
    return 0 if number is None else int(number)


def _with_gradients(
    gradients: Sequence[Tensor | None], variables: Sequence[Variable]
) -> list[tuple[Tensor, Variable]]:
    pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
    left = [v.name for g, v in zip(gradients, variables, strict=True) if g is None]
    if not pairs:
        raise ValueError(f"K-FAC has no gradient for any variable: {', '.join(left)}.")
    if left:
        warn(f"K-FAC leaves {', '.join(left)} as they are: the loss has no gradient for them.")
    return pairs


def _total(gradients: Sequence[Any]) -> Any:
    """Returns the sum of the replicas' gradients."""
    if len(gradients) == 1:
        return gradients[0]
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients])


def captured_variables(
    strategy: Any, variables: Sequence[Variable], graph: Graph
) -> list[CapturedVariable]:
    """Returns variables as a graph sees them, under names that are unique."""
    captured: list[CapturedVariable] = []
    taken: set[str] = set()
    for variable in variables:
        path = path_of(variable)
        numbered = (f"{path}_{number}" for number in range(1, len(taken) + 1))
        name = path if path not in taken else next(n for n in numbered if n not in taken)
        taken.add(name)
        captured.append(CapturedVariable(components(strategy, variable), graph, name))
    return captured


def changeable(name: str, doc: str) -> property:
    """Returns the property of a number that may change from step to step, one of `CHANGEABLE`."""

    def get(optimizer: Any) -> Any:
        return optimizer.training.number(name)

    def change(optimizer: Any, value: Any) -> None:
        if value is None and "training" not in vars(optimizer):
            return  # The base class has such an attribute, and sets it.
        optimizer.training.set_number(name, value)

    return property(get, change, doc=doc)
