"""Commands whose output goes to a pipe that nobody reads."""

import importlib.util
import os
import subprocess
import sys

import pytest

needs_libcst = pytest.mark.skipif(
    importlib.util.find_spec("libcst") is None, reason="libcst is not installed"
)


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "replicate.doctor"],
        ["-m", "replicate.launch", "--help"],
        pytest.param(["-m", "replicate.migrate", "."], marks=needs_libcst),
        ["-c", "from examples import cli; cli.run(lambda: cli.show('label', 'text'))"],
    ],
)
def test_a_pipe_that_nobody_reads_ends_a_command_without_a_traceback(command, tmp_path):
    (tmp_path / "old.py").write_text("import tensorflow.contrib\n")
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-u", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")
