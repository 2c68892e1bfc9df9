"""The main program, judged by its exit code and the lines that it prints."""

import json
import pathlib
import re
import signal

import pytest

import replicate
from examples import convnet_model, training
from examples.convnet_modes import sync_replicas

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

ROOT = pathlib.Path(__file__).parents[2]
SHORT = ("--train_steps=3", "--eval_every_steps=3", "--batch_size=32", "--progress=log")
FIRST_ORDER = "--optimizer=momentum"


def test_a_run_continues_until_it_is_complete(run_program, tmp_path, own_log):
    model_dir = tmp_path / "model"
    again = (f"--model_dir={model_dir}", *SHORT, FIRST_ORDER)
    first = run_program("convnet", *again, "--final_learning_rate=0.001")
    assert first.code == 0, first.err
    assert not [record for record in own_log.records if record.levelname == "WARNING"]
    assert "towers          2: /device:CPU:0 /device:CPU:1" in first.err
    assert "32 = 2 x 16" in first.out
    assert "rate=0.05 final_learning_rate=0.001 momentum=0.9 decay_steps=3" in first.out
    assert re.search(r"conv1/weights +5x5x1x16 ", first.err)
    assert "6 variables, 7,482 parameters" in first.err
    assert f"none in {model_dir}: starting at step 0" in first.out
    assert evaluated_steps(first.out) == ["3"]
    assert all(0 <= float(accuracy) <= 1 for accuracy in accuracies(first.out))
    assert f"{model_dir}/model.ckpt-3\n" in first.out

    assert (model_dir / "curves.png").read_bytes()[:4] == b"\x89PNG"

    second = run_program("convnet", *again, "--train_steps=7")
    assert second.code == 0, second.err
    assert f"{model_dir}/model.ckpt-3: continuing at step 3" in second.out
    assert " learning_rate=0.05 momentum=0.9\n" in second.out
    assert evaluated_steps(second.out) == ["6", "7"]
    assert f"{model_dir}/model.ckpt-7\n" in second.out

    third = run_program("convnet", *again, "--train_steps=7")
    assert third.code == 0, third.err
    assert f"{model_dir}/model.ckpt-7: complete at step 7" in third.out
    assert accuracies(third.out) == accuracies(second.out)

    other = run_program("convnet", *again, "--optimizer=adam")
    assert (other.code, other.out) == (2, "")
    assert "holds checkpoints of momentum" in other.err


@pytest.mark.broad
def test_ctrl_c_saves_and_the_next_run_resumes(start_python, run_program, tmp_path):
    program = (
        "import runpy\nrunpy.run_module('examples.convnet', run_name='__main__', alter_sys=True)"
    )
    settings = (f"--model_dir={tmp_path}", *SHORT, FIRST_ORDER)
    child = start_python(program, *settings, "--train_steps=1000000")
    while "compiling the first step" not in child.stderr.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    (step,) = re.findall(r"^saved +.*/model\.ckpt-(\d+)$", out, re.MULTILINE)
    second = run_program("convnet", *settings, f"--train_steps={int(step) + 1}")
    assert second.code == 0, second.err
    assert f"{tmp_path}/model.ckpt-{step}: continuing at step {step}" in second.out


def evaluated_steps(text):
    return re.findall(r"^evaluation +step (\d+)", text, re.MULTILINE)


def accuracies(text):
    found = re.findall(r"^(?:train|test) accuracy +([01]\.\d{3})$", text, re.MULTILINE)
    assert len(found) == 2
    return found


def test_divergence_is_one_line_and_exit_code_3(run_program, tmp_path):
    flags = ("--optimizer=momentum", "--learning_rate=1e30")
    done = run_program("convnet", f"--model_dir={tmp_path}", *SHORT, *flags)
    assert done.code == 3
    assert "training diverged" in done.err
    assert "Traceback" not in done.err


@pytest.mark.broad
@pytest.mark.parametrize(
    "flags",
    [
        "--mode=estimator --auto_register --approx=diagonal",
        "--mode=single_machine --optimizer=momentum",
        pytest.param(
            "--mode=multitower --kfac_updates=periodic --approx=diagonal", marks=pytest.mark.slow
        ),
    ],
)
def test_every_mode_reaches_an_accuracy(run_program, tmp_path, own_log, flags):
    steps = ("--train_steps=40", "--eval_every_steps=40", "--batch_size=64")
    done = run_program("convnet", f"--model_dir={tmp_path}", *steps, *flags.split())
    assert done.code == 0, done.err
    assert not [record for record in own_log.records if record.levelname == "WARNING"]
    if "--mode=estimator" in flags:
        assert "towers          2: " in done.err
        assert re.search("conv1/weights .*kron 26x26", done.err)
        assert re.search("conv2/weights .*diagonal", done.err)
    else:
        assert ("1 tower: " if "single_machine" in flags else "2 towers: ") in done.out
    assert done.number("test accuracy") >= 0.8
    params = json.loads((tmp_path / "config.json").read_text())["params"]
    assert f"{params['optimizer']} learning_rate={params['learning_rate']} " in done.out


def test_a_dry_run_compares_one_step_and_trains_nothing(run_program, tmp_path):
    flags = (f"--model_dir={tmp_path}", "--batch_size=16", "--dry_run", FIRST_ORDER)
    done = run_program("convnet", *flags)
    assert done.code == 0, done.err
    found = re.findall(r"^difference +(\S+) +gradient of (\S+)$", done.out, re.MULTILINE)
    layers = ("conv1", "conv2", "linear")
    names = {f"{layer}/{part}" for layer in layers for part in ("weights", "bias")}
    assert {name for _, name in found} == names
    assert max(float(difference) for difference, _ in found) < 1e-4
    assert "loss and gradients on 2 towers are those on one, but for rounding" in done.out
    assert not list(tmp_path.glob("model.ckpt*"))


def test_workers_train_the_model_of_the_mode(run_program, tmp_path, monkeypatch):
    def run(model_fn, data, settings, params, title, reduces=None):
        made.append((model_fn, reduces, params.get("op_strategy")))

    def ended(flags, **servers):
        cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], **servers}
        task = {"type": "worker", "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        return run_program("convnet", f"--model_dir={tmp_path}", *flags.split())

    made = []
    monkeypatch.setattr(training, "run", run)
    server = ["127.0.0.1:3"]
    assert ended("--mode=all_reduce").code == 0
    assert ended("--mode=far_machines --every=20").code == 0
    assert ended("--mode=distributed_sync_replicas", ps=server).code == 0
    assert ended("--mode=distributed_sync_replicas --op_strategy=shared", ps=server).code == 0
    assert made == [
        (convnet_model.model_fn, replicate.AllReduce(timeout_secs=300), None),
        (convnet_model.model_fn, replicate.AllReduce(timeout_secs=300, every=20, bits=4), None),
        (sync_replicas.model_fn, None, "chief_worker"),
        (sync_replicas.model_fn, None, "shared"),
    ]
    few = ended("--mode=distributed_sync_replicas --op_strategy=dedicated_workers", ps=server)
    assert (few.code, few.out, few.err.count("\n")) == (2, "", 1)
    assert "dedicated_workers" in few.err
