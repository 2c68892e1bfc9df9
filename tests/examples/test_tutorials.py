"""The functions of the ConvNet's and the MLP's tutorial, called as an old program calls them."""

import re
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import kfac
from examples import convnet_tutorial, mlp_tutorial, mnist
from examples.convnet_modes import sync_replicas

v1 = tf.compat.v1
PAIR = ["/cpu:0", "/cpu:1"]


@pytest.fixture(autouse=True)
def small_data(monkeypatch, noise):
    """Sixteen images of 8x8 and batches of four; the folders and kinds that were asked for."""
    asked = []

    def training_examples(data_dir=None, use_fake_data=False, seed=0):
        asked.append((data_dir, use_fake_data))
        fake = noise(16)
        return fake if use_fake_data else fake._replace(labels=np.zeros(16, np.int32))

    monkeypatch.setattr(mnist, "training_examples", training_examples)
    monkeypatch.setattr(convnet_tutorial, "BATCH", 4)
    monkeypatch.setattr(mlp_tutorial, "BATCH", 4)
    monkeypatch.setattr(mlp_tutorial, "UNITS", (6,))
    monkeypatch.setattr(convnet_tutorial, "REPORT_EVERY", 2)
    return asked


def use(monkeypatch, **params):
    """Trains with these settings in place of the tutorial's."""
    monkeypatch.setattr(convnet_tutorial, "PARAMS", {**convnet_tutorial.PARAMS, **params})


def printed_steps(text):
    """The steps of the lines, each of which has a loss and an accuracy."""
    line = r"^training +step (\d+) +loss \d+\.\d{4} +accuracy [01]\.\d{3}$"
    found = [int(step) for step in re.findall(line, text, re.MULTILINE)]
    assert text.count("training  ") == len(found)
    return found


def test_layers_have_the_arguments_and_results_of_the_tutorial(graph):
    images = tf.zeros([2, 8, 8, 1])
    before, after, (weights, bias) = convnet_tutorial.conv_layer(
        layer_id=1, inputs=images, kernel_size=3, out_channels=5
    )
    assert (after.op.type, after.op.inputs[0]) == ("Relu", before)
    assert (weights.op.name, bias.op.name) == ("conv_1/weights", "conv_1/bias")
    assert weights.shape.as_list() == [3, 3, 1, 5]
    pooled = convnet_tutorial.max_pool_layer(layer_id=2, inputs=after, kernel_size=2, stride=4)
    assert pooled.shape.as_list() == [2, 2, 2, 5]
    flat = tf.reshape(pooled, [2, -1])
    before, after, _ = convnet_tutorial.fc_layer(layer_id=3, inputs=flat, output_size=7)
    assert after.op.inputs[0] is before
    logits, params = convnet_tutorial.linear_layer(layer_id=4, inputs=flat, output_size=7)
    assert logits.shape.as_list() == [2, 7]
    assert [p.op.name for p in params] == ["fc_4/weights", "fc_4/bias"]


@pytest.mark.parametrize("manual", [True, False])
def test_model_is_registered(graph, manual):
    layers = kfac.LayerCollection()
    images, labels = tf.zeros([2, 8, 8, 1]), tf.zeros([2], tf.int64)
    loss, accuracy = convnet_tutorial.build_model(images, labels, 4, layers, manual)
    assert loss.shape.rank == accuracy.shape.rank == 0
    assert len(layers.losses) == 1
    assert len(layers.fisher_blocks) == (3 if manual else 0)
    assert len(layers.auto_register_layers()) == (0 if manual else 3)
    assert set(layers.registered_variables) == set(v1.trainable_variables())


def small_model(images, labels, num_labels, layers, register_layers_manually=True):
    """A dense layer in the place of the ConvNet, with the same first weights in each run."""
    v1.set_random_seed(2)
    flat = tf.reshape(images, [-1, 64])
    logits, params = convnet_tutorial.linear_layer(0, flat, num_labels)
    layers.register_fully_connected(params, flat, logits)
    layers.register_softmax_cross_entropy_loss(logits, name="logits")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    seen = tf.argmax(logits, axis=1, output_type=tf.int32)
    return tf.reduce_mean(losses), tf.reduce_mean(tf.cast(tf.equal(seen, labels), tf.float32))


def make_measures(layers):
    """Loss and accuracy of the small model in one pass over the data."""
    return small_model(*mnist.load_mnist(None, 1, 4, flatten_images=False), 10, layers)


@pytest.mark.parametrize(("is_manual", "device"), [(True, "/cpu:1"), (False, "")])
def test_loss_is_minimized_on_the_given_device(graph, capsys, is_manual, device):
    layers = kfac.LayerCollection()
    by_itself = convnet_tutorial.minimize_loss_single_machine
    minimize = convnet_tutorial.minimize_loss_single_machine_manual if is_manual else by_itself
    # In the older tutorial a session config came before the device.
    older = [] if is_manual else [v1.ConfigProto(allow_soft_placement=True)]
    assert 0 <= minimize(*make_measures(layers), layers, *older, device=device) <= 1
    assert printed_steps(capsys.readouterr().out) == [2, 4]
    averages = [v for v in v1.global_variables() if v.op.name.endswith("/cov")]
    assert len(averages) == 2
    assert {v.device for v in averages} == {"/device:CPU:1" if device else ""}


def test_training_on_one_machine(monkeypatch, capsys):
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    use(monkeypatch, learning_rate=0.1, damping=0.03)
    train = convnet_tutorial.train_mnist_single_machine
    # All digits of the data are the same one.
    assert train(num_epochs=5, device="/cpu:1") == 1
    assert printed_steps(capsys.readouterr().out) == [*range(2, 21, 2)]


def test_training_on_towers(monkeypatch, capsys):
    use(monkeypatch, optimizer="momentum")
    accuracy = convnet_tutorial.train_mnist_multitower(num_epochs=4, num_towers=2, devices=PAIR)
    assert 0 <= accuracy <= 1
    assert printed_steps(capsys.readouterr().out) == [2, 4, 6, 8]
    with pytest.raises(ValueError, match="3 towers cannot go on"):
        convnet_tutorial.train_mnist_multitower(1, 3, PAIR)


def test_training_by_an_estimator(monkeypatch, tmp_path):
    use(monkeypatch, optimizer="adam")
    accuracy = convnet_tutorial.train_mnist_estimator(num_epochs=4, model_dir=str(tmp_path))
    assert 0 <= accuracy <= 1
    assert tf.train.latest_checkpoint(tmp_path).endswith("-32")


def test_each_function_for_a_cluster_has_its_strategy(graph, monkeypatch):
    def make_kfac(worker, params, layers, invert_every):
        asked.append((worker.strategy, worker.num_workers, worker.task_index, invert_every))
        raise InterruptedError

    asked = []
    monkeypatch.setattr(sync_replicas, "make_kfac", make_kfac)
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    layers = kfac.LayerCollection()
    model = *small_model(tf.zeros([4, 8, 8, 1]), tf.zeros([4], tf.int32), 10, layers), layers
    tutorial = convnet_tutorial
    for call in (
        lambda: tutorial.distributed_grads_only_and_ops_chief_worker(
            1, False, 3, 0, "", None, *model, invert_every=7
        ),
        lambda: tutorial.distributed_grads_and_ops_dedicated_workers(
            1, False, 3, 0, "", None, *model
        ),
        lambda: tutorial.minimize_loss_distributed(1, 3, 0, "", None, *model),
        lambda: tutorial.train_mnist_distributed(1, 3, 0, "", None, 1),
        lambda: tutorial.train_mnist_distributed_sync_replicas(1, False, 3, 0, "", 1, "shared"),
    ):
        with pytest.raises(InterruptedError):
            call()
    strategies = [("chief_worker", 7), *[("dedicated_workers", 10)] * 3, ("shared", 10)]
    assert asked == [(strategy, 3, 1, every) for strategy, every in strategies]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["chief_worker", "dedicated_workers", "shared"])
def test_training_in_a_cluster(start_servers, monkeypatch, capsys, strategy):
    """Three workers end at the same step, each in the role that the strategy gives to it."""
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    addresses = start_servers(ps=1, worker=3)["worker", 0].jobs["worker"]
    train = convnet_tutorial.train_mnist_distributed_sync_replicas
    with ThreadPoolExecutor(3) as threads:
        runs = [
            threads.submit(train, task, task == 0, 3, 1, f"grpc://{address}", 1, strategy)
            for task, address in enumerate(addresses)
        ]
        assert all(0 <= run.result(60) <= 1 for run in runs)
    text = capsys.readouterr().out
    assert 4 in printed_steps(text)
    names = [kfac.WorkerRole(strategy, 3, task).name for task in range(3)]
    told = re.findall(rf"^K-FAC +{strategy}; this worker: (.*)$", text, re.MULTILINE)
    assert sorted(told) == sorted(names)


def test_a_chief_alone_without_parameter_servers(graph, capsys):
    layers = kfac.LayerCollection()
    measures = make_measures(layers)
    accuracy = convnet_tutorial.distributed_grads_only_and_ops_chief_worker(
        0, True, 1, 0, "", None, *measures, layers, last_step=3
    )
    assert 0 <= accuracy <= 1
    assert printed_steps(capsys.readouterr().out)[-1] == 3


def test_settings_are_those_of_the_tutorial(graph, monkeypatch):
    """The optimizer gets the tutorial's rate and damping; an Estimator's rate falls."""
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    make = mock.Mock(side_effect=InterruptedError)
    monkeypatch.setattr(kfac, "PeriodicInvCovUpdateKfacOpt", make)
    with pytest.raises(InterruptedError):
        convnet_tutorial.train_mnist_single_machine(1)
    wanted = {"learning_rate": 1e-4, "damping": 0.001, "momentum": 0.9, "norm_constraint": None}
    assert wanted.items() <= make.call_args.kwargs.items()
    step = v1.train.get_or_create_global_step()
    rate = convnet_tutorial.estimator_params()["learning_rate"]()
    with v1.Session() as session:
        session.run(step.initializer)
        assert session.run(rate) == pytest.approx(2e-5)
        session.run(step.assign(10_000))
        assert session.run(rate) == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("train_mnist_single_machine", ("D", 3, True, "/cpu:0")),
        ("train_mnist_single_machine", (3, True, "/cpu:0")),
        ("train_mnist_multitower", ("D", 3, 2, True, PAIR)),
        ("train_mnist_multitower", (3, 2, PAIR, True)),
        ("train_mnist_estimator", ("D", 3, True)),
    ],
)
def test_arguments_come_in_the_order_of_either_tutorial(small_data, monkeypatch, name, arguments):
    monkeypatch.setattr(mnist, "tensors", mock.Mock(side_effect=InterruptedError))
    monkeypatch.setattr(mnist, "input_fn", mock.Mock(side_effect=InterruptedError))
    with pytest.raises(InterruptedError):
        getattr(convnet_tutorial, name)(*arguments)
    assert small_data == [("D" if arguments[0] == "D" else None, True)]


def test_a_cluster_keeps_its_checkpoints_beside_the_data(monkeypatch):
    def session(master, is_chief, checkpoint_dir, **_):
        folders.append(checkpoint_dir)
        raise InterruptedError

    folders = []
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    monkeypatch.setattr(v1.train, "MonitoredTrainingSession", session)
    for data in (["D"], []):
        with pytest.raises(InterruptedError):
            convnet_tutorial.train_mnist_distributed_sync_replicas(
                0, True, 1, 0, "", *data, 1, "chief_worker"
            )
    assert folders == ["D/kfac", None]


def test_layers_of_the_perceptron_are_registered(graph):
    before, after, (weights, bias) = mlp_tutorial.fc_layer(
        layer_id=3, inputs=tf.zeros([2, 5]), output_size=7
    )
    assert (after.op.type, after.op.inputs[0]) == ("Tanh", before)
    assert (weights.op.name, bias.op.name) == ("fc_3/weights", "fc_3/bias")
    layers = kfac.LayerCollection()
    loss, accuracy = mlp_tutorial.build_model(tf.zeros([2, 5]), tf.zeros([2], tf.int64), 4, layers)
    assert loss.shape.rank == accuracy.shape.rank == 0
    registered = [v for v in v1.trainable_variables() if v in layers.registered_variables]
    shapes = [[5, 7], [7], [5, 6], [6], [6, 4], [4]]
    assert [v.shape.as_list() for v in v1.trainable_variables()] == shapes
    assert registered == v1.trainable_variables()[2:]


def test_perceptron_trains(small_data):
    assert 0 <= mlp_tutorial.train_mnist("D", 2, True) <= 1
    assert small_data == [("D", True)]


@pytest.mark.broad
def test_perceptron_trains_on_towers_and_by_an_estimator(small_data, tmp_path):
    assert 0 <= mlp_tutorial.train_mnist_multitower("D", 2, 2) <= 1
    assert 0 <= mlp_tutorial.train_mnist_estimator("D", 2, model_dir=str(tmp_path)) <= 1
    assert small_data == [("D", False), ("D", False)]
    assert tf.train.latest_checkpoint(tmp_path).endswith("-8")


def test_settings_are_those_of_the_perceptrons_tutorial(graph):
    params = mlp_tutorial.optimizer_params()
    step = v1.train.get_or_create_global_step()
    rate = params["learning_rate"]()
    with v1.Session() as session:
        session.run(step.initializer)
        assert session.run(rate) == pytest.approx(2e-5)
        session.run(step.assign(20_000))
        assert session.run(rate) == pytest.approx(5e-6)
    assert (params["momentum"], params["damping"], params["norm_constraint"]) == (0.99, 1e-4, None)
