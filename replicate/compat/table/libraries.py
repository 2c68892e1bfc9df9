"""Names that Python, NumPy, SciPy, pandas and others lost since TensorFlow 1, and their new ones.

`library_views.py` shows them to programs, `replicate.migrate` writes the new ones. A name of
`CHANGED` still exists, and took more then than it takes today: programs see the one that takes
both.
"""

import collections
import collections.abc
import types
from collections.abc import Iterable, Mapping

_OURS = "replicate.compat.old_libraries"


def _of(module: str, names: Iterable[str], new: str) -> dict[str, str]:
    """Returns the entries of names that are called alike in a module of another name."""
    return {f"{module}.{name}": f"{new}.{name}" for name in names}


def _renamed(module: str, names: Mapping[str, str], new: str | None = None) -> dict[str, str]:
    """Returns the entries of names that are called differently in the same module, or another."""
    return {f"{module}.{old}": f"{new or module}.{name}" for old, name in names.items()}


_NUMPY = {
    **_of("numpy", ("bool", "complex", "float", "int", "object", "str"), "builtins"),
    **_renamed("numpy", {"long": "int", "unicode": "str"}, "builtins"),
    **_renamed(
        "numpy",
        {
            "ComplexWarning": "exceptions.ComplexWarning",
            "Inf": "inf",
            "Infinity": "inf",
            "NAN": "nan",
            "NaN": "nan",
            "PINF": "inf",
            "RankWarning": "exceptions.RankWarning",
            "VisibleDeprecationWarning": "exceptions.VisibleDeprecationWarning",
            "alltrue": "all",
            "bool8": "bool_",
            "cfloat": "complex128",
            "clongfloat": "clongdouble",
            "complex_": "complex128",
            "cumproduct": "cumprod",
            "float_": "float64",
            "in1d": "isin",
            "infty": "inf",
            "int0": "intp",
            "longcomplex": "clongdouble",
            "longfloat": "longdouble",
            "mat": "asmatrix",
            "object0": "object_",
            "product": "prod",
            "rank": "ndim",
            "round_": "round",
            "row_stack": "vstack",
            "singlecomplex": "complex64",
            "sometrue": "any",
            "string_": "bytes_",
            "trapz": "trapezoid",
            "typeDict": "sctypeDict",
            "uint0": "uintp",
            "unicode_": "str_",
        },
    ),
    **_of(
        "numpy",
        (
            "NINF",
            "NZERO",
            "PZERO",
            "asfarray",
            "asscalar",
            "cast",
            "disp",
            "find_common_type",
            "issubsctype",
            "msort",
            "sctypes",
        ),
        f"{_OURS}.arrays",
    ),
    "numpy.issubclass_": "builtins.issubclass",
    "numpy.lib.pad": "numpy.pad",
    "numpy.math.*": "math",
    "numpy.warnings.*": "warnings",
    "numpy.random.random_integers": f"{_OURS}.arrays.random_integers",
}
_SCIPY = {
    **_of(
        "scipy.misc",
        (
            "bytescale",
            "fromimage",
            "imread",
            "imresize",
            "imrotate",
            "imsave",
            "toimage",
        ),
        f"{_OURS}.images",
    ),
    "scipy.ndimage.imread": f"{_OURS}.images.imread",
    **_of("scipy.misc", ("comb", "factorial", "factorial2", "factorialk"), "scipy.special"),
    "scipy.misc.logsumexp": "scipy.special.logsumexp",
    **_of(
        "scipy",
        (
            "arange",
            "array",
            "exp",
            "eye",
            "interp",
            "linspace",
            "log",
            "mean",
            "ones",
            "pi",
            "sqrt",
            "zeros",
        ),
        "numpy",
    ),
    **_of("scipy", ("rand", "randn"), "numpy.random"),
    "scipy.sparse.linalg.eigen.*": "scipy.sparse.linalg",
    "scipy.sparse.linalg.eigen.arpack.*": "scipy.sparse.linalg",
    **_of(
        "scipy.signal",
        ("bartlett", "blackman", "boxcar", "gaussian", "hamming", "hann", "kaiser", "triang"),
        "scipy.signal.windows",
    ),
    "scipy.signal.hanning": "scipy.signal.windows.hann",
    **_renamed(
        "scipy.integrate",
        {"cumtrapz": "cumulative_trapezoid", "simps": "simpson", "trapz": "trapezoid"},
    ),
}
_PANDAS = {
    **_of(
        "pandas",
        (
            "rolling_max",
            "rolling_mean",
            "rolling_median",
            "rolling_min",
            "rolling_std",
            "rolling_sum",
            "rolling_var",
        ),
        f"{_OURS}.frames",
    ),
    "pandas.datetime": "datetime.datetime",
    "pandas.np.*": "numpy",
    "pandas.io.json.json_normalize": "pandas.json_normalize",
    "pandas.scatter_matrix": "pandas.plotting.scatter_matrix",
}
_SKLEARN = {
    "sklearn.externals.joblib.*": "joblib",
    "sklearn.externals.six.*": "six",
    "sklearn.datasets.samples_generator.*": "sklearn.datasets",
    "sklearn.preprocessing.Imputer": "sklearn.impute.SimpleImputer",
    **{
        f"sklearn.{module}.{name}": f"sklearn.model_selection.{name}"
        for module, names in (
            ("cross_validation", ("cross_val_predict", "cross_val_score", "train_test_split")),
            ("grid_search", ("GridSearchCV", "ParameterGrid", "RandomizedSearchCV")),
            ("learning_curve", ("learning_curve", "validation_curve")),
        )
        for name in names
    },
}
_PYTHON = {
    **_of(
        "collections",
        [name for name in collections.abc.__all__ if not hasattr(collections, name)],
        "collections.abc",
    ),
    "cgi.escape": f"{_OURS}.python.escape",
    "fractions.gcd": f"{_OURS}.python.gcd",
    "inspect.getargspec": f"{_OURS}.python.getargspec",
    "time.clock": "time.process_time",
    "os.errno.*": "errno",
    "os.getcwdu": "os.getcwd",
    **_of("urllib", ("pathname2url", "url2pathname", "urlopen", "urlretrieve"), "urllib.request"),
    **_of(
        "urllib", ("quote", "quote_plus", "unquote", "unquote_plus", "urlencode"), "urllib.parse"
    ),
    "base64.decodestring": "base64.decodebytes",
    "base64.encodestring": "base64.encodebytes",
    "imghdr.what": f"{_OURS}.python.what",
    "pipes.quote": "shlex.quote",
    "string.letters": "string.ascii_letters",
    "string.lowercase": "string.ascii_lowercase",
    "string.uppercase": "string.ascii_uppercase",
    "string.maketrans": "builtins.str.maketrans",
    **{
        f"string.{name}": f"builtins.str.{name}"
        for name in ("lower", "lstrip", "replace", "rstrip", "split", "strip", "upper", "find")
    },
    "string.atoi": "builtins.int",
    "string.atof": "builtins.float",
    "itertools.izip": "builtins.zip",
    "itertools.imap": "builtins.map",
    "itertools.ifilter": "builtins.filter",
    "itertools.izip_longest": "itertools.zip_longest",
    "itertools.ifilterfalse": "itertools.filterfalse",
    "xml.etree.cElementTree.*": "xml.etree.ElementTree",
    "imp.reload": "importlib.reload",
    **_of("imp", ("find_module", "load_module", "load_source", "new_module"), f"{_OURS}.python"),
    **_renamed(
        "distutils.version",
        {"LooseVersion": "LooseVersion", "StrictVersion": "LooseVersion"},
        f"{_OURS}.versions",
    ),
    "distutils.util.strtobool": f"{_OURS}.versions.strtobool",
    "distutils.spawn.find_executable": f"{_OURS}.versions.find_executable",
    **_of("distutils.dir_util", ("copy_tree", "mkpath", "remove_tree"), f"{_OURS}.versions"),
    "distutils.file_util.copy_file": "shutil.copy2",
    "pkg_resources.*": f"{_OURS}.packages",
}
CHANGED: Mapping[str, str] = types.MappingProxyType(
    {
        **_of(
            "numpy",
            (
                "array",
                "asanyarray",
                "asarray",
                "fromstring",
                "load",
                "save",
                "savez",
                "savez_compressed",
            ),
            f"{_OURS}.arrays",
        ),
        "numpy.sum": f"{_OURS}.arrays.sum_of",
        "pandas.read_csv": f"{_OURS}.frames.read_csv",
        "yaml.load": f"{_OURS}.files.yaml_load",
        "yaml.load_all": f"{_OURS}.files.yaml_load_all",
        **{
            f"{module}.{name}": f"{_OURS}.files.{module}_{name}"
            for module, names in (
                ("pickle", ("dump", "load", "loads")),
                ("json", ("dump", "dumps", "load", "loads")),
            )
            for name in names
        },
        **_of("random", ("randint", "randrange", "sample", "shuffle"), f"{_OURS}.python"),
    }
)
"""Names that still exist: old name → what takes the old arguments, too."""

LOST: Mapping[str, str] = types.MappingProxyType(
    {**_NUMPY, **_SCIPY, **_PANDAS, **_SKLEARN, **_PYTHON}
)
"""Lost name → new one. With ".*" at its end, all names of a module."""

ROOTS = frozenset(name.partition(".")[0] for name in [*LOST, *CHANGED])
"""Packages that lost names."""


def modules_of(names: Iterable[str]) -> frozenset[str]:
    """Returns the modules that names are in, with the packages above them."""
    homes = (
        name.removesuffix(".*") if name.endswith(".*") else name.rpartition(".")[0]
        for name in names
    )
    parts = (home.split(".") for home in homes)
    return frozenset(".".join(each[:end]) for each in parts for end in range(1, len(each) + 1))


def replacement_of(name: str) -> tuple[str, str] | None:
    """Returns the part of a dotted name that was lost or changed, and what it is now; else None."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        part = ".".join(parts[:end])
        if part in LOST or part in CHANGED:
            return part, LOST.get(part) or CHANGED[part]
        if f"{part}.*" in LOST:
            return part, LOST[f"{part}.*"]
    return None
