"""The distribution: wheel, sdist, version, lock, and an import without TensorFlow."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import replicate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("kfac", "model_deploy", "replicate")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
CORE = PROJECT["dependencies"]
LOCKS = {
    "requirements.lock": [*CORE, *EXTRAS["cpu"], *EXTRAS["examples"], *EXTRAS["dev"]],
    "requirements-pre.lock": [
        *PYPROJECT["dependency-groups"]["pre"],
        *CORE,
        *EXTRAS["examples"],
        *EXTRAS["dev"],
    ],
    "requirements-docs.lock": [*CORE, *EXTRAS["docs"]],
    "requirements-legacy.lock": EXTRAS["legacy"],
    "requirements-tf215.lock": [*CORE, *PYPROJECT["dependency-groups"]["tf215"]],
}
"""Arguments that each lock is made from."""
NOT_SOURCES = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "_build", "build", "dist", "runs"
)


def python(*args, cwd):
    """Runs Python with `args`; its exit code, standard output and standard error."""
    command = [sys.executable, *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def run(*args, cwd):
    """Runs Python with `args` and returns its standard output; fails with all that it printed."""
    done = python(*args, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Paths of the wheel and the sdist, built without network from a copy of the project."""
    source = tmp_path_factory.mktemp("build") / "project"
    shutil.copytree(ROOT, source, ignore=NOT_SOURCES)
    run("-m", "build", "--no-isolation", "--sdist", "--wheel", ".", cwd=source)
    (wheel,) = (source / "dist").glob("*.whl")
    (sdist,) = (source / "dist").glob("*.tar.gz")
    return wheel, sdist


def test_wheel_holds_modules_templates_and_typing_markers_of_the_packages_alone(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    kinds = "**/*.py", "*/templates/*", "py.typed"
    files = [ROOT.glob(f"{package}/{kind}") for package in PACKAGES for kind in kinds]
    assert names == {path.relative_to(ROOT).as_posix() for found in files for path in found}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_wheel_metadata(built):
    dist_info = f"replicate_model_fn-{PROJECT['version']}.dist-info"
    with zipfile.ZipFile(built[0]) as wheel:
        meta = email.message_from_bytes(wheel.read(f"{dist_info}/METADATA"))
        licence = wheel.read(f"{dist_info}/licenses/LICENSE").decode()
    assert meta["Name"] == "replicate-model-fn"
    assert meta["Version"] == PROJECT["version"]
    assert meta["Requires-Python"] == ">=3.10"
    assert meta["License-Expression"] == "Apache-2.0"
    extras = {"cpu", "gpu", "contrib", "examples", "legacy", "migrate", "python2", "docs", "dev"}
    assert set(meta.get_all("Provides-Extra")) == extras
    needed = {req for req in meta.get_all("Requires-Dist") if "extra ==" not in req}
    assert needed == {"absl-py", "numpy", "protobuf", "tqdm"}
    assert "Apache License" in licence


@pytest.mark.broad
def test_sdist_holds_the_sources_without_examples(built):
    with tarfile.open(built[1]) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE"} <= set(names)
    assert {f"{package}/__init__.py" for package in PACKAGES} <= set(names)
    assert not [name for name in names if name.startswith(("examples", "tests"))]


def test_version_is_written_once_and_the_same_everywhere():
    assert run("setup.py", "--version", cwd=ROOT).split()[-1] == PROJECT["version"]
    assert metadata.version("replicate-model-fn") == PROJECT["version"]
    assert replicate.__version__ == PROJECT["version"]
    # The sources read it from pyproject.toml, or from the metadata.
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    quoted = re.compile(rf"""["']{re.escape(PROJECT["version"])}["']""")
    assert not [path for path in sources if quoted.search(path.read_text())]


def test_citation_and_container_name_what_there_is():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {PROJECT['version']}\n" in citation
    released = re.search(
        rf"## \[{PROJECT['version']}\] - (\S+)", (ROOT / "CHANGELOG.md").read_text()
    )
    assert f"date-released: {released[1]}\n" in citation
    commands = [line.split() for line in container_lines()]
    assert commands == [["make", "setup", 'TF="${TF}"'], ["make", "train"]]
    for command in container_lines():
        subprocess.run(["sh", "-c", f"TF=cpu; {command} --dry-run"], cwd=ROOT, check=True)


def container_lines():
    """Commands of make that the Dockerfile runs, while the image is built and when it starts."""
    container = (ROOT / "Dockerfile").read_text()
    commands = re.findall(r"^RUN (make .*)$", container, re.MULTILINE)
    starts = re.findall(r"^CMD (.*)$", container, re.MULTILINE)
    return [*commands, *(" ".join(json.loads(start)) for start in starts)]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_lines_of_the_container_run_in_a_clean_folder(tmp_path):
    """In a home of its own and without git, from files that the image has."""
    source = shutil.copytree(ROOT, tmp_path / "src", ignore=NOT_SOURCES)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PATH", "PIP"))}
    given = {"TF": "cpu", "ARGS": "--train_steps=20", "HOME": str(tmp_path)}
    for command in container_lines():
        subprocess.run(["sh", "-c", command], cwd=source, env=kept | given, check=True)
    assert list((source / "runs" / "convnet").glob("model.ckpt-20.*"))


@pytest.mark.parametrize(
    ("has_project", "version"), [(True, PROJECT["version"]), (False, "unknown")]
)
def test_source_tree_that_is_not_installed_is_imported(tmp_path, has_project, version):
    shutil.copytree(ROOT / "replicate", tmp_path / "replicate")
    for package in ("kfac", "model_deploy"):
        (tmp_path / package).symlink_to(ROOT / package)
    if has_project:
        shutil.copy(ROOT / "pyproject.toml", tmp_path)
    program = (
        "from importlib import metadata\n"
        "def absent(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = absent\n"
        "import replicate\n"
        "print(replicate.__version__)\n"
    )
    if has_project:  # The rest imports TensorFlow.
        program += (
            "import kfac, model_deploy\n"
            "from replicate.estimator import run_record\n"
            "print(run_record._environment()['replicate-model-fn'])"
        )
    assert set(run("-c", program, cwd=tmp_path).split()) == {version}


@pytest.mark.parametrize("package", PACKAGES)
def test_import_without_tensorflow_says_what_to_install(package):
    program = f"import sys; sys.modules['tensorflow'] = None; from {package} import *"
    done = python("-c", program, cwd=ROOT)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"ImportError: {package} .*TensorFlow.*: pip install .*", last)
    assert "During handling" not in done.stderr


def test_nothing_tells_to_install_a_name_that_a_stranger_may_take():
    told = re.compile(
        r"(?:pip|uv)[^`\n]* (?:install|add) [^`\n]*replicate-model-fn|'replicate-model-fn\["
    )
    texts = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted({*folders} - NOT_SOURCES(folder, folders))
        texts += [Path(folder, name) for name in names if name.endswith((".py", ".md", ".sh"))]
    assert len(texts) > 1000
    found = [path.name for path in texts if told.search(path.read_text())]
    assert found == ["SECURITY.md"]  # It says why.


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_no_place_and_pins_every_direct_dependency_with_hashes(lock):
    text = (ROOT / lock).read_text()
    assert not re.findall(r"https?:|file:|://|--(?:extra-)?index-url|--find-links|@ ", text)
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert not [line for line in pins if not re.match(r"[a-z0-9-]+==\S+ .*\\$", line)]
    blocks = re.split(r"\n(?=[a-z0-9])", text)
    hashed = {block.split("==")[0] for block in blocks if "--hash=sha256:" in block}
    assert {canonicalize_name(Requirement(line).name) for line in LOCKS[lock]} <= hashed
