"""deploy: one operation that trains all clones."""

import pathlib
import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from model_deploy import DeploymentConfig, deploy

v1 = tf.compat.v1

CPU = "/device:CPU:0"
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "howto" / "clones.md"


def on_cpu(num_clones):
    return DeploymentConfig(num_clones=num_clones, clone_on_cpu=True)


def shards_of(data, count):
    return iter(zip(*(np.split(part, count) for part in data), strict=True))


def built(model, data, config, optimizer=None, **options):
    """Deploys a model whose clones each take an equal part of the batch."""
    shards = shards_of(data, config.num_clones)

    def model_fn(parts):
        return model(*map(tf.constant, next(parts)))

    return deploy(config, model_fn, [shards], optimizer=optimizer, **options)


def sgd(rate=1.0):
    return v1.train.GradientDescentOptimizer(rate)


@pytest.mark.parametrize("num_clones", [1, 2])
def test_training_lowers_the_loss_and_follows_the_first_clones_batch(
    any_graph, batch_norm_classifier, data, num_clones
):
    step = v1.train.create_global_step()
    model = built(batch_norm_classifier, data, on_cpu(num_clones), sgd())
    assert model.train_op.op.name == "train_op"
    assert model.total_loss.op.name == "total_loss"
    assert len(model.clones) == num_clones
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        losses = [session.run(model.train_op) for _ in range(10)]
        values = {each.op.name: session.run(each) for each in v1.global_variables()}
    np.testing.assert_allclose(losses[0], np.log(2), rtol=1e-5)
    assert losses[-1] < losses[0] / 2
    assert values[step.op.name] == 10
    rows = data[0][: 16 // num_clones]
    prefix = "BatchNormClassifier/BatchNorm/moving_"
    np.testing.assert_allclose(values[f"{prefix}mean"], rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(values[f"{prefix}variance"], rows.var(0, ddof=1), rtol=1e-5)


def test_train_op_returns_the_loss_before_the_update(graph):
    def model():
        weight = v1.get_variable("w", initializer=3.0)
        v1.losses.add_loss(weight * weight)

    deployed = deploy(on_cpu(2), model, optimizer=sgd(0.25))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert [session.run(deployed.train_op) for _ in range(3)] == [9.0, 2.25, 0.5625]


def test_clones_train_as_one_clone_on_the_whole_batch(new_graph, logistic, data):
    trained = []
    for num_clones in (1, 4):
        with new_graph(use_resource=num_clones > 1), v1.Session() as session:
            model = built(logistic, data, on_cpu(num_clones), v1.train.AdamOptimizer(0.1))
            session.run(v1.global_variables_initializer())
            for _ in range(5):
                session.run(model.train_op)
            trained.append({each.op.name: session.run(each) for each in v1.global_variables()})
    one, four = trained
    assert four.keys() == one.keys()
    for name, value in one.items():
        np.testing.assert_allclose(four[name], value, rtol=1e-4, atol=1e-6)


def test_evaluation_has_a_loss_and_no_train_op(graph, logistic, data, evaluate):
    model = built(logistic, data, on_cpu(2))
    assert model.train_op is None
    assert model.total_loss.op.name == "total_loss"
    assert v1.train.get_global_step() is None
    np.testing.assert_allclose(evaluate(model.total_loss), np.log(2), rtol=1e-5)


def test_no_gradient_means_no_train_op_and_no_loss_no_summary(graph):
    assert deploy(on_cpu(2), lambda: None)[:3] == (None, None, None)
    v1.get_variable("unused", shape=[])
    model = deploy(on_cpu(1), lambda: v1.losses.add_loss(tf.constant(1.0)), optimizer=sgd())
    assert model.train_op is None
    assert model.total_loss is not None


def summarizing(model):
    def summarizing_model(inputs, labels):
        predictions = model(inputs, labels)
        v1.summary.histogram("predictions", predictions)
        v1.summary.scalar("highest", tf.reduce_max(predictions))

    return summarizing_model


def tags_of(summary_op):
    tags = [tf.get_static_value(summary.op.inputs[0]) for summary in summary_op.op.inputs]
    return [tag.item().decode() for tag in tags]


def test_summary_op_merges_summaries_from_before_of_clone_0_and_of_the_model(graph, logistic, data):
    v1.summary.scalar("before", 1.0)
    on_gpus = DeploymentConfig(num_clones=2)
    model = built(summarizing(logistic), data, on_gpus, sgd(), summarize_gradients=True)
    assert model.summary_op.op.name == "summary_op/summary_op"
    _, *made = model.summary_op.op.inputs
    assert {summary.device for summary in [model.summary_op, *made]} == {CPU}
    assert tags_of(model.summary_op) == [
        "before",
        "fully_connected/weights_gradient",
        "fully_connected/weights_gradient_norm",
        "fully_connected/biases_gradient",
        "fully_connected/biases_gradient_norm",
        "clone_0/predictions",
        "clone_0/highest",
        "clone_0/Losses/clone_0//clone_loss",
        "total_loss",
    ]


def test_each_summary_of_a_single_clone_is_written_once(graph, logistic, data, evaluate):
    v1.summary.scalar("before", 1.0)
    model = built(summarizing(logistic), data, on_cpu(1), sgd())
    tags = ["before", "predictions", "highest", "Losses/clone_loss", "total_loss"]
    assert tags_of(model.summary_op) == tags
    written = v1.Summary.FromString(evaluate(model.summary_op))
    assert [value.tag for value in written.value] == tags


def test_training_and_evaluation_in_one_graph_are_summarized_together(graph, logistic, data):
    built(logistic, data, on_cpu(2), sgd())
    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
        evaluation = built(logistic, data, on_cpu(2))
    tags = tags_of(evaluation.summary_op)
    assert {"total_loss", "total_loss_1"} < set(tags)
    assert len(set(tags)) == len(tags)


def test_sparse_gradients_are_summarized_by_their_values(graph):
    def model():
        table = v1.get_variable("table", [6, 2], initializer=v1.ones_initializer())
        v1.losses.add_loss(tf.reduce_sum(tf.gather(table, [1, 1, 4])))

    deployed = deploy(on_cpu(2), model, optimizer=sgd(), summarize_gradients=True)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        written = v1.Summary.FromString(session.run(deployed.summary_op))
        session.run(deployed.train_op)
        table = session.run(v1.trainable_variables()[0])
    (values,) = [each.histo for each in written.value if each.tag == "table_gradient"]
    assert (values.num, values.sum) == (12, 6.0)  # 3 rows of 2 from each clone, halved
    np.testing.assert_array_equal(table[:, 0], [1, -1, 1, 1, 0, 1])


def test_parameter_servers_hold_variables_slots_and_the_global_step(any_graph, logistic, data):
    config = DeploymentConfig(num_clones=2, num_ps_tasks=2)
    model = built(logistic, data, config, v1.train.MomentumOptimizer(0.1, 0.9))
    found = {each.op.name: each.device for each in v1.global_variables()}
    tasks = {name: device[len("/job:ps/task:")] for name, device in found.items()}
    assert all(device.startswith("/job:ps/task:") for device in found.values())
    assert tasks == {
        "fully_connected/weights": "0",
        "fully_connected/biases": "1",
        "global_step": "0",
        "fully_connected/weights/Momentum": "0",
        "fully_connected/biases/Momentum": "1",
    }
    assert model.total_loss.device == model.train_op.device == "/job:worker/device:CPU:0"


def test_optimizer_arguments_reach_losses_and_gradients(graph, logistic, data, evaluate):
    optimizer = sgd()
    with mock.patch.object(optimizer, "compute_gradients", wraps=optimizer.compute_gradients):
        deployed = deploy(
            on_cpu(2),
            logistic,
            [tf.constant(data[0])],
            {"labels": data[1]},
            optimizer=optimizer,
            regularization_losses=[tf.constant(0.5)],
            gate_gradients=v1.train.Optimizer.GATE_NONE,
        )
        given = optimizer.compute_gradients.call_args.kwargs
    assert given == {"gate_gradients": v1.train.Optimizer.GATE_NONE}
    np.testing.assert_allclose(evaluate(deployed.total_loss), np.log(2) + 0.5, rtol=1e-5)


@pytest.mark.parametrize("options", [{"summarize_gradients": True}, {"optimzer": sgd()}])
def test_options_without_an_optimizer_to_use_them_are_refused(graph, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} given, but no optimizer"):
        deploy(on_cpu(1), lambda: None, **options)


def test_program_in_the_documentation_runs(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    exec(compile(program, str(DOCUMENT), "exec"), {"__name__": "__main__"})
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", capsys.readouterr().out)]
    assert losses[-1] < losses[0] / 2
