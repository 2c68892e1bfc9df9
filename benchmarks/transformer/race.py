"""Trains the character model with several optimizers, from the same weights on the same batches.

The loss is that of fixed windows of held-out text. Neither its measurement nor the tracing of the
training function counts as time.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

import kfac
from benchmarks.keras_fit.race import Curve
from benchmarks.transformer.soap import Soap
from benchmarks.transformer.text import CHARACTERS, Text

HELD_OUT = 128
"""Held-out windows whose loss is measured."""


@dataclasses.dataclass(frozen=True)
class Size:
    """The sizes of the network, of a batch of windows, and of a run."""

    blocks: int = 2
    width: int = 128
    heads: int = 4
    length: int = 64
    batch: int = 32
    steps: int = 600
    every: int = 50


def _kfac(approx: str) -> Callable[[Any, float], Any]:
    def make(rate: Any, norm_constraint: float) -> Any:
        settings: dict[str, Any] = {"damping": 0.01, "invert_every": 20, "cov_update_every": 5}
        settings["norm_constraint"] = norm_constraint
        return kfac.keras.Kfac(rate, fisher_approx=approx, momentum=0.9, **settings)

    return make


def _muon(rate: Any, weight_decay: float) -> Any:
    # Adam moves embeddings, vectors and the output layer.
    excluded = ["embedding", "logits"]
    return keras.optimizers.Muon(rate, exclude_layers=excluded, weight_decay=weight_decay)


OPTIMIZERS: Mapping[str, tuple[Callable[[Any, float], Any], float, Sequence[float]]] = {
    "K-FAC, expand": (_kfac("kron_expand"), 0.1, (0.01, 0.001)),
    "K-FAC, reduce": (_kfac("kron_reduce"), 0.1, (0.01, 0.001)),
    "AdamW": (
        lambda rate, decay: keras.optimizers.AdamW(rate, weight_decay=decay, beta_2=0.99),
        0.003,
        (0.0, 0.1),
    ),
    "Muon": (_muon, 0.003, (0.0, 0.1)),
    "SOAP": (Soap, 0.003, (0.0, 0.1)),
    "SGD": (keras.optimizers.SGD, 0.3, (0.9, 0.98)),
}
"""Functions of a learning rate and a second number; the rate in the middle of the grid, and the two
second numbers: norm constraint of K-FAC, momentum of SGD, weight decay of the others."""


def grid(name: str, points: int) -> list[tuple[float, float]]:
    """Returns the settings of an optimizer: `points` rates, by √10 apart, times the numbers."""
    _, middle, numbers = OPTIMIZERS[name]
    rates = [middle * 10 ** (k / 2 - (points - 1) / 4) for k in range(points)]
    return list(itertools.product([float(f"{rate:.2g}") for rate in rates], numbers))


def network(size: Size, seed: int) -> Any:
    """Returns a transformer with normalization before attention and perceptron, and logits."""
    keras.utils.set_random_seed(seed)
    k = keras.layers
    ids = k.Input((size.length,), dtype="int32")
    places = keras.ops.arange(size.length)
    x = k.Embedding(CHARACTERS, size.width, name="embedding_of_characters")(ids)
    x = x + k.Embedding(size.length, size.width, name="embedding_of_places")(places)
    for _ in range(size.blocks):
        y = k.LayerNormalization()(x)
        attention = k.MultiHeadAttention(size.heads, size.width // size.heads)
        x = x + attention(y, y, use_causal_mask=True)
        y = k.Dense(4 * size.width, activation="gelu")(k.LayerNormalization()(x))
        x = x + k.Dense(size.width)(y)
    return keras.Model(ids, k.Dense(CHARACTERS, name="logits")(k.LayerNormalization()(x)))


def train(name: str, setting: tuple[float, float], text: Text, size: Size, seed: int) -> Curve:
    """Returns the curve of a run; the rate rises for a twentieth of it, and falls to zero."""
    warm_up = max(1, size.steps // 20)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, size.steps - warm_up, warmup_target=setting[0], warmup_steps=warm_up
    )
    model = network(size, seed)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(OPTIMIZERS[name][0](schedule, setting[1]), loss)
    measured, order = text.held_out_windows(HELD_OUT, size.length), np.random.default_rng(seed)
    start = model.get_weights()
    # Traces the functions before the clock starts. Optimizers keep the state of one step.
    _fit(model, text.windows(size.batch, size.length, order), size)
    model.set_weights(start)
    curve, seconds = Curve([], [], []), 0.0
    for done in range(0, size.steps + 1, size.every):
        curve.steps.append(done)
        curve.seconds.append(seconds)
        curve.losses.append(
            model.evaluate(measured[:, :-1], measured[:, 1:], size.batch, verbose=0)
        )
        batches = text.windows(size.every * size.batch, size.length, order)
        started = time.perf_counter()
        _fit(model, batches, size)
        seconds += time.perf_counter() - started
    return curve


def _fit(model: Any, windows: np.ndarray, size: Size) -> None:
    model.fit(windows[:, :-1], windows[:, 1:], size.batch, shuffle=False, verbose=0)
