"""Pictures of the gallery: a figure or picture, else curves of what was printed, else its lines."""

from __future__ import annotations

import base64
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from PIL import Image, ImageOps

if TYPE_CHECKING:
    from gallery import Card

SIZE = (480, 300)
DOTS = 100  # Per inch.
LINES, COLUMNS = 9, 52  # Printed lines that fit, and their characters.
COLOURS = {"train": "#0072b2", "test": "#d55e00"}
EVALUATION = re.compile(
    r"^evaluation +step (\d+) +train loss \S+ (\w+) (\S+) +test loss \S+ \w+ (\S+)$"
)


def draw(card: Card, notebook: dict[str, Any] | None, target: Path) -> None:
    """Draws the picture of a card into a file.

    Args:
      card: The card.
      notebook: The executed notebook, if the card is that of one.
      target: The PNG file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    picture, lines = card.picture, card.lines
    if notebook:
        picture, lines = outputs_of(notebook)
    if picture:
        with Image.open(picture) as image:
            whole = image.convert("RGBA")
        white = Image.new("RGBA", whole.size, "white")
        white.alpha_composite(whole)
        fitted = ImageOps.pad(white.convert("RGB"), SIZE, Image.Resampling.LANCZOS, color="white")
        fitted.save(target, optimize=True)
        return
    curves = curves_of(lines)
    figure = plotted(*curves) if curves else terminal(lines or (f"$ {card.title}",))
    figure.savefig(target, dpi=DOTS)


def outputs_of(notebook: dict[str, Any]) -> tuple[BytesIO | None, tuple[str, ...]]:
    """Returns the first figure of an executed notebook, or None, and its printed lines."""
    picture, lines = None, []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data and picture is None:
                picture = BytesIO(base64.b64decode(data["image/png"]))
            if output.get("name") == "stdout":
                lines += "".join(output["text"]).splitlines()
    return picture, tuple(lines)


def curves_of(lines: tuple[str, ...]) -> tuple[str, dict[str, list[float]]] | None:
    """Returns the metric that a program printed in its evaluations, by steps, or None.

    Args:
      lines: Its printed lines.

    Returns:
      The metric's name, and the values of "step", "train" and "test", of two evaluations or more.
    """
    found = [match for line in lines if (match := EVALUATION.match(line))]
    if len(found) < 2:
        return None
    columns = {"step": 1, "train": 3, "test": 4}
    values = {name: [float(match[group]) for match in found] for name, group in columns.items()}
    return found[0][2], values


def plotted(metric: str, values: dict[str, list[float]]) -> Figure:
    """Returns a figure of a metric by steps."""
    figure = Figure((SIZE[0] / DOTS, SIZE[1] / DOTS), layout="constrained")
    axes = figure.subplots()
    for name, colour in COLOURS.items():
        axes.plot(values["step"], values[name], "o-", color=colour, label=name)
    axes.set(xlabel="step", ylabel=metric)
    axes.grid(color="#e5e5e5")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def terminal(lines: tuple[str, ...]) -> Figure:
    """Returns a figure of a terminal with the first and the last of the printed lines."""
    printed = tuple(line for line in lines if line != "…")
    shown = printed if len(printed) <= LINES else (printed[0], "…", *printed[2 - LINES :])
    figure = Figure((SIZE[0] / DOTS, SIZE[1] / DOTS), facecolor="#1b1f24")
    for number, line in enumerate(shown):
        cut = line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
        figure.text(
            0.04, 0.93 - number * 0.1, cut.replace("$", r"\$"),
            color="#d8dee4", family="monospace", fontsize=10, va="top",
        )  # fmt: skip
    return figure
