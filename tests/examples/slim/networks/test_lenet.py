"""LeNet's shapes and parameters."""


def test_shapes_and_parameters_for_mnist(build):
    lenet = build("lenet", 28, 1, 10)
    assert lenet.network_fn.default_image_size == 28
    assert lenet.shapes == {
        "conv1": (28, 28, 32),
        "pool1": (14, 14, 32),
        "conv2": (14, 14, 64),
        "pool2": (7, 7, 64),
        "fc3": (1024,),
        "PreLogits": (1024,),
        "Logits": (10,),
        "Predictions": (10,),
    }
    convolutions = (5 * 5 * 1 + 1) * 32 + (5 * 5 * 32 + 1) * 64
    dense = (7 * 7 * 64 + 1) * 1024 + (1024 + 1) * 10
    assert lenet.parameters == convolutions + dense == 3_274_634


def test_dense_layers_go_with_the_size_of_the_images(build):
    lenet = build("lenet", 8, 1, 10)
    assert lenet.trainable["fc3/weights"] == [2 * 2 * 64, 1024]
