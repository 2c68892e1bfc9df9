"""Step times of kfac-jax 0.0.8 and of momentum SGD on one model. Prints the seconds as JSON.

Steps of both are compiled. Runs in an environment of `benchmarks.rivals.environments`.

    python -E -s kfac_jax_steps.py convnet 256 7 10
"""

import functools
import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import kfac_jax
import kfac_jax_models
import numpy as np
import optax
import starts
import turns

LOSSES = {
    "convnet": kfac_jax_models.convnet_loss,
    "autoencoder": functools.partial(
        kfac_jax_models.autoencoder_loss, jax.nn.sigmoid, jax.nn.sigmoid
    ),
}


class Momentum:
    """Model trained with momentum SGD."""

    def __init__(self, model: str, batch: Any) -> None:
        """Initializes the model. The first step compiles."""
        optimizer = optax.sgd(1e-3, 0.9)
        layers = _parameters(model)
        self._state = layers, optimizer.init(layers)
        self._batch = batch

        @jax.jit
        def step(layers: Any, velocities: Any, batch: Any) -> Any:
            gradients = jax.grad(LOSSES[model])(layers, batch)
            updates, velocities = optimizer.update(gradients, velocities)
            return optax.apply_updates(layers, updates), velocities

        self._step = step

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds."""
        start = time.perf_counter()
        for _ in range(steps):
            self._state = self._step(*self._state, self._batch)
        jax.block_until_ready(self._state)
        return time.perf_counter() - start


class Kfac:
    """Model trained with K-FAC, which updates its averages in each step."""

    def __init__(self, model: str, batch: Any) -> None:
        self._optimizer = kfac_jax.Optimizer(
            jax.value_and_grad(LOSSES[model]),
            l2_reg=0.0,
            learning_rate_schedule=lambda _: 1e-4,
            momentum_schedule=lambda _: 0.9,
            damping_schedule=lambda _: 0.1,
            curvature_update_period=1,
            inverse_update_period=starts.INVERT_EVERY,
            num_burnin_steps=0,
        )
        self._key = jax.random.PRNGKey(1)
        self._batch = batch
        self._layers = _parameters(model)
        self._state = self._optimizer.init(self._layers, self._key, batch)

    def run(self, steps: int) -> float:
        """Runs some steps and returns their total seconds."""
        start = time.perf_counter()
        for _ in range(steps):
            self._key, key = jax.random.split(self._key)
            self._layers, self._state, _ = self._optimizer.step(
                self._layers, self._state, key, batch=self._batch
            )
        jax.block_until_ready((self._layers, self._state))
        return time.perf_counter() - start


def _parameters(model: str) -> list[tuple[Any, Any]]:
    random = np.random.default_rng(0)
    shapes = starts.SHAPES[model]
    weights = [random.normal(0.0, np.prod(shape[:-1]) ** -0.5, shape) for shape in shapes]
    return [(jnp.asarray(w, jnp.float32), jnp.zeros(w.shape[-1])) for w in weights]


def main(model: str, batch_size: int, repeats: int, block: int) -> None:
    """Times both in alternating blocks and prints {"momentum": [...], "kfac": [...]}."""
    images = np.random.default_rng(0).random((batch_size, 28, 28, 1), dtype=np.float32)
    batch = jnp.asarray(images), jnp.arange(batch_size) % 10
    programs: dict[str, turns.Program] = {
        "momentum": Momentum(model, batch),
        "kfac": Kfac(model, batch),
    }
    print(json.dumps(turns.time_steps(programs, repeats, block, 2 * starts.INVERT_EVERY)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
