# %% [markdown]
# # Kill and resume
#
# Starts a training program, ends it with SIGKILL in the middle of a step, and starts it again. The
# weights at the end have the same bits as those of a run that nobody killed: also with a shuffled
# input, momentum and K-FAC's averages.

# %%
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

# %% [markdown]
# ## The program
#
# A file of its own, because SIGKILL ends a whole process. It saves a checkpoint every 20 steps and
# writes a line after each of its steps.

# %%
PROGRAM = """
import sys
import kfac, numpy as np, replicate
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

def model_fn(features, labels, mode):
    weights = tf.get_variable("weights", [64, 10])
    logits = features @ weights
    layers = kfac.graph_layer_collection()
    layers.register_fully_connected(weights, features, logits)
    layers.register_categorical_predictive_distribution(logits, name="logits")
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = replicate.TowerOptimizer(lambda: kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.01, damping=0.1, momentum=0.9, layer_collection=layers))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

def input_fn():
    images, digits = load_digits(return_X_y=True)
    data = tf.data.Dataset.from_tensor_slices(((images / 16).astype("f4"), digits.astype("i4")))
    return data.shuffle(2000).repeat().batch(128, drop_remainder=True)

class Tell(tf.train.SessionRunHook):
    def after_run(self, context, values):
        print(context.session.run(tf.train.get_global_step(context.session.graph)), flush=True)

replicated = replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:0"])
config = replicate.RunConfig(sys.argv[1], save_checkpoints_steps=20, progress="off")
replicate.Estimator(replicated, config=config).train(input_fn, max_steps=100, hooks=[Tell()])
"""

folder = Path(tempfile.mkdtemp())
(folder / "train.py").write_text(PROGRAM)


def start(model_dir):
    """Starts the program; its lines can be read, its warnings go to a file."""
    return subprocess.Popen(
        [sys.executable, str(folder / "train.py"), str(folder / model_dir)],
        stdout=subprocess.PIPE,
        stderr=(folder / f"{model_dir}.log").open("a"),
        text=True,
    )


# %% [markdown]
# ## A run that nobody disturbs
#
# It starts now, and works while the other run is killed and resumed.

# %%
undisturbed = start("undisturbed")

# %% [markdown]
# ## A run that is killed
#
# After step 50, without a warning. The newest checkpoint is that of step 40, so ten steps are
# lost.

# %%
killed = start("killed")
for line in killed.stdout:
    if int(line) >= 50:
        killed.send_signal(signal.SIGKILL)
        break
print("exit code of the killed run:", killed.wait())
print("newest checkpoint:", Path(tf.train.latest_checkpoint(str(folder / "killed"))).name)
assert killed.returncode == -signal.SIGKILL

# %% [markdown]
# The same command again. It continues from the checkpoint, and makes the lost steps anew: its
# first step is 41.

# %%
resumed = start("killed")
steps = [int(line) for line in resumed.stdout]
assert resumed.wait() == 0
print(f"steps {steps[0]} to {steps[-1]}")
assert steps == list(range(41, 101))

# %% [markdown]
# ## The same bits
#
# Every variable of the two last checkpoints, compared byte by byte: weights, momentum, K-FAC's
# averages and inverses, step.

# %%
for _ in undisturbed.stdout:
    pass
assert undisturbed.wait() == 0
one, two = (tf.train.load_checkpoint(str(folder / name)) for name in ("undisturbed", "killed"))
names = sorted(one.get_variable_to_shape_map())
same = [
    np.asarray(one.get_tensor(name)).tobytes() == np.asarray(two.get_tensor(name)).tobytes()
    for name in names
]
print(f"{sum(same)} of {len(names)} variables have the same bits")
for name in names:
    shape = one.get_variable_to_shape_map()[name]
    if shape:
        print(" ", name, shape)
assert all(same)

# %% [markdown]
# [Resume](../howto/resume.md) says how to choose the interval of checkpoints. Other kinds of loss,
# of workers, parameter servers and chiefs, are in [What survives a
# kill](../explanations/reliability.md).
