"""Calibration: known values are found again with intervals that hold them; bad rows are named; comments stay."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_studies import SMALL, edited

from opportune.errors import DataError, InputError
from opportune.inference.mixed import fit
from opportune.planning.calibration import calibrate
from opportune.planning.pilot import read_pilot
from opportune.planning.rewrite import Edit, rewrite
from opportune.study import parse_study

MEANS = np.array([0.5, -1.0, 0.2, 1.2])
SPREADS = np.array([0.3, 0.4, 0.0, 0.25])
NOISE = 0.6


def pilot_rows(seed: int, people: int = 20, steps: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, rewards and participants of a pilot study with actions at random."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), steps)
    stress = rng.choice(3, p=[0.5, 0.3, 0.2], size=people * steps)
    walk = rng.integers(2, size=people * steps)
    x = np.column_stack([np.ones(people * steps), walk, stress, walk * stress]).astype(float)
    theta = MEANS + SPREADS * rng.normal(size=(people, 4))
    y = np.einsum("ij,ij->i", x, theta[who]) + NOISE * rng.normal(size=people * steps)
    return x, y, who


def test_known_values_are_found_again() -> None:
    """Over many pilot studies intervals hold the true means in about 95%, and spreads and noise come near."""
    covered, spreads, noise = [], [], []
    for seed in range(40):
        found = fit(*pilot_rows(seed), ["a", "b", "c", "d"])
        covered.append(np.abs(found.theta - MEANS) <= found.half_width)
        spreads.append(found.tau)
        noise.append(found.sigma)
    assert 0.90 <= np.mean(covered) <= 0.99
    assert np.mean(noise) == pytest.approx(NOISE, rel=0.02)
    assert np.mean(spreads, axis=0)[[0, 1, 3]] == pytest.approx(SPREADS[[0, 1, 3]], rel=0.15)
    assert np.mean(spreads, axis=0)[2] < 0.06  # where participants do not differ


def test_pooling_alone_would_not_cover() -> None:
    """The control: plain least squares takes rows for independent, and its intervals hold the means less often."""
    covered = []
    for seed in range(60):
        x, y, _ = pilot_rows(seed)
        theta, _, _, _ = np.linalg.lstsq(x, y, rcond=None)
        left = y - x @ theta
        se = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * left.var(ddof=4))
        covered.append(np.abs(theta - MEANS) <= 1.96 * se)
    assert np.mean(np.array(covered)[:, [0, 1, 3]]) < 0.8


def test_separate_fits_would_overstate_how_participants_differ() -> None:
    """The control: estimates of single participants vary by their own noise as well, which the fit takes out."""
    raw, found = [], []
    for seed in range(20):
        x, y, who = pilot_rows(seed, steps=24)
        each = [np.linalg.lstsq(x[who == i], y[who == i], rcond=None)[0] for i in range(20)]
        raw.append(np.std(each, axis=0, ddof=1))
        found.append(fit(x, y, who, ["a", "b", "c", "d"]).tau)
    known = SPREADS > 0.0
    assert np.mean(found, axis=0)[known] == pytest.approx(SPREADS[known], rel=0.2)
    assert (np.mean(raw, axis=0)[known] > 1.25 * SPREADS[known]).all()


def test_how_participants_differ_and_how_unsure_the_mean_is_are_told_apart() -> None:
    """Four times as many participants leave the spread as it is and halve the standard error of the mean."""
    few, many = ([fit(*pilot_rows(seed, people=n), list("abcd")) for seed in range(12)] for n in (15, 60))
    spread = [np.mean([one.tau[[0, 1, 3]] for one in each], axis=0) for each in (few, many)]
    unsure = [np.mean([one.se for one in each], axis=0) for each in (few, many)]
    assert spread[1] == pytest.approx(spread[0], rel=0.2)
    assert unsure[0] / unsure[1] == pytest.approx(2.0, rel=0.2)


def write_pilot(path: Path, **changed: str) -> Path:
    """A pilot study of the small study, as a CSV file; `changed` replaces lines by their number."""
    study: Any = edited()
    people, steps = 20, 40
    rng = np.random.default_rng(1)
    world = study.replace(instances=people).worlds()
    lines = ["participant,step,stress,action,reward,nudged,answered,opened"]
    for i in range(people):
        for t in range(1, steps + 1):
            stress, action = rng.choice(3, p=[0.2, 0.3, 0.5]), ["rest", "walk"][rng.integers(2)]
            k = study.problem.locate({"stress": int(stress)}, t).context
            mean = study.problem.features[k, ["rest", "walk"].index(action)] @ world[i].theta
            nudged = int(rng.random() < 0.5)
            marks = f"{nudged},{int(rng.random() < 0.7) if nudged else ''},{int(rng.random() < 0.1)}"
            lines.append(f"P{i:02},{t},{stress},{action},{mean + 0.9 * rng.normal():.6f},{marks}")
    for number, line in changed.items():
        lines[int(number[1:]) - 1] = line
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_study_file_is_written_with_its_comments(tmp_path: Path) -> None:
    """Noise, contexts, effects and rates are the pilot's, comments say so, and the rest of the file stays."""
    pilot = write_pilot(tmp_path / "pilot.csv")
    study = parse_study(SMALL.replace('unit = "minutes"', 'unit = "minutes"  # of activity'))
    found = calibrate(study, pilot)
    after = parse_study(found.text)
    assert after.settings.reward.noise_sd == pytest.approx(0.9, rel=0.1)
    assert after.settings.variables["stress"].probabilities == pytest.approx([0.2, 0.3, 0.5], abs=0.05)
    assert after.effects["action=walk:stress"].mean == pytest.approx(1.2, abs=0.3)
    assert after.settings.world.response_rate == pytest.approx(0.7, abs=0.08)
    assert after.settings.world.open_rate == pytest.approx(0.1, abs=0.05)
    assert "  # of activity" in found.text
    assert "fitted to 800 rows of 20 participants in pilot.csv" in found.text
    assert after.settings.nudge == study.settings.nudge
    assert after.settings.policies == study.settings.policies
    effect = after.effects["action=walk:stress"]
    assert effect.sd == pytest.approx(found.fitted.tau[list(found.terms).index("action=walk:stress")], rel=0.01)
    assert effect.se == pytest.approx(found.fitted.se[list(found.terms).index("action=walk:stress")], rel=0.01)
    for i, term in enumerate(found.terms):
        low, high = (
            found.fitted.theta[i] - found.fitted.half_width[i],
            found.fitted.theta[i] + found.fitted.half_width[i],
        )
        assert f"mean 95% {low:.3g} to {high:.3g}" in found.text, term


BAD = {
    "_3": ("P00,2,7,rest,0.1,0,,0", "line 3: stress is '7'; expected one of 0, 1, 2"),
    "_4": ("P00,3,1,run,0.1,0,,0", "line 4: action is 'run'; expected one of 'rest', 'walk'"),
    "_5": ("P00,4,1,rest,abc,0,,0", "line 5: reward is 'abc'; expected a finite number"),
    "_6": ("P00,5,1,rest,nan,0,,0", "line 6: reward is 'nan'; expected a finite number"),
    "_7": ("P00,1,1,rest,0.1,0,,0", "line 7: participant P00 already has step 1 in line 2"),
    "_8": ("P00,zero,1,rest,0.1,0,,0", "line 8: step is 'zero'; expected a whole number >= 1"),
    "_9": (",8,1,rest,0.1,0,,0", "line 9: no participant; expected a name or number"),
    "_10": ("P00,9,,rest,0.1,0,,0", "line 10: no stress; expected a value"),
    "_11": ("P00,10,1,rest", "line 11: 4 values; expected 8, one for each column"),
    "_12": ("P00,11,1,rest,0.1,maybe,,0", "line 12: nudged is 'maybe'; expected 0 or 1"),
}


def test_bad_rows_are_named_and_refused(tmp_path: Path) -> None:
    """Every bad row is named with its line and what was expected; nothing is left out unless one says so."""
    path = write_pilot(tmp_path / "pilot.csv", **{key: line for key, (line, _) in BAD.items()})
    with pytest.raises(DataError) as caught:
        read_pilot(edited(), path)
    said = str(caught.value).splitlines()
    assert len(said) == len(BAD)
    for _, expected in BAD.values():
        assert any(line.endswith(expected) or expected in line for line in said), expected
    pilot = read_pilot(edited(), path, skip_bad=True)
    assert [line for line, _ in pilot.bad] == list(range(3, 13))
    assert len(pilot.rows) == 790


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("\x1b[31m,1,1,rest,0.1,0,,0", "participant is '\\x1b[31m'; expected text without"),
        ("P00,1," + "7" * 5000 + ",rest,0.1,0,,0", "stress is str of length 5000; expected a finite number"),
        ('P00,1,1,rest,"0.1,0,,0', "line"),
    ],
)
def test_odd_cells_are_shown_in_a_line(tmp_path: Path, line: str, said: str) -> None:
    """Whatever a cell holds, its error is one line that can be read on a terminal."""
    with pytest.raises((DataError, InputError)) as caught:
        read_pilot(edited(), write_pilot(tmp_path / "pilot.csv", _2=line))
    assert said in str(caught.value)
    for text in str(caught.value).splitlines():
        assert text.isprintable()
        assert len(text) < 600


def test_a_good_file_is_read_whole(tmp_path: Path) -> None:
    """The control: without bad rows nothing is left out; an empty reward is a reward that never came."""
    path = write_pilot(tmp_path / "pilot.csv", _2="P00,1,1,rest,,0,,0")
    pilot = read_pilot(edited(), path)
    assert pilot.bad == []
    assert len(pilot.rows) == 800
    assert len(pilot.features(edited())[1]) == 799


def test_what_the_data_cannot_tell_is_refused(tmp_path: Path) -> None:
    """Terms that the rows say nothing about, or cannot tell apart, are named; so are missing columns and no file."""
    lines = write_pilot(tmp_path / "p.csv").read_text().replace(",walk,", ",rest,")
    (tmp_path / "rest.csv").write_text(lines)
    with pytest.raises(DataError, match="the rows say nothing about 'action=walk'"):
        calibrate(edited(), tmp_path / "rest.csv")
    x = np.column_stack([np.ones(50), np.arange(50.0), 2 * np.arange(50.0)])
    with pytest.raises(DataError, match="cannot tell 'b', 'c' apart"):
        fit(x, np.arange(50.0), np.arange(50) % 5, ["a", "b", "c"])
    (tmp_path / "short.csv").write_text("participant,step,action,reward\nP,1,rest,1\n")
    with pytest.raises(InputError, match=r"column of .*short\.csv is 'stress'"):
        calibrate(edited(), tmp_path / "short.csv")
    with pytest.raises(InputError, match="cannot be read"):
        calibrate(edited(), tmp_path / "none.csv")


def test_numbers_and_reported_variables(tmp_path: Path) -> None:
    """Numbers get the distribution that the file names; a reported value that nobody knew is left empty."""
    text = SMALL.replace(
        "[variables.weekend]",
        "[variables.sleep]\nrange = [2, 12]\ndistribution = { kind = 'normal', mean = 5, sd = 1 }\n\n"
        "[variables.mood]\nlevels = ['good', 'low']\nvisibility = 'reported'\n\n[variables.weekend]",
    ).replace('"1 + action*stress"', '"1 + action*stress + sleep + mood"')
    rng = np.random.default_rng(2)
    with (tmp_path / "p.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["participant", "step", "stress", "sleep", "mood", "action", "reward"])
        for i in range(600):
            sleep, mood = float(np.clip(rng.normal(7.0, 1.2), 2, 12)), ["good", "low", ""][rng.integers(3)]
            reward = 1.0 + 0.3 * sleep - (0.8 if mood == "low" else 0.0) + 0.2 * rng.normal()
            action = ["rest", "walk"][rng.integers(2)]
            out.writerow([i % 10, i // 10 + 1, rng.integers(3), sleep, mood, action, reward])
    after = parse_study(calibrate(parse_study(text), tmp_path / "p.csv").text)
    sleep_table = after.settings.variables["sleep"].distribution
    assert sleep_table is not None
    assert [sleep_table.mean, sleep_table.sd] == pytest.approx([7.0, 1.2], abs=0.15)
    assert after.effects["sleep"].mean == pytest.approx(0.3, abs=0.05)
    assert after.effects["mood=low"].mean == pytest.approx(-0.8, abs=0.1)


def test_a_pilot_teaches_the_agents_where_the_study_wants_it(tmp_path: Path) -> None:
    """[prior] is written on request, or anew where the file has one: the spread of people and the mean's doubt."""
    pilot = write_pilot(tmp_path / "pilot.csv")
    found = calibrate(edited(), pilot)
    assert not parse_study(found.text).settings.prior, "the control: nobody asked for it"
    asked = calibrate(edited(), pilot, prior=True)
    again = calibrate(parse_study(asked.text), pilot)
    for one in (asked, again):
        prior = parse_study(one.text).settings.prior
        for i, term in enumerate(one.terms):
            assert prior[term].mean == pytest.approx(one.fitted.theta[i], rel=1e-3)
            assert prior[term].sd == pytest.approx(np.hypot(one.fitted.tau[i], one.fitted.se[i]), rel=1e-2)


def test_baseline_and_the_persons_own_past_are_columns(tmp_path: Path) -> None:
    """What is known at enrolment, and what is computed from the past, is read from the pilot as it was then."""
    text = SMALL.replace(
        "[variables.weekend]",
        "[variables.dose]\nhistory = { of = 'nudges', summary = 'sum', days = 7 }\n\n[variables.weekend]",
    ).replace('"1 + action*stress"', '"1 + action*stress + site + dose"')
    text = text.replace("[participants]\n", "[participants]\nbaseline = { site = ['A', 'B'] }\n")
    rng = np.random.default_rng(3)
    with (tmp_path / "p.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["participant", "step", "stress", "dose", "site", "action", "reward"])
        for i in range(600):
            site, dose, stress = "AB"[i % 2], int(rng.integers(4)), int(rng.integers(3))
            reward = 1.0 + 0.7 * (site == "B") - 0.2 * dose + 0.2 * rng.normal()
            out.writerow([i % 10, i // 10 + 1, stress, dose, site, ["rest", "walk"][rng.integers(2)], reward])
    after = parse_study(calibrate(parse_study(text), tmp_path / "p.csv").text)
    assert after.effects["site=B"].mean == pytest.approx(0.7, abs=0.1)
    assert after.effects["dose"].mean == pytest.approx(-0.2, abs=0.05)
    assert after.settings.variables["dose"].distribution is None
    (tmp_path / "p.csv").write_text("participant,step,stress,dose,action,reward\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"column of .*p\.csv is 'site'"):
        read_pilot(parse_study(text), tmp_path / "p.csv")


def test_rewriting_keeps_everything_else() -> None:
    """Keys are replaced where they stand, over several lines too, put in where they are missing, tables made."""
    text = "# top\n[a]\nx = [\n  1,\n  2,\n]  # old\ny = 2  # why\n\n# about b\n[b]\nz = 3\n"
    new = rewrite(text, [Edit(("a", "x"), "5", "new"), Edit(("b", "w"), "6", "put in"), Edit(("c", "v"), "7", "made")])
    assert new == (
        "# top\n[a]\nx = 5  # new\ny = 2  # why\n\n# about b\n[b]\nz = 3\nw = 6  # put in\n\n\n[c]\nv = 7  # made\n"
    )
    assert rewrite(text, [Edit(("a",), "q = 1", "")]) == "# top\n[a]\nq = 1\n\n# about b\n[b]\nz = 3\n"
