"""Time of a run, and the record of it."""

import json
import math
import re

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import RunConfig, time_spent
from replicate.estimator.in_memory_evaluation import InMemoryEvaluatorHook
from replicate.estimator.run_record import placement, run_record, write_run_record
from replicate.estimator.time_spent import EVALUATION, INPUT, SAVING, TRAINING, TimeSpent
from replicate.variables.table import variable_rows

v1 = tf.compat.v1


@pytest.fixture
def clock(linear, monkeypatch):
    monkeypatch.setattr(time_spent, "time", clock := linear.Clock())
    return clock


def written(folder):
    return json.loads((folder / "time.json").read_text())


def run_for_a_while(spent, clock):
    """A call: 3 s to the first step, of which 1 s saves, then 10 s for 20 steps."""
    with spent.call():
        clock.now += 2
        with spent.during(SAVING):
            clock.now += 1
        spent.end_start()
        clock.now += 4
        with spent.during(SAVING):
            clock.now += 1
            with spent.during(EVALUATION):
                clock.now += 3
        clock.now += 2
        spent.add_steps(20, 1.5)
        spent.write()


def test_every_second_is_counted_once(clock, tmp_path):
    run_for_a_while(TimeSpent(str(tmp_path)), clock)
    seconds = {"start": 2.0, "training": 4.5, "input": 1.5, "saving": 2.0, "evaluation": 3.0}
    assert written(tmp_path) == {
        "calls": 1,
        "steps": 20,
        "first_step_seconds": 3.0,
        "seconds": seconds,
    }


def test_later_calls_and_those_of_other_processes_add_up(clock, tmp_path):
    spent = TimeSpent(str(tmp_path))
    for each in (spent, spent, TimeSpent(str(tmp_path)), spent):
        run_for_a_while(each, clock)
    found = written(tmp_path)
    assert (found["calls"], found["steps"]) == (4, 80)
    assert sum(found["seconds"].values()) == pytest.approx(52.0)


@pytest.mark.parametrize("text", ["{", "[1]", '{"seconds": 3, "calls": "x", "steps": null}'])
def test_a_damaged_file_is_replaced(clock, tmp_path, text):
    (tmp_path / "time.json").write_text(text)
    run_for_a_while(TimeSpent(str(tmp_path)), clock)
    assert written(tmp_path)["calls"] == 1
    assert sum(written(tmp_path)["seconds"].values()) == pytest.approx(13.0)


def test_evaluations_after_training_are_added_and_killed_calls_count(clock, tmp_path):
    spent = TimeSpent(str(tmp_path))
    with spent.during_evaluation():
        clock.now += 1
    assert not (tmp_path / "time.json").exists(), "of a process that does not train"
    run_for_a_while(spent, clock)
    with spent.during_evaluation():
        clock.now += 6
    assert written(tmp_path)["seconds"]["evaluation"] == 9.0
    killed = TimeSpent(str(tmp_path))
    call = killed.call()
    call.__enter__()
    clock.now += 5
    killed.end_start()
    killed.write()
    clock.now += 7  # Nothing is written of these.
    run_for_a_while(TimeSpent(str(tmp_path)), clock)
    with spent.during_evaluation():
        clock.now += 50  # Another one trained in between.
    assert sum(written(tmp_path)["seconds"].values()) == pytest.approx(37.0)


def test_evaluation_of_another_estimator_counts_for_the_running_call(clock, tmp_path):
    spent = TimeSpent(str(tmp_path))
    with spent.call():
        with TimeSpent(str(tmp_path)).during_evaluation():
            clock.now += 8
        spent.write()
    assert written(tmp_path)["seconds"][EVALUATION] == 8.0
    assert written(tmp_path)["seconds"][TRAINING] == 0.0


def test_training_writes_the_file_beside_the_events_even_if_it_fails(linear, tmp_path):
    def fail(step):
        if step == 7:
            raise RuntimeError("at step 7")

    estimator = linear.make_estimator(tmp_path)
    hook = InMemoryEvaluatorHook(estimator, linear.once_input_fn, every_n_iter=2)
    estimator.train(linear.input_fn, max_steps=4, hooks=[hook])
    found = written(tmp_path)
    assert (found["calls"], found["steps"]) == (1, 3)
    seconds = found["seconds"]
    assert all(secs > 0 for kind, secs in seconds.items() if kind != INPUT), found
    assert 0 < found["first_step_seconds"] <= sum(seconds.values())
    assert not list(tmp_path.glob("time.json.*"))
    estimator.evaluate(linear.once_input_fn)
    assert written(tmp_path)["seconds"]["evaluation"] > seconds["evaluation"]
    with pytest.raises(RuntimeError, match="at step 7"):
        estimator.train(linear.input_fn, max_steps=9, hooks=[linear.CallHook(fail)])
    assert written(tmp_path)["calls"] == 2


def test_record_holds_what_json_can_hold_and_need_not_be_written(graph, tmp_path, caplog):
    values = {
        "rate": (np.float32(0.5), 0.5),
        "units": ((3, [4]), [3, [4]]),
        "limit": (math.inf, "inf"),
        "text": ("x" * 1000, "x" * 300 + "..."),
        "optimizer": (v1.train.AdamOptimizer, "AdamOptimizer"),
        "array": (np.zeros(3), "ndarray"),
        "table": (list(range(1000)), "list"),
        1: (None, None),
    }
    params = {name: given for name, (given, _) in values.items()}
    config = RunConfig(str(tmp_path), session_config=v1.ConfigProto(allow_soft_placement=True))
    rows = variable_rows([v1.get_variable("w", [2, 3])], {"w": "kron"})
    write_run_record(str(tmp_path), run_record(placement(graph, rows), rows, config, params))
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["params"] == {str(name): expected for name, (_, expected) in values.items()}
    (row,) = found["variables"]
    assert (row["variable"], row["shape"], row["bytes"], row["note"]) == ("w", "2x3", 24, "kron")
    assert found["run_config"]["session_config"] == "allow_soft_placement: true"
    assert found["run_config"]["cluster"] == {}
    assert found["environment"]["tensorflow"] == tf.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["started"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.json").mkdir()
    write_run_record(str(tmp_path), {})
    assert f"{tmp_path}/run.json cannot be written: " in caplog.text
