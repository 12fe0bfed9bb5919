"""What a study file may name comes from the registries: kinds of policy, recommenders, their settings, the tables."""

from pathlib import Path

import pytest
from study_files import BASE, edit, errors_of

from opportune.cli.main import run
from opportune.policy import pace_ucb
from opportune.recommenders import RECOMMENDERS, EqualCoins, FixedAction, LinUCB, Thompson
from opportune.revealers import REVEALERS
from opportune.study import parse_study
from opportune.study.kinds import kinds, markdown

DOCS = Path(__file__).parents[2] / "docs" / "study-file.md"


@pytest.mark.parametrize("registry", [REVEALERS, RECOMMENDERS], ids=lambda registry: registry.kind)
def test_tables_in_the_documentation(registry: object) -> None:
    """The documentation's tables are what the registries say; `markdown` writes them anew."""
    assert markdown(registry) in DOCS.read_text(encoding="utf-8")  # type: ignore[arg-type]


def test_tables_say_what_there_is() -> None:
    """Each row has the name in files and in Python, a sentence, and settings with what they are if left out."""
    rows = {row.name: row for row in kinds(REVEALERS)}
    assert list(rows) == ["naive", "PD1", "PD2", "PACE", "never", "always", "periodic"]
    assert rows["periodic"].settings == "`every` (required)"
    assert rows["PD2"].settings == '`scale` ("adaptive"), `tolerance`'
    assert (
        kinds(RECOMMENDERS)[0].settings
        == '`unknown` ("plugin"), `rotate` (false), `kappa` (1), `radius` ("uniform"), `floor`'
    )
    assert rows["always"].does == "Reveal at every step while the budget lasts"
    assert {row.name: row.type for row in kinds(RECOMMENDERS)}["thompson"] == "Thompson"


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    """`opportune simulate --policies` prints every kind and every recommender, and runs nothing."""
    assert run(["simulate", "--policies"]) == 0
    printed = capsys.readouterr().out
    for row in (*kinds(REVEALERS), *kinds(RECOMMENDERS)):
        assert f"\n  {row.name} " in printed
    assert max(map(len, printed.splitlines())) <= 79


MORE = """
[[policies]]
kind = "PD2"
recommender = "thompson"
inflation = 0.5

[[policies]]
kind = "periodic"
every = 9
recommender = "fixed"
action = "call"
name = "call"

[[policies]]
kind = "never"
recommender = "random"
name = "random"
"""


def test_a_policy_has_its_recommender() -> None:
    """LinUCB unless a policy names another; settings are those of the recommender named."""
    policies = parse_study(BASE + MORE).policies()
    assert [p.recommender for p in policies] == [
        LinUCB(), LinUCB(), LinUCB(), LinUCB(), Thompson(inflation=0.5), Thompson(inflation=0.5),
        FixedAction(action=2), EqualCoins(),
    ]  # fmt: skip


def test_recommenders_run() -> None:
    """Policies that differ in the recommender alone are told apart by it, and decide differently."""
    data = parse_study(BASE + MORE).run(progress=False)
    assert [str(label) for label in data["policy"].values[2:6]] == [
        "PD2 B=4 LinUCB", "PD2 B=8 LinUCB", "PD2 B=4 Thompson", "PD2 B=8 Thompson",
    ]  # fmt: skip
    assert bool((data["action"].sel(policy="PD2 B=8 LinUCB") != data["action"].sel(policy="PD2 B=8 Thompson")).any())
    assert bool((data["action"].sel(policy="call") == 2).all())


def test_pace_is_that_of_pace_ucb() -> None:
    """PACE comes with a rotating recommender and a pointwise radius, unless the file says otherwise."""
    pace = '[[policies]]\nkind = "PACE"\nbudgets = [4]\n'
    (*_, silent) = parse_study(f"{BASE}\n{pace}").policies()
    assert silent == pace_ucb(4)
    (*_, first) = parse_study(f"{BASE}\n{pace}value = 'paper'\nkappa = 0.5\nradius = 'uniform'\n").policies()
    assert first == pace_ucb(4, value="paper", kappa=0.5, radius="uniform")
    (*_, plain) = parse_study(f"{BASE}\n{pace}rotate = false\nradius = 'uniform'\n").policies()
    assert plain.recommender == LinUCB()


WRONG = {
    "unknown recommender": (
        'recommender = "tompson"',
        "line 40: recommender in [[policies]] is 'tompson'; expected 'linucb', 'thompson', 'fixed' or 'random'; "
        "did you mean 'thompson'?",
    ),
    "setting of another recommender": (
        'recommender = "thompson"\nunknown = "plugin"',
        "line 41: unknown does not apply to recommender 'thompson' in [[policies]]; it is for 'linucb'",
    ),
    "setting of a recommender not named": (
        "inflation = 2",
        "line 40: inflation does not apply to recommender 'linucb' in [[policies]]; it is for 'thompson'",
    ),
    "setting out of bounds": (
        'recommender = "thompson"\ninflation = -1',
        "line 41: inflation in [[policies]] is -1; expected a number >= 0",
    ),
    "required setting": (
        'recommender = "fixed"',
        "line 38: [[policies]] with recommender 'fixed' lacks 'action'; expected the name of an action in [study]",
    ),
    "unknown action": (
        'recommender = "fixed"\naction = "cal"',
        "line 41: action in [[policies]] is 'cal'; expected 'none', 'walk' or 'call'",
    ),
    "no text": ("recommender = 1", "line 40: recommender in [[policies]] is 1; expected 'linucb', 'thompson'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_named(case: str) -> None:
    """A wrong recommender or setting is named with its line and what was expected."""
    lines, expected = WRONG[case]
    found = errors_of(edit(('scale = "adaptive"', lines)))
    assert any(line.startswith(f"study.toml, {expected}") for line in found), found
