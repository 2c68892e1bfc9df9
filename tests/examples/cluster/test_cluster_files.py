"""Files for clusters: the SLURM script, beside stand-ins of its commands, and the manifest."""

import json
import os
import pathlib
import subprocess

import pytest

from replicate.estimator.cluster_config import parse_cluster_config

SCRIPT = pathlib.Path(__file__).parents[3] / "examples" / "cluster" / "slurm.sh"
STANDINS = {
    "scontrol": 'if [ "$1" = show ]; then printf "%s\\n" a1 a2 a3 a4; else echo "$@" >>calls; fi',
    # Runs the command of each task, one after the other.
    "srun": 'shift; for SLURM_PROCID in 0 1 2 3; do export SLURM_PROCID; "$@" || exit; done',
    "program": 'printf "%s\\n" "$TF_CONFIG" "$*" >>printed; exit ${CODE:-0}',
}
MANIFEST = SCRIPT.with_name("tfjob.yaml")
FLAGS_OF_MANIFEST = {
    "tfjob_all_reduce.yaml": ["--mode=all_reduce"],
    "tfjob_far_machines.yaml": ["--mode=far_machines", "--every=100", "--bits=4"],
}


@pytest.fixture
def run(tmp_path):
    for name, text in STANDINS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run_script(*arguments, **environment):
        done = subprocess.run(
            ["bash", str(SCRIPT), *arguments],
            cwd=tmp_path,
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "PYTHON": "program",
                "SLURM_JOB_NODELIST": "a[1-4]",
                "SLURM_JOB_ID": "17",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done, (tmp_path / "printed").read_text().splitlines()

    return run_script


_EQUAL_WORKERS = {"chief": ["a1"], "worker": ["a2", "a3", "a4"]}
_WITH_SERVER = {"ps": ["a1"], "chief": ["a2"], "worker": ["a3", "a4"]}
CLUSTERS = {
    "distributed_sync_replicas": _WITH_SERVER,
    "estimator": _WITH_SERVER,
    "all_reduce": _EQUAL_WORKERS,
    "far_machines": _EQUAL_WORKERS,
}


@pytest.mark.parametrize("mode", CLUSTERS)
def test_each_task_gets_its_role_and_the_arguments(run, mode):
    jobs = {job: [f"{host}:2222" for host in hosts] for job, hosts in CLUSTERS[mode].items()}
    done, printed = run("--train_steps=7", "--title=two words", MODE=mode)
    assert done.returncode == 0, done.stderr
    roles = []
    for text, arguments in zip(printed[::2], printed[1::2], strict=True):
        assert json.loads(text)["cluster"] == jobs
        config = parse_cluster_config(text)
        roles.append((config.task_type, config.task_id))
        assert arguments.startswith(f"-m examples.convnet --mode={mode} --")
        is_synchronous = mode == "distributed_sync_replicas"
        assert ("--op_strategy=shared" in arguments) == is_synchronous
        assert arguments.endswith("--train_steps=7 --title=two words")
    assert roles == [(job, task) for job, hosts in jobs.items() for task in range(len(hosts))]


@pytest.mark.parametrize(("code", "requeued"), [(143, True), (138, True), (2, False)])
def test_resumable_job_is_queued_again(run, tmp_path, code, requeued):
    done, _ = run(CODE=str(code))
    assert done.returncode == code
    assert (tmp_path / "calls").exists() == requeued
    if requeued:
        assert (tmp_path / "calls").read_text() == "requeue 17\n"


yaml = pytest.importorskip("yaml")


@pytest.fixture
def replicas():
    job = yaml.safe_load(MANIFEST.read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "TFJob")
    return job["spec"]["tfReplicaSpecs"]


def test_tasks_restart_by_exit_code_in_containers_of_the_operator(replicas):
    numbers = {kind: spec["replicas"] for kind, spec in replicas.items()}
    assert numbers == {"Chief": 1, "Worker": 2, "PS": 1, "Evaluator": 1}
    assert {spec["restartPolicy"] for spec in replicas.values()} == {"ExitCode"}
    for spec in replicas.values():
        (container,) = spec["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert container["ports"] == [{"name": "tfjob-port", "containerPort": 2222}]
        volumes = {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@pytest.mark.parametrize("name", FLAGS_OF_MANIFEST)
def test_the_manifest_without_parameter_servers_differs_in_nothing_else(
    replicas, run_program, name
):
    text = MANIFEST.with_name(name).read_text().replace("Seconds: 600", "Seconds: 120")
    others = yaml.safe_load(text)["spec"]["tfReplicaSpecs"]
    assert set(replicas) - set(others) == {"PS"}
    commands = [
        kinds["Chief"]["template"]["spec"]["containers"][0].pop("command")
        for kinds in (replicas, others)
    ]
    assert others["Chief"] == replicas["Chief"]
    found = [word for word in commands[1] if word not in commands[0]]
    assert found == FLAGS_OF_MANIFEST[name]
    assert "batch_size" in run_program("convnet", *commands[1][3:], "--batch_size=0").err


def test_flags_of_the_script_and_the_manifest_are_those_of_the_program(run, replicas, run_program):
    _, printed = run()  # MODE is distributed_sync_replicas then.
    assert "--mode=distributed_sync_replicas" in printed[1]
    (container,) = replicas["Chief"]["template"]["spec"]["containers"]
    for words in (printed[1].split(), container["command"][1:]):
        assert words[:2] == ["-m", "examples.convnet"]
        done = run_program("convnet", *words[2:], "--batch_size=0")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "batch_size" in done.err
