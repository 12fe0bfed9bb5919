"""How `make docs` builds the site: pages of this folder, tutorials that are run, reference pages made from code."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

from opportune import __version__

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import reference_pages  # noqa: E402  (beside this file)

project = "Opportune"
author = "the Opportune developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["tutorials", "sg_execution_times.rst"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "tasklist"]
myst_heading_anchors = 4

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"Opportune {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": str(HERE / "tutorials"),
    "gallery_dirs": "learn",
    "image_scrapers": ("matplotlib", "reference_pages"),
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "remove_config_comments": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
reference_pages.write(HERE / "reference")


def lead_to_the_site(_app: Any, _name: str, source: list[str]) -> None:
    """Links to files of the repository lead to their copies in the site, or else to the repository."""
    names = "|".join(name.removesuffix(".md") for name in reference_pages.PROJECT_PAGES)
    text = re.sub(rf"\]\(\.\./({names})\.md", r"](reference/\1.md", source[0])
    text = re.sub(r"\]\(tutorials/(\w+)\.py\)", r"](learn/\1.rst)", text)
    source[0] = text.replace("](../src/", f"]({reference_pages.HOME}/blob/main/src/")


PROPERTIES: dict[str, list[str]] = {}
"""Docstrings of properties, as they are before napoleon."""


def keep_property(_app: Any, what: str, name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Keep a property's docstring from napoleon, which takes what stands before a colon for a type."""
    if what in {"property", "attribute"}:
        PROPERTIES[name] = list(lines)


def restore_property(_app: Any, what: str, name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Put the docstring of a property back."""
    if what in {"property", "attribute"}:
        lines[:] = PROPERTIES.pop(name)


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", lead_to_the_site)
    app.connect("autodoc-process-docstring", keep_property, priority=400)
    app.connect("autodoc-process-docstring", restore_property, priority=600)  # napoleon has 500
