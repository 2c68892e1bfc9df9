import tensorflow as tf

from benchmarks.kfac_step import residual_networks

v1 = tf.compat.v1


def test_resnet_20_has_the_weights_of_the_paper(graph):
    network = residual_networks.NETWORKS["resnet20"]
    logits = network.logits(residual_networks.random_images(network, 2))
    assert (logits.shape, residual_networks.mean_loss(logits).shape) == ((2, 10), ())
    filters = [v for v in v1.trainable_variables() if v.shape.rank == 4]
    # 6n + 1 = 19 convolutions of n = 3 units, and 2 of shortcuts.
    assert len(filters) == 19 + 2
    # Table 6 of the paper: 0.27 million parameters.
    assert sum(v.shape.num_elements() for v in v1.trainable_variables()) == 272_474
