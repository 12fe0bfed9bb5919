"""A table of fitted users survives its file, and a file with a fault is refused with the place and the reason."""

import json
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opportune.errors import DataError, InputError
from opportune.worlds.brushing import table as tables
from opportune.worlds.brushing.table import load_table, save_table


@pytest.mark.parametrize("study", ["robas2", "robas3"])
def test_table_survives_saving(tmp_path: Path, study: str) -> None:
    """A saved table loads as it was, from a path or from its name as a string, and saves as the same text."""
    shipped = load_table(study)
    path = tmp_path / "copy.json"
    save_table(shipped, path)
    loaded = load_table(str(path))
    arrays = [field.name for field in fields(shipped) if isinstance(getattr(shipped, field.name), np.ndarray)]
    assert len(arrays) == 10
    for name in arrays:
        np.testing.assert_array_equal(getattr(loaded, name), getattr(shipped, name))
        assert getattr(loaded, name).dtype == getattr(shipped, name).dtype
    assert (loaded.effects, loaded.provenance) == (shipped.effects, shipped.provenance)
    source = Path(tables.__file__).parent / "tables" / f"{shipped.study}.json"
    assert path.read_text(encoding="utf-8") == source.read_text(encoding="utf-8")


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    """An edit that sets one entry of a table's file."""

    def edit(content: Any) -> None:
        for part in path[:-1]:
            content = content[part]
        content[path[-1]] = to

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_set("study", to="robas9"), "study: Input should be 'robas2' or 'robas3'; found 'robas9'"),
        (_set("users", to=[]), "users: List should have at least 1 item"),
        (_set("users", 2, "user", to=7), r"users\.2\.user: found 7; expected 2"),
        (_set("users", 1, "w_b", to=[0.0] * 5), r"users\.1\.w_b: found 5 weights; expected 6"),
        (_set("users", 1, "w_p", 0, to="x"), r"users\.1\.w_p\.0: Input should be a valid number"),
        (_set("users", 1, "w_p", 0, to=math.nan), r"users\.1\.w_p\.0: Input should be a finite number"),
        (_set("users", 0, "cell_prior", to=[0.0] * 3), r"users\.0\.cell_prior: List should have at least 4"),
        (
            _set("users", 0, "sessions", to=0),
            r"users\.0\.sessions: Input should be greater than or equal to 1",
        ),
        (_set("users", 0, "name", to="kim"), r"users\.0\.name: Extra inputs are not permitted; found 'kim'"),
        (_set("effects", "sd_b", to=-1.0), r"effects\.sd_b: Input should be greater than or equal to 0"),
        (_set("effects", "small_b", to=0.1), "effects: small_b and small_n belong to robas2"),
        (_set("features", to=["tod"]), r"features: found \['tod'\]; expected"),
        (lambda content: content.pop("provenance"), "provenance: Field required"),
        (lambda content: content["users"][3].pop("w_b"), r"users\.3\.w_b: Field required"),
        (_set("effects", to=None), "effects: Input should be"),
    ],
)
def test_bad_table_is_refused(tmp_path: Path, edit: Callable[[Any], None], message: str) -> None:
    """A table's file with a fault is refused with the place and the reason."""
    path = tmp_path / "table.json"
    save_table(load_table("robas3"), path)
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_table(path)


def test_table_that_is_no_table_is_refused(tmp_path: Path) -> None:
    """An unknown study, an absent file and a file that is not JSON are refused."""
    with pytest.raises(InputError, match="no table 'robas7'; expected one of robas2, robas3, or a readable"):
        load_table("robas7")
    with pytest.raises(InputError, match="no table"):
        load_table(tmp_path)
    (tmp_path / "text.json").write_text("weights: 3", encoding="utf-8")
    with pytest.raises(DataError, match="Invalid JSON"):
        load_table(tmp_path / "text.json")
