"""Charts as PNG for MLflow and as SVG for the page. The SVG keeps text as text and follows the page's theme."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.model.report import Chart

INK, MUTED, GRID, BACKGROUND = "#1b1f24", "#5b636e", "#dfe3e8", "#fefefd"
ARM_COLOURS = ("#737b86", "#0072b2", "#d55e00", "#009e73", "#a8508a", "#b07d00", "#3f9bd1")
"""Grey for the baseline, then Okabe and Ito's colour-blind safe palette, darkened where it is too pale for lines."""
ARM_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers that distinguish lines without colour."""
PHASE_COLOURS = {
    "queue": "#e4e7eb",
    "download": "#b9a27c",
    "load": "#9aa5b1",
    "compile": "#d55e00",
    "warmup": "#e69f00",
    "train_steady": "#0072b2",
    "train": "#0072b2",
    "eval": "#009e73",
    "checkpoint": "#cc79a7",
    "save": "#7b5ea7",
    "upload": "#8a6a3b",
    "other": "#c9cfd6",
}
"""Phases of a job (metrics `time/PHASE_seconds`), in chronological order."""
Palette = Mapping[str, str]
"""Colours by the name of their CSS custom property, without the leading dashes."""
FRAME_PALETTE: Palette = {"ink": INK, "muted": MUTED, "grid": GRID, "card": BACKGROUND}
ARM_PALETTE: Palette = {f"arm-{i}": colour for i, colour in enumerate(ARM_COLOURS)}
PHASE_PALETTE: Palette = {f"phase-{name}": colour for name, colour in PHASE_COLOURS.items()}
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
"""Hatches that distinguish phases without colour. Phases without one are plain: the queue is hollow, the training
dark, and the rest pale."""
WIDTH_POINTS = 340.0
"""Width of a phone. The page scales a chart together with its text."""
_CHARACTER_POINTS = 6.2
"""Width of a wide character at size 10."""
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


def plot(
    name: str,
    title: str,
    height_inches: float,
    draw: Callable[[Axes], None],
    description: str = "",
    width_points: float = WIDTH_POINTS,
    palette: Palette = ARM_PALETTE,
) -> Chart:
    """Return the chart that `draw` draws on empty axes, as soon as a format needs the chart.

    `description` gives the numbers, or says where they are, for readers who cannot see the chart. In the SVG, the
    colours of `palette` and of the frame become the page's custom properties.
    """
    properties = {colour: f"var(--{key})" for key, colour in {**palette, **FRAME_PALETTE}.items()}

    @cache
    def drawn() -> Figure:
        figure = Figure(figsize=(width_points / 72, height_inches), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        draw(axes)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # PNG and SVG share the layout, which takes a third of the time
        return figure

    def png() -> bytes:
        with _style(name):
            return _png(drawn())

    def svg() -> str:
        with _style(name):
            return _svg(drawn(), name, title, description, properties)

    return Chart(name, title, png, svg)


@contextmanager
def _style(name: str) -> Iterator[None]:
    """Apply the charts' settings of matplotlib. Ids in the SVG depend on the chart's name alone."""
    with matplotlib.rc_context(_STYLE | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The page's fonts cover scripts that matplotlib's font does not; the PNG shows a box for such a character.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def end_of_axis(ends: Iterable[tuple[float, str]], width_points: float = WIDTH_POINTS - 10) -> float:
    """Return the end of an axis from 0 that leaves room for a note after each value, given as (value, note).

    `width_points` is the width of the axis.
    """
    shares = [(value, (10 + _CHARACTER_POINTS * len(note)) / width_points) for value, note in ends]
    return max(value / (1 - min(0.6, share)) for value, share in shares)


def plain_numbers(axes: Axes) -> None:
    """Write the numbers of the horizontal axis in full, with thousands separators."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}".replace("-", "−"))


def legend_below(axes: Axes, handles: Sequence[Any], **options: Any) -> None:
    """Put a legend below a chart."""
    assert isinstance(axes.figure, Figure)
    columns = min(3, len(handles))
    axes.figure.legend(frameon=False, loc="outside lower center", handles=list(handles), ncols=columns, **options)


def arm_colour(index: int) -> str:
    """Return the colour of the arm at `index`; 0 is the baseline."""
    return ARM_COLOURS[index] if index < len(ARM_COLOURS) else ARM_COLOURS[1 + (index - 1) % (len(ARM_COLOURS) - 1)]


def arm_marker(index: int) -> str:
    """Return the marker to draw on a curve for the arm at `index`."""
    return ARM_MARKERS[index % len(ARM_MARKERS)]


def theme_css() -> str:
    """Return the light theme's custom properties for the colours of the charts."""
    palettes = {**FRAME_PALETTE, **ARM_PALETTE, **PHASE_PALETTE}
    return " ".join(f"--{name}: {colour};" for name, colour in palettes.items())


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(buffer, dpi=200, facecolor=BACKGROUND, metadata={"Software": None})
    return buffer.getvalue()


def _svg(figure: Figure, name: str, title: str, description: str, properties: Mapping[str, str]) -> str:
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_figure(buffer, facecolor="none", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    # Drop comments, which repeat texts, and styles, which would apply to the whole page.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], name, properties), text)
    named = f'aria-labelledby="{name}-title"' + (f' aria-describedby="{name}-description"' if description else "")
    text = re.sub(
        r'^<svg\b[^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg class="chart" role="img" {named} viewBox="\1">', text
    )
    labels = f'<title id="{name}-title">{escape(title, quote=False)}</title>'
    labels += f'<desc id="{name}-description">{escape(description, quote=False)}</desc>' if description else ""
    return text.replace(">", f">{labels}", 1)


def _tag(tag: str, name: str, properties: Mapping[str, str]) -> str:
    """Return a tag with ids prefixed by the chart's name and with the page's custom properties as colours."""
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: properties.get(colour[0], colour[0]), tag)
