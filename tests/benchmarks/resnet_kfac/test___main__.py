import pytest
import tensorflow as tf

from benchmarks.resnet_kfac import __main__ as benchmark
from benchmarks.resnet_kfac import residual_networks

v1 = tf.compat.v1


def test_ratios_compare_blocks_and_the_slowest_steps_with_the_median():
    """Two blocks of each optimizer; those of K-FAC take twice and four times as long."""
    kfac = [0.29, *[0.19] * (benchmark.BLOCK - 1)]
    kfac += [2 * second for second in kfac]
    median = (0.29 + 0.38) / 2
    found = benchmark.slowest(kfac)
    assert found == pytest.approx({"with averages": 0.58 / median, "without": 0.38 / median})
    times = {"momentum": [0.1] * 2 * benchmark.BLOCK, "K-FAC": kfac}
    *_, line = benchmark.lines({"resnet20": times})
    assert " ".join(line.split()).startswith("| resnet20 | 100 [100, 100] | 300 [200, 400] |")
    assert "3.00 [2.00, 4.00]" in line


def test_resnet_20_has_the_weights_of_the_paper(graph):
    network = residual_networks.NETWORKS["resnet20"]
    logits = network.logits(residual_networks.random_images(network, 2))
    assert (logits.shape, residual_networks.mean_loss(logits).shape) == ((2, 10), ())
    filters = [v for v in v1.trainable_variables() if v.shape.rank == 4]
    # 6n + 1 = 19 convolutions of n = 3 units, and 2 of shortcuts.
    assert len(filters) == 19 + 2
    # Table 6 of the paper: 0.27 million parameters.
    assert sum(v.shape.num_elements() for v in v1.trainable_variables()) == 272_474
