"""Refusals of programs: one line, exit code 2, and nothing is trained."""

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

SLIM = "--dataset_name=digits --model_name=lenet"
GIVEN = {
    "slim.train_image_classifier": f"{SLIM} --train_dir={{folder}}/model",
    "slim.eval_image_classifier": f"{SLIM} --eval_dir={{folder}} --checkpoint_path={{checkpoint}}",
}
"""What a program is given beside the wrong flags, if not `--model_dir` alone."""

WRONG = {
    "convnet": {
        "--learning_rate=-1": "must be a number above 0",
        "--num_towers=0": "positive integer",
        "--optimizer=sgd": "kfac|momentum|adam",
        "--data_dir=nowhere": "nowhere has no train-images-idx3-ubyte",
        "--batch_size=63": "63 cannot be split into 2 equal parts",
        "--devices=/cpu:0,/gpu:9": "/device:GPU:9",
        "--op_strategy=shared": "shared has no effect without --mode=distributed_sync_replicas",
        "--kfac_updates=periodic": "periodic has no effect without --mode=single_machine or",
        "--mode=multitower --progress=bar": "bar has no effect without --mode=estimator or",
        "--optimizer=adam --damping=0.1": "--damping=0.1 has no effect without --optimizer=kfac",
        "--optimizer=momentum --final_damping=0.1": "has no effect without --optimizer=kfac",
        "--mode=distributed_sync_replicas": "TF_CONFIG",
        "--mode=all_reduce": "--mode=all_reduce needs a cluster",
        "--mode=far_machines": "--mode=far_machines needs a cluster",
        "--mode=far_machines --bits=5": "32|16|8|4",
        "--every=20": "--every=20 has no effect without --mode=far_machines",
    },
    "mlp": {"--mode=plain --progress=bar": "=bar has no effect without --mode=estimator"},
    "model_average": {
        "--interval_steps=0": "not an integer in the range [1, ",
        "--optimizer=sgd": "kfac|momentum",
    },
    "rnn": {"--approx=kron": "kron_series_2|kron_series_1|kron_indep"},
    "kmeans": {
        "--batch_size=4": "take fewer clusters",
        "--full_batch --num_clusters=2000": "take fewer clusters",
        "--full_batch --batch_size=7": "--batch_size=7 has no effect without --nofull_batch",
    },
    "wide_and_deep": {
        "--hidden_units=8,0": "whole numbers above 0",
        "--batch_size=400": "--batch_size=400 is more than the 341 rows",
    },
    "tabular_kfac": {"--hidden_units=": "whole numbers above 0"},
    "slim.train_image_classifier": {
        "--optimizer=lion": "adadelta|adagrad|adam",
        "--learning_rate_decay_type=cosine": "exponential|fixed|polynomial",
        "--batch_size=0": "[1, 65536]",
        "--quantize_delay=5": "must be -1",
        "--moving_average_decay=1": "at least 0 and below 1",
        "--dataset_name=flowers": "Unknown dataset 'flowers'",
        "--dataset_name=mnist": "set --dataset_dir",
        "--dataset_split_name=validation": "it has train, test",
        "--model_name=alexnet": "alexnet",
        "--worker_replicas=2": "--worker_hosts",
        "--task=1": "=1 has no effect without --worker_hosts and --ps_hosts, or --master",
        "--job_name=ps": "--job_name=ps has no effect without --worker_hosts and --ps_hosts",
        "--num_epochs_per_decay=0.001": "less than a step",
        "--trainable_scopes=head": "no trainable variable is in scope 'head'",
        "--checkpoint_path=nowhere": "There is no checkpoint at nowhere",
        "--train_dir=/dev/null": "Cannot train in model_dir '/dev/null': it is a file",
        "--preprocessing_name=none": "no preprocessing 'none'",
        "--labels_offset=10": "labels_offset=10 leaves no class: digits has 10",
        "stray": "only --flags are accepted",
    },
    "slim.eval_image_classifier": {
        "--checkpoint_path=nowhere": "There is no checkpoint at nowhere",
        "--master=grpc://a:1": "must be ''. Evaluation runs in this process.",
        "--quantize": "must be False",
        "--max_num_batches=0": "positive integer",
        "--timeout_secs=5": "--timeout_secs=5.0 has no effect without --eval_interval_secs",
        "--dataset_split_name=validation": "it has train, test",
        "--moving_average_decay=0.9": "has no moving averages",
        "--model_name=cifarnet": "cifarnet",
    },
}


@pytest.fixture
def refused(run_program, untrained_lenet, tmp_path, monkeypatch):
    """Runs a program that refuses to start; returns the line that it prints."""

    def run(program, flags):
        given = GIVEN.get(program, "--model_dir={folder}/model")
        given = given.format(folder=tmp_path, checkpoint=untrained_lenet)
        done = run_program(program, *given.split(), *flags.split())
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert not list(tmp_path.glob("model/model.ckpt*"))
        return done.err

    monkeypatch.delenv("TF_CONFIG", raising=False)
    return run


@pytest.mark.parametrize(
    ("program", "flags"), [(program, flags) for program, wrong in WRONG.items() for flags in wrong]
)
def test_wrong_flags(refused, program, flags):
    assert WRONG[program][flags] in refused(program, flags)


@pytest.mark.parametrize("mode", ["estimator", "distributed_sync_replicas"])
def test_wrong_cluster(refused, monkeypatch, mode):
    monkeypatch.setenv("TF_CONFIG", "{")
    assert "TF_CONFIG" in refused("convnet", f"--mode={mode}")


@pytest.mark.parametrize(
    ("program", "flags", "purpose"),
    [
        ("convnet", "--mode=multitower", "kfac in mode multitower on images of 8x8"),
        ("convnet", "--approx=diagonal", "kfac with approx=diagonal on images of 8x8"),
        ("mlp", "--mode=plain", "an MLP in mode plain on images of 8x8"),
        ("kmeans", "--num_clusters=20", "20 clusters of images of 8x8, squared_euclidean, mini"),
        ("wide_and_deep", "--hidden_units=8,4", "a network of 8x4 units for breast cancer"),
    ],
)
def test_checkpoints_of_another_purpose(refused, tmp_path, program, flags, purpose):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "checkpoint").touch()
    (tmp_path / "model" / "trained_for.txt").write_text("another")
    found = refused(program, flags)
    assert f"holds checkpoints of another, and this run is {purpose}" in found
