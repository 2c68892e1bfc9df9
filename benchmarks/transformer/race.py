"""Trains the character model with several optimizers, from the same weights on the same batches.

The loss is that of fixed windows of held-out text. Neither its measurement nor the tracing of the
training function counts as time.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

import kfac
from benchmarks.curves import Curve, record
from benchmarks.transformer.soap import Soap
from benchmarks.transformer.text import CHARACTERS, Text

HELD_OUT = 128
"""Held-out windows whose loss is measured."""
EPSILON = 1e-5
"""Added to variances where the network normalizes."""
HOPELESS = 0.5
"""Nats behind the best setting, after a third of a run, at which a run ends."""


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of the network, of a batch of windows, and of a run."""

    blocks: int = 2
    width: int = 128
    heads: int = 4
    length: int = 64
    batch: int = 32
    steps: int = 300
    every: int = 20


KFAC: Mapping[str, Any] = {
    "damping": 0.0003,
    "invert_every": 50,
    "cov_update_every": 10,
    "early_refresh": True,
}
"""Settings of K-FAC; the damping is that of the first settings that are tried."""


def _kfac(approx: str) -> Callable[[Any, float], Any]:
    def make(length: Any, damping: float) -> Any:
        # Each step has the length that the schedule says, in the norm of the Fisher matrix: with
        # a learning rate of 1 it would be longer.
        settings = {**KFAC, "damping": damping, "norm_constraint": lambda n: length(n) ** 2}
        return kfac.keras.Kfac(1.0, fisher_approx=approx, momentum=0.9, **settings)

    return make


def _muon(rate: Any, momentum: float) -> Any:
    # Adam moves embeddings, vectors and the output layer.
    excluded = ["embedding", "logits"]
    return keras.optimizers.Muon(rate, exclude_layers=excluded, momentum=momentum)


OPTIMIZERS: Mapping[str, tuple[Callable[[Any, float], Any], float, Sequence[float]]] = {
    "K-FAC, expand": (_kfac("kron_expand"), 0.03, (0.0003, 0.0001)),
    "K-FAC, reduce": (_kfac("kron_reduce"), 0.03, (0.0003, 0.0001)),
    "AdamW": (
        lambda rate, beta_2: keras.optimizers.AdamW(rate, beta_2=beta_2),
        0.003,
        (0.99, 0.95),
    ),
    "Muon": (_muon, 0.003, (0.95, 0.9)),
    "SOAP": (lambda rate, every: Soap(rate, int(every)), 0.003, (10, 30)),
    "SGD": (keras.optimizers.SGD, 0.03, (0.9, 0.98)),
}
"""Functions of a learning rate and a second number; the rate in the middle of the grid, and the
second numbers: damping of K-FAC, whose rate is the length of its steps, β₂ of AdamW, momentum of
Muon and SGD, and steps between two bases of SOAP."""


def grid(name: str, points: int) -> tuple[list[float], Sequence[float]]:
    """Returns an optimizer's learning rates, by √10 apart, middle first, and second numbers."""
    _, middle, numbers = OPTIMIZERS[name]
    powers = sorted((k / 2 - (points - 1) / 4 for k in range(points)), key=lambda k: (abs(k), -k))
    return [float(f"{middle * 10**power:.2g}") for power in powers], numbers


class Places(keras.layers.Layer):
    """Adds a trained vector for each position to [batch, length, width]."""

    def build(self, shape: Any) -> None:
        """Makes the table [length, width]."""
        self.table = self.add_weight(shape=shape[1:], initializer="uniform", name="embeddings")

    def call(self, x: Any) -> Any:
        """Returns the sums."""
        return x + keras.ops.convert_to_tensor(self.table)


def network(size: Size, seed: int) -> Any:
    """Returns a transformer with normalization before attention and perceptron, and logits."""
    keras.utils.set_random_seed(seed)
    k = keras.layers
    ids = k.Input((size.length,), dtype="int32")
    x = k.Embedding(CHARACTERS, size.width, name="embedding_of_characters")(ids)
    x = Places(name="embedding_of_places")(x)

    def normalized(x: Any, name: str) -> Any:
        return k.LayerNormalization(epsilon=EPSILON, name=name)(x)

    for block in range(size.blocks):
        y = normalized(x, f"norm_before_attention_{block}")
        attention = k.MultiHeadAttention(
            size.heads, size.width // size.heads, name=f"attention_{block}"
        )
        x = x + attention(y, y, use_causal_mask=True)
        y = normalized(x, f"norm_before_perceptron_{block}")
        y = k.Dense(4 * size.width, activation="gelu", name=f"hidden_{block}")(y)
        x = x + k.Dense(size.width, name=f"outputs_{block}")(y)
    return keras.Model(ids, k.Dense(CHARACTERS, name="logits")(normalized(x, "last_norm")))


def train(
    name: str,
    setting: tuple[float, float],
    text: Text,
    size: Size,
    seed: int,
    best: Curve | None = None,
) -> Curve:
    """Returns the curve of a run; the rate rises for a twentieth of it, and falls to zero.

    It ends early where the loss is no number, or `HOPELESS` behind the best run after a third.
    """
    model = _compiled(name, setting, size, seed)
    measured, order = text.held_out_windows(HELD_OUT, size.length), np.random.default_rng(seed)
    start = model.get_weights()
    # Traces the functions before the clock starts. Optimizers keep the state of one step.
    _fit(model, text.windows(size.batch, size.length, order), size)
    model.set_weights(start)

    def measure() -> float:
        return float(model.evaluate(measured[:, :-1], measured[:, 1:], size.batch, verbose=0))

    def advance() -> float:
        return _fit(model, text.windows(size.every * size.batch, size.length, order), size)

    return record(
        measure, advance, size.steps, size.every, lambda curve: is_hopeless(curve, size, best)
    )


def start(name: str, text: Text, size: Size) -> float:
    """Returns seconds from nothing to the end of the first step, of the first setting."""
    _, middle, numbers = OPTIMIZERS[name]
    started = time.perf_counter()
    Program(name, (middle, numbers[0]), text, size).run(1)
    return time.perf_counter() - started


class Program:
    """A model whose steps are timed in `fit`, as a `harness.Program`."""

    def __init__(self, name: str, setting: tuple[float, float], text: Text, size: Size) -> None:
        """Makes the model."""
        self._model = _compiled(name, setting, size, seed=0)
        self._text = text
        self._size = size

    def run(self, steps: int) -> float:
        """Makes some steps and returns the mean seconds per step."""
        order = np.random.default_rng(steps)
        batches = self._text.windows(steps * self._size.batch, self._size.length, order)
        return _fit(self._model, batches, self._size) / steps


def _compiled(name: str, setting: tuple[float, float], size: Size, seed: int) -> Any:
    warm_up = max(1, size.steps // 20)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, size.steps - warm_up, warmup_target=setting[0], warmup_steps=warm_up
    )
    model = network(size, seed)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(OPTIMIZERS[name][0](schedule, setting[1]), loss)
    return model


def is_hopeless(curve: Curve, size: Size, best: Curve | None) -> bool:
    """Returns True if a run is to end: see `train`."""
    if not math.isfinite(curve.losses[-1]):
        return True
    if best is None or 3 * curve.steps[-1] < size.steps:
        return False
    return curve.losses[-1] > best.losses[len(curve.losses) - 1] + HOPELESS


def _fit(model: Any, windows: np.ndarray, size: Size) -> float:
    """Trains on windows and returns the seconds."""
    started = time.perf_counter()
    model.fit(windows[:, :-1], windows[:, 1:], size.batch, shuffle=False, verbose=0)
    return time.perf_counter() - started
