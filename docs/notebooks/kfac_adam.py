# %% [markdown]
# # K-FAC against Adam
#
# Trains one network on scikit-learn's images of digits, once with Adam and once with K-FAC, and
# compares them by steps and by seconds. K-FAC chooses learning rate, momentum and damping by
# itself. Adam gets the best of three learning rates.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import kfac

# %% [markdown]
# ## Data and network
#
# 1,437 images to train on, 360 to test on, 8 × 8 pixels. A perceptron with two hidden layers of 64
# units. A layer collection, if there is one, is told the inputs and outputs of each layer: that is
# all that K-FAC needs.

# %%
images, digits = load_digits(return_X_y=True)
images = (images / 16.0).astype("f4")
order = np.random.default_rng(0).permutation(len(images))
test, train = order[:360], order[360:]


def dense(inputs, size, name, layers):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [inputs.shape[-1], size])
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
    outputs = inputs @ weights + bias
    if layers is not None:
        layers.register_fully_connected((weights, bias), inputs, outputs)
    return outputs


def logits_of(pixels, layers=None, reuse=None):
    with tf.variable_scope("network", reuse=reuse):
        hidden = tf.tanh(dense(pixels, 64, "hidden1", layers))
        hidden = tf.tanh(dense(hidden, 64, "hidden2", layers))
        return dense(hidden, 10, "logits", layers)


def mean_loss(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)
    )


# %% [markdown]
# ## Two optimizers
#
# `kfac.adaptive` computes, in each step, the learning rate and the momentum that minimize a
# quadratic model of the loss. It raises the damping where that model promises too much, and lowers
# it where it is too careful.


# %%
def adam(loss, logits, layers, batch, learning_rate):
    return tf.train.AdamOptimizer(learning_rate).minimize(loss)


def natural_gradient(loss, logits, layers, batch):
    layers.register_categorical_predictive_distribution(logits)
    return kfac.adaptive(layers).minimize(loss)


def run(optimizer, steps, seed=1, **settings):
    """Trains, and returns training loss, test accuracy and seconds by step."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        data = tf.data.Dataset.from_tensor_slices((images[train], digits[train].astype("i4")))
        data = data.shuffle(2000, seed=seed).repeat().batch(512, drop_remainder=True)
        batch = tf.data.make_one_shot_iterator(data).get_next()
        layers = kfac.LayerCollection() if optimizer is natural_gradient else None
        logits = logits_of(batch[0], layers)
        loss = mean_loss(logits, batch[1])
        train_op = optimizer(loss, logits, layers, batch, **settings)
        all_logits = logits_of(tf.constant(images), reuse=True)
        train_loss = mean_loss(tf.gather(all_logits, train), digits[train].astype("i4"))
        right = tf.equal(tf.argmax(all_logits, 1), digits)
        accuracy = tf.reduce_mean(tf.cast(tf.gather(right, test), tf.float32))
        session.run(tf.global_variables_initializer())
        session.run([train_loss, accuracy])
        curve, seconds = [], 0.0
        for _ in range(steps):
            begin = time.perf_counter()
            session.run(train_op)
            seconds += time.perf_counter() - begin
            curve.append((*session.run([train_loss, accuracy]), seconds))
        return np.array(curve)


# %%
runs = {f"Adam, {rate}": run(adam, 400, learning_rate=rate) for rate in (0.003, 0.01, 0.03)}
best = min(runs, key=lambda name: runs[name][-1, 0])
runs = {best: runs[best], "K-FAC": run(natural_gradient, 100)}
for name, curve in runs.items():
    reached = np.argmax(curve[:, 0] < 0.01) + 1
    print(f"{name}: loss below 0.01 after {reached} steps, test accuracy {curve[-1, 1]:.3f}")

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for name, curve in runs.items():
    axes[0].semilogy(np.arange(1, len(curve) + 1), curve[:, 0], label=name)
    axes[1].semilogy(curve[:, 2], curve[:, 0], label=name)
axes[0].set(xlabel="step", ylabel="training loss", title="By steps")
axes[1].set(xlabel="seconds, on one core or two", title="By seconds")
axes[0].legend()
plt.show()

# %% [markdown]
# K-FAC reaches a loss in a fraction of Adam's steps. A step costs more, and the first one also
# computes all inverses, so by seconds the two are closer. On such a small network a step is mostly
# the cost of starting operations. The [benchmarks](../../benchmarks/README.md) measure larger
# problems with three seeds each.

# %%
steps = {name: np.argmax(curve[:, 0] < 0.01) + 1 for name, curve in runs.items()}
assert steps["K-FAC"] * 2 < steps[best]

# %% [markdown]
# For a `model_fn` on several devices, see [K-FAC on your model](../howto/kfac.md). What the
# settings mean is in [Tuning K-FAC](../howto/kfac_tuning.md).
