import tensorflow as tf

from benchmarks.device_traffic.gpu_kernels import GpuKernels, Kernel

v1 = tf.compat.v1


def find(make):
    with tf.Graph().as_default():
        return GpuKernels().find(make())


def given(dtype, shape=(2, 2)):
    return v1.placeholder(dtype, shape)


def test_kernel_depends_on_data_types():
    assert find(lambda: (given(tf.float32) @ given(tf.float32)).op) == Kernel(
        frozenset(), frozenset()
    )
    assert find(lambda: tf.matmul(given(tf.int32), given(tf.int32)).op) is None


def test_integers_are_in_the_memory_of_the_cpu():
    kernel = find(lambda: tf.add(given(tf.int32), given(tf.int32)).op)
    assert kernel == Kernel(frozenset({0, 1}), frozenset({0}))


def test_default_kernels_serve_types_without_their_own():
    kernel = find(lambda: tf.reduce_sum(given(tf.int32)).op)
    assert kernel == Kernel(frozenset({0, 1}), frozenset({0}))
    assert find(lambda: tf.reduce_sum(given(tf.float32)).op) == Kernel(frozenset({1}), frozenset())


def test_positions_count_arguments_that_are_lists():
    kernel = find(lambda: tf.concat([given(tf.float32) for _ in range(3)], axis=0).op)
    assert kernel.host_inputs == {3}


def test_strings_have_no_kernel():
    assert find(lambda: tf.strings.join(["a", "b"]).op) is None
