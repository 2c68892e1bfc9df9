"""Functions that Python and its libraries changed or lost, as old programs call them."""

import importlib.metadata
import io
import pickle  # noqa: TID251  # What programs write and read.
import random
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from replicate.compat.old_libraries import frames, images, packages, python, versions

NUMPY = """
import os
import pickle
import urllib.parse
import numpy as np
import xml.etree.cElementTree as tree
import numpy.random

rows = np.array([[1], [1, 2]])
made = [np.asarray([[1], []]), np.array([[1, 2]]), np.array([1, 2], np.float32)]
numbers = np.fromstring(b"\\x01\\x00\\x02\\x00", dtype=np.uint16)
numbers[0] = 7
words = np.fromstring("1, 2", sep=",")
np.save("rows.npy", rows)
read = np.load("rows.npy")
drawn = np.random.random_integers(3, size=[50])
root = tree.fromstring("<a/>").tag
code = os.errno.EEXIST
warned = np.warnings.catch_warnings
half = np.math.floor(2.5)
sums = np.sum(number for number in (1, 2)), np.sum([[1], [2]], axis=0).tolist()
floats = np.asfarray([1, 2], np.int32).dtype, np.cast["uint8"]([3]).dtype, np.NAN != np.NAN
kinds = np.issubsctype(np.int8, np.integer), np.float16 in np.sctypes["float"]
padded = np.lib.pad([1], 1, "edge").tolist(), urllib.quote("a b"), urllib.parse.unquote("%41")
"""


def test_numpy_takes_what_it_took(run_source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_source(NUMPY)
    assert (names.rows.dtype, names.rows.shape) == (np.dtype(object), (2,))
    assert [each.dtype.kind for each in names.made] == ["O", "i", "f"]
    assert names.numbers.tolist() == [7, 2]
    assert names.words.tolist() == [1, 2]
    assert names.read.tolist() == [[1], [1, 2]]
    assert set(names.drawn) == {1, 2, 3}
    assert (names.root, names.code, names.half) == ("a", 17, 2)
    assert names.sums == (3, [3])
    assert (*names.floats, *names.kinds) == (np.float64, np.uint8, True, True, True)
    assert names.padded == ([1, 1, 1], "a%20b", "A")
    with pytest.raises(ValueError, match="inhomogeneous"):
        run_source("import numpy as np\nnp.array([[1], [1, 2]], np.int32)")
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array([[1], [1, 2]])


# What Python 2 wrote: a text that is not ASCII, by protocol 2.
OF_PYTHON_2 = b"\x80\x02U\x02\xff\x00q\x00."


def test_pickles_of_python_2_and_files_open_as_text(run_source, tmp_path):
    path = tmp_path / "old.pkl"
    path.write_bytes(OF_PYTHON_2)
    names = run_source(f"""
import pickle
from pickle import loads

read = [pickle.load(open({str(path)!r}, mode)) for mode in ("rb", "r")]
read.append(loads({OF_PYTHON_2!r}))
raw = pickle.load(open({str(path)!r}, "rb"), encoding="bytes")
with open({str(tmp_path / "new.pkl")!r}, "w") as file:
    pickle.dump([1], file)
back = pickle.load(open({str(tmp_path / "new.pkl")!r}))
""")
    assert names.read == ["\xff\0"] * 3
    assert (names.raw, names.back) == (b"\xff\0", [1])
    with pytest.raises(UnicodeDecodeError):
        pickle.loads(OF_PYTHON_2)


def test_yaml_json_and_open(run_source, tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "a.csv").write_text("x\n")
    names = run_source(f"""
import json
import numpy as np
import yaml
read = yaml.load("a: [1, 2]")
given = yaml.load("b: 1", Loader=yaml.SafeLoader)
of_json = json.loads('{{"c": 1}}', encoding="utf-8"), json.dumps([1], encoding="utf-8")
total = json.dumps({{"loss": sum([np.float32(0.5), np.float32(1)])}})
lines = open({str(tmp_path / "a.csv")!r}, "rU").read(), open({str(tmp_path / "a.csv")!r}).read()
refused = None
try:
    yaml.load("!!python/object/apply:os.getcwd []")
except yaml.YAMLError:
    refused = True
""")
    assert (names.read, names.given, names.refused) == ({"a": [1, 2]}, {"b": 1}, True)
    assert names.of_json == ({"c": 1}, "[1]")
    assert names.total == '{"loss": 1.5}'
    assert names.lines == ("x\n", "x\n")


def test_images_of_scipy_misc(run_source, tmp_path):
    pytest.importorskip("PIL")
    path = str(tmp_path / "image.png")
    names = run_source(f"""
import numpy as np
import scipy.misc
from scipy import misc
from scipy.misc import imread, imresize
scipy.misc.imsave({path!r}, np.arange(12.0).reshape(2, 2, 3))
read = misc.imread({path!r})
flat = imread({path!r}, flatten=True)
gray = imread({path!r}, mode="L")
small = imresize(np.zeros([4, 6], "u1") + 9, 50), imresize(read, 2.0, "nearest")
size = imresize(read, (3, 5, 3)).shape
factorial = misc.factorial(4)
""")
    expected = (np.arange(12) * 255 / 11 + 0.5).astype("u1").reshape(2, 2, 3)
    np.testing.assert_array_equal(names.read, expected)
    assert (names.flat.dtype, names.flat.shape) == (np.float32, (2, 2))
    assert names.gray.dtype == np.uint8
    assert names.small[0].tolist() == [[9] * 3] * 2
    np.testing.assert_array_equal(names.small[1], expected.repeat(2, 0).repeat(2, 1))
    assert (names.size, names.factorial) == ((3, 5, 3), 24)
    assert (
        images.imrotate(np.eye(3, dtype="u1"), 90, "nearest").tolist() == np.eye(3)[::-1].tolist()
    )
    with pytest.raises(ValueError, match=r"got \(2, 2, 5\)"):
        images.toimage(np.zeros([2, 2, 5]))
    with pytest.raises(ValueError, match="interp must be one of"):
        images.imresize(np.zeros([2, 2]), 2.0, "none")


def test_packages_that_are_installed(run_source, monkeypatch):
    names = run_source("""
import pkg_resources
from pkg_resources import get_distribution
version = pkg_resources.get_distribution("numpy").version
found = pkg_resources.resource_filename("replicate", "v1.py")
parsed = pkg_resources.parse_version("1.10") > pkg_resources.parse_version("1.9")
""")
    assert names.version == np.__version__
    assert names.found.endswith("v1.py")
    assert names.parsed
    assert packages.require("numpy>=1.2,!=1.3", [f"numpy~={np.__version__[0]}.0"])[0].key == "numpy"
    assert packages.resource_exists("replicate", "py.typed")
    assert packages.resource_string("replicate", "py.typed") is not None
    assert "v1.py" in packages.resource_listdir("replicate", "")
    assert [each for each in packages.working_set if each.key == "numpy"]
    with pytest.raises(packages.DistributionNotFound, match="'no-such-package' is not installed"):
        packages.get_distribution("no-such-package")
    with pytest.raises(packages.VersionConflict, match=r"numpy .* is installed, and numpy<1"):
        packages.get_distribution("numpy<1")
    assert importlib.metadata.version("numpy") == names.version


def test_versions_compare_as_versions_do():
    text = versions.VersionText("1.15.5")
    assert "1.4" <= text < "1.16"
    assert text >= "1.9"
    assert text > "1.15"
    assert not text <= "1.4"
    assert text == "1.15.5"
    assert text.split(".")[0] == "1"
    assert versions.LooseVersion("1.2b1") < versions.LooseVersion("1.10")
    assert versions.LooseVersion("1.2.0rc1") < "1.2.1"
    assert [versions.strtobool(each) for each in ("Yes", "off")] == [1, 0]
    with pytest.raises(ValueError, match="invalid truth value"):
        versions.strtobool("perhaps")


def test_functions_of_python(run_source, tmp_path):
    (tmp_path / "settings.py").write_text("value = 3\n")
    module = python.load_source("settings_of_test", str(tmp_path / "settings.py"))
    assert (module.value, sys.modules.pop("settings_of_test")) == (3, module)
    file, path, kind = python.find_module("settings", [str(tmp_path)])
    with file:
        assert python.load_module("settings_of_test", file, path, kind).value == 3
    del sys.modules["settings_of_test"]
    with pytest.raises(ImportError, match="No module named 'no_such'"):
        python.find_module("no_such", [str(tmp_path)])
    assert python.what(None, b"\x89PNG\r\n\x1a\n") == "png"
    assert python.what(io.BytesIO(b"GIF89a")) == "gif"
    random.seed(0)
    names = run_source("""
import random
drawn = random.sample({3: 1, 4: 2}.keys(), 2), random.randint(0, 4.0), random.randrange(2.0)
values = [1, 2, 3]
random.shuffle(values, lambda: 0.0)
""")
    assert sorted(names.drawn[0]) == [3, 4]
    assert names.values == [2, 3, 1]


@pytest.mark.skipif(find_spec("pandas") is None, reason="needs pandas")
def test_frames_of_pandas(run_source):
    import pandas as pd  # noqa: PLC0415

    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=["x", "y"])
    at = frames.by_label_or_position(frame)
    assert (at["x", "b"], at[1, "a"], at["x", 1], at[0].tolist()) == (3, 2, 3, [1, 3])
    at[1, "a"] = 7
    assert at[:, "a"].tolist() == [1, 7]
    assert frames.as_matrix(frame)(["b"]).tolist() == [[3], [4]]
    longer = frames.append(frame)(frame, ignore_index=True)
    assert longer["b"].tolist() == [3, 4, 3, 4]
    assert len(frames.append(frame)({"a": 0, "b": 1}, ignore_index=True)) == 3
    assert frames.get_value(frame)("y", "b") == 4
    assert frames.set_value(frame)("y", "b", 5).at["y", "b"] == 5
    assert frames.sort(frame)("a", ascending=False).index.tolist() == ["y", "x"]
    assert frames.rolling_mean(frame["b"], 2).tolist()[1] == 4.0
    quiet = {"error_bad_lines": False, "warn_bad_lines": False}
    read = frames.read_csv(io.StringIO("a,b\n1,2\n1,2,3\n"), **quiet)
    assert len(read) == 1
    names = run_source(
        "import pandas as pd\nframe = pd.DataFrame({'a': [2, 1]})\n"
        "longer = frame.append(frame).sort('a').as_matrix()[:, 0].tolist()\n"
        "first = frame.ix[0, 'a'], frame.get_value(1, 'a'), frame['a'].order().tolist()\n"
        "rows = []\nrows.append(1)"
    )
    assert (names.longer, names.first, names.rows) == ([1, 1, 2, 2], (2, 1, [1, 2]), [1])


ATTRIBUTES = """
import array
import threading
import xml.etree.cElementTree as tree
import numpy as np

numbers = np.arange(4, dtype=np.uint8).reshape(2, 2)
numbers.itemset((0, 1), 9)
numbers.itemset(3, 8)
data = [numbers.tostring(), numbers[0].tostring(), np.uint8(7).tostring()]
spread = numbers.ptp(), numbers.ptp(0).tolist()
pairs = list({"a": 1}.iteritems()), {"a": 1}.has_key("a"), list({"b": 2}.itervalues())
texts = "x".decode("utf-8"), b"y".decode()
try:
    raise ValueError("told")
except ValueError as error:
    message = error.message
thread = threading.Thread().isAlive()
root = tree.fromstring("<a><b/></a>")
found = len(root.getchildren()), len(list(root.getiterator())), tree.tostring(root)
whole = array.array("B", [1]).tostring()

class Own(object):
    message = "own"
    has_key = None

kept = Own().message, Own.has_key
Own.message = "set"
"""


def test_objects_have_the_attributes_that_they_lost(run_source):
    names = run_source(ATTRIBUTES)
    assert names.data == [b"\0\x09\2\x08", b"\0\x09", b"\7"]
    assert names.spread == (9, [2, 1])
    assert names.pairs == ([("a", 1)], True, [2])
    assert (names.texts, names.message, names.thread) == (("x", "y"), "told", False)
    assert names.found == (1, 2, b"<a><b /></a>")
    assert (names.whole, names.kept, names.Own.message) == (b"\1", ("own", None), "set")
    with pytest.raises(AttributeError, match="'list' object has no attribute 'has_key'"):
        run_source("[].has_key(1)")
