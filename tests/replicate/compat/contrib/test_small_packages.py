"""tf.contrib.data, nn, deprecated, util, signal, estimator and tpu, through the names of old."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat import contrib
from replicate.compat.absent import is_absent
from replicate.compat.old_modules import old_module

v1 = tf.compat.v1
CONTRIB = old_module("tf.contrib", "replicate.v1")
DRAWS = np.random.default_rng(0)
LOGITS = DRAWS.normal(size=[3, 4]).astype("f4")


def rows(dataset):
    """All elements of a dataset."""
    iterator = v1.data.make_one_shot_iterator(dataset).get_next()
    with v1.Session() as session:
        found = []
        while True:
            try:
                found.append(session.run(iterator).tolist())
            except tf.errors.OutOfRangeError:
                return found


def test_a_package_is_imported_when_it_is_asked_for(run_python):
    code = "from replicate.compat import contrib; print(contrib.distribute.DistributeConfig())"
    assert run_python(code).out.startswith("DistributeConfig(train_distribute=None")
    for name in ("nothing", "_private"):
        with pytest.raises(AttributeError, match=f"contrib' has no attribute '{name}'"):
            getattr(contrib, name)


def test_batches_of_one_size():
    with tf.Graph().as_default():
        numbers = v1.data.Dataset.range(5)
        assert rows(numbers.apply(CONTRIB.data.batch_and_drop_remainder(2))) == [[0, 1], [2, 3]]
        lists = numbers.map(lambda n: tf.fill([n], n)).apply(
            CONTRIB.data.padded_batch_and_drop_remainder(2, [None], tf.constant(9, tf.int64))
        )
        assert rows(lists) == [[[9], [1]], [[2, 2, 9], [3, 3, 3]]]
        pairs = numbers.apply(CONTRIB.data.map_and_batch(lambda n: n + 1, 2, drop_remainder=True))
        assert rows(pairs) == [[1, 2], [3, 4]]
        assert rows(CONTRIB.data.Dataset.range(2)) == [0, 1]


def test_flipped_cross_entropies(graph, evaluate):
    labels = DRAWS.dirichlet(np.ones(4), size=3).astype("f4")
    log_shares = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    nn = CONTRIB.nn
    flipped = [
        nn.deprecated_flipped_softmax_cross_entropy_with_logits(LOGITS, labels),
        nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(LOGITS, [0, 3, 1]),
        nn.deprecated_flipped_sigmoid_cross_entropy_with_logits(LOGITS, labels),
    ]
    expected = [
        -(labels * log_shares).sum(1),
        -log_shares[range(3), [0, 3, 1]],
        np.log1p(np.exp(LOGITS)) - labels * LOGITS,
    ]
    for found, wanted in zip(evaluate(flipped), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_summaries_have_whole_tags():
    old = CONTRIB.deprecated
    with tf.Graph().as_default(), v1.Session() as session:
        assert old.merge_all_summaries() is None
        with v1.name_scope("scope"):
            old.scalar_summary("loss", 1.5)
            old.scalar_summary(["a", "b"], [1.0, 2.0])
            old.histogram_summary("weights", [1.0, 2.0, 3.0])
            old.image_summary("image", tf.zeros([2, 4, 4, 1]), max_images=1)
            old.audio_summary("sound", tf.zeros([1, 8]), 8.0)
        old.scalar_summary("elsewhere", 0.0, collections=["other"])
        found = v1.Summary.FromString(session.run(old.merge_all_summaries()))
        values = {value.tag: value for value in found.value}
        assert sorted(values) == ["a", "b", "image/image", "loss", "sound/audio/0", "weights"]
        assert values["loss"].simple_value == 1.5
        assert values["b"].simple_value == 2
        assert values["weights"].histo.sum == 6
        merged = v1.Summary.FromString(session.run(old.merge_all_summaries("other")))
        assert [value.tag for value in merged.value] == ["elsewhere"]


def test_gradients_are_clipped_together():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=[0.0])
        y = v1.get_variable("y", initializer=[0.0])
        momentum = v1.train.MomentumOptimizer(1.0, 0.9)
        optimizer = CONTRIB.estimator.clip_gradients_by_norm(momentum, 1.0)
        step = optimizer.minimize(tf.reduce_sum(3 * x + 4 * y))
        session.run(v1.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run([x, y]), [[-0.6], [-0.8]], rtol=1e-6)
        assert optimizer.get_slot(x, "momentum") is momentum.get_slot(x, "momentum")


def test_constants_and_windows(graph, evaluate):
    assert CONTRIB.util.constant_value(tf.constant([1, 2])).tolist() == [1, 2]
    window = evaluate(CONTRIB.signal.hann_window(4))
    np.testing.assert_allclose(window, [0, 0.5, 1, 0.5], atol=1e-6)
    signal = DRAWS.normal(size=16).astype("f4")
    found = evaluate(CONTRIB.signal.stft(signal, 8, 4, window_fn=None))
    np.testing.assert_allclose(found[1], np.fft.rfft(signal[4:12]), atol=1e-5)
    assert not CONTRIB.eager.in_eager_mode()


def test_digits_are_read_by_name(tmp_path):
    read = CONTRIB.learn.datasets.DATASETS["mnist"]
    with pytest.raises(FileNotFoundError, match=r"no train-.*gz in .*downloaded"):
        read(str(tmp_path))


# Private modules, each with a public name of its package.
PRIVATE = {
    "rnn.python.ops.core_rnn_cell": "LSTMBlockCell",
    "seq2seq.python.ops.beam_search_decoder": "BeamSearchDecoder",
    "crf.python.ops.crf": "crf_decode",
    "lookup.lookup_ops": "HashTable",
    "legacy_seq2seq.python.ops.seq2seq": "rnn_decoder",
    "learn.python.learn.learn_runner": "run",
    "learn.python.learn.estimators.run_config": "RunConfig",
    "learn.python.learn.estimators.model_fn": "ModeKeys",
    "learn.python.learn.utils.saved_model_export_utils": "make_export_strategy",
    "learn.python.learn.datasets.base": "load_csv_with_header",
    "learn.python.learn.experiment": "Experiment",
    "tpu.python.tpu.tpu_config": "TPUConfig",
    "tpu.python.tpu.tpu_estimator": "TPUEstimator",
    "tpu.python.tpu.tpu_optimizer": "CrossShardOptimizer",
    "tpu.python.tpu.bfloat16": "bfloat16_scope",
    "opt.python.training.lazy_adam_optimizer": "LazyAdamOptimizer",
    "data.python.ops.batching": "map_and_batch",
    "estimator.python.estimator.extenders": "add_metrics",
    "cluster_resolver.python.training.tpu_cluster_resolver": "TPUClusterResolver",
}


def test_private_modules_have_the_public_names():
    for path, name in PRIVATE.items():
        value = CONTRIB
        for part in (*path.split("."), name):
            value = getattr(value, part)
        assert not is_absent(value), path
        public = getattr(getattr(CONTRIB, path.partition(".")[0]), name, None)
        if not path.endswith(("learn_runner", "utils", "base")) and not is_absent(public):
            assert value is public, path
    context = CONTRIB.tpu.python.tpu.tpu_function.get_tpu_context()
    assert context.number_of_shards is None
