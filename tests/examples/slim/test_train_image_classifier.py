"""The training program as a user runs it, and the evaluation of what it has trained."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from examples import mnist
from examples.slim.networks import factory as networks
from examples.slim.preprocessing import factory as preprocessings
from replicate.launch.plan import free_ports

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

v1 = tf.compat.v1
ROOT = pathlib.Path(__file__).parents[3]
DIGITS = ("--dataset_name=digits", "--model_name=lenet", "--clone_on_cpu")
ADAM = ("--optimizer=adam", "--opt_epsilon=1e-8", "--learning_rate=0.001")

# Flag -> default, as slim's program had them; those below the line are this program's own.
DEFAULTS = {
    "adadelta_rho": 0.95,
    "adagrad_initial_accumulator_value": 0.1,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "batch_size": 32,
    "checkpoint_exclude_scopes": None,
    "checkpoint_path": None,
    "clone_on_cpu": False,
    "dataset_dir": None,
    "dataset_name": "imagenet",
    "dataset_split_name": "train",
    "end_learning_rate": 0.0001,
    "ftrl_initial_accumulator_value": 0.1,
    "ftrl_l1": 0.0,
    "ftrl_l2": 0.0,
    "ftrl_learning_rate_power": -0.5,
    "ignore_missing_vars": False,
    "label_smoothing": 0.0,
    "labels_offset": 0,
    "learning_rate": 0.01,
    "learning_rate_decay_factor": 0.94,
    "learning_rate_decay_type": "exponential",
    "log_every_n_steps": 10,
    "master": "",
    "max_number_of_steps": None,
    "model_name": "inception_v3",
    "momentum": 0.9,
    "moving_average_decay": None,
    "num_clones": 1,
    "num_epochs_per_decay": 2.0,
    "num_preprocessing_threads": 4,
    "num_ps_tasks": 0,
    "num_readers": 4,
    "opt_epsilon": 1.0,
    "optimizer": "rmsprop",
    "preprocessing_name": None,
    "quantize_delay": -1,
    "replicas_to_aggregate": 1,
    "rmsprop_decay": 0.9,
    "rmsprop_momentum": 0.9,
    "save_interval_secs": 600.0,
    "save_summaries_secs": 600.0,
    "sync_replicas": False,
    "task": 0,
    "train_dir": "runs/tfmodel",
    "train_image_size": None,
    "trainable_scopes": None,
    "use_grayscale": False,
    "warmup_epochs": 0.0,
    "weight_decay": 4e-05,
    "worker_replicas": 1,
    # ----
    "count_clones_in_epochs": False,
    "job_name": "worker",
    "kfac_cov_ema_decay": 0.95,
    "kfac_cov_update_every": 1,
    "kfac_damping": 0.01,
    "kfac_invert_every": 10,
    "kfac_momentum": 0.9,
    "kfac_norm_constraint": 0.001,
    "ps_hosts": None,
    "seed": 0,
    "steal": False,
    "summarize_gradients": False,
    "worker_hosts": None,
}


def as_printed(value):
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_flags_have_the_defaults_of_slim_except_the_directory(run_program):
    done = run_program("slim.train_image_classifier", "--help")
    assert done.code == 0
    assert done.defaults() == {name: as_printed(value) for name, value in DEFAULTS.items()}


@pytest.fixture(scope="module")
def trained(run_program, tmp_path_factory):
    """Directory of a LeNet that two clones trained on digits, and the printed lines."""
    folder = tmp_path_factory.mktemp("lenet")
    flags = [*DIGITS, *ADAM, "--num_clones=2", "--max_number_of_steps=40", "--batch_size=8"]
    done = run_program(
        "slim.train_image_classifier",
        *flags,
        "--moving_average_decay=0.9",
        f"--train_dir={folder}",
    )
    assert done.code == 0, done.err
    return folder, done.out


def accuracy_in_numpy(folder, use_averages):
    """Share of the test images whose largest logit is that of their digit."""
    images, labels = mnist.load_digits().test
    preprocess = preprocessings.get_preprocessing("lenet")
    with tf.Graph().as_default(), v1.Session() as session:
        pixels = np.rint(images * 255).astype(np.uint8)
        prepared = tf.map_fn(
            lambda image: preprocess(image, 28, 28), pixels, fn_output_signature=tf.float32
        )
        logits, _ = networks.get_network_fn("lenet", 10)(tf.reshape(prepared, [-1, 28, 28, 1]))
        names = {variable.op.name: variable for variable in v1.global_variables()}
        if use_averages:
            names = {f"{name}/ExponentialMovingAverage": v for name, v in names.items()}
        v1.train.Saver(names).restore(session, tf.train.latest_checkpoint(str(folder)))
        found = session.run(logits)
    return (found.argmax(axis=1) == labels).mean()


def test_prints_its_settings_and_progress(trained):
    folder, printed = trained
    assert "2 clones: /device:CPU:0 /device:CPU:0   variables on /device:CPU:0" in printed
    assert "digits train: 1,437 images, 10 classes, for lenet as 28x28" in printed
    assert "16 = 2 x 8" in printed
    assert f"none in {folder}: starting at step 0" in printed
    assert re.search(r"model +8 variables, 3,274,634 parameters, 12.49 MiB", printed)
    steps = re.findall(r"^step (\d+) +loss", printed, re.MULTILINE)
    assert steps == ["10", "20", "30", "40"]
    assert f"checkpoint      {folder}/model.ckpt-40\n" in printed


def test_writes_its_configuration(trained):
    config = config_of(trained[0])
    assert config["program"] == "examples.slim.train_image_classifier"
    assert config["flags"]["num_clones"] == config["params"]["deployment"]["num_clones"] == 2
    assert config["params"]["network"]["model_name"] == "lenet"
    assert config["params"]["optimizer"]["opt_epsilon"] == 1e-8
    assert config["run_config"]["log_step_count_steps"] == 10


def config_of(folder, name="config.json"):
    return json.loads((folder / name).read_text())


@pytest.mark.parametrize(
    ("use_averages", "kinds"), [(False, [(2, 77)]), (True, [(1, 360), (2, 77)])]
)
def test_evaluation_is_exact_on_any_number_of_clones(
    trained, run_program, tmp_path, use_averages, kinds
):
    folder, _ = trained
    flags = [*DIGITS, f"--checkpoint_path={folder}", f"--eval_dir={tmp_path}", "--progress=off"]
    flags += ["--moving_average_decay=0.9"] * use_averages
    found = []
    for num_clones, batch_size in kinds:
        done = run_program(
            "slim.eval_image_classifier",
            *flags,
            f"--num_clones={num_clones}",
            f"--batch_size={batch_size}",
        )
        assert done.code == 0, done.err
        found += re.findall(r"^step 40 +Accuracy (\S+) +Recall_5 (\S+) ", done.out, re.MULTILINE)
    wanted = accuracy_in_numpy(folder, use_averages)
    assert wanted > 0.85
    assert [float(accuracy) for accuracy, _ in found] == pytest.approx(
        [wanted] * len(kinds), abs=6e-5
    )
    assert found[0] == found[-1]
    assert len(list(tmp_path.glob("eval/events.*"))) == len(kinds)


def test_goes_on_from_its_checkpoint_and_tunes_another(trained, run_program, tmp_path):
    folder, _ = trained
    flags = (*DIGITS, f"--train_dir={tmp_path}", "--optimizer=sgd", f"--checkpoint_path={folder}")
    flags += ("--checkpoint_exclude_scopes=lenet/logits", "--trainable_scopes=lenet/logits")
    flags += ("--batch_size=4",)
    first = run_program("slim.train_image_classifier", *flags, "--max_number_of_steps=2")
    assert first.code == 0, first.err
    assert "6 of 8 variables of" in first.out
    assert reader(tmp_path).get_tensor("lenet/conv1/weights") == pytest.approx(
        reader(folder).get_tensor("lenet/conv1/weights")
    )
    flags += ("--momentum=0.5", "--adam_beta1=0.5", "--end_learning_rate=0.001")
    second = run_program("slim.train_image_classifier", *flags, "--max_number_of_steps=3")
    assert second.code == 0, second.err
    assert re.findall(
        r"^unused flag +--(\S+) has no effect without --(\S+)$", second.out, re.M
    ) == [
        ("adam_beta1=0.5", "optimizer=adam"),
        ("momentum=0.5", "optimizer=momentum"),
        ("end_learning_rate=0.001", "learning_rate_decay_type=polynomial"),
    ]
    assert f"checkpoint      {tmp_path}/model.ckpt-2: continuing at step 2\n" in second.out
    assert "not again" in second.out
    assert int(reader(tmp_path).get_tensor("global_step")) == 3
    assert config_of(tmp_path)["flags"]["momentum"] == 0.5
    assert config_of(tmp_path, "config-2.json")["flags"]["momentum"] == 0.9


def reader(folder):
    return v1.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))


def write_images(folder, dataset):
    """Writes ten images of noise, as CIFAR-10 has them or as TFRecords with labels from 1."""
    images = np.random.RandomState(0).randint(0, 256, (10, 3, 32, 32)).astype(np.uint8)
    if dataset == "cifar10":
        records = np.hstack([np.arange(10, dtype=np.uint8)[:, np.newaxis], images.reshape(10, -1)])
        for number in range(1, 6):
            path = folder / f"data_batch_{number}.bin"
            path.write_bytes(records[2 * number - 2 : 2 * number].tobytes())
        return
    (folder / "labels.txt").write_text("".join(f"{number}:class\n" for number in range(11)))
    with tf.io.TFRecordWriter(str(folder / "mine_train.tfrecord")) as writer:
        for label, image in enumerate(images, start=1):
            encoded = tf.io.encode_jpeg(image.transpose(1, 2, 0)).numpy()
            example = tf.train.Example()
            example.features.feature["image/encoded"].bytes_list.value.append(encoded)
            example.features.feature["image/class/label"].int64_list.value.append(label)
            writer.write(example.SerializeToString())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "flags", "about"),
    [
        ("cifar10", ["--model_name=cifarnet"], "10 images, 10 classes, for cifarnet as 32x32"),
        (
            "tfrecords",
            [
                *("--model_name=lenet", "--preprocessing_name=inception"),
                *("--labels_offset=1", "--num_clones=2"),
            ],
            "10 images, 10 classes, for lenet as 28x28",
        ),
    ],
)
def test_same_seed_same_weights_from_files(run_program, tmp_path, dataset, flags, about):
    write_images(tmp_path, dataset)
    found = []
    for folder, threads in ((tmp_path / "one", 1), (tmp_path / "two", 4)):
        done = run_program(
            "slim.train_image_classifier",
            f"--dataset_name={dataset}",
            f"--dataset_dir={tmp_path}",
            f"--train_dir={folder}",
            *flags,
            f"--num_preprocessing_threads={threads}",
            "--batch_size=2",
            "--max_number_of_steps=3",
        )
        assert done.code == 0, done.err
        assert about in done.out
        (name,) = [
            name
            for name, _ in tf.train.list_variables(str(folder))
            if name.endswith("logits/weights")
        ]
        found.append(reader(folder).get_tensor(name))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6)


def test_divergence_is_one_line_and_exit_code_3(run_program, tmp_path):
    done = run_program(
        "slim.train_image_classifier",
        *DIGITS,
        f"--train_dir={tmp_path}",
        "--learning_rate=1e30",
        "--batch_size=2",
    )
    assert done.code == 3
    assert "training diverged" in done.err


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("model_name", ["inception_v3", "resnet_v1_50", "mobilenet_v1", "vgg_11"])
def test_large_networks_make_two_steps(run_program, tmp_path, model_name):
    size = 96 if model_name == "inception_v3" else 64
    done = run_program(
        "slim.train_image_classifier",
        "--dataset_name=digits",
        "--clone_on_cpu",
        f"--model_name={model_name}",
        f"--train_image_size={size}",
        f"--train_dir={tmp_path}",
        "--batch_size=2",
        "--num_clones=2",
        "--log_every_n_steps=1",
        "--max_number_of_steps=2",
    )
    assert done.code == 0, done.err
    assert re.findall(r"^step (\d) +loss \d", done.out, re.MULTILINE) == ["1", "2"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("by", ["tf_config", "hosts_sync"])
def test_cluster_of_two_workers_and_a_parameter_server(tmp_path, by):
    chief, worker, ps = (f"127.0.0.1:{port}" for port in free_ports(3))
    tasks = {"ps": ("ps", 0), "chief": ("worker", 0), "worker": ("worker", 1)}
    flags = [*DIGITS, f"--train_dir={tmp_path}", "--optimizer=momentum", "--max_number_of_steps=40"]
    children = {}
    try:
        for role, (job_name, task) in tasks.items():
            env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
            own = ["--sync_replicas", "--replicas_to_aggregate=2", f"--job_name={job_name}"]
            own += [f"--task={task}", f"--worker_hosts={chief},{worker}", f"--ps_hosts={ps}"]
            if by == "tf_config":
                jobs = {"chief": [chief], "worker": [worker], "ps": [ps]}
                place = {"cluster": jobs, "task": {"type": role, "index": 0}}
                env["TF_CONFIG"], own = json.dumps(place), []
            children[role] = subprocess.Popen(
                [sys.executable, "-m", "examples.slim.train_image_classifier", *flags, *own],
                cwd=ROOT,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        printed = {}
        for role, child in children.items():
            printed[role], errors = child.communicate(timeout=240)
            assert child.returncode == 0, f"{role}: {errors[-3000:]}"
    finally:
        for child in children.values():
            child.kill()
            child.communicate()
    assert "chief 0; the cluster has 2 that train and 1 parameter servers" in printed["chief"]
    assert "variables on /job:ps" in printed["worker"]
    steps = int(reader(tmp_path).get_tensor("global_step"))
    assert steps in ((40, 41) if by == "tf_config" else (40,))
    assert config_of(tmp_path)["flags"]["task"] == 0
    assert config_of(tmp_path)["run_config"]["cluster"] == {"chief": 1, "worker": 1, "ps": 1}
