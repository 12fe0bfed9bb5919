"""Where the letters of a figure's texts go, worked out once for each text.

Matplotlib lays a text out anew whenever it is asked how large it is, and asks nine times on average for every text of a
figure that is laid out and drawn. How it is laid out depends on the text, its font and its alignment, not on its place.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from matplotlib.text import Text

_LAYS_OUT = "_get_layout"
_OWN = ("_multialignment", "_linespacing")  # which Matplotlib tells nobody
_lay_out: Any = getattr(Text, _LAYS_OUT, None)
_known: ContextVar[dict[Any, Any] | None] = ContextVar("known", default=None)
_lock = threading.Lock()
_users = [0]  # who wants texts laid out once just now, in all threads


@contextmanager
def laid_out_once() -> Iterator[None]:
    """Have Matplotlib lay out each text once for each renderer while this lasts, in this thread.

    With a Matplotlib that does it in another way than those we know, nothing happens.
    """
    if _lay_out is None:
        yield
        return
    _count(1)
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)
        _count(-1)


def _count(change: int) -> None:
    with _lock:
        _users[0] += change
        setattr(Text, _LAYS_OUT, _remember if _users[0] else _lay_out)


def _remember(text: Text, renderer: Any) -> Any:
    known, key = _known.get(), _key(text, renderer)
    if known is None or key is None:
        return _lay_out(text, renderer)
    if key not in known:
        known[key] = _lay_out(text, renderer), renderer  # which is kept, so that no other one gets its number
    return known[key][0]


def _key(text: Text, renderer: Any) -> Any:
    """What a text's layout depends on; None where that may be more: its place, if it is broken into lines to fit."""
    figure, own = text.get_figure(root=True), vars(text)
    if figure is None or text.get_wrap() or any(name not in own for name in _OWN):
        return None
    return (
        id(renderer), figure.dpi, text.get_text(), hash(text.get_fontproperties()), text.get_rotation(),
        text.get_rotation_mode(), text.get_horizontalalignment(), text.get_verticalalignment(), text.get_usetex(),
        text.get_parse_math(), *(own[name] for name in _OWN),
    )  # fmt: skip
