"""tf.layers of TensorFlow 1 on public operations: no Keras, and the old names of variables.

Every class and function has the arguments and defaults of TensorFlow 1.15. They need a graph.
"""

from replicate.compat.layers import experimental
from replicate.compat.layers.base import Layer
from replicate.compat.layers.batch_normalization import BatchNormalization, batch_normalization
from replicate.compat.layers.convolution import Conv1D, Conv2D, Conv3D, conv1d, conv2d, conv3d
from replicate.compat.layers.core import Dense, Dropout, Flatten, dense, dropout, flatten
from replicate.compat.layers.input_spec import InputSpec
from replicate.compat.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
    average_pooling1d,
    average_pooling2d,
    average_pooling3d,
    max_pooling1d,
    max_pooling2d,
    max_pooling3d,
)
from replicate.compat.layers.separable_convolution import (
    SeparableConv1D,
    SeparableConv2D,
    separable_conv1d,
    separable_conv2d,
)
from replicate.compat.layers.transposed_convolution import (
    Conv2DTranspose,
    Conv3DTranspose,
    conv2d_transpose,
    conv3d_transpose,
)

Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D
Convolution2DTranspose = Deconvolution2D = Deconv2D = Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = Conv3DTranspose
SeparableConvolution1D = SeparableConv1D
SeparableConvolution2D = SeparableConv2D
convolution1d = conv1d
convolution2d = conv2d
convolution3d = conv3d
convolution2d_transpose = deconvolution2d = deconv2d = conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = conv3d_transpose
separable_convolution2d = separable_conv2d
FullyConnected = Dense
fully_connected = dense
BatchNorm = BatchNormalization
batch_norm = batch_normalization
MaxPool1D = MaxPooling1D
MaxPool2D = MaxPooling2D
MaxPool3D = MaxPooling3D
AvgPool1D = AveragePooling1D
AvgPool2D = AveragePooling2D
AvgPool3D = AveragePooling3D
max_pool1d = max_pooling1d
max_pool2d = max_pooling2d
max_pool3d = max_pooling3d
avg_pool1d = average_pooling1d
avg_pool2d = average_pooling2d
avg_pool3d = average_pooling3d

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BatchNormalization",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "InputSpec",
    "Layer",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "SeparableConv1D",
    "SeparableConv2D",
    "average_pooling1d",
    "average_pooling2d",
    "average_pooling3d",
    "batch_normalization",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "dense",
    "dropout",
    "experimental",
    "flatten",
    "max_pooling1d",
    "max_pooling2d",
    "max_pooling3d",
    "separable_conv1d",
    "separable_conv2d",
]
