"""Dark versions of diagrams and charts, which dark pages show in place of the light ones.

A dark version has the lightness of each colour turned round and its hue kept. Pictures that are not
drawn on white, such as digits, stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

DARKEST = 0.08  # Lightness of what was white, about that of the dark page.
COLOUR = re.compile(r"#([0-9a-fA-F]{6})\b")
PICTURE = re.compile(r'<img\b[^>]*?\bsrc="[^"]*_images/([^"/]+)"[^>]*>')


def turned(colours: np.ndarray) -> np.ndarray:
    """Returns colours of the same hue with their lightness turned round.

    Args:
      colours: Red, green and blue from 0 to 1, [..., 3].
    """
    lightness = (colours.max(-1, keepdims=True) + colours.min(-1, keepdims=True)) / 2
    return np.clip(colours + 1 - (2 - DARKEST) * lightness, 0, 1)


def dark_svg(text: str) -> str:
    """Returns a drawing with the lightness of its colours turned round."""

    def replace(found: re.Match[str]) -> str:
        colour = np.array(list(bytes.fromhex(found[1]))) / 255
        return "#" + bytes(np.rint(turned(colour) * 255).astype(np.uint8)).hex()

    return COLOUR.sub(replace, text)


def on_white(path: Path) -> np.ndarray:
    """Returns the pixels of a picture on white: red, green and blue from 0 to 1."""
    with Image.open(path) as image:
        whole = image.convert("RGBA")
    white = Image.new("RGBA", whole.size, "white")
    white.alpha_composite(whole)
    return np.asarray(white.convert("RGB")) / 255


@cache
def is_drawn(path: Path) -> bool:
    """Returns True for an SVG, and for a picture of which more than half is white."""
    if path.suffix == ".svg":
        return True
    return path.suffix == ".png" and bool((on_white(path).min(-1) > 0.98).mean() > 0.5)


def name_of_dark(name: str) -> str:
    """Returns the file name of the dark version of a picture."""
    return f"{Path(name).stem}-dark{Path(name).suffix}"


def with_dark(body: str, has_dark: Callable[[str], bool]) -> str:
    """Returns a page that shows a picture or its dark version.

    Args:
      body: HTML of the page.
      has_dark: Tells whether the picture of a file name has a dark version.
    """

    def replace(found: re.Match[str]) -> str:
        tag, name = found[0], found[1]
        if not has_dark(name):
            return tag
        plain = tag if ' class="' in tag else tag.replace("<img", '<img class=""', 1)
        light = plain.replace('class="', 'class="only-light ', 1)
        dark = plain.replace('class="', 'class="only-dark ', 1)
        return light + dark.replace(f"_images/{name}", f"_images/{name_of_dark(name)}")

    return PICTURE.sub(replace, body)


def write_dark(folder: Path) -> None:
    """Writes the dark versions of the pictures in a folder."""
    for path in sorted(folder.glob("*.*")):
        target = path.with_name(name_of_dark(path.name))
        if path.stem.endswith("-dark") or not is_drawn(path):
            continue
        if path.suffix == ".svg":
            target.write_text(dark_svg(path.read_text()))
        else:
            pixels = np.rint(turned(on_white(path)) * 255).astype(np.uint8)
            Image.fromarray(pixels).save(target, optimize=True)


def show(
    app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    """Adds the dark versions to a page."""
    files = {
        name: Path(app.srcdir, uri) for uri, name in getattr(app.builder, "images", {}).items()
    }
    if document is not None:
        context["body"] = with_dark(
            context["body"], lambda name: name in files and is_drawn(files[name])
        )


def finish(app: Sphinx, error: Exception | None) -> None:
    """Writes the dark versions."""
    if error is None:
        write_dark(Path(app.outdir, "_images"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Adds the dark versions to the pages, and their files at the end."""
    app.connect("html-page-context", show)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
