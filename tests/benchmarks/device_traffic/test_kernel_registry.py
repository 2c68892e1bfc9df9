import json

import pytest
import tensorflow as tf

from benchmarks.device_traffic import kernel_registry


def test_kernels_that_differ_in_one_type_are_joined():
    kernels = [
        ({"T": [kind], "out": [out]}, ["y"]) for kind in ("half", "float") for out in ("a", "b")
    ]
    others = [({"T": ["int"]}, []), ({}, ["x"])]
    merged = kernel_registry._merged([*kernels, *others])
    assert merged == [({"T": ["float", "half"], "out": ["a", "b"]}, ["y"]), *others]


def test_registry_is_read():
    kernels = kernel_registry.gpu_kernels()
    assert {"types": {}, "host": []} in kernels["NoOp"]
    assert kernels["Assert"] == [{"types": {}, "host": ["condition", "data"]}]


def test_table_is_that_of_a_build_with_cuda(monkeypatch, tmp_path):
    table = json.loads(kernel_registry.TABLE.read_text(encoding="utf-8"))
    if tf.test.is_built_with_cuda():
        assert table["tensorflow"] != tf.__version__ or (
            table["kernels"] == kernel_registry.gpu_kernels()
        )
        return
    monkeypatch.setattr(kernel_registry, "TABLE", tmp_path / "table.json")
    with pytest.raises(SystemExit, match="built without CUDA and lacks most GPU kernels"):
        kernel_registry.main()
    assert not kernel_registry.TABLE.exists()
    assert len(table["kernels"]) > 500
