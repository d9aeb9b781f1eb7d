"""Small SVG plots of explanations, for asset metadata and reports.

Drawn without pyplot, so that no window system is asked for; the settings of matplotlib are changed under a lock
and put back. The same input gives the same bytes.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lucid_pipelines.models.additive.schema import FeatureKind
from lucid_pipelines.models.explaining.additive import GlobalExplanation, Interaction, LocalExplanation, Shape
from lucid_pipelines.models.packing.labels import Thresholds
from lucid_pipelines.models.packing.model import CLASSES
from lucid_pipelines.models.tree import Tree

_LOCK = threading.Lock()
_STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "lucid", "font.size": 8, "path.simplify": True}
_UP, _DOWN, _LINE = "#b3472f", "#2f6db3", "#333333"
_MOST = 12


def importance_svg(explanation: GlobalExplanation, title: str = "") -> str:
    """The most important terms as bars."""
    chosen = explanation.importance[:_MOST][::-1]
    figure, axes = _axes(4.4, 0.4 + 0.22 * max(len(chosen), 1))
    axes.barh([_short(name) for name, _ in chosen], [value for _, value in chosen], color=_DOWN, height=0.7)
    axes.set_xlabel("mean absolute contribution")
    axes.set_title(_short(title or "importance", 60), fontsize=9)
    return _svg(figure)


def shape_svg(shape: Shape) -> str:
    """A shape function with its error band; the missing value's score as a dashed line."""
    figure, axes = _axes(4.0, 2.2)
    if shape.kind is FeatureKind.NOMINAL:
        order = np.argsort(shape.scores)[-_MOST:]
        names = [_short(shape.labels[i]) for i in order]
        axes.barh(names, [shape.scores[i] for i in order], xerr=[shape.errors[i] for i in order], color=_DOWN)
        axes.set_xlabel("contribution")
    else:
        scores, errors = np.array(shape.scores[:-1]), np.array(shape.errors[:-1])
        edges = _edges(shape.cuts)
        axes.fill_between(
            edges,
            np.append(scores - errors, (scores - errors)[-1]),
            np.append(scores + errors, (scores + errors)[-1]),
            step="post",
            alpha=0.25,
            color=_DOWN,
            linewidth=0,
        )
        axes.step(edges, np.append(scores, scores[-1]), where="post", color=_DOWN, linewidth=1.2)
        if shape.weights[-1] > 0:
            axes.axhline(shape.scores[-1], color=_LINE, linestyle="--", linewidth=0.8)
            axes.annotate("missing", (edges[0], shape.scores[-1]), fontsize=7, va="bottom")
        axes.set_xlabel(_short(f"{shape.feature} ({shape.unit})" if shape.unit else shape.feature))
        axes.set_ylabel("contribution")
    axes.set_title(_short(shape.feature), fontsize=9)
    return _svg(figure)


def interaction_svg(interaction: Interaction) -> str:
    """An interaction as a heat map, the bins of missing and unknown values left out."""
    rows = [i for i, label in enumerate(interaction.row_labels) if label not in ("missing", "unknown")]
    columns = [i for i, label in enumerate(interaction.column_labels) if label not in ("missing", "unknown")]
    scores = np.array([[interaction.scores[r][c] for c in columns] for r in rows])
    figure, axes = _axes(4.2, 3.0)
    limit = float(np.abs(scores).max(initial=0.0)) or 1.0
    image = axes.pcolormesh(scores, cmap="RdBu_r", vmin=-limit, vmax=limit)
    figure.colorbar(image, ax=axes, label="contribution")
    for axis, labels, chosen in (
        (axes.yaxis, interaction.row_labels, rows),
        (axes.xaxis, interaction.column_labels, columns),
    ):
        ticks = np.unique(np.linspace(0, len(chosen) - 1, min(len(chosen), 5)).astype(int))
        axis.set_ticks(ticks + 0.5, [_short(labels[chosen[t]], 14) for t in ticks])
    axes.set_ylabel(_short(interaction.features[0]))
    axes.set_xlabel(_short(interaction.features[1]))
    axes.tick_params(axis="x", labelrotation=30)
    return _svg(figure)


def local_svg(explanation: LocalExplanation, title: str = "") -> str:
    """One prediction: the largest contributions as bars, the rest together."""
    shown = list(explanation.contributions[:_MOST])
    rest = sum(c.contribution for c in explanation.contributions[_MOST:])
    labels = [f"{_short(c.term)} = {_short(c.value, 18)}" for c in shown]
    values = [c.contribution for c in shown]
    if len(explanation.contributions) > _MOST:
        labels.append("all others")
        values.append(rest)
    labels.append("intercept")
    values.append(explanation.intercept)
    figure, axes = _axes(5.2, 0.5 + 0.22 * len(labels))
    axes.barh(labels[::-1], values[::-1], color=[_UP if v > 0 else _DOWN for v in values[::-1]], height=0.7)
    axes.axvline(0, color=_LINE, linewidth=0.8)
    axes.set_xlabel("contribution")
    axes.set_title(f"{_short(title or 'prediction', 60)}: {explanation.prediction:.3g}", fontsize=9)
    return _svg(figure)


def tree_svg(tree: Tree, thresholds: Thresholds) -> str:
    """The packing tree: questions, and in each leaf the class, mean pair speed and configurations."""
    places = _layout(tree)
    width = max(x for x, _ in places.values()) + 1
    depth = max(y for _, y in places.values()) + 1
    figure, axes = _axes(1.5 * width, 0.85 * depth + 0.2)
    axes.set_axis_off()
    for node, (x, y) in places.items():
        leaf = tree.feature[node] < 0
        if not leaf:
            for child, word in ((int(tree.left[node]), "yes"), (int(tree.right[node]), "no")):
                cx, cy = places[child]
                axes.plot([x, cx], [-y, -cy], color=_LINE, linewidth=0.8, zorder=1)
                axes.annotate(word, ((x + cx) / 2, -(y + cy) / 2), fontsize=6.5, ha="center")
        axes.text(
            x,
            -y,
            _node_text(tree, thresholds, node),
            ha="center",
            va="center",
            fontsize=7,
            zorder=2,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": _node_colour(tree, thresholds, node), "edgecolor": _LINE},
        )
    axes.set_xlim(-0.6, width - 0.4)
    axes.set_ylim(-depth + 0.4, 0.6)
    return _svg(figure)


def _node_text(tree: Tree, thresholds: Thresholds, node: int) -> str:
    if tree.feature[node] >= 0:
        return f"{tree.features[tree.feature[node]]}\n≤ {tree.threshold[node]:.4g}"
    score = int(thresholds.scores(np.array([tree.value[node]]))[0])
    return f"{CLASSES[score]} ({score})\nspeed {tree.value[node]:.2f}\nn = {tree.rows[node]}"


def _node_colour(tree: Tree, thresholds: Thresholds, node: int) -> str:
    if tree.feature[node] >= 0:
        return "#ffffff"
    return ("#cfe8cf", "#f5e6b8", "#f2c4bb")[int(thresholds.scores(np.array([tree.value[node]]))[0])]


def _layout(tree: Tree) -> dict[int, tuple[float, int]]:
    """Leaves side by side, parents over the middle of their children."""
    places: dict[int, tuple[float, int]] = {}
    next_leaf = 0.0

    def place(node: int, depth: int) -> float:
        nonlocal next_leaf
        if tree.feature[node] < 0:
            x, next_leaf = next_leaf, next_leaf + 1
        else:
            x = (place(int(tree.left[node]), depth + 1) + place(int(tree.right[node]), depth + 1)) / 2
        places[node] = (x, depth)
        return x

    place(0, 0)
    return places


def _edges(cuts: Sequence[float]) -> np.ndarray:
    """The cuts with an end on both sides, so that the outer bins are seen."""
    if not cuts:
        return np.array([0.0, 1.0])
    span = (cuts[-1] - cuts[0]) or abs(cuts[0]) or 1.0
    return np.concatenate([[cuts[0] - 0.05 * span], cuts, [cuts[-1] + 0.05 * span]])


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _short(text: str, most: int = 30) -> str:
    """Short, and without what matplotlib or a terminal would read as a command."""
    plain = "".join(char if char.isprintable() else "?" for char in text).replace("$", r"\$")
    return plain if len(plain) <= most else plain[: most - 1] + "…"


_DIGITS = re.compile(r"\d+\.\d{3,}")


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    with _LOCK, mpl.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    start = text.index("<svg")
    # Two decimals of a point are beyond what anybody sees, and halve the file.
    return _DIGITS.sub(lambda found: f"{float(found.group()):.2f}", text[start:])
