"""The programs that train and evaluate, as a user runs them."""

import json
import pathlib
import re
import signal

import pytest
import tensorflow as tf

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

v1 = tf.compat.v1
ROOT = pathlib.Path(__file__).parents[3]
DIGITS = ("--dataset_name=digits", "--model_name=lenet", "--clone_on_cpu")
SMALL = "--train_image_size=12"
ADAM = ("--optimizer=adam", "--opt_epsilon=1e-8", "--learning_rate=0.001")

# Flags with their defaults, as slim's program had them; the second paragraph has new flags.
DEFAULTS = {
    "train": """
    adadelta_rho=0.95 adagrad_initial_accumulator_value=0.1 adam_beta1=0.9 adam_beta2=0.999
    batch_size=32 checkpoint_exclude_scopes checkpoint_path clone_on_cpu=false dataset_dir
    dataset_name=imagenet dataset_split_name=train end_learning_rate=0.0001
    ftrl_initial_accumulator_value=0.1 ftrl_l1=0.0 ftrl_l2=0.0 ftrl_learning_rate_power=-0.5
    ignore_missing_vars=false label_smoothing=0.0 labels_offset=0 learning_rate=0.01
    learning_rate_decay_factor=0.94 learning_rate_decay_type=exponential log_every_n_steps=10
    master= max_number_of_steps model_name=inception_v3 momentum=0.9 moving_average_decay
    num_clones=1 num_epochs_per_decay=2.0 num_preprocessing_threads=4 num_ps_tasks=0
    num_readers=4 opt_epsilon=1.0 optimizer=rmsprop preprocessing_name quantize_delay=-1
    replicas_to_aggregate=1 rmsprop_decay=0.9 rmsprop_momentum=0.9 save_interval_secs=600.0
    save_summaries_secs=600.0 sync_replicas=false task=0 train_dir=runs/tfmodel train_image_size
    trainable_scopes use_grayscale=false warmup_epochs=0.0 weight_decay=4e-05 worker_replicas=1

    count_clones_in_epochs=false job_name=worker kfac_cov_ema_decay=0.95 kfac_cov_update_every=1
    kfac_damping=0.01 kfac_invert_every=10 kfac_momentum=0.9 kfac_norm_constraint=0.001 ps_hosts
    seed=0 steal=false summarize_gradients=false worker_hosts
""",
    "eval": """
    batch_size=100 checkpoint_path=runs/tfmodel clone_on_cpu=false dataset_dir
    dataset_name=imagenet dataset_split_name=test eval_dir=runs/tfmodel eval_image_size
    eval_interval_secs=0.0 labels_offset=0 master= max_num_batches model_name=inception_v3
    moving_average_decay num_clones=1 num_preprocessing_threads=4 preprocessing_name progress=auto
    quantize=false timeout_secs=3600.0 use_grayscale=false
""",
}


@pytest.mark.parametrize("program", DEFAULTS)
def test_flags_have_the_defaults_of_slim_except_the_directory(run_program, program):
    done = run_program(f"slim.{program}_image_classifier", "--help")
    assert done.code == 0
    words = [word.partition("=") for word in DEFAULTS[program].split()]
    assert done.defaults() == {name: value if given else None for name, given, value in words}


@pytest.fixture(scope="module")
def trained(run_program, tmp_path_factory):
    """Directory of a LeNet that two clones trained on digits, and the printed lines."""
    folder = tmp_path_factory.mktemp("lenet")
    flags = [*DIGITS, *ADAM, SMALL, "--num_clones=2", "--max_number_of_steps=40", "--batch_size=8"]
    done = run_program(
        "slim.train_image_classifier", *flags, "--moving_average_decay=0.9", f"--train_dir={folder}"
    )
    assert done.code == 0, done.err
    return folder, done.out


def test_prints_its_settings_and_progress_and_writes_its_configuration(trained):
    folder, printed = trained
    assert "2 clones: /device:CPU:0 /device:CPU:0   variables on /device:CPU:0" in printed
    assert "digits train: 1,437 images, 10 classes, for lenet as 12x12" in printed
    assert "16 = 2 x 8" in printed
    assert f"none in {folder}: starting at step 0" in printed
    assert re.search(r"model +8 variables, 653,194 parameters, 2.49 MiB", printed)
    steps = re.findall(r"^step (\d+) +loss", printed, re.MULTILINE)
    assert steps == ["10", "20", "30", "40"]
    assert f"checkpoint      {folder}/model.ckpt-40\n" in printed
    config = config_of(folder)
    assert config["program"] == "examples.slim.train_image_classifier"
    assert config["flags"]["num_clones"] == config["params"]["deployment"]["num_clones"] == 2
    assert config["params"]["network"]["model_name"] == "lenet"
    assert config["params"]["optimizer"]["opt_epsilon"] == 1e-8
    assert config["run_config"]["log_step_count_steps"] == 10


def config_of(folder, name="config.json"):
    return json.loads((folder / name).read_text())


def test_evaluation_on_two_clones_takes_the_averages(trained, run_program, tmp_path):
    folder, _ = trained
    flags = [*DIGITS, f"--checkpoint_path={folder}", f"--eval_dir={tmp_path}", "--progress=off"]
    flags += ["--num_clones=2", "--batch_size=77", "--eval_image_size=12"]
    found = []
    for own in ((), ("--moving_average_decay=0.9",)):
        done = run_program("slim.eval_image_classifier", *flags, *own)
        assert done.code == 0, done.err
        found += re.findall(r"^step 40 +Accuracy (\S+) +Recall_5 \S+ ", done.out, re.MULTILINE)
    assert len(found) == 2
    assert min(map(float, found)) > 0.85
    assert list(tmp_path.glob("eval/events.*"))


def test_goes_on_from_its_checkpoint_and_tunes_another(trained, run_program, tmp_path):
    folder, _ = trained
    flags = (*DIGITS, f"--train_dir={tmp_path}", "--optimizer=sgd", f"--checkpoint_path={folder}")
    flags += ("--checkpoint_exclude_scopes=lenet/logits", "--trainable_scopes=lenet/logits")
    flags += ("--batch_size=4", SMALL)
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


@pytest.mark.slow
def test_stopped_job_saves_and_a_damaged_checkpoint_is_skipped(start_python, run_program, tmp_path):
    module = "examples.slim.train_image_classifier"
    program = f"import runpy\nrunpy.run_module('{module}', run_name='__main__', alter_sys=True)"
    flags = [*DIGITS, *ADAM, f"--train_dir={tmp_path}", "--batch_size=4", "--log_every_n_steps=1"]
    child = start_python(program, *flags, "--max_number_of_steps=1000000")
    while not (line := child.stdout.readline()).startswith("step 2 "):
        assert line, child.communicate(timeout=60)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 143
    step = int(tf.train.latest_checkpoint(str(tmp_path)).rpartition("-")[2])
    assert step >= 2
    for last in (step + 1, step + 2):
        done = run_program(module.partition(".")[2], *flags, f"--max_number_of_steps={last}")
        assert done.code == 0, done.err
        assert f"model.ckpt-{step}: continuing at step {step}\n" in done.out
        (tmp_path / f"model.ckpt-{last}.index").write_bytes(b"junk")


def reader(folder):
    return v1.train.load_checkpoint(tf.train.latest_checkpoint(str(folder)))


def test_divergence_is_one_line_and_exit_code_3(run_program, tmp_path):
    flags = (*DIGITS, SMALL, f"--train_dir={tmp_path}", "--learning_rate=1e30", "--batch_size=2")
    done = run_program("slim.train_image_classifier", *flags)
    assert (done.code, done.err.count("\n")) == (3, 1)
    assert "training diverged" in done.err


def hosts_sync(role, addresses):
    """The flags of a worker or a parameter server of a synchronous cluster."""
    job_name, task = {"chief": ("worker", 0), "worker": ("worker", 1), "ps": ("ps", 0)}[role]
    workers = ",".join(addresses["chief"] + addresses["worker"])
    return [
        *("--sync_replicas", "--replicas_to_aggregate=2", f"--job_name={job_name}"),
        *(f"--task={task}", f"--worker_hosts={workers}", f"--ps_hosts={addresses['ps'][0]}"),
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("own_flags", [None, hosts_sync], ids=["tf_config", "hosts_sync"])
def test_cluster_of_two_workers_and_a_parameter_server(run_cluster, tmp_path, own_flags):
    flags = [*DIGITS, f"--train_dir={tmp_path}", "--optimizer=momentum", "--max_number_of_steps=40"]
    printed = run_cluster("slim.train_image_classifier", flags, own_flags)
    assert "chief 0; the cluster has 2 that train and 1 parameter servers" in printed["chief"]
    assert "variables on /job:ps" in printed["worker"]
    steps = int(reader(tmp_path).get_tensor("global_step"))
    assert steps in ((40,) if own_flags else (40, 41))
    assert config_of(tmp_path)["flags"]["task"] == 0
    assert config_of(tmp_path)["run_config"]["cluster"] == {"chief": 1, "worker": 1, "ps": 1}


@pytest.fixture
def evaluate_program(run_program, untrained_lenet, tmp_path):
    """Runs the program with some flags more."""
    given = (
        "--dataset_name=digits",
        "--model_name=lenet",
        "--progress=off",
        f"--checkpoint_path={untrained_lenet}",
        f"--eval_dir={tmp_path}",
    )
    return lambda *flags: run_program("slim.eval_image_classifier", *given, *flags)


def test_some_batches(evaluate_program):
    done = evaluate_program("--batch_size=4", "--max_num_batches=2", "--num_clones=2")
    assert done.code == 0, done.err
    (accuracy,) = re.findall(r"^step 0 +Accuracy (\S+) ", done.out, re.MULTILINE)
    assert float(accuracy) * 8 == int(float(accuracy) * 8), "a share of eight images"


def test_loop_ends_when_no_more_checkpoints_come(evaluate_program, untrained_lenet, tmp_path):
    secs = ("--eval_interval_secs=0.1", "--timeout_secs=0.2")
    done = evaluate_program(f"--checkpoint_path={tmp_path}/none", *secs)
    assert done.code == 2
    assert f"No checkpoint has come to {tmp_path}/none in 0.2 seconds" in done.err
    done = evaluate_program(f"--checkpoint_path={untrained_lenet.rpartition('/')[0]}", *secs)
    assert done.code == 0, done.err
    assert len(re.findall(r"^step 0 +Accuracy", done.out, re.MULTILINE)) == 1
    assert "no newer checkpoint for 0.2 seconds" in done.out
