"""Pages in other languages: whole, in German and in French, which is there by its catalogue alone."""

import html
import re

import pytest
from desk import Desk, desks, went
from site_over_http import Site, good, site_on

from opportune.rehearsal.demo import study_text
from opportune.service.record.database import Database

ENGLISH = re.compile(
    r"\b(the|and|of|with|was|were|this|that|you|your|call|calls|advice|study|record|not|has|been|today|who|when|since|"
    r"last|next|from|by|are|is|to|for|contact|decision|decisions|result|results|name|day|days|week|more|all)\b",
    re.IGNORECASE,
)
ALSO = {
    "de": {"name", "was", "all", "by"},  # words of German, too
    "fr": {"contact", "note", "all"},
}
"""What looks English and is not."""
PATHS = {
    "anna": (
        "/today", "/week", "/participants", "/participants/0", "/participants/0/paused", "/participants/0/withdrawn",
        "/participants/0/completed", "/participants/0/adverse", "/participants/0/calls", "/participants/0/correct",
        "/participants/0/phones", "/study", "/record", "/settings",
    ),
    "ada": ("/study", "/checklist", "/access", "/accounts"),
}  # fmt: skip


def words_of(page: str) -> str:
    """What a page says, without what is quoted: other languages, code, input, names and the study's own words."""
    (body,) = re.findall(r"<body>(.*)</body>", page, flags=re.DOTALL)
    for quoted in (r'<p lang="en">.*?</p>', r"<code>.*?</code>", r"<option.*?</option>", r"<tbody>.*?</tbody>"):
        body = re.sub(quoted, " ", body, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", body)


def english(page: str, language: str) -> set[str]:
    """English words on a page."""
    return {word.lower() for word in ENGLISH.findall(words_of(page))} - ALSO.get(language, set())


def in_language(desk: Desk, language: str) -> None:
    """Choose a language."""
    went(desk.send("/settings", "/settings", language=language, timezone="Europe/Berlin"))


def demo(language: str) -> str:
    """The demonstration's study, decided whenever an app asks, with everybody called."""
    text = re.sub(r"(?m)^times = .*\n", "", study_text(("08:00", "16:00"), "UTC", language))
    text = text.replace('[serve]\npolicy = "PACE"\n', '[serve]\npolicy = "always"\n')
    return f'{text}\n[[policies]]\nkind = "always"\n'


def busy(site: Site, desk: Desk) -> None:
    """Somebody to call, somebody who was called, and an adverse event."""
    for name in ("P001", "P002"):
        site.enrol(name)
        good(site.post(f"participants/{name}/decisions", {"sensed": {"stress": 4, "sleep": "good"}}), 201)
    fell = {"text": "123", "severity": "mild", "began": "456"}
    went(desk.send("/participants/0/adverse", "/participants/0/adverse", **fell))


@pytest.mark.parametrize("language", ["de", "fr"])
def test_no_english_is_left(sqlite: Database, language: str) -> None:
    """On no page that staff or the coordinator opens; in English, the control, there is plenty on each."""
    with site_on(sqlite, text=demo("de")) as site:
        found = desks(site, anna="staff", ada="admin")
        busy(site, found["anna"])
        for desk in found.values():
            in_language(desk, language)
        left = {path: english(found[name].page(path), language) for name, paths in PATHS.items() for path in paths}
        assert {path: words for path, words in left.items() if words} == {}
        in_language(found["anna"], "en")
        assert all(english(found["anna"].page(path), "en") for path in PATHS["anna"])


def test_french_is_chosen_by_the_browser(sqlite: Database) -> None:
    """Whoever's browser asks for French gets it, before and after signing in, with its own plural and dates."""
    with site_on(sqlite) as site:
        page = (
            Desk(site, "nobody").request("GET", "/signin", None, **{"Accept-Language": "fr-CA,fr;q=0.9,en;q=0.5"}).text
        )
        assert '<html lang="fr">' in page
        assert "Mot de passe" in page
        ada = desks(site, ada="admin")["ada"]
        in_language(ada, "fr")
        assert "Tout va-t-il bien dans l'essai aujourd'hui" in html.unescape(ada.page("/study"))
        assert "Personne n'a besoin d'un appel en ce moment." in html.unescape(ada.page("/today"))
