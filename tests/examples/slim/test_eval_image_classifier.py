"""The evaluation program: flags and endings. Its numbers are tested with the training program."""

import re

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

DIGITS = ("--dataset_name=digits", "--model_name=lenet", "--progress=off")
DEFAULTS = """
    batch_size=100 checkpoint_path=runs/tfmodel clone_on_cpu=false dataset_dir
    dataset_name=imagenet dataset_split_name=test eval_dir=runs/tfmodel eval_image_size
    eval_interval_secs=0.0 labels_offset=0 master= max_num_batches model_name=inception_v3
    moving_average_decay num_clones=1 num_preprocessing_threads=4 preprocessing_name progress=auto
    quantize=false timeout_secs=3600.0 use_grayscale=false
"""


@pytest.fixture
def evaluate_program(run_program, untrained_lenet, tmp_path):
    """Runs the program with some flags more."""
    given = (*DIGITS, f"--checkpoint_path={untrained_lenet}", f"--eval_dir={tmp_path}")
    return lambda *flags: run_program("slim.eval_image_classifier", *given, *flags)


def test_flags_have_the_defaults_of_slim_except_the_directory(run_program):
    found = run_program("slim.eval_image_classifier", "--help").defaults()
    words = [word.partition("=") for word in DEFAULTS.split()]
    assert found == {name: value if given else None for name, given, value in words}


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
