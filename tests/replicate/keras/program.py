"""Trains three models on the processes of TF_CONFIG, and one by one on the chief alone.

Prints a JSON line: what all processes have in the end, and what one process has, by model.
"""

import json
import sys

import keras
import numpy as np

import kfac
import replicate

EPOCHS, BATCH = 2, 8


@keras.saving.register_keras_serializable()
class Largest(keras.metrics.Metric):
    """The largest label: a state that does not add up."""

    def __init__(self, name="largest"):
        super().__init__(name=name)
        self.largest = self.add_weight(shape=(), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(y_true)))

    def result(self):
        return self.largest


def normalized():
    layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(momentum=0.5)]
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.5)
    return [*layers, keras.layers.Activation("tanh"), keras.layers.Dense(1)], optimizer


def embedded():
    layers = [keras.layers.Embedding(16, 3), keras.layers.Flatten(), keras.layers.Dense(1)]
    return layers, keras.optimizers.Adam(0.05)


def curved():
    layers = [keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
    settings = {"estimation_mode": "empirical", "cov_ema_decay": 0.9, "invert_every": 2}
    return layers, kfac.keras.Kfac(learning_rate=0.1, damping=0.1, momentum=0.9, **settings)


def fit(make, rank, size, *, together):
    keras.utils.set_random_seed(0 if together and rank == 0 else 1 + rank)
    layers, optimizer = make()
    model = keras.Sequential([keras.layers.Input((3,)), *layers])
    random = np.random.RandomState(0)
    x = random.randint(0, 16, [16, 3]) if make is embedded else random.randn(16, 3)
    y = x.sum(axis=1, keepdims=True)
    if together:
        optimizer = replicate.keras.DistributedOptimizer(optimizer)
    metrics = ["mae", keras.metrics.RootMeanSquaredError(name="root"), Largest()]
    model.compile(optimizer, loss="mse", metrics=metrics)
    mine = slice(rank, None, size) if together else slice(None)
    saving = keras.callbacks.ModelCheckpoint(f"{make.__name__}_{rank}.keras")
    callbacks = [replicate.keras.Workers(chief=[saving])] if together else []
    if not together:
        keras.utils.set_random_seed(0)
        model.set_weights(keras.Sequential([keras.layers.Input((3,)), *make()[0]]).get_weights())
    history = model.fit(
        x[mine],
        y[mine],
        batch_size=BATCH // size if together else BATCH,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        validation_data=(x[mine], y[mine]),
    ).history
    weights = [each.tolist() for each in model.get_weights()]
    state = [
        np.asarray(each, np.float64).tolist()
        for each in optimizer.variables
        if not each.name.endswith("seconds")
    ]
    evaluated = model.evaluate(x[mine], y[mine], verbose=0, callbacks=callbacks, return_dict=True)
    found = {"history": history, "weights": weights, "state": state}
    return {**found, "evaluated": {f"val_{name}": [each] for name, each in evaluated.items()}}


def main():
    replicate.keras.init(replicate.AllReduce(pack_bytes=64))
    rank, size = replicate.keras.rank(), replicate.keras.size()
    found = {}
    for make in (normalized, embedded, curved):
        found[make.__name__] = [fit(make, rank, size, together=True)]
        if rank == 0:
            found[make.__name__].append(fit(make, 0, 1, together=False))
    print(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
