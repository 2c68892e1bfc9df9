"""Shared flags belong to the program that asks for them, with its defaults."""

import pytest
from absl import flags
from absl.testing import flagsaver

from examples import run_flags


@pytest.fixture
def defined():
    with flagsaver.flagsaver():
        run_flags.define(model_dir="here", batch_size=6, train_steps=5, eval_every_steps=4)
        run_flags.define_positive("rate", 0.5, "A rate.")
        run_flags.define_positive("limit", None, "A limit.")
        run_flags.define_momentum(0.9, "A momentum.")
        run_flags.define_learning_rate({"adam": 0.01, "sgd": 0.5})
        yield flags.FLAGS


def test_read_returns_the_defaults_of_the_program(defined):
    defined(["program"])
    settings = run_flags.read()
    assert (settings.model_dir, settings.batch_size) == ("here", 6)
    assert (settings.train_steps, settings.eval_every_steps) == (5, 4)
    assert settings.num_towers is settings.devices is settings.save_every_steps is None


def test_read_returns_what_was_given(defined):
    defined(["program", "--devices=/cpu:0,/cpu:1", "--save_every_steps=3", "--progress=off"])
    settings = run_flags.read()
    assert settings.devices == ["/cpu:0", "/cpu:1"]
    assert (settings.save_every_steps, settings.progress) == (3, "off")
    assert (settings.profile_steps, settings.dry_run) == (None, False)
    defined(["program", "--profile_steps=20:24", "--dry_run"])
    assert (run_flags.read().profile_steps, run_flags.read().dry_run) == ((20, 24), True)


def test_the_flags_are_listed_as_those_of_the_caller(defined):
    names = {flag.name for flag in defined.get_key_flags_for_module(__name__)}
    assert {"model_dir", "batch_size", "rate", "momentum"} <= names


@pytest.mark.parametrize(
    "wrong",
    [
        "rate=0",
        "rate=nan",
        "rate=inf",
        "limit=-1",
        "momentum=1",
        "momentum=nan",
        "seed=x",
        "profile_steps=20",
    ],
)
def test_numbers_out_of_range_are_refused(defined, wrong):
    with pytest.raises(flags.IllegalFlagValueError, match=wrong.partition("=")[0]):
        defined(["program", f"--{wrong}"])


def test_a_limit_may_be_absent(defined):
    defined(["program"])
    assert defined["limit"].value is None


def test_the_learning_rate_says_what_it_is_for_each_optimizer(defined):
    assert defined["learning_rate"].help == "Default: 0.01 for adam, 0.5 for sgd."
