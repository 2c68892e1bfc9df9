"""Every way of training over several processes learns the digits, and the evaluator follows."""

import re

import pytest
import tensorflow as tf

import replicate

CONVNET = ["-m", "examples.convnet", "--num_towers=1", "--batch_size=64", "--save_every_steps=40"]
SYNC = [*CONVNET, "--mode=distributed_sync_replicas", "--train_steps=160"]
AVERAGE = ["-m", "examples.model_average", "--num_towers=1", "--save_every_steps=5"]
WAYS = {
    "async": (2, [*CONVNET, "--train_steps=200"]),
    "sync": (2, [*SYNC, "--optimizer=momentum"]),
    "chief_worker": (2, [*SYNC, "--op_strategy=chief_worker"]),
    "dedicated_workers": (3, [*SYNC, "--op_strategy=dedicated_workers"]),
    "shared": (2, [*SYNC, "--op_strategy=shared"]),
    "model_average": (2, AVERAGE),
}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", WAYS)
def test_the_digits_are_learnt(way, cluster, journal, tmp_path):
    workers, arguments = WAYS[way]
    supervisor = cluster(
        *arguments, f"--model_dir={tmp_path}", "--progress=log", workers=workers, evaluator=True
    )
    assert supervisor.run() == 0
    assert all("exit code 0" in text for text in journal.of("launch") if "ended" in text)
    said = "\n".join(journal.of("chief 0"))
    accuracy = float(re.search(r"^test accuracy +([0-9.]+)", said, re.MULTILINE)[1])
    print(f"accuracy    | {way:<18} {accuracy:.3f}")
    assert accuracy >= 0.95
    evaluated = replicate.read_eval_metrics(str(tmp_path / "eval_test"))
    last = int(tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step"))
    assert max(evaluated) == last
    assert evaluated[last]["accuracy"] == pytest.approx(accuracy, abs=1e-3)
