"""N towers train to the weights of one: optimizers, models, reductions, variables and types.

The reference is the model_fn without towers: called once, on the whole batch, with the optimizer
unwrapped. It is itself checked against NumPy. All models of one kind are built side by side in one
graph and trained together, so that a session runs many of them.

The default is an eighth of the grid, in which every pair of values of any two axes appears;
`-m slow` runs it in full.
"""

import functools
import itertools
import typing

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
STEPS, ROWS, CLASSES, WORDS = 6, 24, 3, 11
TOWERS = (1, 2, 3, 8)
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}
"""Of the largest weight."""

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.01, epsilon=1e-3),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5, epsilon=1e-3),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
}


REDUCTIONS = {"mean": v1.losses.Reduction.MEAN, "sum": v1.losses.Reduction.SUM}


class Member(typing.NamedTuple):
    """One model of the grid."""

    optimizer: str
    model: str
    reduction: str

    def __str__(self):
        return "_".join(self)


class Kind(typing.NamedTuple):
    """The common part of the models of one graph."""

    towers: int
    variables: str
    dtype: str

    def __str__(self):
        return f"{self.towers}-{self.variables}-{self.dtype}"


MEMBERS = [
    Member(*names) for names in itertools.product(OPTIMIZERS, ("dense", "embedding"), REDUCTIONS)
]
GROUPS = [MEMBERS[number::4] for number in range(4)]
"""All optimizers with one model and one reduction each."""

KINDS = [
    Kind(*values)
    for values in itertools.product(TOWERS, ("resource", "reference"), ("float32", "float64"))
]


@functools.cache
def batches(dtype, cut=False):
    """STEPS batches: numbers [ROWS, 5], words [ROWS, 4], labels [ROWS] that depend on both.

    Those that are cut have 5, 6 or 7 rows in place of ROWS.
    """
    random = np.random.default_rng(7)
    numbers = random.normal(size=[STEPS, ROWS, 5])
    words = random.integers(0, WORDS, [STEPS, ROWS, 4])
    labels = (words.sum(axis=2) + (numbers.sum(axis=2) > 0)) % CLASSES
    arrays = {"numbers": numbers.astype(dtype), "words": words, "labels": labels}
    return [
        {name: values[step, : 5 + step % 3 if cut else ROWS] for name, values in arrays.items()}
        for step in range(STEPS)
    ]


def initial(name, shape, dtype):
    seed = sum(map(ord, name))
    values = np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[0])
    return values.astype(dtype)


def variable(name, shape, dtype):
    return v1.get_variable(name, dtype=dtype, initializer=tf.constant(initial(name, shape, dtype)))


def dense_logits(features):
    """A hidden layer of tanh, with biases."""
    numbers = features["numbers"]
    dtype = numbers.dtype.as_numpy_dtype
    hidden = tf.tanh(numbers @ variable("w1", [5, 7], dtype) + variable("b1", [7], dtype))
    return hidden @ variable("w2", [7, CLASSES], dtype) + variable("b2", [CLASSES], dtype)


def embedding_logits(features):
    """The mean of four words, of which many come more than once: gradients are IndexedSlices."""
    dtype = features["numbers"].dtype.as_numpy_dtype
    table = variable("table", [WORDS, 6], dtype)
    mean = tf.reduce_mean(tf.nn.embedding_lookup(table, features["words"]), axis=1)
    return mean @ variable("w", [6, CLASSES], dtype)


LOGITS = {"dense": dense_logits, "embedding": embedding_logits}


def model_fn(features, labels, mode, params):
    """Cross entropy of a member's model, reduced as it says; `params` has member and wrapper."""
    member = params["member"]
    logits = LOGITS[member.model](features)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    # A sum trains as the mean does at a rate that is smaller by the rows of a batch.
    loss = tf.reduce_mean(losses) if member.reduction == "mean" else tf.reduce_sum(losses) / ROWS
    optimizer = params["wrap"](OPTIMIZERS[member.optimizer])
    variables = v1.trainable_variables(v1.get_variable_scope().name)
    gradients = optimizer.compute_gradients(loss, variables)
    sparse = [isinstance(gradient, tf.IndexedSlices) for gradient, _ in gradients]
    assert any(sparse) == (member.model == "embedding"), "the gradient of the table is sparse"
    return replicate.EstimatorSpec(mode, loss=loss, train_op=optimizer.apply_gradients(gradients))


def devices(towers):
    return [f"/cpu:{index}" for index in range(towers)]


def alone(member):
    """The reference: model_fn as it is."""
    params = {"member": member, "wrap": lambda make: make()}
    return functools.partial(model_fn, params=params)


def replicated(member, towers, uneven="error"):
    """The same model_fn on towers."""
    replicated_fn = replicate.replicate_model_fn(
        model_fn, REDUCTIONS[member.reduction], devices(towers), uneven=uneven
    )
    return functools.partial(
        replicated_fn, params={"member": member, "wrap": replicate.TowerOptimizer}
    )


def train(model_fns, data, rows=None, use_resource=True):
    """Trains models side by side, one step on each batch.

    Returns for each model the losses, [steps], and all its variables by name after the last step.
    """
    specs = {}
    with tf.Graph().as_default():
        inputs = {
            name: v1.placeholder(values.dtype, [rows, *values.shape[1:]], name)
            for name, values in data[0].items()
        }
        features = {name: inputs[name] for name in ("numbers", "words")}
        for member, build in model_fns.items():
            with v1.variable_scope(str(member), use_resource=use_resource):
                specs[member] = build(features, inputs["labels"], "train")
        variables = {
            member: {
                v.op.name.removeprefix(f"{member}/"): v
                for v in v1.global_variables()
                if v.op.name.startswith(f"{member}/")
            }
            for member in specs
        }
        expected = "VarHandleOp" if use_resource else "VariableV2"
        assert {v.op.type for v in v1.global_variables()} == {expected}
        step = {member: (spec.loss, spec.train_op) for member, spec in specs.items()}
        with v1.Session() as session, user_errors():
            session.run(v1.global_variables_initializer())
            outcomes = [
                session.run(step, {inputs[name]: batch[name] for name in inputs}) for batch in data
            ]
            values = session.run(variables)
    return {
        member: ([outcome[member][0] for outcome in outcomes], values[member]) for member in specs
    }


@functools.cache
def reference(dtype, group):
    """The members of a group without towers, trained on the same batches."""
    return train({member: alone(member) for member in GROUPS[group]}, batches(dtype), ROWS)


WEIGHTS = {"dense": ("w1", "b1", "w2", "b2"), "embedding": ("table", "w")}


def different(got, expected, dtype):
    """The members whose weights, losses or names of variables are not those of the reference."""
    return [str(member) for member in got if not same(member, got[member], expected[member], dtype)]


def same(member, got, expected, dtype):
    losses, variables = got
    expected_losses, expected_variables = expected
    names = WEIGHTS[member.model]
    largest = max(np.abs(expected_variables[name]).max() for name in names)
    bound = TOLERANCE[dtype] * largest
    return (
        sorted(variables) == sorted(expected_variables)
        and all(np.abs(variables[n] - expected_variables[n]).max() <= bound for n in names)
        and np.allclose(losses, expected_losses, rtol=5 * TOLERANCE[dtype], atol=0)
    )


def check_kind(kind, group):
    models = {member: replicated(member, kind.towers) for member in GROUPS[group]}
    got = train(models, batches(kind.dtype), ROWS, kind.variables == "resource")
    assert different(got, reference(kind.dtype, group), kind.dtype) == []


def case(towers, variables, dtype, group, marks=()):
    return pytest.param(Kind(towers, variables, dtype), group, marks=marks)


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        case(1, "resource", "float32", 0, pytest.mark.broad),
        case(1, "reference", "float64", 3, pytest.mark.broad),
        case(2, "resource", "float64", 1),
        case(2, "reference", "float32", 2, pytest.mark.broad),
        case(3, "resource", "float32", 3, pytest.mark.broad),
        case(3, "reference", "float64", 0),
        case(8, "resource", "float64", 2, pytest.mark.broad),
        case(8, "reference", "float32", 1, pytest.mark.broad),
    ],
    ids=str,
)
def test_towers_train_as_one(kind, group):
    check_kind(kind, group)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_towers_train_as_one_in_the_whole_grid(kind):
    for group in range(4):
        check_kind(kind, group)


UNEVEN_MEMBERS = [
    Member("sgd", "dense", "mean"),
    Member("sgd", "embedding", "sum"),
    Member("adam", "dense", "sum"),
    Member("adam", "embedding", "mean"),
]


@functools.cache
def uneven_reference(dtype, members):
    return train({member: alone(member) for member in members}, batches(dtype, cut=True))


def check_uneven(towers, dtype, members):
    models = {member: replicated(member, towers, "weighted") for member in members}
    got = train(models, batches(dtype, cut=True))
    assert different(got, uneven_reference(dtype, tuple(members)), dtype) == []


def test_uneven_batches_train_as_one():
    """Batches of 5, 6, 7, 5 … rows."""
    check_uneven(3, "float32", UNEVEN_MEMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("towers", TOWERS[1:])
def test_uneven_batches_train_all_members_as_one(towers, dtype):
    check_uneven(towers, dtype, MEMBERS)


def regularized_fn(features, labels, mode, params):
    """Squares, and a weight decay that TensorFlow's collection of regularization losses holds."""
    kernel = v1.get_variable(
        "kernel",
        dtype=tf.float64,
        initializer=tf.ones([5], tf.float64),
        regularizer=lambda weights: 0.3 * tf.reduce_sum(weights**2),
    )
    squares = (tf.linalg.matvec(features["numbers"], kernel) - tf.cast(labels, tf.float64)) ** 2
    reduce = {"mean": tf.reduce_mean, "sum": tf.reduce_sum}[params["reduction"]]
    loss = reduce(squares) + v1.losses.get_regularization_loss()
    optimizer = replicate.TowerOptimizer(v1.train.GradientDescentOptimizer(2.0**-8))
    return replicate.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


@pytest.mark.parametrize(("towers", "reduction"), [(3, "mean"), (8, "sum")])
def test_a_regularizer_counts_once(towers, reduction):
    replicated_fn = replicate.replicate_model_fn(
        regularized_fn, REDUCTIONS[reduction], devices(towers), uneven="weighted"
    )
    build = functools.partial(replicated_fn, params={"reduction": reduction})
    data = batches("float64", cut=True)
    kernel, expected = np.ones(5), []
    for batch in data:
        errors = batch["numbers"] @ kernel - batch["labels"]
        share = len(errors) if reduction == "mean" else 1
        expected.append((errors**2).sum() / share + 0.3 * (kernel**2).sum())
        kernel = kernel - 2.0**-7 * (batch["numbers"].T @ errors / share + 0.3 * kernel)
    losses, variables = train({"model": build}, data)["model"]
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    np.testing.assert_allclose(variables["kernel"], kernel, rtol=0, atol=1e-12)


def numpy_gradients(model, weights, batch):
    """Gradients of the mean cross entropy, by hand."""
    numbers, words, labels = batch["numbers"], batch["words"], batch["labels"]
    if model == "dense":
        hidden = np.tanh(numbers @ weights["w1"] + weights["b1"])
        logits = hidden @ weights["w2"] + weights["b2"]
    else:
        hidden = weights["table"][words].mean(axis=1)
        logits = hidden @ weights["w"]
    exponents = np.exp(logits)
    by_logits = exponents / exponents.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]
    by_logits /= len(labels)
    if model == "dense":
        inside = by_logits @ weights["w2"].T * (1 - hidden**2)
        return {
            "w1": numbers.T @ inside,
            "b1": inside.sum(axis=0),
            "w2": hidden.T @ by_logits,
            "b2": by_logits.sum(axis=0),
        }
    table = np.zeros_like(weights["table"])
    np.add.at(table, words, (by_logits @ weights["w"].T / words.shape[1])[:, None])
    return {"table": table, "w": hidden.T @ by_logits}


@pytest.mark.parametrize("model", WEIGHTS)
@pytest.mark.parametrize(("optimizer", "momentum"), [("sgd", 0.0), ("momentum", 0.9)])
def test_the_reference_is_that_of_numpy(optimizer, momentum, model):
    group = {"dense": 0, "embedding": 2}[model]
    _, trained = reference("float64", group)[Member(optimizer, model, "mean")]
    weights = {name: initial(name, trained[name].shape, "float64") for name in WEIGHTS[model]}
    velocities = {name: np.zeros_like(value) for name, value in weights.items()}
    rate, decay = np.float64(np.float32([0.1, momentum]))  # TensorFlow has them in float32.
    for batch in batches("float64"):
        gradients = numpy_gradients(model, weights, batch)
        for name in weights:
            velocities[name] = decay * velocities[name] + gradients[name]
            weights[name] -= rate * velocities[name]
    for name, value in weights.items():
        np.testing.assert_allclose(trained[name], value, rtol=0, atol=1e-12)
