"""Checks of settings and arguments, and numbers that follow a schedule."""

import dataclasses
import inspect
import re

import pytest
import tensorflow as tf

import kfac
from kfac import computed_settings
from kfac.config import CurvatureConfig
from kfac.keras.arguments import KfacOfBoth
from kfac.settings import ADAPTIVE, CANNED, KfacSettings
from kfac.update import refresh

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"eigen_threshold": 0}, "eigen_threshold=0. It must be a number of inverses"),
        ({"patches_per_dimension": 0}, "patches_per_dimension=0"),
        ({"max_patches": 1.5}, "max_patches=1.5. It must be a number of patches"),
        ({"damping_power": -1}, "damping_power=-1. It must be >= 0"),
        ({"input_fraction": 0.0}, r"input_fraction=0.0. It must be in \(0, 1\]"),
        ({"sub_sample_inputs": 0.2}, "sub_sample_inputs=0.2. Accepted are True, False"),
        ({"sub_sample_patches": None}, "sub_sample_patches=None. Accepted are True, False"),
        ({"conv_moment": "fast"}, "conv_moment='fast'. Accepted are 'auto', 'patches'"),
        ({"inverse_method": "svd"}, "inverse_method='svd'. Accepted are 'auto', 'cholesky', 'eigh"),
        ({"factor_dtype": tf.int32}, "factor_dtype=.*int32.*floating-point"),
        ({"inverse_dtype": tf.int64}, "inverse_dtype=.*int64.*floating-point"),
    ],
)
def test_bad_values_of_the_config(kwargs, message):
    with pytest.raises(ValueError, match=message):
        CurvatureConfig(**kwargs)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"damping": 0}, r"damping=0. It must be > 0"),
        ({"cov_ema_decay": 1.1}, r"cov_ema_decay=1.1. It must be in \[0, 1\]"),
        ({"weight_decay_coeff": -1}, "weight_decay_coeff=-1. It must be >= 0"),
        ({"l2_reg": -1}, "l2_reg=-1. It must be >= 0"),
        ({"precon_damping_mult": 0}, "precon_damping_mult=0. It must be > 0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0. It must be > 0"),
        ({"momentum": -1}, "momentum=-1. It must be >= 0"),
        ({"norm_constraint": 0}, "norm_constraint=0. It must be > 0"),
        ({"qmodel_update_rescale": 0}, "qmodel_update_rescale=0. It must be > 0"),
        ({"damping_adaptation_interval": 0}, "damping_adaptation_interval=0.*int of at least 1"),
        ({"damping_adaptation_decay": 1.5}, r"adaptation_decay=1.5. It must be in \(0, 1\]"),
        ({"min_damping": -1.0}, r"min_damping \+ l2_reg=-1.0. It must be >= 0"),
        ({"max_damping": 1e-9}, r"max_damping=1e-09. It must be > min_damping \+ l2_reg"),
        ({"damping_increase_rho_threshold": 0.8}, "_threshold=0.8. It must be <= .*=0.75"),
        ({"rejection_rho_threshold": float("nan")}, "rejection_rho_threshold=nan"),
        (
            {"rejection_rho_threshold": 0.0, "update_damping_immediately": False},
            "rejection_rho_threshold=0.0 with update_damping_immediately=False",
        ),
    ],
)
def test_bad_values_of_the_settings(kwargs, message):
    with pytest.raises(ValueError, match=message):
        KfacSettings(**{"learning_rate": 0.1, "damping": 0.1, **kwargs})


OF_TENSORFLOW_KFAC = """
    learning_rate damping layer_collection cov_ema_decay=0.95 var_list=None momentum=0.9
    momentum_type='adam' use_weight_decay=False weight_decay_coeff=0.1 qmodel_update_rescale=None
    norm_constraint=None name='KFAC' estimation_mode='gradients' colocate_gradients_with_ops=True
    batch_size=None placement_strategy=None compute_params_stats=False adapt_damping=False
    update_damping_immediately=True is_chief=True prev_train_batch=None loss=None loss_fn=None
    min_damping=1e-08 l2_reg=0.0 damping_adaptation_decay=0.95 damping_adaptation_interval=5
    damping_decrease_rho_threshold=0.75 damping_increase_rho_threshold=0.25
    precon_damping_mult=1.0 use_passed_loss=True train_batch=None print_logs=False
    tf_replicator=None dtype='float32'
"""
"""The positional arguments of its `KfacOptimizer`."""

CONSTRUCTORS = {
    "KfacOptimizer": (kfac.KfacOptimizer, KfacSettings),
    "periodic": (kfac.PeriodicInvCovUpdateKfacOpt, KfacSettings),
    "async": (kfac.AsyncInvCovUpdateKfacOpt, KfacSettings),
    "cluster": (kfac.ClusterKfacOpt, KfacSettings),
    "adaptive": (kfac.adaptive, ADAPTIVE),
    "canned": (kfac.for_canned, CANNED),
    "keras": (KfacOfBoth, KfacSettings),
}
NOT_THE_DEFAULT = {
    "canned": {"damping", "estimation_mode"},  # None: the one of `CANNED`, or by the logits.
    "keras": {"name", "learning_rate", "damping"},
}


def test_positional_arguments_are_those_of_tensorflow_kfac():
    parameters = inspect.signature(kfac.KfacOptimizer).parameters.values()
    found = [p.replace(annotation=p.empty) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert [str(p) for p in found] == OF_TENSORFLOW_KFAC.split()
    assert list(inspect.signature(kfac.PeriodicInvCovUpdateKfacOpt).parameters)[:3] == [
        *("invert_every", "cov_update_every", "num_burnin_steps")
    ]


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_defaults_and_docs_come_from_the_settings(name):
    function, settings = CONSTRUCTORS[name]
    parameters = inspect.signature(function).parameters.values()
    of_settings = {field.name for field in dataclasses.fields(KfacSettings)}
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    chosen = {n: d for n, d in defaults.items() if n in of_settings}
    chosen = {n: d for n, d in chosen.items() if n not in NOT_THE_DEFAULT.get(name, ())}
    assert chosen == {n: getattr(settings, n) for n in chosen}
    described = inspect.getdoc(function.__init__ if isinstance(function, type) else function)
    entries = re.findall(r"^  \*{0,2}(\w+): \S", described, re.MULTILINE)
    assert [e for e in entries if e in {p.name for p in parameters}] == [p.name for p in parameters]


def test_recommended_values_are_in_the_docs():
    assert "`damping_adaptation_decay=0.9`" in inspect.getdoc(kfac.adaptive)
    assert f"None means {CANNED.damping}." in inspect.getdoc(kfac.for_canned)
    assert f"and None means {ADAPTIVE.damping:g}." in inspect.getdoc(kfac.for_canned)


@pytest.mark.parametrize(
    "make",
    [
        kfac.PeriodicInvCovUpdateKfacOpt,
        kfac.AsyncInvCovUpdateKfacOpt,
        kfac.ClusterKfacOpt,
        type("Own", (kfac.PeriodicInvCovUpdateKfacOpt,), {}),
        kfac.adaptive,
    ],
)
def test_misspelt_argument_is_told_by_what_was_called(make):
    worker = {"worker": None} if make is kfac.ClusterKfacOpt else {}
    with pytest.raises(TypeError, match=f"{make.__name__} has no argument .* mean learning_rate"):
        make(lerning_rate=0.1, **worker)
    with pytest.raises(TypeError, match="has no argument refresh"):
        make(refresh=None, **worker)


def test_numbers_tensors_and_variables_are_returned_as_they_are(graph):
    for value in (0.1, None, tf.constant(0.1), v1.get_variable("rate", [])):
        assert computed_settings.called_once(value) is value
        assert computed_settings.current(value) is value


def test_function_is_called_at_first_use_and_once_also_in_a_branch(graph, session):
    calls = []

    def schedule():
        calls.append(1)
        return tf.constant(0.5)

    rate = computed_settings.called_once(schedule)
    assert calls == []
    condition = v1.placeholder_with_default(True, [])
    inside = tf.cond(condition, lambda: 2 * computed_settings.current(rate), lambda: 0.0)
    assert session.run([inside, computed_settings.current(rate)]) == [1.0, 0.5]
    assert computed_settings.current(rate) is computed_settings.current(rate)
    assert calls == [1]


@pytest.mark.parametrize("period", [3, lambda: tf.constant(3)])
def test_what_is_done_every_so_many_steps(graph, session, period):
    step = v1.placeholder(tf.int64, [])
    due = refresh.is_due(step, period)
    assert [n for n in range(7) if session.run(due, {step: n})] == [0, 3, 6]


def test_what_is_done_in_every_step(graph, session):
    step = v1.placeholder(tf.int64, [])
    assert refresh.is_due(step, 1) is True
    assert session.run(refresh.is_due(step, tf.constant(0)), {step: 5})


def test_decay_per_update(graph, session):
    assert refresh.decay_per_update(0.5, 3) == 0.125
    decay = tf.constant(0.5, tf.float64)
    assert refresh.decay_per_update(decay, 1) is decay
    assert session.run(computed_settings.current(refresh.decay_per_update(decay, 3))) == 0.125
