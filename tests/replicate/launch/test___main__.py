"""The launcher's command line, and the plan of processes that it makes."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys

import pytest

from replicate.estimator.cluster_config import parse_cluster_config
from replicate.launch import __main__ as command_line
from replicate.launch.__main__ import main
from replicate.launch.plan import cluster_plan, free_ports

PROGRAM = """
import json, os, sys
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], sys.argv[1:], os.environ["no_proxy"])
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers=0", "--", "python"], "--workers=0: 0 is not a positive integer"),
        (["--ps=-1", "--", "python"], "--ps=-1"),
        (["--ps=many", "--", "python"], "--ps=many"),
        (["--restart=-1", "--", "python"], "not a whole number"),
        (["--grace_secs=-1", "--", "python"], "--grace_secs=-1"),
        (["--wokers=2", "--", "python"], "Unknown command line flag 'wokers'"),
        (["--all_reduce", "--ps=1", "--", "python"], "--all_reduce trains without parameter"),
        ([], "no command to run"),
        (["--workers=2", "--"], "no command to run"),
        (["--", "no-such-program-at-all"], "no program 'no-such-program-at-all'"),
        (["--min_workers=1", "--", "python"], "Add --all_reduce"),
        (["--min_workers=3", "--all_reduce", "--", "python"], "more than --workers=2"),
        (["--host=10.0.0.1", "--", "python"], "no loopback address"),
        (["--host=example.org", "--", "python"], "no loopback address"),
    ],
)
def test_wrong_flags_give_a_one_line_error(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_restart_flag_takes_an_optional_count():
    counts = {"--restart": 10, "--restart=3": 3, "--norestart": 0}
    for argument, count in counts.items():
        values = command_line.define_flags()
        values(["launch", argument])
        assert values["restart"].value == count


def test_only_hosts_that_are_not_loopback_need_the_expose_flag():
    for host in ("127.1.2.3", "::1", "localhost"):
        command_line._check_host(host, is_exposed=False)
    command_line._check_host("10.0.0.1", is_exposed=True)


def test_tasks_reach_this_machine_without_a_proxy():
    environment = command_line._environment({"no_proxy": "a.example"}, "127.0.0.1")
    assert environment["no_proxy"] == "a.example,127.0.0.1"
    assert environment["NO_PROXY"] == "127.0.0.1"
    given = {"PYTHONUNBUFFERED": "", "TF_ENABLE_ONEDNN_OPTS": "0"}
    assert given.items() <= command_line._environment(given, "x").items()


def test_the_command_runs_once_for_every_task(capsys):
    hostile = "; echo $(id) `id` > x"
    arguments = ["--workers=2", "--ps=1", "--evaluator", "--", "python", "-c", PROGRAM]
    assert main([*arguments, hostile, "--", "--ps=9"]) == 0
    printed = capsys.readouterr()
    for name in ("chief 0", "worker 0", "ps 0", "evaluator 0"):
        line = f"{name:<11} | {name} {[hostile, '--', '--ps=9']} "
        assert line in printed.out
    assert len(printed.out.splitlines()) == 4
    assert printed.err.startswith(
        "launch      | SECURITY: TensorFlow's servers ask for no password"
    )


FAILS = """
import os, sys
os.write(2, b"I0000 00:00:1795519856.354936   19876 port.cc:153] oneDNN is on.\\n")
sys.exit("out of luck")
"""


def test_the_exit_code_is_that_of_the_failed_task_whose_log_is_named(capsys, tmp_path):
    assert main(["--workers=1", "--ps=0", "--", "python", "-c", FAILS]) == 1
    printed = capsys.readouterr().err
    assert "oneDNN" not in printed
    (log,) = tmp_path.glob("runs/launch/*/chief_0.log")
    folder = log.parent.relative_to(tmp_path)
    assert f"launch  | logs of the tasks: {folder}\n" in printed
    told = "chief 0 has failed; {} has all that it printed. Its last lines:"
    assert printed.endswith(
        f"launch  | {told.format(log.relative_to(tmp_path))}\nchief 0 | out of luck\n"
    )
    assert log.read_text().splitlines()[1:] == [
        "I0000 00:00:1795519856.354936   19876 port.cc:153] oneDNN is on.",
        "out of luck",
    ]


def test_logs_go_to_the_folder_that_is_asked_for(tmp_path):
    command = ["python", "-c", "print('here')"]
    assert main(["--workers=1", "--ps=0", "--log_dir=mine", "--", *command]) == 0
    assert (tmp_path / "mine" / "chief_0.log").read_text().endswith("\nhere\n")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def start(*arguments, **settings):
    command = [sys.executable, "-m", "replicate.launch", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **{**pipes, **settings})


def test_help_is_quick_and_needs_no_tensorflow(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise SystemError('it was imported')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    before = os.times().children_user
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "ascii"}
    child = start("--help", env=environment)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "--workers" in out
    assert "--flagfile" not in out, "it is of absl, not of the launcher"
    assert os.getcwd() not in out
    assert sys.prefix not in out
    assert err == ""
    assert os.times().children_user - before < 1


SAVES = """
import signal, sys, time
def save(number, _):
    print("saving", flush=True)
    time.sleep(0.7)  # Longer than a second signal counts as the first.
    open("saved", "w").close()
    sys.exit(128 + number)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, save)
while True:
    print("tick", flush=True)
    time.sleep(0.02)
"""


@pytest.mark.parametrize(
    ("number", "code"), [(None, 141), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_tasks_save_although_the_output_pipe_is_closed(number, code, tmp_path):
    child = start("--workers=1", "--ps=0", "--", "python", "-c", SAVES, stderr=subprocess.STDOUT)
    while "tick" not in child.stdout.readline():
        pass
    if number is not None:
        child.send_signal(number)
    child.stdout.close()
    assert child.wait(30) == code
    assert (tmp_path / "saved").exists()


def test_tasks_save_although_the_terminal_is_closed(tmp_path):
    ours, theirs = os.openpty()
    child = start(
        "--workers=1", "--ps=0", "--", "python", "-c", SAVES, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        text = b""
        while b"tick" not in text:
            text += terminal.read(100)
    child.send_signal(signal.SIGHUP)
    assert child.wait(30) == 128 + signal.SIGHUP
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize("streams", ["", ">&- 2>&-"])
def test_streams_that_are_closed_or_lack_a_character_stop_no_task(streams, tmp_path):
    program = "import sys; sys.stdout.buffer.write('≥ 1'.encode()); open('ran', 'w')"
    command = [sys.executable, "-m", "replicate.launch", "--workers=1", "--ps=0", "--log_dir=logs"]
    command = shlex.join([*command, "--", "python", "-c", program])
    done = subprocess.run(
        f"{command} {streams}",
        shell=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()
    assert done.stdout == ("" if streams else "chief 0 | \\u2265 1\n")
    assert "≥ 1" in (tmp_path / "logs" / "chief_0.log").read_text()


def test_a_program_that_cannot_be_run_gives_a_one_line_error(tmp_path, capsys):
    program = tmp_path / "program"
    program.write_text("no interpreter is named")
    program.chmod(0o755)
    with pytest.raises(SystemExit) as end:
        main(["--workers=2", "--", str(program)])
    assert end.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"replicate.launch: cannot start '{program}': Exec format error"


@pytest.mark.parametrize(
    ("arguments", "tasks"),
    [
        ({"workers": 2, "ps": 1}, ["chief 0", "worker 0", "ps 0"]),
        (
            {"workers": 2, "ps": 2, "chief": True, "evaluator": True},
            ["chief 0", "worker 0", "worker 1", "ps 0", "ps 1", "evaluator 0"],
        ),
    ],
)
def test_cluster_plan_lists_the_requested_tasks(arguments, tasks):
    assert [str(task) for task in cluster_plan(**arguments).tasks] == tasks


def test_every_tf_config_describes_the_same_cluster():
    plan = cluster_plan(3, 2, evaluator=True)
    configs = [parse_cluster_config(plan.tf_config(task)) for task in plan.tasks]
    assert [(c.task_type, c.task_id) for c in configs] == [(t.job, t.index) for t in plan.tasks]
    assert len({json.dumps(config.jobs) for config in configs}) == 1
    addresses = [task.address for task in plan.tasks if task.address]
    assert len(set(addresses)) == len(addresses) == 5
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert sum(config.is_chief for config in configs) == 1


def test_an_ipv6_address_is_in_brackets():
    (task,) = cluster_plan(1, 0, host="::1").tasks
    assert task.address.startswith("[::1]:")


@pytest.mark.parametrize(("workers", "ps"), [(0, 1), (-1, 1), (1, -1)])
def test_invalid_task_counts_are_refused(workers, ps):
    with pytest.raises(ValueError, match=f"{workers} workers and {ps} parameter servers"):
        cluster_plan(workers, ps)


def test_ports_are_free_and_different(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("replicate.launch.plan._PORTS", range(port, port + 1))
        with pytest.raises(OSError, match="only 0 of the 1 ports are free"):
            free_ports(1)
    monkeypatch.undo()
    assert len(set(free_ports(20))) == 20
