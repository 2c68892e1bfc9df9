import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac import fisher_blocks
from kfac.registration.subgraph import SubGraph

v1 = tf.compat.v1


@pytest.fixture
def collection(graph):
    return kfac.LayerCollection()


def tower(collection, number=0):
    """A normalized convolution, a dense layer and a gain; registers the loss."""
    with v1.variable_scope("", reuse=number > 0), v1.device(f"/cpu:{number}"):
        x = v1.placeholder(tf.float32, [None, 4, 4, 2])
        kernel = v1.get_variable("conv/w", [3, 3, 2, 3])
        y = tf.nn.conv2d(x, kernel, 1, "SAME")
        mean, variance = tf.nn.moments(y, [0, 1, 2])
        gamma, beta = v1.get_variable("bn/gamma", [3]), v1.get_variable("bn/beta", [3])
        y = tf.nn.relu(tf.nn.batch_normalization(y, mean, variance, beta, gamma, 1e-3))
        w, b = v1.get_variable("fc/w", [48, 5]), v1.get_variable("fc/b", [5])
        y = tf.matmul(tf.reshape(y, [-1, 48]), w) + b
        y *= tf.exp(v1.get_variable("gain", [5]))
        collection.register_softmax_cross_entropy_loss(y, name="logits")
    return y


IMAGES = np.ones([10, 4, 4, 2], np.float32)

LAYERS = {
    ("bn/gamma", "bn/beta"): fisher_blocks.ScaleAndShiftFullFB,
    ("conv/w",): fisher_blocks.ConvKFCBasicFB,
    ("fc/w", "fc/b"): fisher_blocks.FullyConnectedKFACBasicFB,
    ("gain",): fisher_blocks.NaiveDiagonalFB,
}


def layers(blocks):
    return {tuple(p.op.name for p in tf.nest.flatten(k)): type(b) for k, b in blocks.items()}


def test_blocks_are_returned_in_order(behavior, collection):
    tower(collection)
    new = collection.auto_register_layers()
    assert layers(new) == LAYERS
    assert list(layers(collection.fisher_blocks)) == list(LAYERS)
    assert new == collection.fisher_blocks


def test_convolutions_are_sub_sampled_if_the_config_says_so(graph, session):
    config = kfac.CurvatureConfig(sub_sample_inputs=True, input_fraction=0.2)
    collection = kfac.LayerCollection(config=config)
    tower(collection)
    collection.auto_register_layers()
    (block,) = (b for b in collection.get_blocks() if isinstance(b, fisher_blocks.ConvKFCBasicFB))
    block.instantiate_factors([list(block.tensors_to_compute_grads())], 0.1)
    count = session.run(block.input_factor.batch_moment().count, {block.inputs[0]: IMAGES})
    assert count == 2 * 16


@pytest.mark.parametrize("call", ["module", "graph_search", "graph's own"])
def test_other_ways_to_call_it(collection, call):
    if call == "graph's own":
        collection = kfac.graph_layer_collection()
    tower(collection)
    variables = v1.trainable_variables()
    new = {
        "module": lambda: kfac.auto_register_layers(collection, variables, 4),
        "graph_search": lambda: kfac.graph_search.register_layers(collection, variables, 4),
        "graph's own": lambda: kfac.auto_register_layers(batch_size=4),
    }[call]()
    assert layers(new) == LAYERS
    assert new[variables[-1]].inputs == (4,)


def test_report_and_warning_tell_what_was_decided(collection, caplog):
    tower(collection)
    assert "found in the graph" not in collection.report()
    collection.auto_register_layers()
    gain = "  gain: generic, because it goes into 'Exp', and Exp is no known layer"
    assert collection.report().split("\n")[-5:] == [
        "found in the graph:",
        "  bn/gamma, bn/beta: scale and shift, by Mul 'batchnorm/mul' with a shift",
        "  conv/w: 2-D convolution, by Conv2D 'Conv2D'",
        "  fc/w, fc/b: dense layer, by MatMul 'MatMul' with a bias",
        gain,
    ]
    (message,) = [record.getMessage() for record in caplog.records]
    assert f"that they belong to:\n{gain}\nIf they" in message
    assert "fc/w" not in message


def test_some_of_the_variables(collection):
    tower(collection)
    variables = [v for v in v1.trainable_variables() if v.op.name.startswith("fc/")]
    assert list(layers(collection.auto_register_layers(variables))) == [("fc/w", "fc/b")]


def test_approximation_of_linked_parameters(collection):
    for number in range(2):
        tower(collection, number)
    params = {v.op.name: v for v in v1.trainable_variables()}
    collection.define_linked_parameters(params["gain"], "full")
    collection.define_linked_parameters([params["fc/b"]], "diagonal")
    collection.define_linked_parameters((params["fc/w"],), "kron_in_diag")
    collection.define_linked_parameters((params["bn/beta"], params["bn/gamma"]), "diagonal")
    collection.auto_register_layers()
    blocks = {name: collection.fisher_blocks[params[name]] for name in ("gain", "fc/b", "fc/w")}
    assert [type(block) for block in blocks.values()] == [
        fisher_blocks.NaiveFullFB,
        fisher_blocks.NaiveDiagonalFB,
        fisher_blocks.FullyConnectedKFACBasicFB,
    ]
    assert blocks["fc/w"].settings[0].diagonal_input
    norm = collection.fisher_blocks[params["bn/gamma"], params["bn/beta"]]
    assert isinstance(norm, fisher_blocks.ScaleAndShiftDiagonalFB)
    assert {block.num_registered_towers for block in collection.get_blocks()} == {2}


@pytest.mark.parametrize("when", ["after all towers", "in each tower"])
def test_towers(collection, when):
    for number in range(3):
        tower(collection, number)
        if when == "in each tower":
            new = collection.auto_register_layers()
            assert layers(new) == ({} if number else LAYERS)
    if when == "after all towers":
        collection.auto_register_layers()
    for block in collection.get_blocks():
        assert block.num_registered_towers == 3
        if not isinstance(block, fisher_blocks.NaiveDiagonalFB):
            assert block.devices == tuple(f"/device:CPU:{i}" for i in range(3))
            assert tuple(x.device for x in block.inputs) == block.devices
    collection.finalize()
    collection.check_registration(v1.trainable_variables())


def test_towers_with_a_layer_by_hand(collection):
    for number in range(2):
        y = tower(collection, number)
        gain = v1.trainable_variables()[-1]
        collection.register_generic(gain, tf.shape(y)[0], approx="full", reuse=number > 0)
        collection.auto_register_layers()
    assert isinstance(collection.fisher_blocks[gain], fisher_blocks.NaiveFullFB)
    assert {block.num_registered_towers for block in collection.get_blocks()} == {2}


def test_number_of_examples_comes_from_the_losses(collection, session):
    y = tower(collection)
    gain = v1.trainable_variables()[-1]
    collection.auto_register_layers()
    (size,) = collection.fisher_blocks[gain].inputs
    x = next(op.outputs[0] for op in y.graph.get_operations() if op.type == "Placeholder")
    session.run(v1.global_variables_initializer())
    assert session.run(size, {x: np.zeros([7, 4, 4, 2])}) == 7


def test_errors(collection):
    with pytest.raises(ValueError, match=r"no loss is registered. Register the losses first"):
        collection.auto_register_layers()
    tower(collection)
    tower(collection, 1)
    collection.register_squared_error_loss(tf.ones([4, 2]), name="other")
    with pytest.raises(ValueError, match=r"different numbers of towers, {'logits': 2, 'other': 1}"):
        collection.auto_register_layers()
    collection.register_squared_error_loss(tf.ones([4, 2]), name="other", reuse=True)
    collection.auto_register_layers()
    with pytest.raises(ValueError, match=r"all 2 tower\(s\).*were scanned before"):
        collection.auto_register_layers()
    collection.finalize()
    with pytest.raises(ValueError, match=r"is finalized"):
        collection.auto_register_layers()


def test_layers_that_cannot_be_registered(graph):
    differing, linked = kfac.LayerCollection(), kfac.LayerCollection()
    x, w = v1.placeholder(tf.float32, [None, 3]), v1.get_variable("w", [3, 3])
    differing.register_squared_error_loss(x @ w, name="loss")
    differing.register_squared_error_loss(x @ w @ w, name="loss", reuse=True)
    bias = v1.get_variable("b", [3])
    linked.register_squared_error_loss(x @ w + bias)
    linked.define_linked_parameters(bias, "kron")
    alone = r"register 'b' automatically, as generic, .*linked alone.*approx='kron'. Accepted"
    for collection, message in (
        (differing, r"layer 'w'.*All towers must register the same layer"),
        (linked, alone),
    ):
        with pytest.raises(ValueError, match=message):
            collection.auto_register_layers()
    assert not linked.fisher_blocks


@pytest.mark.parametrize("rows", [(16, 8, 32), (6, 2)])
def test_inputs_of_several_numbers_of_rows(assert_same_as_by_hand, rows):
    """More than the losses have, and parts of theirs, such as a discriminator's."""

    def build(model):
        params = model.weight("w", 3, 4), model.weight("b", 4)
        inputs = [model.data(f"x{number}", n, 3) for number, n in enumerate(rows)]
        outputs = [tf.matmul(x, params[0]) + params[1] for x in inputs]
        uses = sum(rows) // 8 if sum(rows) > 8 else None
        model.register("fully_connected_multi", params, inputs, outputs, uses)
        return [tf.tanh(y) for y in outputs] if uses else [tf.concat(outputs, axis=0)]

    assert_same_as_by_hand(build)


def test_batch_size_that_divides_the_rows_of_each_place(scan):
    w, ids = v1.get_variable("w", [3, 4]), v1.get_variable("ids", [3, 4])
    outputs = [tf.ones([n, 3]) @ w for n in (32, 64)]
    outputs += [tf.nn.embedding_lookup(ids, tf.zeros([n], tf.int32)) for n in (32, 64)]
    outputs = [tf.reshape(y, [32, -1]) for y in outputs]
    collection = scan(tf.concat(outputs, axis=1), batch_size=32)
    assert [block.replications() for block in collection.get_blocks()] == [3, 3]


def test_layers_before_and_in_a_discriminator(scan):
    generator, kernel = v1.get_variable("g", [2, 48]), v1.get_variable("k", [3, 3, 3, 4])
    fake = tf.reshape(tf.ones([6, 2]) @ generator, [6, 4, 4, 3])
    gamma, beta = v1.get_variable("gamma", [4]), v1.get_variable("beta", [4])
    maps = [tf.nn.conv2d(x, kernel, 1, "SAME") for x in (tf.ones([6, 4, 4, 3]), fake)]
    maps = [v1.nn.fused_batch_norm(y, gamma, beta)[0] for y in maps]
    weight = v1.get_variable("w", [4, 1])
    collection = scan(tf.concat([tf.reduce_mean(y, [1, 2]) @ weight for y in maps], axis=0))
    found = layers(collection.fisher_blocks)
    assert found == {
        ("g",): fisher_blocks.FullyConnectedKFACBasicFB,
        ("k",): fisher_blocks.ConvKFCBasicMultiIndepFB,
        ("w",): fisher_blocks.FullyConnectedMultiIndepFB,
        ("gamma",): fisher_blocks.NaiveDiagonalFB,
        ("beta",): fisher_blocks.NaiveDiagonalFB,
    }
    assert collection.fisher_blocks[kernel].replications() == 2 * 16


def test_large_graphs_are_scanned_in_linear_time(collection, monkeypatch):
    """Counts what is asked of the graph rather than seconds."""
    x, w = tf.ones([4, 3]), v1.get_variable("w", [3, 3])
    for _ in range(300):
        x = tf.tanh(x @ w)
    collection.register_squared_error_loss(x)
    asked, consumers = [], SubGraph.consumers

    def counted(subgraph, tensor):
        asked.append(tensor)
        return consumers(subgraph, tensor)

    monkeypatch.setattr(SubGraph, "consumers", counted)
    collection.auto_register_layers()
    assert 300 < len(asked) < 10 * 300
    assert collection.fisher_blocks[w].replications() == 300
