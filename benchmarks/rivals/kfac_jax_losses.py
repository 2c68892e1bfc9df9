"""Race of kfac-jax 0.0.8 and Adam to a training loss. Prints the curves as JSON.

Steps of both are compiled. Runs in an environment of `benchmarks.rivals.environments`. The command
line is that of `tensorflow_kfac_losses.py`.

    python -E -s kfac_jax_losses.py digits.npz '{"problem": "convnet", ...}'
"""

import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import kfac_jax
import kfac_jax_models
import optax
import starts
import turns

ACTIVATIONS = {"tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}
_ADAPTIVE: dict[str, Any] = {
    "use_adaptive_learning_rate": True,
    "use_adaptive_momentum": True,
    "use_adaptive_damping": True,
    "damping_adaptation_interval": 5,
    "inverse_update_period": 5,
    "num_burnin_steps": 0,
}


class Program:
    """A problem and an optimizer, compiled."""

    def __init__(
        self, digits: starts.Digits, race: Mapping[str, Any], optimizer: str, setting: float
    ) -> None:
        """Compiles the step, runs some warm-up steps, and starts again."""
        loss = _loss(race)
        self._data = jnp.asarray(digits.images), jnp.asarray(digits.labels)
        self._evaluated = tuple(part[: race["evaluated"]] for part in self._data)
        self._draw = functools.partial(_draw, race["batch_size"])
        self._whole_loss = jax.jit(loss)
        options = race["options"]["kfac"]
        self._optimizer = (
            Adam(loss, setting) if optimizer == "adam" else Kfac(loss, setting, options)
        )
        for steps in (race["warm_up"], 0):
            self._key = jax.random.PRNGKey(race["seed"])
            batch = self._draw(self._key, self._data)
            self._optimizer.start(kfac_jax_models.parameters(digits.start), self._key, batch)
            self.run(steps)
            self.loss()

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds."""
        start = time.perf_counter()
        for _ in range(steps):
            self._key, batch_key, step_key = jax.random.split(self._key, 3)
            self._optimizer.step(step_key, self._draw(batch_key, self._data))
        jax.block_until_ready(self._optimizer.layers)
        return time.perf_counter() - start

    def loss(self) -> float:
        """Returns the mean loss over the training data that the race evaluates."""
        return float(self._whole_loss(self._optimizer.layers, self._evaluated))


class Adam:
    """Adam with a compiled step."""

    def __init__(self, loss: Any, rate: float) -> None:
        self._optimizer = optax.adam(rate)

        @jax.jit
        def step(layers: Any, state: Any, batch: Any) -> Any:
            updates, state = self._optimizer.update(jax.grad(loss)(layers, batch), state)
            return optax.apply_updates(layers, updates), state

        self._step = step

    def start(self, layers: Any, key: Any, batch: Any) -> None:
        """Sets the initial weights and resets the optimizer."""
        del key, batch
        self.layers, self._state = layers, self._optimizer.init(layers)

    def step(self, key: Any, batch: Any) -> None:
        """Runs a step."""
        del key
        self.layers, self._state = self._step(self.layers, self._state, batch)


class Kfac:
    """K-FAC with adaptive learning rate, momentum and damping."""

    def __init__(self, loss: Any, damping: float, options: Mapping[str, float]) -> None:
        self._optimizer = kfac_jax.Optimizer(
            jax.value_and_grad(loss), l2_reg=0.0, initial_damping=damping, **_ADAPTIVE, **options
        )

    def start(self, layers: Any, key: Any, batch: Any) -> None:
        """Sets the initial weights and resets the optimizer."""
        self.layers, self._state = layers, self._optimizer.init(layers, key, batch)

    def step(self, key: Any, batch: Any) -> None:
        """Runs a step."""
        self.layers, self._state, _ = self._optimizer.step(
            self.layers, self._state, key, batch=batch
        )


def _loss(race: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """Returns the loss of the race's model; it takes layers and a batch."""
    if race["problem"] == "convnet":
        return kfac_jax_models.convnet_loss
    activation = ACTIVATIONS[race["activation"]]
    return functools.partial(kfac_jax_models.autoencoder_loss, activation, lambda values: values)


@functools.partial(jax.jit, static_argnums=0)
def _draw(batch_size: int, key: Any, data: tuple[Any, Any]) -> tuple[Any, Any]:
    """Samples a batch with replacement."""
    images, labels = data
    rows = jax.random.randint(key, [batch_size], 0, len(images))
    return images[rows], labels[rows]


if __name__ == "__main__":
    turns.print_race(Program, sys.argv[1:])
