"""The programs in docs/ run as they stand, links lead somewhere, the reference has all names.

What needs the built site, such as the notebooks, `make docs` checks.
"""

import importlib.util
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import replicate

v1 = tf.compat.v1

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))
LINKING = [*PAGES, *NOTEBOOKS, *sorted(ROOT.glob("*.md")), ROOT / "benchmarks" / "README.md"]
LINKING += sorted((ROOT / "examples").rglob("README.md"))
PACKAGES = ("kfac", "model_deploy", "replicate")
PROGRAM = re.compile(r"```python\n(.*?)```", re.DOTALL)
NOT_ON_THE_WHEEL = re.search(
    r"^left_out=(\S+)$", (ROOT / "tools" / "try_wheel.sh").read_text(), re.MULTILINE
)[1].split(",")


def marks_of(page, name):
    """Programs that `make build` runs on the wheel are slow here; most others are broad."""
    if page.parent.name == "howto" and name not in NOT_ON_THE_WHEEL:
        return pytest.mark.slow
    return () if page.name == "install.md" else pytest.mark.broad


def programs():
    """The programs of all pages."""
    for page in PAGES:
        for number, program in enumerate(PROGRAM.findall(page.read_text()), start=1):
            name = f"{page.stem}_{number}.py"
            yield pytest.param(program, id=name, marks=marks_of(page, name))


@pytest.mark.parametrize("program", programs())
def test_program_runs(program, tmp_path, run_python):
    done = run_python(program, folder=tmp_path, quick=True)
    assert done.code == 0, done.err


def anchors(page):
    """Returns the anchors of a page, by GitHub's rule for headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    assert len(LINKING) > 50
    for page in LINKING:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if not link.startswith("http"):
                target, _, anchor = link.partition("#")
                linked = page.parent / target if target else page
                assert linked.exists(), f"{page}: {link}"
                assert not anchor or anchor in anchors(linked), f"{page}: {link}"


def test_images_have_texts_of_one_line_and_papers_have_links():
    """The site joins lines of an image's text without a space."""
    for page in LINKING:
        text = page.read_text()
        images = re.findall(r"!\[([^\]]*)\]\(", text)
        assert [image for image in images if "\n" in image] == [], page
        unlinked = re.sub(r"\[[^\]]*\]\(https://arxiv\.org/[^)]*\)", "", text)
        assert re.findall(r"arXiv[:\s]\s*\d{4}\.\d{4,5}", unlinked) == [], page


def test_sidebar_shows_three_doors_of_at_most_six_guides():
    """As the README does; other pages are below a page that lists them."""
    trees = re.findall(r":caption: (.*)\n\n((?:.+\n)+?)```", (DOCS / "index.md").read_text())
    start, *doors, reference = [(caption, guides.splitlines()) for caption, guides in trees]
    assert (start[0], reference[0]) == ("Start", "Reference")
    assert [caption for caption, _ in doors] == re.findall(
        r"^### (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert max(len(guides) for _, guides in doors) == 6
    assert "start/tour_kfac" in dict(doors)["Keras and K-FAC"]


def load(path):
    """Imports a module of docs/ or tools/ from its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


public_names = load(DOCS / "_ext" / "public_names.py")
docstrings = load(DOCS / "_ext" / "docstrings.py")
check_site = load(ROOT / "tools" / "check_site.py")


NOT_FOR_USERS = (
    r"constructor of the base class is not called",
    r": See there\.",
    r": As there[.,]",
)


def test_docstrings_speak_to_users():
    sources = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    found = [
        (str(path), words)
        for path in sources
        for words in NOT_FOR_USERS
        if re.search(words, path.read_text())
    ]
    assert found == []


@pytest.fixture(scope="module")
def referenced():
    """Pairs of a full name and its definition, in the order of the reference."""
    return list(public_names.referenced())


def test_every_public_name_is_in_the_reference_once(referenced):
    documented = [name for name, _ in referenced]
    public = {
        f"{package}.{name}"
        for package in public_names.PACKAGES
        for name in public_names.public_names(package)
    }
    assert public - set(documented) == set(), "add its module to a page of docs/reference"
    assert sorted(set(documented)) == sorted(documented), "documented twice"


def test_every_name_in_the_reference_has_a_docstring(referenced):
    without = [
        name
        for name, found in referenced
        if not found.doc and not found.value.startswith("v1.")  # Those are TensorFlow's classes.
    ]
    assert without == []


def test_every_class_of_the_reference_has_one_page(referenced):
    pages = public_names.class_pages()
    assert pages["kfac.KfacOptimizer"] == "kfac"
    assert pages["kfac.fisher_blocks.FisherBlock"] == "kfac_blocks"
    assert pages["replicate.tpu.RunConfig"] == "tpu"
    assert "kfac.optimizer.KfacOptimizer" not in pages  # Another name of kfac.KfacOptimizer.
    classes = {(found.module, found.name) for _, found in referenced if found.kind == "class"}
    assert len(pages) == len(classes)
    assert len({name.lower() for name in pages}) == len(pages)  # Some systems ignore case in files.


def test_first_sentence_of_a_docstring_goes_beyond_its_first_line():
    doc = "Takes names,\ne.g. `a.b`, i.e. some. And more.\n\nArgs:"
    assert public_names.first_sentence(doc) == "Takes names, e.g. `a.b`, i.e. some."
    assert public_names.first_sentence("Means 0.5 alone") == "Means 0.5 alone"


def test_names_read_from_the_source_are_those_of_the_package():
    for package in public_names.PACKAGES:
        found = public_names.public_names(package)
        assert sorted(found) == sorted(importlib.import_module(package).__all__)
    with pytest.raises(LookupError, match=r"kfac has no name nonsense"):
        public_names.definition("kfac", "nonsense")


@pytest.mark.parametrize(
    ("markdown", "restructured"),
    [
        ("Takes `a`.", "Takes ``a``."),
        ("`Tensor`s, and `x` or\n`y`", "``Tensor``\\ s, and ``x`` or\n``y``"),
        ("As ``a`` is.", "As ``a`` is."),
        (
            "As in\n\n  ```\n  f(`x`)\n  ```\n\nwith `f`.",
            "As in\n\n  ::\n\n      f(`x`)\n\n\nwith ``f``.",
        ),
        (
            "Ba et al., arXiv:1503.05671, §3, and arXiv\n1602.01407.",
            "Ba et al., `arXiv:1503.05671 <https://arxiv.org/abs/1503.05671>`__, §3, and "
            "`arXiv:1602.01407 <https://arxiv.org/abs/1602.01407>`__.",
        ),
    ],
)
def test_code_in_docstrings_is_marked_for_sphinx(markdown, restructured):
    assert docstrings.translated(markdown) == restructured


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('<a href="b.html#here">b</a>', ""),
        ('<a href="https://example.org/x">x</a> <img src="data:image/png;base64,AA">', ""),
        ('<a href="c.html">c</a>', "a.html: c.html leads to no file"),
        ('<a href="b.html#there">b</a>', "a.html: b.html#there leads to no such place in the page"),
        ('<a href="#there">a</a>', "a.html: #there leads to no such place in the page"),
        ('<a href="https://example">x</a>',
         "a.html: https://example is no address of another site"),
        ('<script src="https://example.org/x.js"></script>',
         "a.html: https://example.org/x.js is loaded from another site"),
    ],
)  # fmt: skip
def test_links_of_the_site_are_checked(body, told, tmp_path, capsys):
    (tmp_path / "a.html").write_text(f"<body>{body}</body>")
    (tmp_path / "b.html").write_text('<p id="here">')
    assert check_site.main(tmp_path) == bool(told)
    assert capsys.readouterr().err == (f"{told}\n" if told else "")


@pytest.fixture(scope="module")
def slim_stand_ins():
    """The functions that a program of the reference defines in place of slim's."""
    program = PROGRAM.search((DOCS / "reference" / "old_names.md").read_text())[1]
    found = {}
    exec(program.partition("\nwith tf.Graph()")[0], found)
    return types.SimpleNamespace(**found)


def test_stand_ins_multiply_and_clip_as_slim_does(slim_stand_ins, graph):
    dense, sparse, unused = (
        v1.get_variable(name, shape) for name, shape in (("a", [2]), ("b", [3, 2]), ("c", [1]))
    )
    slices = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([1]), tf.constant([3, 2]))
    pairs = [(tf.constant([3.0, 4.0]), dense), (slices, sparse), (None, unused)]
    multiplied = slim_stand_ins.multiply_gradients(pairs, {"b": 2.0, "c": 3.0})
    clipped = slim_stand_ins.clip_gradient_norms(multiplied, 6.0)
    assert [v for _, v in clipped] == [dense, sparse, unused]
    assert clipped[2][0] is None
    assert isinstance(clipped[1][0], tf.IndexedSlices)
    with v1.Session() as session:
        plain, rows, plain_clipped, rows_clipped = session.run(
            [multiplied[0][0], multiplied[1][0].values, clipped[0][0], clipped[1][0].values]
        )
    np.testing.assert_allclose(plain, [3, 4])
    np.testing.assert_allclose(rows, [[6, 8]])
    np.testing.assert_allclose(plain_clipped, [3, 4], err_msg="its norm is below the limit")
    np.testing.assert_allclose(rows_clipped, [[3.6, 4.8]], rtol=1e-6)


def test_stand_in_makes_the_same_step_on_towers(slim_stand_ins, tmp_path):
    """Two towers whose gradients point in different directions, clipped by a norm in between."""

    def model_fn(features, labels, mode):
        rows = v1.get_variable("embedding", [4, 2], initializer=v1.initializers.ones())
        seen = tf.nn.embedding_lookup(rows, features["ids"])
        loss = tf.reduce_mean(tf.reduce_sum(seen * features["x"], axis=1))
        optimizer = replicate.TowerOptimizer(lambda: slim_stand_ins.ClippedMomentum(0.1, 0.9))
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    x = np.array([[4, 0], [0, 3], [-4, 1], [2, 2]], np.float32)

    def weights(devices):
        estimator = replicate.Estimator(
            replicate.replicate_model_fn(
                model_fn, loss_reduction=v1.losses.Reduction.MEAN, devices=devices
            ),
            str(tmp_path / str(len(devices))),
        )
        batch = {"ids": np.array([0, 1, 2, 3]), "x": x}
        estimator.train(lambda: tf.data.Dataset.from_tensors((batch, x)), max_steps=1)
        return estimator.get_variable_value("embedding")

    gradient = 10 * x / 4
    one = 1 - 0.1 * gradient * min(1, 5 / np.linalg.norm(gradient))
    np.testing.assert_allclose(weights(["/cpu:0"]), one, rtol=1e-6)
    np.testing.assert_allclose(weights(["/cpu:0", "/cpu:1"]), one, rtol=1e-6)
