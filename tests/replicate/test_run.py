"""`python -m replicate.run` and `python -m replicate.doctor`."""

import functools
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replicate import doctor

PROGRAM = """
import sys
import helper
import tensorflow as tf

if __name__ == "__main__":
    with tf.compat.v1.Session(graph=tf.Graph()):
        print(sys.argv, helper.NAME)
    sys.exit(7)
"""
ROOT = Path(doctor.__file__).resolve().parents[1]


@pytest.fixture
def run(run_command, tmp_path, monkeypatch):
    """Runs `python -m replicate.run` in a new folder."""
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    return functools.partial(run_command, "-m", "replicate.run", folder=tmp_path)


def test_program_finds_its_arguments_and_neighbours_and_only_its_own_lines_appear(run, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "program.py").write_text(PROGRAM)
    (tmp_path / "sub" / "helper.py").write_text("NAME = 'beside'")
    (tmp_path / "wrapt.py").write_text("1 / 0  # It has the name of what TensorFlow imports.")
    done = run("sub/program.py", "--steps=3", "x", code=7)
    assert done.stderr == ""
    assert done.stdout == "['sub/program.py', '--steps=3', 'x'] beside\n"


def test_error_shows_the_lines_of_the_program_alone(run, tmp_path):
    (tmp_path / "tensorflow.py").write_text("")
    (tmp_path / "program.py").write_text("def fail():\n    1 / 0\n\nfail()\n")
    lines = run("program.py", code=1).stderr.splitlines()
    assert [line.split(", ", 1)[1] for line in lines if "File" in line] == [
        "line 4, in <module>",
        "line 2, in fail",
    ]


def test_broken_tensorflow_is_not_hidden(run, tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'why it failed')\n1 / 0\n")
    (tmp_path / "program.py").write_text("print('not reached')")
    done = run("program.py", code=1)
    assert "why it failed" in done.stderr
    assert done.stdout == ""


def test_absent_program_is_one_line_and_exit_code_2(run):
    done = run("train.py", code=2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "there is no file 'train.py'" in done.stderr
    assert "Usage: python -m replicate.run" in run(code=2).stderr


@pytest.fixture
def say(monkeypatch):
    """Stands in for the process that tries TensorFlow: a program given as text."""
    return lambda program: monkeypatch.setattr(doctor, "_TENSORFLOW", program)


@pytest.fixture
def healthy(say):
    found = {"version": "9.9", "devices": ["cpu"], "cuda": False, "onednn": True}
    found |= {"jobs": {}, "task": ["worker", 0]}
    say(f"print({json.dumps(json.dumps(found))})")
    return found


def wrong(findings):
    return [f"{finding.label}: {finding.text}" for finding in findings if finding.is_wrong]


def test_a_healthy_machine_is_reported(healthy, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.importlib.metadata, "packages_distributions", dict)
    monkeypatch.setattr(doctor, "_LITTLE_DISK", 0)
    assert doctor.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for text in ("python              3.", "9.9, built without CUDA", "nothing is wrong", "numpy"):
        assert text in printed
    assert f"{tmp_path}: " in printed


def test_no_value_of_the_environment_is_shown_that_is_not_on_the_list(healthy, capsys, monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", "hush-hush")
    monkeypatch.setenv("https_proxy", "http://me:hush-hush@proxy")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    doctor.main([])
    printed = capsys.readouterr().out
    assert "OMP_NUM_THREADS=3" in printed
    assert "hush" not in printed
    assert "MY_PASSWORD" not in printed


@pytest.mark.parametrize(
    ("owners", "text"),
    [
        ({"tensorflow": ["tensorflow", "tensorflow-cpu"]}, "overwrite each other's files"),
        ({"kfac": ["kfac-pytorch", "replicate-model-fn"]}, "installed by kfac-pytorch as well"),
        ({"replicate": ["replicate"]}, "installed by replicate as well"),
    ],
)
def test_packages_in_each_others_way_are_found(owners, text):
    assert not wrong(doctor.packages({"tensorflow": ["tensorflow-cpu"]}))
    (found,) = wrong(doctor.packages(owners))
    assert text in found


def test_another_package_of_the_same_name_is_found(run_command, tmp_path):
    (tmp_path / "kfac").mkdir()
    (tmp_path / "kfac" / "__init__.py").touch()
    program = "from replicate import doctor\nprint(*doctor.packages({}), sep='\\n')"
    done = run_command("-c", program, folder=tmp_path)
    assert f"is imported from {tmp_path}/kfac/__init__.py, not from {ROOT}" in done.stdout


@pytest.mark.parametrize(
    ("program", "secs", "text"),
    [
        ("raise ImportError('no tensorflow here')", 60, "no tensorflow here"),
        ("import os; os.abort()", 60, ""),
        ("import time; time.sleep(60)", 0.3, ""),
    ],
)
def test_a_missing_or_broken_tensorflow_is_reported(say, program, secs, text, monkeypatch):
    monkeypatch.setattr(doctor, "_TENSORFLOW_SECS", secs)
    say(program)
    started = time.monotonic()
    (found,) = doctor.tensorflow()
    assert found.is_wrong
    assert text in found.text
    assert time.monotonic() - started < 20


def test_the_real_tensorflow_and_a_bad_tf_config_are_looked_at(monkeypatch, run_python):
    def run(command, env, **_):
        assert command[:2] == [sys.executable, "-c"]
        done = run_python(command[2], environment=env)
        return subprocess.CompletedProcess(command, done.code, done.out, done.err)

    monkeypatch.setattr(doctor.subprocess, "run", run)
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1"]}}')
    found = list(doctor.tensorflow())
    labels = ["tensorflow", "devices", "oneDNN", "TF_CONFIG"]
    assert [finding.label for finding in found] == labels
    assert wrong(found)[0].startswith("TF_CONFIG: Cannot read the cluster from TF_CONFIG")
    assert "CPU:0" in found[1].text


@pytest.mark.parametrize(
    ("machine", "is_on", "environment", "text"),
    [
        ("x86_64", True, {}, "on"),
        ("x86_64", False, {},
         "off: .* four times .* TF_.*_OPTS=1 turns it on, as .*replicate.run.* do"),
        ("x86_64", False, {"TF_ENABLE_ONEDNN_OPTS": "0"},
         "off: .*dilated.* TF_.*_OPTS=1 turns it on"),
        ("aarch64", False, {}, "off, on a processor that is not x86"),
    ],
)  # fmt: skip
def test_the_cost_of_absent_kernels_is_told(machine, is_on, environment, text, monkeypatch):
    monkeypatch.setattr(doctor.platform, "machine", lambda: machine)
    found = doctor.kernels(is_on, environment)
    assert re.fullmatch(text, found.text)
    assert not found.is_wrong


def test_the_addresses_of_a_cluster_are_tried():
    with socket.socket() as server, socket.socket() as closed:
        server.bind(("127.0.0.1", 0))
        server.listen()
        closed.bind(("127.0.0.1", 0))
        taken, free = (f"127.0.0.1:{each.getsockname()[1]}" for each in (server, closed))
        jobs = {"chief": [taken], "ps": [free]}
        found = list(doctor.cluster({"jobs": jobs, "task": ["ps", 0]}))
        assert not wrong(found)
        assert f"{taken}, something listens" in found[1].text
        assert f"{free}, nothing listens" in found[2].text
        assert found[-1].label == "security"
        found = doctor.cluster({"jobs": jobs, "task": ["chief", 0]})
        assert wrong(found) == [f"chief 0: {taken}, something listens there"]


def test_little_disk_is_reported(monkeypatch, tmp_path):
    assert doctor.disk(str(tmp_path / "not" / "yet")).text.startswith(f"{tmp_path}: ")
    monkeypatch.setattr(doctor, "_LITTLE_DISK", 2**80)
    assert doctor.disk(str(tmp_path)).is_wrong


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--nope", 2)])
def test_flags_are_answered(flag, code, capsys):
    for arguments in ([flag], ["folder", flag]):
        assert doctor.main(arguments) == code
        assert ("python -m replicate.doctor" if code == 0 else "no flag --nope") in (
            capsys.readouterr().out
        )


def test_one_wrong_thing_is_not_called_several(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "report", lambda _: [doctor.Finding("disk", "is full", True)])
    assert doctor.main([]) == 2
    assert capsys.readouterr().out.endswith("in short            1 thing is wrong\n")


def test_question_to_tensorflow_reads_tf_config(monkeypatch, capsys):
    monkeypatch.setenv("TF_CONFIG", '{"task": {"type": "worker", "index": 0}}')
    exec(doctor._TENSORFLOW, {})
    found = json.loads(capsys.readouterr().out)
    assert found["version"]
    assert (found["jobs"], found["task"]) == ({}, ["worker", 0])
    if platform.machine() == "x86_64":
        assert found["onednn"] == (os.environ["TF_ENABLE_ONEDNN_OPTS"] != "0")
