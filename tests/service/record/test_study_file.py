"""The study file as others see it: without addresses and names, however they are written."""

import tomllib

import pytest
from desk import desks
from site_over_http import good, site_on
from study_text import study_text

from opportune.service.record.database import Database
from opportune.service.record.study_file import PRIVATE, published
from opportune.study import parse_study

ADDRESS = "https://hooks.example.org/T0K3N"
WRITTEN = (
    f'webhook = "{ADDRESS}"',
    f'"webhook" = "{ADDRESS}"',
    f"webhook = '{ADDRESS}'",
    f'  webhook    =   """{ADDRESS}"""   # for the SMS gateway',
    f'"web\\u0068ook" = "{ADDRESS}"',
    f'webhook = "{ADDRESS}"\n# before: webhook = "{ADDRESS}"',
    f'mail = [\n  "maria@T0K3N.example.org",  # Maria\n]\nwebhook = "{ADDRESS}"',
    'unblinded = ["Maria T0K3N"]',
    'contact_url = "https://T0K3N.example.org/{participant}"',
)


@pytest.mark.parametrize("written", WRITTEN)
def test_what_is_private_is_taken_out(written: str) -> None:
    """What is left is a study file that says the same of the trial."""
    text = study_text().replace("[serve]\n", f"[serve]\n{written}\n")
    assert "T0K3N" in text
    shown = published(text)
    assert "T0K3N" not in shown
    before, after = (parse_study(each).settings.model_dump() for each in (text, shown))
    assert before["serve"].keys() >= PRIVATE
    for each in (before, after):
        each["serve"] = {key: value for key, value in each["serve"].items() if key not in PRIVATE}
    assert before == after


COMMENTED = """
# MARIA is the coordinator, Li Wu her deputy, and mail to jonas.weber
# 'Jonas' reads "it
[serve]
unblinded = ["Maria Huber", "Li Wu", "serve"]
mail = ["jonas.weber@example.org"]
decide = ["Maria"]  # Huber's choice
say = '''# Maria'''
"""


def test_names_are_taken_out_of_comments() -> None:
    """Any word of a name, in any case; words of the trial itself stay as they are."""
    shown = published(COMMENTED)
    comments = [line.partition("#")[2] for line in shown.splitlines() if "say" not in line]
    for name in ("maria", "huber", "li wu", "jonas", "weber"):
        assert name not in "".join(comments).lower(), name
    assert "coordinator" in shown, "the control"
    assert tomllib.loads(shown) == {"serve": {"decide": ["Maria"], "say": "# Maria"}}


@pytest.mark.parametrize(
    "text",
    [
        f'serve.webhook = "{ADDRESS}"\nserve.budget = 3\n',
        f'serve = {{ webhook = "{ADDRESS}", budget = 3 }}\n',
        f"serve = {{ budget = 3, webhook = '{ADDRESS}' }}\n",
        f'[ "serve" ]\nwebhook = "{ADDRESS}"\nbudget = 3\n',
    ],
)
def test_tables_are_found_wherever_toml_lets_them_stand(text: str) -> None:
    """As dotted keys, inline, quoted."""
    assert tomllib.loads(text)["serve"]["webhook"] == ADDRESS
    assert "T0K3N" not in published(text)
    assert tomllib.loads(published(text))["serve"] == {"budget": 3}


def test_a_file_that_cannot_be_read_is_not_shown() -> None:
    """It may hold anything."""
    assert "T0K3N" not in published(f'webhook = "{ADDRESS}"\n= =')


def test_staff_and_analysts_get_it_without_and_cannot_search_for_it(sqlite: Database) -> None:
    """Admins see the file as it is: they have written it."""
    words = ("T0K3N", "Maria Huber", "team@example.org")
    text = study_text().replace(
        "[serve]\n", f'[serve]\nwebhook = "{ADDRESS}"\nmail = ["team@example.org"]\nunblinded = ["Maria Huber"]\n'
    )
    with site_on(sqlite, text=text) as site:
        for role, there in (("staff", False), ("analyst", False), ("admin", True)):
            launched = good(site.get("events", role))["items"][0]["event"]["given"]["file"]
            assert [word in launched for word in words] == [there] * 3, role
        for name, desk in desks(site, eva="staff", cora="analyst").items():
            for word in words:
                assert results(desk.send("/record", "/record", text=word).text) == "", (name, word)
            assert "commitment" in results(desk.send("/record", "/record", text="commitment").text), "the control"


def results(page: str) -> str:
    """What a page lists."""
    return page.partition("<tbody>")[2].partition("</tbody>")[0]
