"""Graphs of training steps on GPUs, built on any machine.

While such a graph is built, TensorFlow's list of devices has the GPUs. No session can run it on a
machine without them.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import tensorflow as tf

import replicate
from replicate.estimator.session_options import begin_graph

v1 = tf.compat.v1


@contextlib.contextmanager
def gpu_graph(gpus: int) -> Iterator[Any]:
    """Makes a graph for so many GPUs the default one and yields it.

    It begins like an Estimator's graph, with a global step on the CPU. Conditionals are made of
    `Switch` and `Merge`, as TensorFlow has them when it places a graph.
    """
    with _control_flow_in_graph(), _listed_gpus(gpus), tf.Graph().as_default() as graph:
        begin_graph(replicate.RunConfig())
        yield graph


@contextlib.contextmanager
def _listed_gpus(count: int) -> Iterator[None]:
    """Adds GPUs to TensorFlow's list of visible devices."""
    gpus = [
        tf.config.PhysicalDevice(f"/physical_device:GPU:{index}", "GPU") for index in range(count)
    ]
    visible, configuration = (
        tf.config.get_visible_devices,
        tf.config.get_logical_device_configuration,
    )

    def devices(kind: str | None = None) -> list[Any]:
        others = [device for device in visible(kind) if device.device_type != "GPU"]
        return [*others, *gpus] if kind in (None, "GPU") else others

    def logical(device: Any) -> Any:
        return None if device in gpus else configuration(device)

    with (
        mock.patch.object(tf.config, "get_visible_devices", devices),
        mock.patch.object(tf.config, "get_logical_device_configuration", logical),
    ):
        yield


@contextlib.contextmanager
def _control_flow_in_graph() -> Iterator[None]:
    """Makes conditionals of `Switch` and `Merge`, as TensorFlow does before it places a graph."""
    was_functional = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        if was_functional:
            v1.enable_control_flow_v2()
