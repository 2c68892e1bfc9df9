import tensorflow as tf

import kfac
from kfac.graph_search.plans import (
    CountedUses,
    DensePlan,
    Folded,
    GenericPlan,
    PlannedTensors,
    SinglePlan,
)
from kfac.registration.scale_shift import register_scale_and_shift

v1 = tf.compat.v1


def test_plans_register_their_layers(graph):
    layers, tensors = kfac.LayerCollection().layer_table, PlannedTensors()
    w, gain, scale = (v1.get_variable(n, s) for n, s in (("w", [3, 2]), ("g", [2]), ("s", [3])))
    x = tf.ones([4, 3])
    DensePlan(Folded(x, 3), tf.ones([4, 2]), dense_inputs=True).register(layers, w, False, tensors)
    GenericPlan(4).register(layers, gain, False, tensors)
    normalized = SinglePlan(register_scale_and_shift, lambda: x + 1, x, {"approx": "diagonal"})
    normalized.register(layers, scale, False, tensors)
    assert {key.op.name: block.describe().split()[0] for key, block in layers.blocks.items()} == {
        "w": "kron",
        "g": "diagonal",
        "s": "diagonal",
    }
    assert layers.blocks[w].inputs == (x,)
    assert layers.blocks[scale].inputs[0].op.name.startswith("kfac/scanned/")


def test_equal_tensors_are_made_once(graph, session):
    tensors, x = PlannedTensors(), v1.placeholder_with_default(tf.ones([4, 6, 3]), [None, None, 3])
    folded = tensors.fold(Folded(x, 3))
    assert folded.shape.as_list() == [None, 3]
    assert tensors.fold(Folded(x, 3)) is folded
    assert tensors.count(2) == 2
    assert session.run(tensors.count(CountedUses((Folded(x, 3), Folded(x, 3)), 4))) == 12
