"""A linear and a deep model over feature columns, added up, on scikit-learn's table of wines.

    python -m examples.legacy.linear_and_deep --towers=2 --export_dir=runs/wines

In 2018 the first lines read `import tensorflow as tf` and `from tensorflow import estimator`.
"""

import os

from examples.legacy import program

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # gives tf.layers back; before TensorFlow is imported
if __name__ == "__main__":
    program.parse_flags()  # also before, because that import takes seconds

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_wine

import replicate as estimator

WINES = load_wine()
ORDER = np.random.RandomState(0).permutation(len(WINES.target))
TABLE = WINES.data[ORDER].astype(np.float32)
KINDS = WINES.target[ORDER].astype(np.int32)
NAMES = [name.replace("/", "_") for name in WINES.feature_names]
TRAINING = slice(0, 128)
TEST = slice(128, None)


def columns(rows):
    """The features of some rows: each column of the table, and the colour in words."""
    features = dict(zip(NAMES, TABLE[rows].T, strict=True))
    light = TABLE[rows, NAMES.index("color_intensity")] < 4
    return {**features, "colour": np.where(light, "light", "deep").astype(object)}


def feature_columns():
    """Returns the feature columns of the linear part and of the deep part."""
    numeric = [
        tf.feature_column.numeric_column(
            name,
            normalizer_fn=lambda x, mean=mean, scale=scale: (x - mean) / scale,
        )
        for name, mean, scale in zip(NAMES, TABLE.mean(0), TABLE.std(0), strict=True)
    ]
    colour = tf.feature_column.categorical_column_with_vocabulary_list("colour", ["light", "deep"])
    alcohol = tf.feature_column.bucketized_column(
        tf.feature_column.numeric_column("alcohol"), [12.0, 12.5, 13.0, 13.5]
    )
    crossed = tf.feature_column.crossed_column([alcohol, "colour"], 20)
    linear = [colour, alcohol, crossed]
    deep = [*numeric, tf.feature_column.embedding_column(colour, 2)]
    return linear, deep


def model_fn(features, labels, mode):
    """The logits of both parts are added."""
    linear, deep = feature_columns()
    net = tf.feature_column.input_layer(features, deep)
    for units in (16, 8):
        net = tf.layers.dense(net, units, activation=tf.nn.relu)
    logits = tf.layers.dense(net, 3) + tf.feature_column.linear_model(features, linear, units=3)

    probabilities = tf.nn.softmax(logits)
    predictions = {"kind": tf.argmax(logits, 1), "probabilities": probabilities}
    if mode == estimator.ModeKeys.PREDICT:
        outputs = {
            "predict": estimator.export.PredictOutput(predictions),
            "serving_default": estimator.export.ClassificationOutput(scores=probabilities),
        }
        return estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, predictions["kind"])}
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = estimator.TowerOptimizer(tf.train.AdagradOptimizer(0.2))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_receiver_fn():
    """Requests are serialised tf.train.Examples."""
    linear, deep = feature_columns()
    spec = tf.feature_column.make_parse_example_spec(linear + deep)
    return estimator.export.build_parsing_serving_input_receiver_fn(spec)()


PROGRAM = program.Program(
    model_fn,
    estimator.inputs.numpy_input_fn(
        columns(TRAINING), KINDS[TRAINING], 64, num_epochs=None, shuffle=True
    ),
    estimator.inputs.numpy_input_fn(columns(TEST), KINDS[TEST], shuffle=False),
    serving_input_receiver_fn,
)

if __name__ == "__main__":
    program.run(PROGRAM)
