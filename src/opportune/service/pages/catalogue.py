"""The catalogue of all page texts: `python -m opportune.service.pages.catalogue` extracts it from the sources.

A new language starts from `locale/messages.pot`. Existing catalogues keep their translations.
"""

import io
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from opportune.service.monitoring.alerts import CODES
from opportune.service.pages.texts import FOLDER

HERE = Path(__file__).parent
TEMPLATE = FOLDER / "messages.pot"
_METHODS = [("templates/**.html", "jinja2.ext:babel_extract"), ("**.py", "python")]
_OPTIONS = {"templates/**.html": {"trimmed": "false", "silent": "false", "newstyle_gettext": "true"}}


def gathered() -> Catalog:
    """All texts of the pages."""
    catalog = Catalog(project="Opportune", charset="utf-8")
    keywords = {"_": None, "gettext": None, "ngettext": (1, 2)}
    found = extract_from_dir(str(HERE), _METHODS, _OPTIONS, keywords)
    for name, _line, message, _comments, _context in sorted(found, key=lambda entry: (entry[0], entry[1])):
        catalog.add(message, locations=[(name, 0)])
    for _level, text in CODES.values():
        catalog.add(text, locations=[("alerts", 0)])
    return catalog


def written(catalog: Catalog) -> str:
    """A catalogue as the text of a file, sorted and without dates, so that it changes only with its texts."""
    stream = io.BytesIO()
    write_po(stream, catalog, width=100, omit_header=True, sort_output=True, include_lineno=False)
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
    if catalog.locale is not None:
        header += f'"Language: {catalog.locale}\\n"\n"Plural-Forms: {catalog.plural_forms}\\n"\n'
    return f"{header}\n{stream.getvalue().decode()}"


def update() -> list[Path]:
    """Write the template and update every catalogue to it; returns the files."""
    found = gathered()
    TEMPLATE.write_text(written(found), encoding="utf-8")
    files = [TEMPLATE]
    for file in sorted(FOLDER.glob("*.po")):
        catalog = read_po(io.StringIO(file.read_text(encoding="utf-8")), locale=file.stem)
        catalog.update(found, no_fuzzy_matching=True)
        catalog.obsolete.clear()
        file.write_text(written(catalog), encoding="utf-8")
        files.append(file)
    return files


if __name__ == "__main__":
    for file in update():
        print(file)
