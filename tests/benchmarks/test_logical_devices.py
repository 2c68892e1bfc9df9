import tensorflow as tf

from benchmarks import logical_devices


def test_the_cpu_is_divided(monkeypatch):
    made = []
    monkeypatch.setattr(
        tf.config, "set_logical_device_configuration", lambda *arguments: made.append(arguments)
    )
    assert logical_devices.divide_cpu(3) == ["/cpu:0", "/cpu:1", "/cpu:2"]
    ((device, parts),) = made
    assert device == tf.config.list_physical_devices("CPU")[0]
    assert len(parts) == 3


def test_names():
    assert logical_devices.cpu_names(2) == ["/cpu:0", "/cpu:1"]
