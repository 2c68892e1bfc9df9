"""Settings of the site, built by `make docs`."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "_ext")]

from release import release_of  # noqa: E402  Here: the line above tells where it is.

project = "replicate-model-fn"
author = "The replicate-model-fn authors"
project_copyright = author
release = release_of(ROOT)
html_title = f"{project} {release}"
html_show_copyright = False
html_show_sphinx = False

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "dark_pictures",
    "docstrings",
    "downloads",
    "excerpts",
    "gallery",
    "mathml",
    "program_downloads",
    "reference",
    "release",
    "repository_links",
]
exclude_patterns = ["_build", "_ext", "conf.py"]
templates_path: list[str] = []

html_theme = "furo"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # Ours are shown, which need no server.
html_theme_options = {"navigation_with_keys": True}

# Pages in Markdown, with the anchors of headings that GitHub gives.
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto", "repository"]
myst_update_mathjax = False

# Notebooks are Python files, executed in every build.
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "remove"  # What TensorFlow says at its start; an exception fails the build.

# The reference: docstrings in Google's style, single backticks are code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
autoclass_content = "both"
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("References", "notes")]
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = "$ "


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """Returns the place of a documented object's source, for its `[source]` link."""
    from reference import source_of  # noqa: PLC0415  Here: it loads TensorFlow.

    return source_of(info["module"], info["fullname"]) if info["module"] else None
