"""LeNet: two convolutions and two dense layers, for images of digits.

    conv 5x5, 32 -> pool -> conv 5x5, 64 -> pool -> dense 1024 -> dropout -> logits

The arrangement is that of LeNet-5; rectifiers, maxima instead of means, dropout and the wider
layers came later. Called through `factory.get_network_fn`.

Reference: LeCun, Bottou, Bengio & Haffner (1998), "Gradient-Based Learning Applied to Document
Recognition", §II.
"""

from examples.slim.networks.layers import EndPoints, Layers, Tensor, flatten, max_pool, network


@network(default_image_size=28)
def lenet(images: Tensor, num_classes: int | None, layers: Layers) -> tuple[Tensor, EndPoints]:
    """Builds LeNet: logits [batch, num_classes] or features [batch, 1024], and end points."""
    ends: EndPoints = {}
    ends["conv1"] = layers.conv2d("conv1", images, 32, 5)
    ends["pool1"] = max_pool(ends["conv1"], 2, 2)
    ends["conv2"] = layers.conv2d("conv2", ends["pool1"], 64, 5)
    ends["pool2"] = max_pool(ends["conv2"], 2, 2)
    ends["fc3"] = layers.dense("fc3", flatten(ends["pool2"]), 1024)
    return layers.classified(layers.dropout(ends["fc3"], 0.5), num_classes, ends)
