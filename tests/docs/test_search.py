"""The search has texts to show, and its index has what users look for."""

import json

import pytest


@pytest.fixture(scope="module")
def excerpts(load):
    return load("docs/_ext/excerpts.py")


@pytest.fixture(scope="module")
def check_search(load):
    return load("tools/check_search.py")


PAGE = """
<section id="memory"><h1>Memory<a class="headerlink" href="#memory">#</a></h1>
<p>Take <code>less</code> of <em>it</em>, a &lt; b.</p>
<section id="tables"><h2>Tables<a class="headerlink" href="#tables">#</a></h2>
<table><tr><td>one</td><td>two</td></tr></table><script>let x;</script></section></section>
<dl><dt class="sig" id="kfac.Kfac">class <span>Kfac</span>(<em>x</em>)</dt>
<dd><p>An optimizer.</p>
<dl class="field-list"><dt>Raises:</dt><dd><p>ValueError – bad.</p></dd></dl>
<dl><dt class="sig" id="kfac.Kfac.step">step()</dt><dd><p>Makes a step.</p></dd></dl></dd></dl>
"""


def test_text_is_found_by_section_and_name(excerpts):
    assert excerpts.texts_of(PAGE) == {
        "memory": "Take less of it, a < b.",
        "tables": "Tables – one two",
        "kfac.Kfac": "An optimizer. ValueError – bad.",
        "kfac.Kfac.step": "Makes a step.",
    }


@pytest.fixture
def site(tmp_path, excerpts):
    """A site of two pages: its texts and its index."""
    pages = {"a": "<p>Out of memory: (OOM);</p>", "b/c": "<p>Mixed, “précis”.</p>"}
    for page, body in pages.items():
        path = tmp_path / "_excerpts" / f"{page}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(excerpts.script_of(page, body))
    terms, titles = {"oom": 0, "mix": [0, 1]}, {"precis": [1]}
    index = {"docnames": list(pages), "terms": terms, "titleterms": titles}
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})")
    return tmp_path


def test_query_finds_pages_with_all_words_in_text_or_title(check_search, site):
    queries = [
        check_search.Query("OOM", ("oom",), "a"),
        check_search.Query("mixed precision", ("mix", "precis"), "b/c"),
    ]
    assert check_search.problems(site, queries) == []
    for stems, page in ((("mix", "precis"), "a"), (("oom",), "b/c"), (("nan",), "a")):
        queries = [check_search.Query("some words", stems, page)]
        assert check_search.problems(site, queries) == [f"some words: does not find {page}"]
    assert check_search.texts_of(site, "a") == {"": "Out of memory: (OOM);"}
    assert check_search.texts_of(site, "b/c") == {"": "Mixed, “précis”."}


def test_page_without_text_is_told(check_search, excerpts, site):
    (site / "_excerpts" / "a.js").unlink()
    (site / "_excerpts" / "b" / "c.js").write_text(
        excerpts.script_of("b/c", "<h1>Only a title</h1>")
    )
    assert check_search.problems(site, []) == [
        "a: has no text for excerpts",
        "b/c: the text for excerpts is empty",
    ]
