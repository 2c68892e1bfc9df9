"""The Kubeflow manifest: YAML, its tasks, and flags that the program has."""

import pathlib

import pytest

yaml = pytest.importorskip("yaml")

MANIFEST = pathlib.Path(__file__).parents[3] / "examples" / "cluster" / "tfjob.yaml"


@pytest.fixture
def replicas():
    job = yaml.safe_load(MANIFEST.read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    return job["spec"]["tfReplicaSpecs"]


def test_each_kind_of_task_restarts_by_exit_code(replicas):
    assert {kind: spec["replicas"] for kind, spec in replicas.items()} == {
        "Chief": 1,
        "Worker": 2,
        "PS": 1,
        "Evaluator": 1,
    }
    assert {spec["restartPolicy"] for spec in replicas.values()} == {"ExitCode"}


def test_containers_have_the_names_of_the_operator(replicas):
    for spec in replicas.values():
        (container,) = spec["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
        volumes = {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_the_flags_are_those_of_the_program(replicas, run_program):
    (container,) = replicas["Chief"]["template"]["spec"]["containers"]
    assert container["command"][:3] == ["python", "-m", "examples.convnet"]
    done = run_program("convnet", *container["command"][3:], "--batch_size=0")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "batch_size" in done.err
