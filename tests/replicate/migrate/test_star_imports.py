"""Names that come from other modules of a program by star imports."""

from replicate.migrate.command import rewrite_files


def test_old_names_are_found_through_star_imports(tmp_path):
    texts = {
        "net/__init__.py": "",
        "net/base.py": "import numpy as np\nimport tensorflow as tf\nslim = tf.contrib.slim\n",
        "net/model.py": "from .base import *\nx = slim.conv2d, tf.layers.dense\n_tf = tf\n",
        "other/base.py": "np = None\n",
        "train.py": "from net.model import *\nimport time\ny = tf.estimator.RunConfig(), np.float\n"
        "def tf_of(tf):\n    return tf.layers.dense\n",
        "all.py": "from tensorflow.contrib import slim\n__all__ = []\n",
        "none.py": "from all import *\nfrom absent import *\nz = slim.conv2d\n",
        "round.py": "from round import *\nfrom net.base import *\nnp = object\n"
        "z = np.float, tf.layers\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    results = rewrite_files(sorted(tmp_path.rglob("*.py")))
    found = {str(each.path.relative_to(tmp_path)): each.new.text for each in results}
    assert "x = contrib.slim.conv2d, layers.dense\n" in found["net/model.py"]
    assert "y = replicate.RunConfig(), float\n" in found["train.py"]
    assert "return tf.layers.dense\n" in found["train.py"]
    assert found["none.py"] == texts["none.py"]
    assert "z = np.float, layers\n" in found["round.py"]
    assert [each.left for each in results if each.left] == []
