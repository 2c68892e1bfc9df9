"""A linear and a deep model over feature columns, added up, on scikit-learn's table of wines.

    python -m examples.legacy.linear_and_deep --towers=2 --export_dir=runs/wines

In 2018 the first lines read `import tensorflow as tf` and `from tensorflow import estimator`.
"""

from examples.legacy import program

if __name__ == "__main__":
    program.parse_flags()  # before TensorFlow is imported, because that takes seconds

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


NUMERIC = [
    tf.feature_column.numeric_column(
        name, normalizer_fn=lambda x, mean=mean, scale=scale: (x - mean) / scale
    )
    for name, mean, scale in zip(NAMES, TABLE.mean(0), TABLE.std(0), strict=True)
]
COLOUR = tf.feature_column.categorical_column_with_vocabulary_list("colour", ["light", "deep"])
ALCOHOL = tf.feature_column.bucketized_column(
    tf.feature_column.numeric_column("alcohol"), [12.0, 12.5, 13.0, 13.5]
)
LINEAR = [COLOUR, ALCOHOL, tf.feature_column.crossed_column([ALCOHOL, "colour"], 20)]
DEEP = [*NUMERIC, tf.feature_column.embedding_column(COLOUR, 2)]

CLASSIFIER = estimator.DNNLinearCombinedClassifier(
    linear_feature_columns=LINEAR,
    linear_optimizer=tf.train.FtrlOptimizer(0.2),
    dnn_feature_columns=DEEP,
    dnn_optimizer=tf.train.AdagradOptimizer(0.2),
    dnn_hidden_units=[16, 8],
    n_classes=3,
)

PROGRAM = program.Program(
    CLASSIFIER.model_fn,
    estimator.inputs.numpy_input_fn(
        columns(TRAINING), KINDS[TRAINING], 64, num_epochs=None, shuffle=True
    ),
    estimator.inputs.numpy_input_fn(columns(TEST), KINDS[TEST], shuffle=False),
    estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec(LINEAR + DEEP)
    ),
)

if __name__ == "__main__":
    program.run(PROGRAM)
