"""`python -m replicate.run` runs a program as Python does, but for TensorFlow's own lines."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import helper
import tensorflow as tf

if __name__ == "__main__":
    with tf.compat.v1.Session(graph=tf.Graph()):
        print(sys.argv, helper.NAME)
    sys.exit(7)
"""


def run(folder, *arguments):
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run(
        [sys.executable, "-m", "replicate.run", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_program_finds_its_arguments_and_neighbours_and_only_its_own_lines_appear(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "program.py").write_text(PROGRAM)
    (tmp_path / "sub" / "helper.py").write_text("NAME = 'beside'")
    done = run(tmp_path, "sub/program.py", "--steps=3", "x")
    assert done.stderr == ""
    assert done.stdout == "['sub/program.py', '--steps=3', 'x'] beside\n"
    assert done.returncode == 7


def test_broken_tensorflow_is_not_hidden(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'why it failed')\n1 / 0\n")
    (tmp_path / "program.py").write_text("print('not reached')")
    done = run(tmp_path, "program.py")
    assert done.returncode == 1
    assert "why it failed" in done.stderr
    assert done.stdout == ""


def test_absent_program_is_one_line_and_exit_code_2(tmp_path):
    done = run(tmp_path, "train.py")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "there is no file 'train.py'" in done.stderr
    assert "Usage: python -m replicate.run" in run(tmp_path).stderr
