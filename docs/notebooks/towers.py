# %% [markdown]
# # N towers are one tower
#
# Two towers on half of a batch each take the same training steps as one tower on the whole batch.
# This notebook looks at the numbers: shards, losses, gradients, and weights after many steps. It
# runs on CPUs, in a few seconds.

# %%
import matplotlib.pyplot as plt
import numpy as np
import tensorflow.compat.v1 as tf

import replicate

tf.logging.set_verbosity(tf.logging.ERROR)

# %% [markdown]
# ## A model
#
# A regression with one hidden layer, on 30 rows. The only line for towers is `TowerOptimizer`.


# %%
def model_fn(features, labels, mode):
    hidden = tf.tanh(features @ tf.get_variable("hidden", [3, 8]))
    predictions = tf.linalg.matvec(hidden, tf.get_variable("output", [8]))
    loss = tf.losses.mean_squared_error(labels, predictions)
    optimizer = replicate.TowerOptimizer(lambda: tf.train.AdamOptimizer(0.02))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)


rows = np.random.default_rng(0).normal(size=[30, 3]).astype("f4")
labels = np.sin(rows).sum(1)


def input_fn():
    return tf.data.Dataset.from_tensors((rows, labels)).repeat()


# %% [markdown]
# ## One step
#
# `check_replication` builds one tower and three, gives both the same weights, and takes one step
# on the same batch. It compares the loss, the gradient of each variable, and the variables after
# the step.

# %%
check = replicate.check_replication(model_fn, input_fn, ["/cpu:0"] * 3)

# %% [markdown]
# All differences are rounding errors of single precision.

# %%
print(f"worst relative difference: {check.worst.relative:.1e}, of {check.worst.name}")
assert check.ok()

# %% [markdown]
# ## A hundred steps
#
# Rounding errors could grow. So train with one, two and four towers, and look at the loss of each
# step. The third run has shards of different sizes: 30 rows do not divide by 4, and
# `uneven="weighted"` weights each tower by its rows.


# %%
class Losses(tf.train.SessionRunHook):
    """Keeps the loss of each step."""

    def __init__(self):
        self.values = []

    def before_run(self, context):
        return tf.train.SessionRunArgs(context.session.graph.get_collection("loss_to_keep"))

    def after_run(self, context, values):
        self.values.append(values.results[0])


def keeping_loss(replicated):
    def with_loss(features, labels, mode):
        spec = replicated(features, labels, mode)
        tf.add_to_collection("loss_to_keep", spec.loss)
        return spec

    return with_loss


def train(towers):
    replicated = replicate.replicate_model_fn(
        model_fn, devices=["/cpu:0"] * towers, uneven="weighted"
    )
    config = replicate.RunConfig(tf_random_seed=7, progress="off")
    estimator = replicate.Estimator(keeping_loss(replicated), config=config)
    losses = Losses()
    estimator.train(input_fn, max_steps=100, hooks=[losses])
    return np.array(losses.values), estimator.get_variable_value("hidden")


runs = {towers: train(towers) for towers in (1, 2, 4)}
for towers, (losses, hidden) in runs.items():
    difference = abs(hidden - runs[1][1]).max()
    print(f"{towers} towers: last loss {losses[-1]:.6f}, weights differ by {difference:.1e}")
    assert difference < 1e-4

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for towers, (losses, _) in runs.items():
    left.plot(losses, label=f"{towers} towers" if towers > 1 else "1 tower", alpha=0.7)
    if towers > 1:
        right.semilogy(abs(losses / runs[1][0] - 1) + 1e-9, label=f"{towers} towers")
left.set(xlabel="step", ylabel="loss", title="The curves lie on each other")
right.set(xlabel="step", title="Relative difference from one tower")
left.legend()
right.legend()
plt.show()

# %% [markdown]
# ## A loss that towers get wrong
#
# Batch normalization is different on towers: each one normalizes by its own rows.
# `check_replication` says so, here by a difference far above rounding.


# %%
def normalized_model_fn(features, labels, mode):
    mean, variance = tf.nn.moments(features, axes=[0])
    return model_fn((features - mean) / tf.sqrt(variance + 1e-3), labels, mode)


check = replicate.check_replication(normalized_model_fn, input_fn, ["/cpu:0"] * 3)
assert not check.ok()

# %% [markdown]
# What to do about such losses is in [Several GPUs](../howto/several_gpus.md#is-it-the-same). How
# the gradients are summed is in [How gradients are reduced](../explanations/gradients.md).
