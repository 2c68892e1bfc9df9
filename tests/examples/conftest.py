"""Runs the example programs inside the test process, so that TensorFlow is imported once."""

import contextlib
import io
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import warnings
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from absl.testing import flagsaver

from examples import cli, mnist  # The flag --help of `cli` outlives the programs that use it.
from examples.slim.networks import factory as networks
from replicate.launch.plan import free_ports

v1 = tf.compat.v1
ROOT = pathlib.Path(__file__).parents[2]
ROLES = ("chief", "worker", "ps")


class Done(NamedTuple):
    """Exit code and printed text of a program."""

    code: int
    out: str
    err: str

    def number(self, label):
        """The number after a label, at the beginning of a printed line."""
        return float(re.search(rf"^{label} +(\S+)", self.out, re.MULTILINE)[1])

    def defaults(self):
        """The flags that `--help` lists -> their defaults as they are printed, or None."""
        listed = re.findall(r"^  --(?:\[no\])?(\w+): ((?:.|\n(?!  -))*)", self.out, re.MULTILINE)
        found = {name: re.search(r"\(default: '(.*?)'\)", about) for name, about in listed}
        return {name: default and default[1] for name, default in found.items()}


@pytest.fixture(scope="session")
def noise():
    """Makes images of noise with labels, the same ones in each call."""

    def make(rows, side=8):
        random = np.random.RandomState(0)
        images = random.rand(rows, side, side, 1).astype(np.float32)
        return mnist.Examples(images, random.randint(0, 10, rows).astype(np.int32))

    return make


@pytest.fixture(scope="session")
def make_settings():
    """Makes settings of a run of three steps in a model directory; a test chooses some itself."""

    def make(model_dir="unused", **chosen):
        settings = {
            "data_dir": None,
            "num_towers": None,
            "devices": None,
            "batch_size": 8,
            "train_steps": 3,
            "eval_every_steps": 3,
            "save_every_steps": None,
            "seed": 1,
            "progress": "off",
        }
        return cli.RunSettings(model_dir=str(model_dir), **{**settings, **chosen})

    return make


@pytest.fixture(scope="session")
def run_cluster():
    """Runs `examples.<name>` as all roles of a cluster; returns what each of them printed.

    A role has its own flags, and its TF_CONFIG unless these flags tell of the cluster.
    """

    def run(name, flags, own_flags=None):
        addresses = {
            role: [f"127.0.0.1:{port}"] for role, port in zip(ROLES, free_ports(3), strict=True)
        }
        outside = {key: v for key, v in os.environ.items() if not key.lower().endswith("_proxy")}
        command = [sys.executable, "-m", f"examples.{name}", *flags]
        children = {}
        try:
            for role in ROLES:
                task = {"cluster": addresses, "task": {"type": role, "index": 0}}
                told = {} if own_flags else {"TF_CONFIG": json.dumps(task)}
                children[role] = subprocess.Popen(
                    [*command, *(own_flags(role, addresses) if own_flags else ())],
                    cwd=ROOT,
                    env={**outside, **told},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            ended = {role: child.communicate(timeout=240) for role, child in children.items()}
        finally:
            for child in children.values():
                child.kill()
                child.wait()
        for role, child in children.items():
            assert child.returncode == 0, f"{role}: {ended[role][1][-3000:]}"
        return {role: out for role, (out, _) in ended.items()}

    return run


@pytest.fixture(autouse=True, scope="module")
def unoptimized_graphs(plain_sessions):
    """Graphs run as they are: optimizing them takes longer than all of their steps."""


@pytest.fixture(scope="session")
def untrained_lenet(tmp_path_factory):
    """A checkpoint of slim's LeNet for ten classes."""
    folder = tmp_path_factory.mktemp("untrained")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.train.create_global_step()
        networks.get_network_fn("lenet", 10)(tf.zeros([1, 28, 28, 1]))
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(folder / "model.ckpt"), 0)


@pytest.fixture(scope="session")
def run_program():
    """Runs `examples.<name>` as `python -m` does. Its flags are gone afterwards."""

    def run(name, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with (
            flagsaver.flagsaver(),
            mock.patch.object(sys, "argv", [name, *map(str, arguments)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            # runpy warns if a test has imported the program.
            warnings.filterwarnings("ignore", "'examples", RuntimeWarning)
            with pytest.raises(SystemExit) as end:
                runpy.run_module(f"examples.{name}", run_name="__main__", alter_sys=True)
        return Done(end.value.code, out.getvalue(), err.getvalue())

    return run
