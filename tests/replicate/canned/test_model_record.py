"""Records cannot be changed."""

import dataclasses

import pytest

from replicate.canned.model_record import Layer, ModelRecord


def test_records_are_frozen():
    layer = Layer("dense", "kernel", None, "inputs", "outputs")
    record = ModelRecord((), (layer,), ("kernel",), "sum", "Head")
    for each in (layer, record):
        with pytest.raises(dataclasses.FrozenInstanceError):
            each.variables = ()
