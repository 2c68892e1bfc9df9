"""python -m replicate.doctor [DIR] checks the machine and prints the facts for a bug report.

The report has versions, devices, conflicting packages, TF_CONFIG, ports and disk space (of DIR, the
model directory, if it is given). It shows only a fixed list of environment variables, and only the
cluster of TF_CONFIG. It changes nothing. It also works if TensorFlow is missing or broken, since
another process imports TensorFlow. Exit codes: 0 nothing is wrong, 2 something is wrong.
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from replicate import onednn
from replicate.addresses import is_listening
from replicate.closed_pipe import drop_output
from replicate.exit_codes import ExitCode

_LIBRARIES = ("numpy", "protobuf", "keras", "tf-keras", "absl-py", "tqdm", "tensorboard")
_OURS = ("replicate", "kfac", "model_deploy")
_DISTRIBUTION = "replicate-model-fn"
_VARIABLES = (  # These contain no addresses and no passwords.
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_DETERMINISTIC_OPS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_USE_LEGACY_KERAS",
    "XLA_FLAGS",
)
_LITTLE_DISK = 2**30
_TENSORFLOW_SECS = 120
_ANSWER_SECS = 2
_TENSORFLOW = """
import json, os
import tensorflow as tf
from replicate.errors import ClusterConfigError
from replicate.estimator.cluster_config import cluster_config_from_environment
found = {
    "version": tf.__version__,
    "devices": [device.name for device in tf.config.list_physical_devices()],
    "cuda": tf.test.is_built_with_cuda(),
}
v1 = tf.compat.v1
metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
    images, filters = tf.random.normal([1, 8, 8, 1]), tf.random.normal([3, 3, 1, 1])
    session.run(tf.nn.conv2d(images, filters, 1, "SAME"), options=options, run_metadata=metadata)
kernels = [node.op for graph in metadata.partition_graphs for node in graph.node]
found["onednn"] = any("Mkl" in kernel for kernel in kernels)
try:
    config = cluster_config_from_environment()
    found["jobs"], found["task"] = dict(config.jobs), [config.task_type, config.task_id]
except ClusterConfigError as error:
    found["error"] = str(error)
print(json.dumps(found))
"""


class Finding(NamedTuple):
    """One line of the report: a subject, and the result of its check."""

    label: str
    text: str
    is_wrong: bool = False


def main(arguments: Sequence[str]) -> int:
    """Prints the report and returns the exit code."""
    for flag in (each for each in arguments if each.startswith("-")):
        is_help = flag in ("-h", "--help")
        print(__doc__ if is_help else f"replicate.doctor: no flag {flag} is known")
        return ExitCode.DONE if is_help else ExitCode.BAD_INPUT
    wrong = 0
    for finding in report(arguments):
        print(f"{finding.label:<20}{'WRONG: ' * finding.is_wrong}{finding.text}", flush=True)
        wrong += finding.is_wrong
    verdict = {0: "nothing is wrong", 1: "1 thing is wrong"}.get(wrong, f"{wrong} things are wrong")
    print(f"{'in short':<20}{verdict}")
    return ExitCode.BAD_INPUT if wrong else ExitCode.DONE


def report(folders: Sequence[str]) -> Iterator[Finding]:
    """Yields all findings, on these folders, too, beside the current one and the temporary one."""
    yield Finding("python", f"{platform.python_version()}  {sys.executable}")
    yield Finding("system", f"{platform.platform()}  {os.cpu_count()} processors")
    yield from packages(importlib.metadata.packages_distributions())
    yield from tensorflow()
    for name in _VARIABLES:
        if name in os.environ:
            yield Finding("environment", f"{name}={os.environ[name]}")
    for folder in (".", tempfile.gettempdir(), *folders):
        yield disk(folder)


def packages(owners: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yields versions and conflicting packages, by the distributions of each import name."""
    for name in (_DISTRIBUTION, *_LIBRARIES):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield Finding(name, importlib.metadata.version(name))
    several = ", ".join(sorted(set(owners.get("tensorflow", ()))))
    if "," in several:
        advice = "they overwrite each other's files. Uninstall all, then install one"
        yield Finding("tensorflow", f"installed by {several}; {advice}", True)
    home = Path(__file__).resolve().parents[1]
    for name in _OURS:
        others = sorted(set(owners.get(name, ())) - {_DISTRIBUTION})
        if others:
            yield Finding(name, f"installed by {', '.join(others)} as well. Uninstall it", True)
        spec = importlib.util.find_spec(name)
        place = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
        if place is None or place.parents[1] != home:
            yield Finding(name, f"is imported from {place}, not from {home}", True)


def tensorflow() -> Iterator[Finding]:
    """Yields findings about TensorFlow and TF_CONFIG, from another process."""
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _TENSORFLOW],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            capture_output=True,
            text=True,
            timeout=_TENSORFLOW_SECS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield Finding("tensorflow", f"is not imported within {_TENSORFLOW_SECS} s", True)
        return
    if done.returncode:
        last = [f"exit code {done.returncode}", *done.stderr.strip().splitlines()][-1]
        yield Finding("tensorflow", last, True)
        return
    found = json.loads(done.stdout.splitlines()[-1])
    with_cuda = "with" if found["cuda"] else "without"
    yield Finding("tensorflow", f"{found['version']}, built {with_cuda} CUDA")
    yield Finding("devices", " ".join(found["devices"]))
    yield kernels(found["onednn"], os.environ)
    yield from cluster(found)


def kernels(is_on: bool, environment: Mapping[str, str]) -> Finding:
    """Returns a finding about oneDNN, and what it costs to leave it off."""
    if is_on or not onednn.missing_variables({}):
        return Finding("oneDNN", "on" if is_on else "off, on a processor that is not x86")
    cost = "off: convolutions on CPUs may take four times as long, dilated ones cannot be trained"
    advice = f"{onednn.VARIABLE}=1 turns it on"
    if onednn.missing_variables(environment):
        advice += ", as python -m replicate.run, replicate.compat and replicate.launch do"
    return Finding("oneDNN", f"{cost}. {advice}")


def cluster(found: Mapping[str, Any]) -> Iterator[Finding]:
    """Yields findings about TF_CONFIG and about the addresses in it.

    Args:
      found: "error", the message, if TF_CONFIG is wrong; else "jobs", addresses by job, and "task",
        type and index of this process.
    """
    if "error" in found:
        yield Finding("TF_CONFIG", found["error"], True)
    elif not found["jobs"]:
        yield Finding("TF_CONFIG", "names no cluster: a process on its own")
    else:
        yield Finding("TF_CONFIG", "this process is {} {}".format(*found["task"]))
        for job, addresses in found["jobs"].items():
            for number, address in enumerate(addresses):
                answers = is_listening(address, _ANSWER_SECS)
                text = f"{address}, {'something' if answers else 'nothing'} listens there"
                yield Finding(f"{job} {number}", text, answers and [job, number] == found["task"])
        yield Finding(
            "security",
            "the servers of a cluster ask for no password and listen on all interfaces: anyone "
            "who reaches their ports can run code. Keep the cluster on a private network",
        )


def disk(folder: str) -> Finding:
    """Returns a finding about the free space for a folder, which may not exist yet."""
    wanted = Path(folder).resolve()
    place = next(path for path in (wanted, *wanted.parents) if path.exists())
    free = shutil.disk_usage(place).free
    closed = "" if os.access(place, os.W_OK) else ", but it cannot be written to"
    text = f"{place}: {free / 2**30:.1f} GiB free{closed}"
    return Finding("disk", text, bool(closed) or free < _LITTLE_DISK)


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except BrokenPipeError:
        code = drop_output()
    sys.exit(code)
