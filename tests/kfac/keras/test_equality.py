"""The same steps as the graph-mode optimizer, on the same weights and batches."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1


def conv_model(keras):
    k = keras.keras.layers
    layers = [k.Input((6, 6, 1)), k.Conv2D(4, 3, activation="relu"), k.BatchNormalization()]
    layers += [k.MaxPooling2D(), k.Flatten(), k.Dense(3)]
    return keras.seeded(keras.keras.Sequential(layers))


def in_a_graph(either, make_model, x, y, weights, size, **settings):
    """Returns the loss before each step, of the optimizer for graphs."""
    with tf.Graph().as_default(), v1.Session() as session:
        features = v1.placeholder(tf.float32, [None, *x.shape[1:]])
        labels = v1.placeholder(tf.int64, [None])
        model = make_model(either)
        logits = model(features, training=True)
        variables = [getattr(v, "_value", v) for v in model.trainable_variables]
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        layers = kfac.LayerCollection()
        layers.register_categorical_predictive_distribution(logits, targets=labels, name="loss_0")
        layers.auto_register_layers(variables)
        step = kfac.PeriodicInvCovUpdateKfacOpt(layer_collection=layers, **settings).minimize(
            loss, var_list=variables
        )
        session.run(v1.global_variables_initializer())
        for variable, value in zip(variables, weights, strict=True):
            session.run(variable.assign(value))
        return np.array(
            [
                session.run([loss, step], {features: x[i : i + size], labels: y[i : i + size]})[0]
                for i in range(0, len(x), size)
            ]
        )


@pytest.mark.parametrize(
    ("make_model", "settings"),
    [
        (conv_model, {"invert_every": 5}),
        pytest.param(
            lambda keras: keras.dense_model(),
            {
                "invert_every": 5,
                "cov_update_every": 2,
                "num_burnin_steps": 2,
                "momentum_type": "regular",
                "norm_constraint": 1e-2,
                "spread_inverses": True,
                "spread_first_inverses": True,
            },
            marks=pytest.mark.broad,
        ),
    ],
    ids=["conv", "all settings of periods"],
)
def test_twenty_steps_equal_those_of_graph_mode(both, make_model, settings):
    x, y = both.examples(20 * 16, features=36 if make_model is conv_model else 6)
    model = make_model(both)
    x = x.reshape([-1, *model.input_shape[1:]])
    weights = [v.numpy() for v in model.trainable_variables]
    settings = {"learning_rate": 0.02, "damping": 0.02, **settings}
    model.compile(optimizer=both.Kfac(**settings), loss=both.cross_entropy())
    losses = both.fit(model, x, y)
    expected = in_a_graph(both, make_model, x, y, weights, 16, **settings)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-5)
    assert np.std(losses) > 0.01
    assert int(model.optimizer.iterations) == 20
