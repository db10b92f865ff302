"""A figure as PNG for MLflow and as SVG for the page, where text stays text and colours follow the page's theme."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK, MUTED, GRID, BACKGROUND = "#1b1f24", "#5b636e", "#dfe3e8", "#fefefd"
ARM_COLOURS = ("#737b86", "#0072b2", "#d55e00", "#009e73", "#a8508a", "#b07d00", "#3f9bd1")
"""Baseline grey, then Okabe and Ito's colour-blind safe set, darkened where it was too pale for lines."""
ARM_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Tell lines apart where colours do not."""
PHASE_COLOURS = {
    "queue": "#e4e7eb",
    "download": "#b9a27c",
    "load": "#9aa5b1",
    "compile": "#d55e01",
    "warmup": "#e69f00",
    "train_steady": "#0072b3",
    "train": "#0072b4",
    "eval": "#009e74",
    "checkpoint": "#cc79a7",
    "save": "#7b5ea7",
    "upload": "#8a6a3b",
    "other": "#c9cfd6",
}
"""Seconds of a job by phase, `time/PHASE_seconds`, in the order in which they come."""
PHASE_HATCHES = {
    "download": "----",
    "load": "....",
    "compile": "////",
    "warmup": "xxxx",
    "eval": "\\\\\\\\",
    "checkpoint": "++++",
    "save": "oo",
    "upload": "||||",
}
"""Tell phases apart where colours do not. The others are plain: the queue hollow, the training dark, the rest pale."""
WIDTH_POINTS = 340.0
"""As wide as a phone: the page scales a chart, and its texts with it."""
_CHARACTER_POINTS = 6.2
"""Width of a character at size 10, on the wide side."""
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "text.parse_math": False,  # an arm named `$x$` is not a formula
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "hatch.linewidth": 0.8,
    "svg.fonttype": "none",
}
_THEMED = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    BACKGROUND: "--card",
    **{colour: f"--arm-{i}" for i, colour in enumerate(ARM_COLOURS)},
    **{colour: f"--phase-{name}" for name, colour in PHASE_COLOURS.items()},
}


@dataclass(frozen=True)
class Plot:
    """One chart in both forms."""

    name: str
    """File name without its ending; also prefixes the ids inside the SVG."""
    title: str
    """What the chart shows, in words."""
    png: bytes
    svg: str
    """An `<svg>` element to put into a page that defines the custom properties of `theme_css`."""


def plot(
    name: str,
    title: str,
    height_inches: float,
    draw: Callable[[Axes], None],
    description: str = "",
    width_points: float = WIDTH_POINTS,
) -> Plot:
    """Return the chart that `draw` makes of an empty pair of axes.

    `description` tells its numbers in words, or where they stand, to whoever does not see it.
    """
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The page's fonts know scripts that matplotlib's own does not; the PNG then shows a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width_points / 72, height_inches), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        draw(axes)
        png = _png(figure)
        # What is laid out for one form is not laid out again for the other.
        figure.set_layout_engine("none")
        return Plot(name, title, png, _svg(figure, name, title, description))


def end_of_axis(ends: Iterable[tuple[float, str]], width_points: float = WIDTH_POINTS - 10) -> float:
    """Return how far an axis from 0 reaches so that behind each of its ends, (value, note), there is room for the note.

    `width_points` is the axis' own width.
    """
    shares = [(value, (10 + _CHARACTER_POINTS * len(note)) / width_points) for value, note in ends]
    return max(value / (1 - min(0.6, share)) for value, share in shares)


def arm_colour(index: int) -> str:
    """Return the colour of the arm at `index`; 0 is the baseline."""
    return ARM_COLOURS[index] if index < len(ARM_COLOURS) else ARM_COLOURS[1 + (index - 1) % (len(ARM_COLOURS) - 1)]


def arm_marker(index: int) -> str:
    """Return the marker of the arm at `index` on a line."""
    return ARM_MARKERS[index % len(ARM_MARKERS)]


def theme_css() -> str:
    """Return the light theme's custom properties for the colours of the charts."""
    return " ".join(f"{name}: {colour};" for colour, name in _THEMED.items())


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(buffer, dpi=200, facecolor=BACKGROUND, metadata={"Software": None})
    return buffer.getvalue()


def _svg(figure: Figure, name: str, title: str, description: str) -> str:
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_figure(buffer, facecolor="none", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    # Comments repeat texts, and a style inside an inline element holds for the whole page.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], name), text)
    named = f'aria-labelledby="{name}-title"' + (f' aria-describedby="{name}-description"' if description else "")
    text = re.sub(
        r'^<svg\b[^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg class="chart" role="img" {named} viewBox="\1">', text
    )
    told = f'<title id="{name}-title">{_escaped(title)}</title>'
    told += f'<desc id="{name}-description">{_escaped(description)}</desc>' if description else ""
    return text.replace(">", f">{told}", 1)


def _tag(tag: str, name: str) -> str:
    """Return a tag with ids of its own chart and colours of the page's theme; texts are left alone."""
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag)
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _colour(found[0]), tag)


def _colour(colour: str) -> str:
    return f"var({_THEMED[colour]})" if colour in _THEMED else colour


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
