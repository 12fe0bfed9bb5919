"""Texts that are laid out once: the same figures, and nothing of it is left afterwards."""

import io
import threading
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from opportune.analysis import lettering
from opportune.analysis.lettering import laid_out_once

LAYS_OUT = "_get_layout"
SETTINGS: list[dict[str, Any]] = [
    {}, {"rotation": 30}, {"ha": "right"}, {"va": "top"}, {"linespacing": 2.0}, {"ma": "right"}, {"wrap": True}
]  # fmt: skip


def drawn(size: float = 10.0) -> bytes:
    """A figure with texts that differ in one thing each, as SVG."""
    figure = Figure(layout="constrained")
    axes: Any = figure.subplots()
    axes.plot([0, 1], [0, 1], label="a line")
    axes.set(title="title", xlabel="one\ntwo lines", ylabel="ylabel")
    axes.legend()
    for i, settings in enumerate(SETTINGS):
        axes.text(0.1, i / 8, "some\nlonger text", fontsize=size, **settings)
    axes.text(0.6, 0.1, "some\nlonger text", fontsize=size + 4)
    file = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "same"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def test_figures_are_the_same() -> None:
    """A figure whose texts are laid out once equals one whose texts are laid out whenever asked, to the byte."""
    expected = drawn()
    with laid_out_once():
        assert drawn() == expected
        assert drawn(11.0) != expected  # the control: another size is another layout


def test_texts_are_laid_out_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matplotlib's own layout is asked for a text once, not again and again."""
    asked = []
    own = lettering._lay_out

    def counted(text: Text, renderer: Any) -> Any:
        asked.append(text)
        return own(text, renderer)

    monkeypatch.setattr(Text, LAYS_OUT, counted)
    monkeypatch.setattr(lettering, "_lay_out", counted)
    drawn()
    often = len(asked)
    with laid_out_once():
        drawn()
    assert 0 < len(asked) - often < often / 2


def test_nothing_is_left_afterwards() -> None:
    """Matplotlib is as before when the last one is done, also after an error and with several threads at once."""
    own = getattr(Text, LAYS_OUT)
    with pytest.raises(ZeroDivisionError), laid_out_once():
        _ = 1 // 0
    assert getattr(Text, LAYS_OUT) is own
    inside, go_on = threading.Event(), threading.Event()

    def use() -> None:
        with laid_out_once():
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=use)
    with laid_out_once():
        thread.start()
        inside.wait(10)
        assert getattr(Text, LAYS_OUT) is not own
    assert getattr(Text, LAYS_OUT) is not own  # the other thread is still at it
    go_on.set()
    thread.join()
    assert getattr(Text, LAYS_OUT) is own


def test_an_unknown_matplotlib_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Matplotlib has no such function nothing happens."""
    monkeypatch.setattr(lettering, "_lay_out", None)
    own = getattr(Text, LAYS_OUT)
    with laid_out_once():
        assert getattr(Text, LAYS_OUT) is own
