"""Other optimizers make the step of preconditioned gradients: against NumPy, and in one piece."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

DAMPING, RATE, DECAY = 0.3, 0.05, 0.5
SETTINGS = {"damping": DAMPING, "estimation_mode": "empirical", "cov_ema_decay": DECAY}


def adam():
    return v1.train.AdamOptimizer(RATE)


class Lamb(v1.train.Optimizer):
    """Adam's direction, as long as the weights; the moments' bias is left as it is."""

    def __init__(self, rate):
        super().__init__(use_locking=False, name="Lamb")
        self._rate = rate

    def _create_slots(self, var_list):
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _resource_apply_dense(self, grad, var):
        m = self.get_slot(var, "m").assign(0.9 * self.get_slot(var, "m") + 0.1 * grad)
        v = self.get_slot(var, "v").assign(0.99 * self.get_slot(var, "v") + 0.01 * grad**2)
        step = m / (tf.sqrt(v) + 1e-6)
        return var.assign_sub(self._rate * tf.norm(var) / tf.norm(step) * step).op


def adam_in_numpy(rate=RATE, epsilon=1e-8):
    """Returns a function of a gradient: Adam's step."""
    m = v = t = 0

    def step(gradient):
        nonlocal m, v, t
        t += 1
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        return rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + epsilon)

    return step


def momentum_in_numpy():
    velocity = 0

    def step(gradient):
        nonlocal velocity
        velocity = 0.9 * velocity + gradient
        return RATE * velocity

    return step


def lamb_in_numpy(weights):
    m = v = 0

    def step(gradient):
        nonlocal m, v
        m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
        direction = m / (np.sqrt(v) + 1e-6)
        return RATE * np.linalg.norm(weights()) / np.linalg.norm(direction) * direction

    return step


def scaled_loss(network):
    """The loss with a penalty on a variable of no layer."""
    scale = v1.get_variable("scale", initializer=np.array([0.5, -1.0]), use_resource=True)
    return network.losses[0] + tf.reduce_sum(scale**2), scale


def softmax_gradients(x, y, w, b):
    """Returns the gradients of the logits, one per example."""
    logits = x @ w + b
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) - np.eye(w.shape[1])[y]


@pytest.mark.parametrize(
    ("kind", "graft"),
    [("adam", None), ("lamb", None), ("momentum", "adam"), ("momentum", adam)],
    ids=["adam", "lamb", "grafted by name", "grafted on an optimizer"],
)
def test_five_steps_equal_numpy(build_mlp, session, rows, damped_inverses, kind, graft):
    """One dense layer, and a variable of no layer; inverses of every second step."""
    make = {"adam": adam, "momentum": v1.train.MomentumOptimizer(RATE, 0.9), "lamb": Lamb(RATE)}[
        kind
    ]
    network = build_mlp(layers=1)
    loss, scale = scaled_loss(network)
    optimizer = kfac.precondition(make, network.collection, graft=graft, invert_every=2, **SETTINGS)
    train, variables = optimizer.minimize(loss), [*network.variables, scale]
    session.run(v1.global_variables_initializer())
    (w, b, s), (x, y) = session.run(variables), rows
    inputs = np.hstack([x, np.ones([len(x), 1])])
    weights = {"w": w, "b": b, "s": s}
    numpy = {
        "adam": lambda key: adam_in_numpy(),
        "momentum": lambda key: momentum_in_numpy(),
        "lamb": lambda key: lamb_in_numpy(lambda: weights[key]),
    }[kind]
    own = {key: numpy(key) for key in weights}
    lengths = {key: adam_in_numpy(RATE if graft is adam else 1.0) for key in weights}
    a = g = total = 0
    for number in range(5):
        d = softmax_gradients(x, y, weights["w"], weights["b"])
        a = DECAY * a + inputs.T @ inputs / len(x)
        g = DECAY * g + d.T @ d / len(x)
        total = DECAY * total + 1
        if number % 2 == 0:
            a_inverse, g_inverse = damped_inverses([a / total, g / total], DAMPING)
        gradient = inputs.T @ d / len(x)
        product = a_inverse @ gradient @ g_inverse
        products = {"w": product[:3], "b": product[3], "s": 2 * weights["s"]}
        if graft:
            plain = {"w": gradient[:3], "b": gradient[3], "s": products["s"]}
            steps = {key: lengths[key](value) for key, value in plain.items()}
            length = np.sqrt(np.sum(steps["w"] ** 2) + np.sum(steps["b"] ** 2))
            ratio = length / np.linalg.norm(product)
            products = {"w": ratio * product[:3], "b": ratio * product[3], "s": steps["s"]}
        weights = {key: weights[key] - own[key](products[key]) for key in weights}
        session.run(train, network.share(rows))
        for found, expected in zip(session.run(variables), weights.values(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def run(session, train, feeds):
    for feed in feeds:
        session.run(train, feed)
    return session.run({v.op.name: v for v in v1.global_variables()})


def test_resume_and_steps_that_change_nothing(build_mlp, rows, tmp_path):
    """A checkpoint has all; runs of the burn-in and steps that are not finite change nothing."""
    spoilt = np.full_like(rows[0], np.nan), rows[1]
    path, found = str(tmp_path / "model.ckpt"), []
    for is_resumed in (False, True):
        with tf.Graph().as_default(), v1.Session() as session:
            network = build_mlp(layers=1)
            step = v1.train.get_or_create_global_step()
            optimizer = kfac.precondition(
                adam,
                network.collection,
                graft="adam",
                invert_every=2,
                num_burnin_steps=1,
                **SETTINGS,
            )
            train = optimizer.minimize(network.losses[0], step)
            session.run(v1.global_variables_initializer())
            known = {v.op.name for v in optimizer.variables()}
            own = {step.op.name, *(v.op.name for v in network.variables)}
            assert known | own == {v.op.name for v in v1.global_variables()}
            good, bad = network.share(rows), network.share(spoilt)
            saver = v1.train.Saver()
            if not is_resumed:
                start, burnt = run(session, train, []), run(session, train, [good])
                trained = run(session, train, [good] * 3)
                saver.save(session, path)
                skipped = run(session, train, [bad])
                own |= {v.op.name for v in optimizer._given.variables()}
                for name in (*own, *(key for key in known if "graft" in key)):
                    np.testing.assert_array_equal(start[name], burnt[name], err_msg=name)
                    if name != "global_step":
                        np.testing.assert_array_equal(trained[name], skipped[name], err_msg=name)
                assert skipped["kfac/skipped_steps"] == 1
            saver.restore(session, path)
            found.append(run(session, train, [good] * 2))
            assert optimizer.get_slot(network.variables[0], "m").op.name in known
    assert found[0]["global_step"] == found[0]["kfac/graft_step"] == 5
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)


def test_embeddings_of_no_layer_keep_sparse_gradients(build_mlp, session, rows):
    """Momentum changes the rows that a batch looked up, and no others."""
    network = build_mlp(layers=1)
    table = v1.get_variable("table", initializer=np.ones([4, 2]), use_resource=True)
    looked_up = tf.nn.embedding_lookup(table, tf.constant([1, 1, 3]))
    optimizer = kfac.precondition(
        v1.train.GradientDescentOptimizer(1.0), network.collection, **SETTINGS
    )
    train = optimizer.minimize(network.losses[0] + tf.reduce_sum(looked_up))
    session.run(v1.global_variables_initializer())
    session.run(train, network.share(rows))
    np.testing.assert_allclose(session.run(table), [[1, 1], [-1, -1], [1, 1], [0, 0]])
    assert [op for op in train.graph.get_operations() if op.type.startswith("ResourceScatter")]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"momentum": 0.9}, TypeError, "no argument momentum: the optimizer that is given"),
        ({"adapt_damping": True}, TypeError, "adapts no damping"),
        ({"invert_evry": 2}, TypeError, "Did you mean invert_every"),
        ({"graft": "sgd"}, ValueError, "graft='sgd'. Accepted are None, 'adam'"),
        ({"graft": 3}, TypeError, "graft=3"),
        ({"optimizer": "adam"}, TypeError, "kfac.keras.Kfac"),
        ({"damping": -1.0}, ValueError, "damping=-1.0"),
    ],
)
def test_what_does_not_go(graph, settings, error, message):
    with pytest.raises(error, match=message):
        kfac.precondition(
            **{"optimizer": adam, "layer_collection": kfac.LayerCollection(), **SETTINGS} | settings
        )


def test_a_registered_variable_needs_a_gradient(build_mlp):
    network = build_mlp(layers=1)
    optimizer = kfac.precondition(adam, network.collection, **SETTINGS)
    with pytest.raises(ValueError, match="no gradient for mlp/logits/b"):
        optimizer.minimize(network.losses[0], var_list=[network.variables[0]])
