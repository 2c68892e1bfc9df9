"""Programs that learn from images."""

from tools.published.data import images
from tools.published.program import Program

_GANS = (
    "hwalsuklee/tensorflow-generative-model-collections",
    "3abde8a9bcfe31815da50347d14641ec95096f62",
)
_GAN_SETTINGS = (
    ("utils.py", 'os.path.join("./data", dataset_name)', '"{data}"'),
    ("utils.py", "60000", "128"),
    ("utils.py", "10000", "64"),
)
_EXAMPLES = ("aymericdamien/TensorFlow-Examples", "6dcbe14649163814e72a22a999f20c5e247ce988")


def _example(name: str, steps: str) -> tuple[tuple[str, str, str], ...]:
    """Returns the settings of an example: its data, and 10 steps."""
    path = f"tensorflow_v1/examples/3_NeuralNetworks/{name}.py"
    return (
        (path, '"/tmp/data/"', '"{data}"'),
        (path, steps, f"{steps.partition(' = ')[0]} = 10"),
    )


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
    Program(
        "SimpleHTR",
        "githubharald/SimpleHTR",
        "33f1f889c61f44acf8f05bffa94a73250f2aba7a",
        "Session, RNN cells, CTC",
        (
            "main.py",
            "--mode=train",
            "--data_dir={data}",
            "--batch_size=8",
            "--early_stopping=1",
        ),
        images.handwriting,
        has_estimator=False,
        folder="src",
        settings=(("src/main.py", "no_improvement_since >= early_stopping", "epoch >= 2"),),
        result=r"Batch: 4/4 Loss: ([\d.]+)",
        packages=("cv2", "editdistance", "lmdb", "path"),
    ),
    Program(
        "facenet: train_softmax",
        "davidsandberg/facenet",
        "096ed770f163957c1e56efa7feeb194773920f6e",
        "Session, queues, `contrib.slim`",
        (
            "train_softmax.py",
            "--data_dir={data}/faces",
            "--logs_base_dir={out}/logs",
            "--models_base_dir={out}/models",
            "--model_def=models.squeezenet",
            "--image_size=64",
            "--max_nrof_epochs=1",
            "--epoch_size=2",
            "--batch_size=4",
            "--embedding_size=8",
            "--nrof_preprocess_threads=1",
            "--optimizer=ADAM",
            "--learning_rate=0.01",
        ),
        images.faces,
        has_estimator=False,
        folder="src",
        result=r"\tLoss ([\d.]+)",
    ),
    Program(
        "tensorflow-triplet-loss",
        "omoindrot/tensorflow-triplet-loss",
        "fc698369bb6c9acdc9f0e9e1ea00de0ddf782f12",
        "Estimator, `tf.layers`",
        ("train.py", "--data_dir={data}", "--model_dir=experiments/batch_all"),
        images.unpacked,
        settings=(
            ("experiments/batch_all/params.json", '"num_epochs": 20', '"num_epochs": 1'),
            ("model/input_fn.py", "params.train_size", "256"),
        ),
    ),
    Program(
        "GAN collections: VAE",
        *_GANS,
        "Session, `contrib.slim`, `contrib.layers`",
        ("main.py", "--gan_type=VAE", "--epoch=1", "--z_dim=4"),
        images.idx_files,
        has_estimator=False,
        settings=_GAN_SETTINGS,
        result=r"nll: ([-\d.]+)",
    ),
    Program(
        "GAN collections: WGAN",
        *_GANS,
        "Session, `contrib.slim`, `contrib.layers`",
        ("main.py", "--gan_type=WGAN", "--epoch=1", "--z_dim=4"),
        images.idx_files,
        has_estimator=False,
        settings=_GAN_SETTINGS,
        result=r"g_loss: ([-\d.]+)",
    ),
    Program(
        "pointnet",
        "charlesq34/pointnet",
        "2618f72bc1a0fd21b074096e748016960d44ef55",
        "Session, variables on the CPU, batch normalization of its own",
        (
            "train.py",
            "--log_dir={out}/log",
            "--num_point=64",
            "--max_epoch=1",
            "--batch_size=4",
        ),
        images.clouds,
        has_estimator=False,
        settings=(
            ("provider.py", "DATA_DIR = os.path.join(BASE_DIR, 'data')", "DATA_DIR = '{data}'"),
            (
                "train.py",
                "os.path.join(BASE_DIR, 'data/modelnet40_ply_hdf5_2048/",
                "os.path.join('{data}', 'modelnet40_ply_hdf5_2048/",
            ),
        ),
        result=r"mean loss: ([\d.]+)",
    ),
    Program(
        "TensorFlow-Examples: neural_network",
        *_EXAMPLES,
        "Estimator, `numpy_input_fn`, `examples.tutorials.mnist`",
        ("tensorflow_v1/examples/3_NeuralNetworks/neural_network.py",),
        images.mnist,
        rewritten="tensorflow_v1/examples/3_NeuralNetworks",
        settings=_example("neural_network", "num_steps = 1000"),
    ),
    Program(
        "TensorFlow-Examples: convolutional_network",
        *_EXAMPLES,
        "Estimator, `tf.layers`, `contrib.layers`",
        ("tensorflow_v1/examples/3_NeuralNetworks/convolutional_network.py",),
        images.mnist,
        rewritten="tensorflow_v1/examples/3_NeuralNetworks",
        settings=_example("convolutional_network", "num_steps = 2000"),
    ),
    Program(
        "TensorFlow-Examples: recurrent_network",
        *_EXAMPLES,
        "Session, `contrib.rnn`",
        ("tensorflow_v1/examples/3_NeuralNetworks/recurrent_network.py",),
        images.mnist,
        rewritten="tensorflow_v1/examples/3_NeuralNetworks",
        has_estimator=False,
        settings=_example("recurrent_network", "training_steps = 10000"),
        result=r"Minibatch Loss= ([\d.]+)",
    ),
    Program(
        "TensorFlow-Examples: autoencoder",
        *_EXAMPLES,
        "Session, matplotlib",
        ("tensorflow_v1/examples/3_NeuralNetworks/autoencoder.py",),
        images.mnist,
        rewritten="tensorflow_v1/examples/3_NeuralNetworks",
        has_estimator=False,
        settings=_example("autoencoder", "num_steps = 30000"),
        result=r"Minibatch Loss: ([\d.]+)",
    ),
    Program(
        "CS230 examples: vision",
        "cs230-stanford/cs230-code-examples",
        "478e747b1c8bf57c6e2ce6b7ffd8068fe0287056",
        "Session, `tf.layers`, `tf.data`",
        ("train.py", "--data_dir={data}"),
        images.signs,
        has_estimator=False,
        folder="tensorflow/vision",
        settings=(
            (
                "tensorflow/vision/experiments/base_model/params.json",
                '"num_epochs": 10',
                '"num_epochs": 2',
            ),
        ),
        result=r"Train metrics: .*\bloss: ([\d.]+)",
    ),
)
