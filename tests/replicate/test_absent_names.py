import operator
import re
import sys

import pytest

import replicate
from replicate.absent_names import HINTS, error_for


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RNNClassifier", r"model_fn and pass it to replicate\.Estimator"),
        ("TPUEstimator", r"It is replicate\.tpu\.TPUEstimator"),
        ("experimental", r"replicate\.make_early_stopping_hook"),
        ("build_raw_supervised_input_receiver_fn", r"It is replicate\.export\."),
    ],
)
def test_error_for_absent_name_suggests_a_replacement(name, text):
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. .*{text}"):
        getattr(replicate, name)
    assert not hasattr(replicate, name)


def test_an_import_of_an_absent_name_has_the_hint_too():
    with pytest.raises(
        ImportError, match=r"^cannot import name 'TPUConfig' .*It is replicate\.tpu"
    ):
        from replicate import TPUConfig  # noqa: F401, PLC0415
    assert isinstance(error_for("TPUConfig", sys._getframe()), AttributeError)


@pytest.mark.parametrize(
    ("name", "meant"), [("RunConfg", "RunConfig"), ("DnnClassifier", "DNNClassifier")]
)
def test_misspelt_name_gets_a_suggestion(name, meant):
    with pytest.raises(AttributeError, match=rf"'{name}'\. Did you mean replicate\.{meant}\?$"):
        getattr(replicate, name)


def test_no_hint_hides_a_public_name():
    assert set(replicate.__all__).isdisjoint(HINTS)


def test_hints_name_existing_things():
    named = {name for text in HINTS.values() for name in re.findall(r"replicate\.([\w.]+\w)", text)}
    assert "export.SupervisedInputReceiver" in named
    for name in named:
        assert operator.attrgetter(name)(replicate)
