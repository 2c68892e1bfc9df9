"""Plain TensorFlow in place of names of tf.contrib, for programs that need no `replicate`.

Each name also has a row with its replacement here, which needs no change of the program's lines
but the name.
"""

import types
from collections.abc import Iterable, Mapping

_CLASSIFIERS = (
    "The same names in replicate, with `tf.feature_column`; `fit` is `train`, `predict_classes` "
    'and `predict_proba` are `predict` with `predict_keys=["class_ids"]` and `["probabilities"]`. '
    "`gradient_clip_norm=c`: `TowerOptimizer(…, clip_norm=c)`."
)
_HEADS = (
    "Those of `tf.contrib.estimator`, in `replicate`: `head.create_model_fn_ops` is "
    "`head.create_estimator_spec`."
)
_GRADIENTS = (
    "With towers `TowerOptimizer(…).minimize`; else an optimizer whose `apply_gradients` does it, "
    "as below."
)


def _all(package: str, names: Iterable[str], text: str) -> dict[str, str]:
    return {f"tf.contrib.{package}.{name}": text for name in names}


PLAIN: Mapping[str, str] = types.MappingProxyType(
    {
        **_all(
            "layers",
            ("fully_connected", "conv2d", "max_pool2d", "flatten", "dropout", "one_hot_encoding"),
            "`tf.layers` with tf-keras, `tf.one_hot`; or the same names of tf_slim.",
        ),
        **_all(
            "layers",
            ("layer_norm",),
            "A few lines of `tf.nn.moments` and `tf.get_variable`; or `tf_slim.layers.layer_norm`.",
        ),
        **_all(
            "layers",
            ("batch_norm",),
            "`tf.layers.batch_normalization` with tf-keras; its updates are found by themselves in "
            "a replicated `model_fn`. That of tf_slim 1.1.0 does not run: it looks for a module "
            "that tf-keras no longer has.",
        ),
        **_all(
            "layers",
            ("embed_sequence",),
            '`tf.nn.embedding_lookup(tf.get_variable("embeddings", [vocab_size, embed_dim]), ids)`',
        ),
        **_all(
            "layers",
            ("optimize_loss",),
            "`TowerOptimizer(lambda: tf.train.AdamOptimizer(rate), clip_norm=c)"
            ".minimize(loss, step)`",
        ),
        **_all("layers", ("xavier_initializer",), "`tf.glorot_uniform_initializer()`"),
        **_all(
            "layers", ("variance_scaling_initializer",), "`tf.variance_scaling_initializer(2.0)`"
        ),
        **_all("layers", ("l2_regularizer",), "`lambda weights: c * tf.nn.l2_loss(weights)`"),
        **_all(
            "layers",
            ("instance_norm", "group_norm", "bow_encoder"),
            "A few lines of `tf.nn.moments`, `tf.reduce_mean`.",
        ),
        **_all(
            "layers",
            ("sparse_column_with_hash_bucket", "real_valued_column"),
            "`tf.feature_column` (`categorical_column_with_hash_bucket`, `numeric_column`, …), "
            "`tf.feature_column.input_layer`.",
        ),
        **_all(
            "framework",
            ("get_variables_to_restore", "assign_from_checkpoint_fn", "arg_scope"),
            "The same names of tf_slim; `saver = tf.train.Saver(variables)`, then "
            "`saver.restore(session, path)`.",
        ),
        **_all(
            "training",
            ("HParams",),
            "A dict as `params`, or `types.SimpleNamespace(**params)` for attributes. "
            '`hparams.parse("a=1")`: absl flags.',
        ),
        **_all(
            "training",
            (
                "create_train_op",
                "multiply_gradients",
                "clip_gradient_norms",
                "clip_gradient_norms_fn",
                "add_gradients_summaries",
            ),
            _GRADIENTS,
        ),
        **_all(
            "training",
            ("train", "evaluate_once"),
            "`replicate.Estimator`, or `tf.train.MonitoredTrainingSession`.",
        ),
        "tf.contrib.learn.Experiment": "`replicate.train_and_evaluate(estimator, TrainSpec, "
        "EvalSpec)`",
        "tf.contrib.learn.learn_runner.run": "`replicate.train_and_evaluate(estimator, TrainSpec, "
        "EvalSpec)`",
        **_all(
            "learn",
            ("Estimator", "ModelFnOps"),
            "`replicate.Estimator`, `replicate.EstimatorSpec`; `ModeKeys.INFER` is "
            "`ModeKeys.PREDICT`.",
        ),
        **_all(
            "learn",
            ("DNNClassifier", "LinearClassifier", "DNNLinearCombinedClassifier"),
            _CLASSIFIERS,
        ),
        **_all(
            "learn",
            (
                "multi_class_head",
                "regression_head",
                "multi_label_head",
                "poisson_regression_head",
                "multi_head",
            ),
            _HEADS,
        ),
        "tf.contrib.learn.RunConfig": "`gpu_memory_fraction=f`: "
        "`RunConfig(session_config=tf.ConfigProto(gpu_options=tf.GPUOptions("
        "per_process_gpu_memory_fraction=f)))`",
        "tf.contrib.learn.preprocessing.VocabularyProcessor": "`tf.lookup` tables, or "
        "`tf.keras.layers.TextVectorization` before the data are written.",
        **_all(
            "rnn",
            ("stack_bidirectional_dynamic_rnn",),
            "A loop of `tf.nn.bidirectional_dynamic_rnn`.",
        ),
        **_all(
            "rnn",
            ("LSTMBlockFusedCell", "LayerNormBasicLSTMCell"),
            "`tf.nn.rnn_cell.LSTMCell`. The fused cell has weights of another layout: its "
            "checkpoints do not fit that.",
        ),
        "tf.contrib.seq2seq.sequence_loss": "`tf.nn.sparse_softmax_cross_entropy_with_logits`, "
        "times the weights, over their sum; with towers see [Several GPUs]"
        "(several_gpus.md#losses-over-tokens-masks-and-weights).",
        **_all(
            "seq2seq",
            ("AttentionWrapper", "BasicDecoder"),
            "Nothing that is kept up: TensorFlow Addons 0.23 does not import on TensorFlow 2.21, "
            "its `seq2seq` imports on 2.15.",
        ),
        **_all(
            "crf",
            ("crf_log_likelihood", "crf_decode", "viterbi_decode"),
            "TensorFlow 2.15: `tensorflow_addons.text` 0.23. TensorFlow 2.21, where Addons does "
            "not import: its file `text/crf.py` beside your program, without its imports of "
            "`tensorflow_addons` and `typeguard`, with tf-keras and `TF_USE_LEGACY_KERAS=1`. Both "
            "after `tf.disable_v2_behavior()`.",
        ),
        "tf.contrib.lookup.index_table_from_tensor": "`index_table_from_tensor(words, "
        "num_oov_buckets=n)`: `tf.lookup.StaticVocabularyTable("
        "tf.lookup.KeyValueTensorInitializer(words, tf.range(len(words), dtype=tf.int64)), n)`",
        "tf.contrib.lookup.index_table_from_file": "The same with "
        "`tf.lookup.TextFileInitializer(path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, "
        "tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)`",
        "tf.contrib.lookup.index_to_string_table_from_file": "`tf.lookup.StaticHashTable` with "
        "keys and values the other way round.",
        **_all(
            "lookup",
            ("HashTable", "MutableHashTable"),
            "`tf.lookup.StaticHashTable`, `tf.lookup.experimental.MutableHashTable`.",
        ),
        **_all(
            "data",
            ("batch_and_drop_remainder", "shuffle_and_repeat", "map_and_batch"),
            "`.batch(n, drop_remainder=True)`, `.shuffle(n).repeat()`, `.map(f).batch(n)` of the "
            "dataset.",
        ),
        **_all(
            "data",
            (
                "parallel_interleave",
                "unbatch",
                "ignore_errors",
                "bucket_by_sequence_length",
                "make_csv_dataset",
            ),
            "`tf.data.experimental.*`, or `.interleave`, `.unbatch`, `.ignore_errors`, "
            "`.bucket_by_sequence_length` of the dataset.",
        ),
        "tf.contrib.data.prefetch_to_device": "`dataset.apply(replicate.prefetch_to_towers)`",
        **_all(
            "data",
            ("Dataset", "Iterator"),
            "`tf.data.Dataset`, `tf.data.make_one_shot_iterator(dataset)`.",
        ),
        "tf.contrib.metrics.streaming_accuracy": "`tf.metrics.accuracy`, and so on: those take "
        "labels before predictions.",
        **_all(
            "opt",
            ("AdamWOptimizer", "LazyAdamOptimizer"),
            "`tf.train.AdamOptimizer` and a decay in the `model_fn`; or an [optimizer of your own]"
            "(../../examples/bring_your_own_optimizer.py).",
        ),
    }
)
"""Name of TensorFlow 1 → what to write, as Markdown."""
