"""Several devices on one CPU, for the benchmarks of towers. TensorFlow is imported when asked."""


def divide_cpu(count: int) -> list[str]:
    """Makes the CPU of this process look like several devices; before TensorFlow is first used.

    Returns:
      The devices' names.
    """
    import tensorflow as tf  # noqa: PLC0415

    cpu, *_ = tf.config.list_physical_devices("CPU")
    logical = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, logical)
    return cpu_names(count)


def cpu_names(count: int) -> list[str]:
    """Returns the names of the first logical devices."""
    return [f"/cpu:{index}" for index in range(count)]
