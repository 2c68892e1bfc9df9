import json
import pathlib
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import CheckpointError, Estimator, RunConfig, WarmStartSettings
from replicate.estimator.cluster_config import ClusterConfig
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def trained_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def seven_steps(linear, trained_dir):
    """An Estimator trained for 7 steps; trained once for all tests of this file."""
    estimator = linear.make_estimator(trained_dir)
    return estimator.train(linear.input_fn, max_steps=7)


def test_train_equals_numpy(linear, seven_steps):
    weights, bias = linear.trained(7)
    names = ["b", "b/Momentum", "global_step", "w", "w/Momentum"]
    assert seven_steps.get_variable_names() == names
    np.testing.assert_allclose(seven_steps.get_variable_value("w"), weights, rtol=2e-6)
    np.testing.assert_allclose(seven_steps.get_variable_value("b"), bias, rtol=2e-6)
    np.testing.assert_allclose(seven_steps.get_variable_value("w:0"), weights, rtol=2e-6)
    assert seven_steps.get_variable_value("global_step") == 7


def test_evaluate_equals_numpy(linear, seven_steps):
    weights, bias = linear.trained(7)
    errors = linear.X @ weights + bias - linear.Y
    results = seven_steps.evaluate(linear.once_input_fn)
    batch_losses = [np.mean(np.square(part)) for part in np.split(errors, [5, 10])]
    assert sorted(results) == ["global_step", "loss", "mae"]
    assert results["global_step"] == 7
    assert results["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)
    assert results["loss"] == pytest.approx(np.mean(batch_losses), rel=1e-5)


def test_evaluate_takes_the_given_number_of_batches_of_the_given_checkpoint(linear, seven_steps):
    path = f"{seven_steps.model_dir}/model.ckpt-5".encode()
    results = seven_steps.evaluate(linear.once_input_fn, steps=1, checkpoint_path=path, name="five")
    weights, bias = linear.trained(5)
    errors = (linear.X @ weights + bias - linear.Y)[:5]
    assert results["global_step"] == 5
    assert results["loss"] == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert tf.io.gfile.glob(f"{seven_steps.model_dir}/eval_five/events*")


def test_predict_equals_numpy(linear, seven_steps):
    weights, bias = linear.trained(7)
    predictions = list(seven_steps.predict(linear.once_input_fn))
    expected = linear.X @ weights + bias
    np.testing.assert_allclose([each["y"] for each in predictions], expected, rtol=1e-5)
    np.testing.assert_allclose([each["double"] for each in predictions], 2 * expected, rtol=1e-5)


def test_predict_yields_batches_of_the_chosen_keys_of_the_given_checkpoint(linear, seven_steps):
    found = seven_steps.predict(
        linear.once_input_fn,
        predict_keys="y",
        checkpoint_path=f"{seven_steps.model_dir}/model.ckpt-5".encode(),
        yield_single_examples=False,
    )
    weights, bias = linear.trained(5)
    expected = np.split(linear.X @ weights + bias, [5, 10])
    for batch, values in zip(found, expected, strict=True):
        assert list(batch) == ["y"]
        np.testing.assert_allclose(batch["y"], values, rtol=1e-5, atol=1e-6)


def test_hooks_of_evaluation_and_prediction_are_called_with_the_completed_scaffold(
    linear, seven_steps
):
    class Counting(v1.train.SessionRunHook):
        steps = ended = 0

        def after_create_session(self, session, coord):
            assert scaffolds[-1].saver.as_saver_def() is not None

        def after_run(self, run_context, run_values):
            self.steps += 1

        def end(self, session):
            self.ended += 1

    def model_fn(features, labels, mode, params):
        spec = linear.model_fn(features, labels, mode, params)
        scaffolds.append(spec.scaffold)
        return spec._replace(
            evaluation_hooks=[of_model["eval"]], prediction_hooks=[of_model["infer"]]
        )

    scaffolds = []
    of_model = {"eval": Counting(), "infer": Counting()}
    of_caller = {"eval": Counting(), "infer": Counting()}
    estimator = linear.make_estimator(seven_steps.model_dir, model_fn)
    estimator.evaluate(linear.once_input_fn, hooks=[of_caller["eval"]])
    list(estimator.predict(linear.once_input_fn, hooks=[of_caller["infer"]]))
    for hooks in (of_model, of_caller):
        assert [(hook.steps, hook.ended) for hook in hooks.values()] == [(3, 1), (3, 1)]


def test_scaffold_initialises_only_without_a_checkpoint(linear, tmp_path):
    calls = []

    def model_fn(features, labels, mode, params):
        spec = linear.model_fn(features, labels, mode, params)
        (bias,) = (each for each in v1.trainable_variables() if each.op.name == "b")

        def init_fn(scaffold, session):
            calls.append(session.graph is v1.get_default_graph())
            bias.load([7.0], session)

        return spec._replace(scaffold=v1.train.Scaffold(init_fn=init_fn))

    estimator = linear.make_estimator(tmp_path, model_fn, {"rate": 1e-30})
    estimator.train(linear.input_fn, steps=1).train(linear.input_fn, steps=1)
    assert calls == [True]
    assert estimator.get_variable_value("b") == [7.0]


def test_steps_count_from_the_checkpoint_and_max_steps_does_not(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path, continue_input=True)
    steps = []
    estimator.train(linear.input_fn, steps=2)
    estimator.train(linear.input_fn, steps=2, hooks=[linear.CallHook(steps.append)])
    estimator.train(linear.input_fn, max_steps=6, hooks=[linear.CallHook(steps.append)])
    assert steps == [3, 4, 5, 6]
    weights, _ = linear.trained(6)
    np.testing.assert_allclose(estimator.get_variable_value("w"), weights, rtol=2e-6)
    must_not_be_called = mock.Mock(side_effect=AssertionError)
    assert estimator.train(must_not_be_called, max_steps=6) is estimator
    assert estimator.latest_checkpoint() == f"{tmp_path}/model.ckpt-6"


def test_params_are_deep_copies(linear, tmp_path):
    params = {"sizes": [1, 2]}

    def model_fn(features, labels, mode, params):
        params["sizes"].append(3)
        return linear.model_fn(features, labels, mode, params)

    estimator = Estimator(model_fn, str(tmp_path), RunConfig(progress="off"), params)
    params["sizes"].append(99)
    estimator.params["sizes"].append(98)
    estimator.evaluate(linear.once_input_fn)
    assert estimator.params == {"sizes": [1, 2]}


def test_with_model_fn_changes_nothing_else(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path, params={"rate": 0.5})
    other = estimator.with_model_fn(lambda features: EstimatorSpec("infer", 3 * features))
    assert (other.model_dir, other.params) == (estimator.model_dir, {"rate": 0.5})
    with tf.Graph().as_default():
        spec = estimator.model_fn(tf.ones([2, 3]), tf.ones([2, 1]), "infer", estimator.config)
    assert spec.mode == "infer", "the model_fn is bound to params"
    assert next(other.predict(lambda: tf.constant([5.0]))) == 15.0
    with pytest.raises(TypeError, match="model_fn must be a function"):
        estimator.with_model_fn(3)


class OwnConfig(RunConfig):
    """A RunConfig of a program, with a property of its own."""

    @property
    def model_dir(self):
        """A directory beneath the given one."""
        return f"{self._model_dir}/own"


def test_subclass_and_model_fn_find_the_attributes_of_tf_estimator(linear, tmp_path):
    class Inheriting(Estimator):
        def found(self):
            with tf.Graph().as_default() as graph:
                steps = [self._create_and_assert_global_step(graph) for _ in range(2)]
                assert steps[0] is steps[1] is v1.train.get_global_step(graph)
            return self._model_fn, self._model_dir, self._config, self._params

    def given_model_fn(features, config, params):
        assert (type(config), config.hparams) == (OwnConfig, "own")
        return EstimatorSpec("infer", features)

    given = OwnConfig(str(tmp_path))
    given.hparams = "own"
    source = WarmStartSettings("/source")
    estimator = Inheriting(given_model_fn, config=given, params={}, warm_start_from=source)
    model_fn, model_dir, config, params = estimator.found()
    assert model_fn is given_model_fn
    assert model_dir == config.model_dir == f"{tmp_path}/own"
    assert params == {}
    assert estimator._warm_start_settings is source
    with tf.Graph().as_default():
        estimator.model_fn(tf.ones([1]), None, "infer", config)


def test_each_call_has_the_same_seed(linear, tmp_path):
    def model_fn(features, mode):
        noise = tf.random.uniform([1])
        return EstimatorSpec(mode, predictions=noise + 0 * tf.reduce_sum(features))

    estimator = linear.make_estimator(tmp_path, model_fn)
    first, second = (next(estimator.predict(lambda: tf.ones([1, 3]))) for _ in range(2))
    assert first == second


def test_model_dir_is_an_argument_or_comes_from_the_config_or_is_temporary(linear, caplog):
    for model_dir, config in (
        (None, RunConfig(model_dir="a")),
        ("a", RunConfig(model_dir="a")),
        (b"a", RunConfig()),
        (b"a", RunConfig(model_dir=b"a")),
    ):
        estimator = Estimator(linear.model_fn, model_dir, config)
        assert estimator.model_dir == estimator.config.model_dir == "a"
    assert (estimator.eval_dir(), estimator.eval_dir("test")) == ("a/eval", "a/eval_test")
    temporary = Estimator(linear.model_fn)
    assert temporary.model_dir in caplog.text
    assert temporary.config.model_dir == temporary.model_dir
    pathlib.Path(temporary.model_dir).rmdir()


def test_untrained_model_is_evaluated_and_predict_without_an_end_warns(linear, tmp_path, caplog):
    estimator = linear.make_estimator(tmp_path)
    results = estimator.evaluate(linear.once_input_fn)
    assert results["mae"] == pytest.approx(np.mean(np.abs(linear.Y)), rel=1e-5)
    assert results["global_step"] == 0
    next(estimator.predict(linear.once_input_fn))
    assert "predict never ends" not in caplog.text
    with tf.Graph().as_default() as graph:
        predictions = estimator.predict(linear.input_fn)
        next(predictions)
        assert v1.get_default_graph() is graph, "also before the last prediction"
        predictions.close()
    assert "predict never ends" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"steps": 1, "max_steps": 1}, ValueError, "takes steps or max_steps, got both: 1 and 1"),
        ({"steps": 0}, ValueError, "steps must be greater than 0"),
        ({"max_steps": -1}, ValueError, "max_steps must be greater than 0"),
        ({"hooks": [print]}, TypeError, r"hooks must hold instances of .*SessionRunHook"),
        ({"saving_listeners": [print]}, TypeError, r"listeners must hold .*CheckpointSaverListen"),
    ],
)
def test_train_refuses_wrong_arguments(linear, tmp_path, arguments, error, text):
    with pytest.raises(error, match=text):
        linear.make_estimator(tmp_path).train(linear.input_fn, **arguments)


@pytest.mark.parametrize(
    ("model_dir", "config", "error", "text"),
    [
        ("a", RunConfig(model_dir="b"), ValueError, "model_dir is 'a', but config.model_dir is"),
        (3, None, TypeError, "model_dir must be a path, got 3"),
        (None, {"model_dir": "a"}, TypeError, "config must be a replicate.RunConfig"),
        (None, v1.ConfigProto(), TypeError, "must be a replicate.RunConfig, got ConfigProto"),
    ],
)
def test_wrong_model_dir_or_config(linear, model_dir, config, error, text):
    with pytest.raises(error, match=text):
        Estimator(linear.model_fn, model_dir, config)


def test_calls_that_need_another_task_mode_or_checkpoint(linear, tmp_path):
    def model_fn(features, labels, mode, params):
        return linear.model_fn(features, labels, ModeKeys.EVAL, params)

    estimator = linear.make_estimator(tmp_path, model_fn)
    with pytest.raises(ValueError, match="in mode 'train' and returned an EstimatorSpec of mode"):
        estimator.train(linear.input_fn, steps=1)
    with pytest.raises(ValueError, match="There is no trained model"):
        estimator.get_variable_names()
    with pytest.raises(CheckpointError, match=r"nowhere.index does not exist"):
        estimator.evaluate(linear.once_input_fn, checkpoint_path="nowhere")
    role = ClusterConfig({"chief": ("a:1",), "ps": ("a:2",)}, "ps", 0)
    with pytest.raises(ValueError, match="Cannot train: TF_CONFIG makes this process ps 0"):
        linear.make_estimator(tmp_path, cluster=role).train(linear.input_fn, steps=1)


def test_config_of_an_estimator_has_a_session_config(linear, tmp_path):
    assert RunConfig().session_config is None
    estimator = Estimator(linear.model_fn, tmp_path, RunConfig())
    filled_in = estimator.config.session_config
    rewrites = filled_in.graph_options.rewrite_options
    assert filled_in.allow_soft_placement
    assert rewrites.meta_optimizer_iterations == rewrites.ONE, "as in tf.estimator"
    own = v1.ConfigProto(intra_op_parallelism_threads=1)
    estimator = Estimator(linear.model_fn, tmp_path, RunConfig(session_config=own))
    assert estimator.config.session_config == own


def test_tf_config_chooses_the_servers_of_sessions(linear, roles, tmp_path, monkeypatch):
    training, evaluation = (roles[job, 0].master for job in ("chief", "worker"))
    masters = {"session_master": training, "eval_session_master": evaluation}
    monkeypatch.setenv("TF_CONFIG", json.dumps(masters))
    targets = []

    class Targets(v1.train.SessionRunHook):
        """Notes the server of each session."""

        def after_create_session(self, session, coord):
            targets.append(session.sess_str.decode())

    estimator = linear.make_estimator(tmp_path, continue_input=True)
    for steps in (2, 4):  # The server still has the variables of the first call.
        estimator.train(linear.input_fn, max_steps=steps, hooks=[Targets()])
    weights, _ = linear.trained(4)
    np.testing.assert_allclose(estimator.get_variable_value("w"), weights, rtol=2e-6)
    earlier = estimator.evaluate(
        linear.once_input_fn, hooks=[Targets()], checkpoint_path=f"{tmp_path}/model.ckpt-2"
    )
    newest = estimator.evaluate(linear.once_input_fn, hooks=[Targets()])
    assert (earlier["global_step"], newest["global_step"]) == (2, 4)
    assert newest["loss"] != earlier["loss"]
    next(estimator.predict(linear.once_input_fn, hooks=[Targets()]))
    assert targets == [training] * 2 + [evaluation] * 2 + [training]
    other = linear.make_estimator(tmp_path / "other").train(linear.input_fn, max_steps=1)
    np.testing.assert_allclose(other.get_variable_value("w"), linear.trained(1)[0], atol=1e-6)
