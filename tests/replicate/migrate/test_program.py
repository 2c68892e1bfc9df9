"""First lines of programs, which modules do not get."""

import textwrap

import pytest

from replicate.migrate.program import Needs, Programs, first_lines
from replicate.migrate.uses import Module

MAIN = "import tensorflow as tf\nif __name__ == '__main__':\n    tf.app.run()\n"
KERAS = 'os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # before TensorFlow is imported'


def needs(name="main", **texts):
    modules = {name: Module(text) for name, text in texts.items()}
    found = Programs(modules).needs(name)
    return found.switch, found.legacy_keras


@pytest.mark.parametrize(
    ("text", "is_program"),
    [
        (MAIN, True),
        ("import tensorflow as tf\ntf.estimator.Estimator(f).train(g)", True),
        ("import tensorflow as tf\nfor x in y: tf.add(x, 1)", True),
        ("import tensorflow as tf\ndef f(): return tf.add(1, 2)", False),
        ("import tensorflow as tf\ntf.logging.set_verbosity(tf.logging.INFO)", False),
        ("import tensorflow as tf\ntf.app.flags.DEFINE_string('a', '', '')", False),
        ("import numpy as np\nif __name__ == '__main__': f()", False),
        ("import tensorflow.compat.v1 as tf\nif __name__ == '__main__': tf.app.run()", False),
        (f"{MAIN}tf.disable_v2_behavior()", False),
    ],
)
def test_programs_switch_and_modules_do_not(text, is_program):
    assert needs(main=text) == (is_program, False)


@pytest.mark.parametrize(
    "use", ["tf.nn.rnn_cell.GRUCell", "tf.contrib.seq2seq.tile_batch", "tf.layers.dense"]
)
def test_cells_and_layers_need_no_keras(use):
    assert needs(main=f"{MAIN}x = {use}") == (True, False)


@pytest.mark.parametrize("use", ["tf.keras.Model", "tf.contrib.keras.models.Model"])
def test_keras_is_legacy_keras(use):
    assert needs(main=f"{MAIN}x = {use}") == (True, True)
    chosen = f"import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\n{MAIN}x = {use}"
    assert needs(main=chosen) == (True, False)


def test_modules_of_a_program_count_and_are_no_programs():
    texts = {
        "a.main": "from a.nets import net\nif __name__ == '__main__': net.run()",
        "a.nets.net": "from . import base",
        "a.nets.base": "import tensorflow as tf\ntf.keras.Model(x)",
        "b.other": "import tensorflow as tf\ntf.keras.Model(x)",
    }
    assert needs("a.main", **texts) == (True, True)
    assert needs("a.nets.base", **texts) == (False, False)
    assert needs("b.other", **texts) == (True, True)


def test_a_program_whose_name_another_folder_imports_is_one():
    run = "import tensorflow as tf\ntf.Session().run(f)"
    texts = {"train": run, "old.train": run, "old.eval": "from train import net"}
    assert needs("train", **texts) == (True, False)
    assert needs("old.train", **texts) == (False, False)


def with_lines(text, legacy_keras=True):
    module = Module(textwrap.dedent(text).lstrip("\n"))
    edits = list(first_lines(module, Needs(True, legacy_keras), []))
    new = module.source.edited(edits)
    compile(new, "new", "exec")
    return new


def test_lines_stand_below_python_s_own_imports_and_below_all_imports():
    new = with_lines(
        '''
        """Doc."""
        from __future__ import print_function
        import sys
        # Others.
        import tensorflow as tf
        import numpy as np
        x = 1
        '''
    )
    assert new == (
        '"""Doc."""\nfrom __future__ import print_function\nimport sys\nimport os\n\n'
        f"{KERAS}\n\n# Others.\nimport tensorflow as tf\nimport numpy as np\n\n"
        "tf.disable_v2_behavior()\n\nx = 1\n"
    )


def test_lines_of_a_program_without_own_imports_of_python():
    new = with_lines("# Licence\n\n# Dependencies\nimport tensorflow as t\n\nx = t.a")
    assert new == (
        f"# Licence\n\nimport os\n\n{KERAS}\n\n# Dependencies\nimport tensorflow as t\n\n"
        "t.disable_v2_behavior()\n\nx = t.a"
    )


@pytest.mark.parametrize(
    "header",
    [
        "#!/usr/bin/env python\n# coding: utf-8\n# Licence\n",
        "# Licence\n'''Doc.'''\n",
        "# Licence\nfrom __future__ import division\n",
    ],
)
@pytest.mark.parametrize(
    "rest", ["import tensorflow as tf\nx = 1\n", "def f():\n    import tensorflow as tf\nf()\n"]
)
def test_lines_stand_below_a_header_and_before_the_first_statement(header, rest):
    new = with_lines(header + rest)
    assert new.startswith(f"{header}import os\n\n{KERAS}\n\nimport tensorflow")
    assert new.replace(".compat.v1", "").count("tf.disable_v2_behavior()\n\n") == 1
    assert new.endswith(rest.partition("\n")[2])


def test_choice_stands_before_an_import_of_tensorflow_in_a_block():
    new = with_lines("import sys\ntry:\n    import tensorflow as tf\nfinally:\n    import os\n")
    assert new.startswith(f"import sys\nimport os\n\n{KERAS}\n\nimport tensorflow.compat.v1")


def test_program_that_imports_tensorflow_in_a_module_only():
    new = with_lines("import os\n\nimport model\n\nmodel.run()\n", legacy_keras=False)
    assert new == (
        "import os\n\nimport model\nimport tensorflow.compat.v1 as tf\n\n"
        "tf.disable_v2_behavior()\n\nmodel.run()\n"
    )
