"""Names of clusters, and the program."""

import numpy as np
import pytest

from examples import kmeans

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_cluster_is_named_after_its_most_frequent_label():
    clusters = np.array([0, 0, 0, 1, 3, 3])
    labels = np.array([7, 7, 2, 5, 9, 9])
    np.testing.assert_array_equal(kmeans.majorities(clusters, labels, 4), [7, 5, 0, 9])


def test_mini_batches_find_the_digits(run_program, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off")
    done = run_program("kmeans", *arguments, "--train_steps=60")
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert done.number("test accuracy") > 0.8
    assert (tmp_path / "centers.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "config.json").exists()


@pytest.mark.broad
def test_full_batches_need_no_batch_size_and_go_on(run_program, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--full_batch", "--num_towers=1")
    arguments += ("--distance_metric=cosine",)
    first = run_program("kmeans", *arguments, "--train_steps=1")
    done = run_program("kmeans", *arguments, "--train_steps=3")
    assert (first.code, done.code) == (0, 0), done.err
    assert "continuing at step 1" in done.out
    assert done.number("train distance") < first.number("train distance")
    assert done.number("test accuracy") > 0.6
