"""The functions of the ConvNet tutorial, called as an old program calls them."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

import kfac
from examples import convnet_tutorial, mnist
from examples.convnet_modes import sync_replicas

v1 = tf.compat.v1
PAIR = ["/cpu:0", "/cpu:1"]


@pytest.fixture(autouse=True)
def small_data(monkeypatch, noise):
    """Sixteen images of 8x8 and batches of four, for data of either kind."""

    def training_examples(data_dir=None, use_fake_data=False, seed=0):
        fake = noise(16)
        return fake if use_fake_data else fake._replace(labels=np.zeros(16, np.int32))

    monkeypatch.setattr(mnist, "training_examples", training_examples)
    monkeypatch.setattr(convnet_tutorial, "BATCH", 4)
    monkeypatch.setattr(convnet_tutorial, "REPORT_EVERY", 2)


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
    assert before.shape.as_list() == after.shape.as_list() == [2, 8, 8, 5]
    assert after.op.type == "Relu"
    assert (weights.op.name, bias.op.name) == ("conv_1/weights", "conv_1/bias")
    assert weights.shape.as_list() == [3, 3, 1, 5]
    pooled = convnet_tutorial.max_pool_layer(layer_id=2, inputs=after, kernel_size=2, stride=4)
    assert pooled.shape.as_list() == [2, 2, 2, 5]
    flat = tf.reshape(pooled, [2, -1])
    before, after, params = convnet_tutorial.fc_layer(layer_id=3, inputs=flat, output_size=7)
    assert after.op.inputs[0] is before
    assert [p.shape.as_list() for p in params] == [[20, 7], [7]]
    logits, params = convnet_tutorial.linear_layer(layer_id=4, inputs=flat, output_size=7)
    assert logits.shape.as_list() == [2, 7]
    assert params[0].op.name == "fc_4/weights"


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


@pytest.mark.parametrize("is_manual", [False, pytest.param(True, marks=pytest.mark.broad)])
def test_training_on_one_machine(monkeypatch, capsys, is_manual):
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    use(monkeypatch, learning_rate=0.1, damping=0.03)
    train = convnet_tutorial.train_mnist_single_machine
    # All digits of the data are the same one.
    assert train(num_epochs=5, device="/cpu:1", manual_op_exec=is_manual) == 1
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


@pytest.mark.slow
def test_training_with_kfac_learns(monkeypatch, capsys, tmp_path):
    use(monkeypatch, learning_rate=0.01, damping=0.03)
    monkeypatch.setattr(convnet_tutorial, "estimator_params", lambda: convnet_tutorial.PARAMS)
    assert convnet_tutorial.train_mnist_single_machine(20) == 1
    assert convnet_tutorial.train_mnist_single_machine(20, manual_op_exec=True) == 1
    assert convnet_tutorial.train_mnist_multitower(20, 2, PAIR) == 1
    assert convnet_tutorial.train_mnist_estimator(20, model_dir=str(tmp_path)) == 1


def functions_for_a_cluster():
    """Functions of (the model, its number of workers), by the strategy that they stand for."""
    chief = convnet_tutorial.distributed_grads_only_and_ops_chief_worker
    dedicated = convnet_tutorial.distributed_grads_and_ops_dedicated_workers
    older = convnet_tutorial.minimize_loss_distributed
    train = convnet_tutorial.train_mnist_distributed_sync_replicas
    return [
        ("chief_worker", 7, lambda m, n: chief(1, False, n, 0, "", None, *m, invert_every=7)),
        ("dedicated_workers", 10, lambda m, n: dedicated(1, False, n, 0, "", None, *m)),
        ("dedicated_workers", 10, lambda m, n: older(1, n, 0, "", None, *m)),
        ("shared", 10, lambda _, n: train(1, False, n, 0, "", 1, "shared")),
    ]


@pytest.mark.parametrize(("strategy", "every", "function"), functions_for_a_cluster())
def test_each_function_for_a_cluster_has_its_strategy(
    graph, monkeypatch, strategy, every, function
):
    def make_kfac(worker, params, layers, invert_every):
        asked.append((worker, invert_every))
        raise InterruptedError

    asked = []
    monkeypatch.setattr(sync_replicas, "make_kfac", make_kfac)
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    layers = kfac.LayerCollection()
    model = *small_model(tf.zeros([4, 8, 8, 1]), tf.zeros([4], tf.int32), 10, layers), layers
    with pytest.raises(InterruptedError):
        function(model, 3)
    assert asked == [(kfac.WorkerRole(strategy, 3, 1), every)]


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


def test_too_few_workers_for_dedicated_ones(graph):
    layers = kfac.LayerCollection()
    measures = small_model(tf.zeros([4, 8, 8, 1]), tf.zeros([4], tf.int32), 10, layers)
    with pytest.raises(ValueError, match="'dedicated_workers' with num_workers=2"):
        convnet_tutorial.minimize_loss_distributed(0, 2, 0, "", None, *measures, layers)


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
    made = []

    def make(**arguments):
        made.append(arguments)
        raise InterruptedError

    monkeypatch.setattr(kfac, "PeriodicInvCovUpdateKfacOpt", make)
    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    with pytest.raises(InterruptedError):
        convnet_tutorial.train_mnist_single_machine(1)
    [arguments] = made
    found = {name: arguments[name] for name in ("learning_rate", "damping", "momentum")}
    assert found == {"learning_rate": 1e-4, "damping": 0.001, "momentum": 0.9}
    assert arguments["norm_constraint"] is None
    step = v1.train.get_or_create_global_step()
    rate = convnet_tutorial.estimator_params()["learning_rate"]()
    with v1.Session() as session:
        session.run(step.initializer)
        assert session.run(rate) == pytest.approx(2e-5)
        session.run(step.assign(10_000))
        assert session.run(rate) == pytest.approx(1e-5)


@pytest.fixture
def asked(monkeypatch):
    """The folder, the epochs and the kind of data that were asked for; loading then stops."""
    found = {}

    def load_mnist(data_dir, num_epochs, batch_size, flatten_images=True, use_fake_data=False):
        found.update(data_dir=data_dir, epochs=num_epochs, fake=use_fake_data)
        raise InterruptedError

    monkeypatch.setattr(mnist, "load_mnist", load_mnist)
    return found


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("train_mnist_single_machine", ("D", 3, True, "/cpu:0")),
        ("train_mnist_single_machine", (3, True, "/cpu:0")),
        ("train_mnist_multitower", ("D", 3, 2, True, PAIR)),
        ("train_mnist_multitower", (3, 2, PAIR, True)),
    ],
)
def test_arguments_come_in_the_order_of_either_tutorial(asked, name, arguments):
    with pytest.raises(InterruptedError):
        getattr(convnet_tutorial, name)(*arguments)
    folder = "D" if arguments[0] == "D" else None
    assert asked == {"data_dir": folder, "epochs": 3, "fake": True}


def test_an_estimator_takes_the_folder_first(monkeypatch):
    def training_examples(data_dir=None, use_fake_data=False):
        raise InterruptedError(data_dir, use_fake_data)

    monkeypatch.setattr(mnist, "training_examples", training_examples)
    with pytest.raises(InterruptedError) as stopped:
        convnet_tutorial.train_mnist_estimator("D", 3, True)
    assert stopped.value.args == ("D", True)


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        ((0, True, 1, 0, "", "D", 1, "chief_worker"), "D/kfac"),
        ((0, True, 1, 0, "", 1, "chief_worker"), None),
    ],
)
def test_a_cluster_keeps_its_checkpoints_beside_the_data(monkeypatch, arguments, folder):
    def session(master, is_chief, checkpoint_dir, **_):
        raise InterruptedError(checkpoint_dir)

    monkeypatch.setattr(convnet_tutorial, "build_model", small_model)
    monkeypatch.setattr(v1.train, "MonitoredTrainingSession", session)
    with pytest.raises(InterruptedError) as stopped:
        convnet_tutorial.train_mnist_distributed_sync_replicas(*arguments)
    assert stopped.value.args == (folder,)


def test_the_oldest_name_has_dedicated_workers(monkeypatch):
    made = []
    monkeypatch.setattr(
        convnet_tutorial, "train_mnist_distributed_sync_replicas", lambda *a: made.append(a) or 0.5
    )
    assert convnet_tutorial.train_mnist_distributed(0, 3, 1, "grpc://m", "D", 2) == 0.5
    assert made == [(0, True, 3, 1, "grpc://m", "D", 2, "dedicated_workers", False)]
