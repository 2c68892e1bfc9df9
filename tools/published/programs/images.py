"""Programs that learn from images."""

from tools.published.data import images
from tools.published.program import Program

PROGRAMS = (
    Program(
        "TPU models: mnist",
        "tensorflow/tpu",
        "7dc921f846c9e4071f3884b768a7ddf521272a49",
        "TPUEstimator, `tf.layers`",
        (
            "mnist_tpu.py",
            "--nouse_tpu",
            "--data_dir={data}",
            "--model_dir={out}/model",
            "--batch_size=8",
            "--train_steps=3",
            "--eval_steps=1",
        ),
        images.digit_records,
        folder="models/official/mnist",
    ),
    Program(
        "DCGAN-tensorflow",
        "carpedm20/DCGAN-tensorflow",
        "62c9a2a7f74505cad30858bf40307c93e5bd9293",
        "Session, `contrib.layers`, `scipy.misc`",
        (
            "main.py",
            "--dataset=mnist",
            "--data_dir={data}",
            "--out_dir={out}",
            "--input_height=28",
            "--output_height=28",
            "--batch_size=64",
            "--epoch=1",
            "--train",
        ),
        images.dcgan_digits,
        has_estimator=False,
        result=r"g_loss: ([\d.]+)",
        settings=(
            ("model.py", "reshape((60000,28,28,1))", "reshape((-1,28,28,1))"),
            ("model.py", "reshape((60000))", "reshape((-1))"),
            ("model.py", "reshape((10000,28,28,1))", "reshape((-1,28,28,1))"),
            ("model.py", "reshape((10000))", "reshape((-1))"),
        ),
    ),
)
