"""Changes to a tower's gradients that several towers make differently from one."""

import pytest
import tensorflow as tf

from model_deploy import device_plan
from replicate.gradient_changes import is_clipped
from replicate.tower_optimizer import TowerOptimizer
from replicate.towers import tower_build

v1 = tf.compat.v1

CLIPPED = {
    "global norm": lambda g: tf.clip_by_global_norm([g, g], 1.0, name="mine")[0][0],
    "norm": lambda g: tf.clip_by_norm(g, 1.0),
    "norm along axes": lambda g: tf.clip_by_norm(g, 1.0, axes=[0, 1]),
    "average norm": lambda g: v1.clip_by_average_norm(g, 1.0),
    "value": lambda g: tf.clip_by_value(g, -1.0, 1.0),
    "by hand": lambda g: g * tf.minimum(1.0, 1.0 / tf.norm(g)),
    "by hand, divided": lambda g: g / tf.maximum(tf.sqrt(tf.reduce_sum(tf.square(g))), 1.0),
    "checked": lambda g: tf.debugging.check_numerics(tf.clip_by_norm(g, 1.0), "bad"),
}
NOT_CLIPPED = {
    "same": lambda g: g,
    "half": lambda g: g * 0.5,
    "by a number from elsewhere": lambda g: g * tf.norm(tf.ones([3])),
    "by the rows of a batch": lambda g: g / tf.cast(tf.shape(g)[0], tf.float32),
    "masked": lambda g: g * tf.ones([3, 2]),
}


@pytest.mark.parametrize("shape", [[3, 2], [None, 2]])
@pytest.mark.parametrize("change", CLIPPED)
def test_clipping_is_recognized(graph, change, shape):
    assert is_clipped(CLIPPED[change](v1.placeholder(tf.float32, shape)))


@pytest.mark.parametrize("change", NOT_CLIPPED)
def test_other_changes_are_not_clipping(graph, change):
    assert not is_clipped(NOT_CLIPPED[change](v1.placeholder(tf.float32, [3, 2])))


def clip(gradient):
    clipped, _ = tf.clip_by_global_norm([gradient], 1.0)
    return clipped[0]


def warnings(caplog, change, towers=2, elsewhere=False):
    """Builds towers that change their gradients; returns what is logged."""

    def tower():
        weights = [v1.get_variable(name, initializer=[3.0, 4.0]) for name in ("v", "w")]
        loss = tf.add_n([tf.reduce_sum(tf.square(weight)) for weight in weights])
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(1.0))
        if elsewhere:
            pairs = zip(tf.gradients(loss, weights), weights, strict=True)
        else:
            pairs = optimizer.compute_gradients(loss)
        changed = [(change(gradient, weight), weight) for gradient, weight in pairs]
        return optimizer.apply_gradients(changed)

    plan = device_plan([f"/cpu:{index}" for index in range(towers)])
    with tower_build(plan, averages_loss=True) as build:
        for index in range(towers):
            with build.building(index, 1 / towers):
                tower()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_clipping_in_towers_warns_once(graph, own_log, elsewhere):
    [message] = warnings(own_log, lambda g, _: clip(g), elsewhere=elsewhere)
    assert message.startswith("Each of the 2 towers clips its own gradients (that of v, for one)")
    assert "Pass clip_norm to TowerOptimizer instead" in message


def test_terms_added_to_shares_warn_once(graph, own_log):
    [message] = warnings(own_log, lambda g, w: 0.5 * (g + tf.multiply(0.01, w, name="decay")))
    assert message.startswith("Each of the 2 towers adds decay to the gradient of v that")
    assert "contains the term 2 times. Add it to the loss instead" in message


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (lambda g, _: g, {}),
        (lambda g, _: g, {"elsewhere": True}),
        (lambda g, _: 0.5 * (g - 0.1 * g), {}),
        (lambda g, w: g + 0.01 * w, {"elsewhere": True}),
        (lambda g, _: clip(g), {"towers": 1}),
    ],
)
def test_changes_that_make_no_difference_are_silent(graph, own_log, change, how):
    assert warnings(own_log, change, **how) == []
