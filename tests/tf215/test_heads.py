"""Our heads and those of tf.estimator, side by side on the same batches."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import ModeKeys
from replicate.canned.heads.sequential import SequentialHeadWrapper

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1

BATCH, STEPS = 6, 2
NAMES = ["a", "b", "c"]
_random = np.random.default_rng(0)
LOGITS = _random.normal(size=[STEPS, BATCH, 6]).astype(np.float32)
FEATURES = {
    "w": _random.integers(0, 4, [STEPS, BATCH]).astype(np.float32),
    "both": _random.random([STEPS, BATCH, 2]).astype(np.float32),
}
BITS = _random.integers(0, 2, [STEPS, BATCH])
IDS = _random.integers(0, 3, [STEPS, BATCH])
NUMBERS = _random.normal(size=[STEPS, BATCH, 2]).astype(np.float32)
COUNTS = _random.integers(0, 6, [STEPS, BATCH, 1])
INDICATOR = _random.integers(0, 2, [STEPS, BATCH, 3])
SHARES = _random.random([STEPS, BATCH, 1]).astype(np.float32)


def absolute(labels, logits):
    return abs(tf.cast(labels, tf.float32) - logits)


def several(lib):
    heads = [lib.MultiClassHead(3, "w", name="kind"), lib.RegressionHead(2, name="size")]
    return lib.MultiHead(heads, [2.0, 0.5])


CASES = {
    "binary": (lambda lib: lib.BinaryClassHead("w", thresholds=[0.25, 0.5], name="b"), BITS),
    "binary with names": (
        lambda lib: lib.BinaryClassHead(label_vocabulary=NAMES[:2], loss_fn=absolute),
        np.array(NAMES)[BITS],
    ),
    "binary of shares": (lambda lib: lib.BinaryClassHead("w", loss_reduction="sum"), SHARES),
    "classes with names": (
        lambda lib: lib.MultiClassHead(3, "w", label_vocabulary=NAMES),
        np.array(NAMES)[IDS],
    ),
    "labels": (
        lambda lib: lib.MultiLabelHead(
            3, "w", thresholds=[0.5], classes_for_class_based_metrics=[2], name="l"
        ),
        INDICATOR,
    ),
    "labels with names": (
        lambda lib: lib.MultiLabelHead(
            3, label_vocabulary=NAMES, classes_for_class_based_metrics=["c"]
        ),
        INDICATOR,
    ),
    "regression with weights of dimensions": (lambda lib: lib.RegressionHead(2, "both"), NUMBERS),
    "regression with a link": (
        lambda lib: lib.RegressionHead(2, inverse_link_fn=tf.exp, loss_fn=absolute),
        NUMBERS,
    ),
    "poisson": (lambda lib: lib.PoissonRegressionHead(1, "w", "sum"), COUNTS),
    "logistic": (lambda lib: lib.LogisticRegressionHead("w", name="g"), SHARES),
    "several heads": (several, {"kind": IDS, "size": NUMBERS}),
}


def results(head, labels, mode):
    """Results of a spec of the head on all batches, with its exports and summaries."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # Saves most of the time.
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        step = v1.placeholder_with_default(0, [])
        features = {name: tf.constant(value)[step] for name, value in FEATURES.items()}
        labels = tf.nest.map_structure(lambda each: tf.constant(each)[step], labels)
        logits = tf.constant(LOGITS[..., : head.logits_dimension])[step]
        logits.set_shape([BATCH, head.logits_dimension])
        spec = head.create_estimator_spec(
            features,
            mode,
            logits,
            None if mode == ModeKeys.PREDICT else labels,
            train_op_fn=lambda loss: loss * 2,
            regularization_losses=[tf.constant(0.5), tf.constant(2.0)],
        )
        metrics = spec.eval_metric_ops or {}
        fetches = {"predictions": spec.predictions, "loss": spec.loss, "train": spec.train_op}
        fetches = {name: value for name, value in fetches.items() if value is not None}
        summaries = v1.summary.merge_all()
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        each = [
            session.run([fetches, [pair[1] for pair in metrics.values()]], {step: index})[0]
            for index in range(STEPS)
        ]
        values = session.run({name: pair[0] for name, pair in metrics.items()})
        written = b"" if summaries is None else session.run(summaries)
        return SimpleNamespace(
            steps=each,
            metrics=values,
            summaries={v.tag: v.simple_value for v in v1.Summary.FromString(written).value},
            exports=described_exports(spec.export_outputs, session),
        )


def described_exports(outputs, session):
    """Returns method and outputs of each signature, by name."""
    examples = {"examples": v1.placeholder(tf.string, [None])}
    found = {}
    for name, output in (outputs or {}).items():
        signature = output.as_signature_def(examples)
        found[name] = (
            signature.method_name,
            {key: session.run(info.name) for key, info in signature.outputs.items()},
        )
    return found


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def both(request):
    """Makes the results of our head and the stock one in a mode."""
    make, labels = CASES[request.param]
    found = {}

    def run(mode):
        if mode not in found:
            found[mode] = [results(make(lib), labels, mode) for lib in (replicate, tf.estimator)]
        return found[mode]

    run.name = request.param
    return run


def check_equal(ours, stock):
    """Checks two nests: the same keys and types, floats to 1e-5."""
    assert ours.keys() == stock.keys()
    for key, value in stock.items():
        got, expected = np.asarray(ours[key]), np.asarray(value)
        assert got.dtype == expected.dtype, key
        assert got.shape == expected.shape, key
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=str(key))
        else:
            np.testing.assert_array_equal(got, expected, err_msg=str(key))


def test_training_has_the_same_losses_and_predictions(both):
    ours, stock = both(ModeKeys.TRAIN)
    for got, expected in zip(ours.steps, stock.steps, strict=True):
        check_equal(got["predictions"], expected["predictions"])
        for key in ("loss", "train"):
            np.testing.assert_allclose(got[key], expected[key], rtol=1e-5)


def test_training_has_the_same_summaries_and_the_average_of_a_sum(both):
    ours, stock = both(ModeKeys.TRAIN)
    added = ours.summaries.keys() - stock.summaries.keys()
    is_sum = both.name in ("binary of shares", "poisson")
    assert added == ({"average_loss"} if is_sum else set())
    check_equal({name: ours.summaries[name] for name in stock.summaries}, stock.summaries)


def test_evaluation_has_the_same_loss_and_metrics(both):
    ours, stock = both(ModeKeys.EVAL)
    for got, expected in zip(ours.steps, stock.steps, strict=True):
        np.testing.assert_allclose(got["loss"], expected["loss"], rtol=1e-5)
    check_equal(ours.metrics, stock.metrics)


def test_export_has_the_same_signatures(both):
    ours, stock = both(ModeKeys.PREDICT)
    assert ours.exports.keys() == stock.exports.keys()
    for name, (method, outputs) in stock.exports.items():
        assert ours.exports[name][0] == method
        check_equal(ours.exports[name][1], outputs)


def test_sparse_labels_have_the_same_loss():
    labels = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [2, 0, 1], [BATCH, 2])
    logits = LOGITS[0, :, :3]
    ours, stock = (
        lib.MultiLabelHead(3).loss(labels, logits, {}) for lib in (replicate, tf.estimator)
    )
    assert float(ours) == pytest.approx(float(stock))


def test_eager_loss_and_metrics_are_the_same():
    found = []
    for lib in (replicate, tf.estimator):
        head = lib.MultiClassHead(3, "w")
        features = {"w": tf.constant(FEATURES["w"][0])}
        arguments = features, tf.constant(LOGITS[0, :, :3]), tf.constant(IDS[0])
        metrics = head.update_metrics(head.metrics(), *arguments)
        loss = head.loss(arguments[2], arguments[1], features)
        found.append({"loss": loss, **{key: each.result() for key, each in metrics.items()}})
    check_equal(*found)


def test_losses_of_sequences_are_the_same():
    sequential_head = pytest.importorskip(
        "tensorflow_estimator.python.estimator.head.sequential_head"
    )
    mask = np.array([[True, True, False], [True, False, False]])
    features = {"mask": tf.constant(mask), "w": tf.constant(FEATURES["w"][:, :3])}
    ours, stock = (
        wrapper(lib.MultiClassHead(3, "w"), "mask", "w").loss(
            labels=tf.constant(IDS[:, :3]), logits=tf.constant(LOGITS[:, :3, :3]), features=features
        )
        for wrapper, lib in (
            (SequentialHeadWrapper, replicate),
            (sequential_head.SequentialHeadWrapper, tf.estimator),
        )
    )
    assert float(ours) == pytest.approx(float(stock))
