import tensorflow as tf

from benchmarks.start import __main__ as benchmark
from benchmarks.start import start_programs

v1 = tf.compat.v1


def record(seconds):
    return {
        "build": seconds / 2,
        "initialize": seconds / 4,
        "first step": seconds / 4,
        "processor": 2 * seconds,
        "operations": 1000.0,
        "in functions": 10.0,
        "build MB": 7.0,
    }


def test_measure_counts_operations_and_seconds():
    steps, square = [], tf.function(lambda value: value * value)

    def build():
        variable = v1.get_variable("variable", [], initializer=v1.ones_initializer())
        steps.append(square(tf.constant(2.0)))
        return variable.assign_add(steps[0])

    found = start_programs.measure(build)
    assert len(steps) == 1
    assert found["operations"] == len(steps[0].graph.get_operations())
    assert found["in functions"] >= 1
    assert min(found[part] for part in ("build", "initialize", "first step", "processor")) > 0


def test_lines_compare_with_the_rival():
    rival = benchmark.Case("resnet20", "v1", "K-FAC", 1, "tensorflow-kfac")
    one, four, momentum = (
        benchmark.Case("resnet20", "v1", optimizer, towers)
        for optimizer, towers in (("K-FAC", 1), ("K-FAC", 4), ("momentum", 1))
    )
    found = {rival: [record(2), record(4)], one: [record(1), record(3)]}
    found |= {four: [record(8), record(8)], momentum: [record(1), record(1)]}
    _, _, theirs, ours, towers, plain = benchmark.lines(found)
    assert "3.0 [2.0, 4.0]" in theirs
    assert "6.0 [4.0, 8.0]" in theirs
    assert ours.count("0.62 [0.50, 0.75]") == 2
    assert "3.00 [2.00, 4.00]" in towers
    assert plain.count("[") == theirs.count("[") == 2
