"""The site names its version, and a site of several versions has a selector on each page."""

import json
import re
import subprocess

import pytest

# Stands in for Sphinx: a package in the built version itself.
SPHINX = """
import pathlib, sys
source, site = map(pathlib.Path, sys.argv[-2:])
words = (source / "conf.py").read_text()
for name in ("index.html", "howto/new.html", "source/a.py.html"):
    page = site / name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(f"<html><head><title>{words}</title></head><body>{sys.argv[1:-2]}</body></html>")
"""


@pytest.fixture(scope="module")
def build_versions(load):
    return load("tools/build_versions.py")


@pytest.fixture(scope="module")
def release(load):
    return load("docs/_ext/release.py")


def git(folder, *arguments):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def repository(needs_git, tmp_path):
    """Two versions, tag v1 and branch main, and a tag `early` without a site."""
    folder = tmp_path / "repository"
    (folder / "docs").mkdir(parents=True)
    (folder / "sphinx").mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "commit", "-q", "--allow-empty", "-m", "early")
    git(folder, "tag", "early")
    (folder / "sphinx" / "__init__.py").touch()
    (folder / "sphinx" / "__main__.py").write_text(SPHINX)
    for tag, words in (("v1", "first"), ("", "second")):
        (folder / "docs" / "conf.py").write_text(words)
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", words)
        if tag:
            git(folder, "tag", tag)
    (folder / "docs" / "conf.py").write_text("not committed")
    return folder


def test_each_version_is_built_from_its_own_files(build_versions, repository, tmp_path):
    site = tmp_path / "site"
    assert build_versions.main([str(site), "v1", "main", "--sphinx=-D a=b"], repository) == 0
    first, second = ((site / name / "index.html").read_text() for name in ("v1", "main"))
    assert "<title>first</title>" in first
    assert "<title>second</title>" in second
    assert "'-q', '-D', 'a=b'" in first
    assert sorted(path.name for path in site.iterdir()) == [
        "index.html", "main", "v1", "version_selector.js", "versions.js",
    ]  # fmt: skip
    assert (repository / "docs" / "conf.py").read_text() == "not committed"
    assert not list(repository.rglob("*.html"))
    check_lists_of_versions(site)


def check_lists_of_versions(site):
    """Each page loads the list, which leads to the pages of all versions."""
    for page in site.glob("*/**/*.html"):
        scripts = re.findall(r'<script defer src="([^"]+)">', page.read_text())
        assert [(page.parent / script).resolve() for script in scripts] == [
            site / "versions.js",
            site / "version_selector.js",
        ]
        assert all((page.parent / script).exists() for script in scripts)
    listed = (site / "versions.js").read_text()
    versions = json.loads(listed.removeprefix("const siteVersions = ").removesuffix(";\n"))
    pages = ["howto/new.html", "index.html"]  # Without the pages of source files.
    assert versions == [{"name": "v1", "pages": pages}, {"name": "main", "pages": pages}]
    assert 'url=v1/index.html"' in (site / "index.html").read_text()


@pytest.mark.parametrize(
    ("refs", "told"),
    [
        (["v1", "v9"], "'v9', which is no tag.* tags are v1, early, its branches are main"),
        (["early"], "'early', which has no site: it lacks docs/conf.py"),
        (["v1", "main", "v1"], "names 'v1' twice"),
        (["../main"], "'../main', which cannot be the name of a folder"),
    ],
)
def test_bad_version_is_one_sentence_and_builds_nothing(
    refs, told, build_versions, repository, tmp_path, capsys
):
    assert build_versions.main([str(tmp_path / "site"), *refs], repository) == 2
    said = capsys.readouterr()
    assert re.fullmatch(f"VERSIONS .*{told}.*\\.\n", said.err)
    assert said.out == ""
    assert not (tmp_path / "site").exists()


def test_build_replaces_another_site_and_nothing_else(build_versions, repository, tmp_path, capsys):
    site = tmp_path / "site"
    build_versions.main([str(site), "v1"], repository)
    build_versions.main([str(site), "main"], repository)
    assert not (site / "v1").exists()
    assert (site / "main" / "index.html").exists()
    (tmp_path / "notes.txt").touch()
    assert build_versions.main([str(tmp_path), "v1"], repository) == 2
    assert "has files that are no site; name a folder" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").exists()


def test_failed_build_names_the_version(build_versions, repository, tmp_path, capfd):
    (repository / "sphinx" / "__main__.py").write_text("raise SystemExit('no such theme')")
    git(repository, "commit", "-q", "-a", "-m", "broken")
    assert build_versions.main([str(tmp_path / "site"), "main"], repository) == 1
    assert capfd.readouterr().err == (
        "no such theme\nThe site of 'main' cannot be built; its errors are above.\n"
    )


def test_start_page_names_the_version(release, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\nversion = "1.2.3"\n')
    later = "Version 1.2.3 and [later changes](changelog.md#unreleased)"
    for unreleased, line in (("\n- A name.\n", later), ("", "[Version 1.2.3](changelog.md)")):
        (tmp_path / "CHANGELOG.md").write_text(
            f"# Changelog\n\n## [Unreleased]\n{unreleased}\n## [1.2.3] - 2020-01-01\n\n- All.\n"
        )
        assert release.version_line(tmp_path) == line
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(LookupError, match="has no line 'version ="):
        release.release_of(tmp_path)
