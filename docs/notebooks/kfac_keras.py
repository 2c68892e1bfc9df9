# %% [markdown]
# # K-FAC in Keras' fit
#
# Trains one Keras model on scikit-learn's images of digits with `fit`: with Adam at the best of
# three learning rates, with K-FAC, and with K-FAC that chooses all numbers by itself.

# %%
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import kfac

# %% [markdown]
# ## Data and model
#
# 1,437 images to train on, 8 × 8 pixels, in batches of 479. Each run begins with the same weights.

# %%
images, digits = load_digits(return_X_y=True)
images = (images / 16).astype("f4")
chosen = np.random.default_rng(0).permutation(len(images))[360:]
images, digits = images[chosen], digits[chosen]


def make_model():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(64, activation="tanh"),
            keras.layers.Dense(64, activation="tanh"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


# %% [markdown]
# ## Runs
#
# Nothing but the optimizer differs. The first epoch, in which Keras builds the training function,
# does not count as time.


# %%
class Clock(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            self.start, self.times = time.perf_counter(), []
        self.times.append(time.perf_counter() - self.start)


def train(optimizer, epochs=30):
    model, clock = make_model(), Clock()
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", jit_compile=False)
    history = model.fit(images, digits, batch_size=479, epochs=epochs, verbose=0, callbacks=[clock])
    return clock.times, history.history["loss"]


adam = [train(keras.optimizers.Adam(rate)) for rate in (0.003, 0.01, 0.03)]
runs = {
    "Adam": min(adam, key=lambda run: run[1][-1]),
    "K-FAC": train(kfac.keras.Kfac(0.3, damping=0.003, norm_constraint=0.03, invert_every=5)),
    "K-FAC, adaptive": train(kfac.keras.Kfac(adaptive=True)),
}

# %% [markdown]
# ## Curves

# %%
figure, (by_epoch, by_time) = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
for name, (times, losses) in runs.items():
    by_epoch.semilogy(losses, label=name)
    by_time.semilogy(times, losses)
by_epoch.set(xlabel="epoch, of 3 steps", ylabel="training loss, nats")
by_time.set(xlabel="seconds")
by_epoch.legend()
figure.tight_layout()
plt.show()

# %%
for name, (times, losses) in runs.items():
    print(f"{name:16} loss {losses[-1]:.5f} after {len(losses)} epochs, {times[-1]:.1f} s")
