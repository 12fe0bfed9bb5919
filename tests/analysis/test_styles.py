"""Lines can be told apart: each policy has its own colour and dash, the same in every figure."""

from opportune.analysis.styles import POLICIES, assign


def test_policies_have_their_own() -> None:
    """No two policies of the experiments share a colour or a dash."""
    assert len({style.color for style in POLICIES.values()}) == len(POLICIES)
    assert len({style.linestyle for style in POLICIES.values()}) == len(POLICIES)


def test_a_policy_is_drawn_alike_everywhere() -> None:
    """A policy has its style whatever stands beside it; `PD2 adaptive` is PD2."""
    for labels in (["PD2"], ["naive", "PD1", "PD2"], ["mine", "PD2 range", "PD2"]):
        assert assign(labels)["PD2"] == POLICIES["PD2"]
    five = assign(["naive", "PD1 range", "PD2 range", "PD1 adaptive", "PD2 adaptive"])
    assert five["PD2 adaptive"] == POLICIES["PD2"]
    assert five["PD2 range"] == POLICIES["PD2 range"]


def test_no_two_lines_of_a_figure_are_alike() -> None:
    """Policies at several budgets, and those of a user, all differ, and none looks like one of the paper's."""
    labels = [f"{p} B={b}" for p in ("naive", "PD1", "PD2") for b in (10, 20, 30)] + [f"mine {i}" for i in range(30)]
    styles = assign(labels)
    assert list(styles) == labels
    assert len(set(styles.values())) == len(labels)
    assert styles["PD2 B=10"] == POLICIES["PD2"]
    assert not {styles[f"mine {i}"] for i in range(30)} & set(POLICIES.values())
