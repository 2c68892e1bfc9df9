"""Two orders of arguments for one function, and the text for a mixture of them."""

import pathlib
import re

import numpy as np
import pytest

from examples.argument_order import in_older_order


@in_older_order(
    "data_dir", "num_epochs", "num_towers", "use_fake_data", "devices", told_by="data_dir"
)
def train(num_epochs, num_towers=None, devices=None, use_fake_data=False, *, data_dir=None):
    """Returns what it was given."""
    return data_dir, num_epochs, num_towers, devices, use_fake_data


@pytest.mark.parametrize(
    ("args", "named", "given"),
    [
        ((5,), {}, (None, 5, None, None, False)),
        ((5, 2, ["/cpu:0"], True), {}, (None, 5, 2, ["/cpu:0"], True)),
        ((np.int64(5),), {"data_dir": "D"}, ("D", 5, None, None, False)),
        (("D", 5), {}, ("D", 5, None, None, False)),
        (("D", 5, 2, True, ["/cpu:0"]), {}, ("D", 5, 2, ["/cpu:0"], True)),
        ((None, 5), {"devices": ["/cpu:0"]}, (None, 5, None, ["/cpu:0"], False)),
        ((pathlib.Path("D"),), {"num_epochs": 5}, (pathlib.Path("D"), 5, None, None, False)),
        ((), {"data_dir": "D", "num_epochs": 5}, ("D", 5, None, None, False)),
    ],
)
def test_both_orders_mean_the_same(args, named, given):
    assert train(*args, **named) == given


@pytest.mark.parametrize(
    ("args", "named", "wrong"),
    [
        ((5, "D"), {}, "num_towers must be an integer or None, got 'D'"),
        (("D", "5"), {}, "num_epochs must be an integer, got '5'"),
        ((5, 2, True), {}, "devices must be a list of devices or None, got True"),
        (("D", 5, 2, ["/cpu:0"]), {}, "use_fake_data must be True or False, got ['/cpu:0']"),
        (("D", 5), {"num_epochs": 6}, "num_epochs is given twice"),
    ],
)
def test_mixture_is_refused_with_both_orders(args, named, wrong):
    told = (
        f"train: {wrong}. Give the arguments as (num_epochs, num_towers, devices, use_fake_data), "
        "the order of tensorflow/kfac's examples, or as (data_dir, num_epochs, num_towers, "
        "use_fake_data, devices), that of tf.contrib.kfac's; or name them."
    )
    with pytest.raises(TypeError, match=re.escape(told)):
        train(*args, **named)


def test_decorated_function_keeps_its_name_text_and_errors():
    with pytest.raises(TypeError, match="num_epochs"):
        train("D")
    assert (train.__name__, train.__doc__) == ("train", "Returns what it was given.")
