"""Reference pages that are made from the code itself: Python names, commands, HTTP, the study file.

And the pictures of tutorials that `opportune` draws.
"""

import inspect
import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

import opportune as op
from opportune import extend, inference
from opportune.cli.main import app
from opportune.study.schema import StudyFile

ROOT = Path(__file__).resolve().parents[1]
HOME: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"]
PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
"""Pages of the root that the site has, too."""
KINDS = {
    "Problems": ("Problem", "ContinuousProblem"),
    "Variables": ("Number", "TimeOfDay", "Weekday", "Weekend", "DayOfStudy", "History"),
    "Policies": ("Policy", "Budget", "Limits", "pace_ucb", "pd2_ucb", "pd1_ucb", "naive_ucb"),
}
"""Names that stand together at the head of the page; the others follow by what they are."""
HOOKS = (
    "act_blind", "act_informed", "after_blind", "arrive", "auxiliary", "before_coin", "blind_value", "bring_together",
    "conclude", "constants", "consult", "extents", "freeze", "informed_problem", "known_step", "layout",
    "needs_sharing", "numbers", "propose_at", "refuse_more", "respond", "seat", "seated", "slots", "tables",
    "truth_table", "words",
)  # fmt: skip
"""Members that the package itself calls; docs/extending.md explains those that an author of a rule or world writes."""


PLACES = {
    "participant": "the participant's name, such as `P001`",
    "decision": "the id of a decision, such as `d123`",
    "name": "the file's name, such as `decisions.csv`",
}
"""What stands in a path."""


def write(folder: Path) -> None:
    """Write every generated page into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in (
        ("python.md", python_page()),
        ("commands.md", commands_page()),
        ("http.md", http_page()),
        ("study-file-keys.md", study_page()),
        *((name, project_page(name)) for name in PROJECT_PAGES),
    ):
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def python_page() -> str:
    """The public names of the package, grouped, each with its documentation."""
    lines = ["# Python", "", "Everything below is in `import opportune as op`, unless a heading says otherwise.", ""]
    named = {name for names in KINDS.values() for name in names}
    groups = {title: [name for name in names if name in op.__all__] for title, names in KINDS.items()}
    rest = [name for name in op.__all__ if name not in named and name != "__version__"]
    groups["Revealers"] = take(rest, lambda thing: is_kind(thing, op.Revealer))
    groups["Recommenders"] = take(rest, lambda thing: is_kind(thing, op.Recommender))
    groups["Worlds"] = take(rest, lambda thing: getattr(thing, "__name__", "").lower().endswith(("world", "worlds")))
    groups["Live"] = take(rest, lambda thing: inspect.isclass(thing) and thing.__module__.startswith("opportune.live"))
    groups["Errors"] = take(rest, lambda thing: is_kind(thing, Exception))
    groups["Functions"] = take(rest, inspect.isfunction)
    groups["Other"] = take(rest, inspect.isclass)
    for title, names in groups.items():
        lines += section(title, [f"opportune.{name}" for name in names])
    for module in (inference, extend, op.distributions):
        shown = [name for name in public(module) if name not in op.__all__]
        lines += section(module.__name__, [f"{module.__name__}.{name}" for name in shown])
    return "\n".join(lines) + "\n"


def public(module: Any) -> list[str]:
    """The public functions and classes of a module."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    things = {name: getattr(module, name) for name in names}
    return sorted(name for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing))


def take(names: list[str], fits: Any) -> list[str]:
    """Move the names of the package whose objects fit out of a list."""
    taken = [name for name in names if fits(getattr(op, name))]
    names[:] = [name for name in names if name not in taken]
    return taken


def is_kind(thing: Any, kind: type) -> bool:
    """Whether something is a class of this kind."""
    return inspect.isclass(thing) and issubclass(thing, kind)


def section(title: str, names: list[str]) -> list[str]:
    """A heading and the documentation of each name."""
    if not names:
        return []
    lines = [f"## {title}", ""]
    for name in names:
        module, _, last = name.rpartition(".")
        thing = getattr(__import__(module, fromlist=[last]), last)
        directive = "autofunction" if inspect.isfunction(thing) else "autoclass"
        lines += ["```{eval-rst}", f".. {directive}:: {name}"]
        if directive == "autoclass" and not is_kind(thing, Exception) and not issubclass(thing, tuple):
            lines += ["   :members:", f"   :exclude-members: {', '.join(HOOKS)}"]
        lines += ["```", ""]
    return lines


def commands_page() -> str:
    """Every command with its arguments and options."""
    command: Any = typer.main.get_command(app)
    lines = ["# Commands", "", f"{first(command.help)} Each command prints this with `--help`.", ""]
    for name, each in command.commands.items():
        lines += command_section(name, each)
    return "\n".join(lines) + "\n"


def command_section(name: str, command: Any) -> list[str]:
    """One command, and those below it."""
    lines = [f"## opportune {name}", "", *help_of(command.help)]
    for parameter in getattr(command, "params", []):
        if parameter.param_type_name == "argument":
            if parameter.help:
                lines += [f"`{(parameter.metavar or parameter.name).upper()}`", f": {text_of(parameter.help)}", ""]
        elif not parameter.hidden and parameter.name != "help":
            spelled = ", ".join([*parameter.opts, *parameter.secondary_opts])
            lines += [f"`{spelled}`", f": {text_of(parameter.help)}", ""]
    for below, each in getattr(command, "commands", {}).items():
        lines += command_section(f"{name} {below}", each)
    return lines


def help_of(text: str | None) -> list[str]:
    """A command's help: its paragraphs, and as they stand those that the terminal must not fold."""
    lines = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if "\b" in paragraph:
            lines += ["```text", paragraph.replace("\b", "").strip(), "```", ""]
        elif paragraph:
            lines += [text_of(paragraph), ""]
    return lines


def http_page() -> str:
    """Every operation of the service's API: what it takes and gives, field by field."""
    from opportune.service.api.app import create_app  # noqa: PLC0415  (needs the extra `serve`)

    app = create_app(SimpleNamespace())  # type: ignore[arg-type]
    schema: dict[str, Any] = app.openapi_schema.to_schema()
    allowed = {handler.operation_id: handler.opt.get("roles") for route in app.routes
               for handler in getattr(route, "route_handlers", ())}  # fmt: skip
    models, operations = schema["components"]["schemas"], [
        (f"{method.upper()} {path}", operation)
        for path, methods in sorted(schema["paths"].items())
        for method, operation in methods.items()
    ]  # fmt: skip
    refusals = {code: text_of(answer.get("description")) for _, operation in operations
                for code, answer in operation["responses"].items() if is_refusal(answer)}  # fmt: skip
    lines = [
        "# HTTP",
        "",
        "Each running service gives this as OpenAPI at `/schema/openapi.json`; [the service](../service.md) explains",
        "the protocol. Bodies are JSON. A request needs `Authorization: Bearer KEY` unless it says otherwise.",
        "",
        *section_of_refusals(refusals),
    ]
    for title, operation in operations:
        roles = allowed[operation["operationId"]]
        who = f"For the roles {', '.join(roles)}." if roles else "Needs no key."
        lines += [f"## {title}", "", f"**{operation['summary']}.** {text_of(operation.get('description'))} {who}", ""]
        given = [(f"`{each['name']}`", each["in"], said(each) or PLACES.get(each["name"], "")) for each in
                 operation.get("parameters", [])]  # fmt: skip
        lines += table(("parameter", "in", "meaning"), given)
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body:
            lines += [f"Body: {kind_of(body['schema'])}.", ""]
        answers = []
        for code, answer in sorted(operation["responses"].items()):
            if not is_refusal(answer):
                kinds = [kind_of(each["schema"]) for each in answer.get("content", {}).values() if "schema" in each]
                answers.append((f"`{code}`", text_of(answer.get("description")), "; ".join(kinds)))
            elif refusals[code] != text_of(answer.get("description")):
                answers.append((f"`{code}`", text_of(answer.get("description")), ""))
        lines += table(("answer", "meaning", "body"), answers)
        also = [f"`{code}`" for code, answer in sorted(operation["responses"].items()) if is_refusal(answer)]
        lines += [f"Refusals: {', '.join(also)}.", ""] if also else []
    lines += ["## Bodies", "", "What requests and answers consist of.", ""]
    for name, model in sorted(models.items()):
        lines += [f"### {name}", "", *([text_of(model["description"]), ""] if "description" in model else [])]
        needed = model.get("required", [])
        lines += table(
            ("field", "type", "needed", "meaning"),
            [(f"`{key}`", kind_of(field), "yes" if key in needed else "", said(field)) for key, field in
             model.get("properties", {}).items()],
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def is_refusal(answer: dict[str, Any]) -> bool:
    """Whether an answer is a problem document, which all refusals are."""
    return "application/problem+json" in answer.get("content", {})


def section_of_refusals(refusals: dict[str, str]) -> list[str]:
    """What each status code of a refusal means, once for all operations."""
    rows = [(f"`{code}`", meaning) for code, meaning in sorted(refusals.items())]
    return ["## Refusals", "", "A refusal is an `application/problem+json`: [Problem](#problem).", "",
            *table(("status", "meaning"), rows)]  # fmt: skip


def kind_of(schema: dict[str, Any]) -> str:
    """The type of a value in words; a body of its own as a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{'null' if value is None else value}`" for value in schema["enum"])
    several = schema.get("oneOf") or schema.get("anyOf")
    if several:
        return " or ".join(dict.fromkeys(kind_of(each) for each in several))
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    return str(kind)


def said(field: dict[str, Any]) -> str:
    """What a field's schema says beside its type: a description, or an example."""
    if field.get("description"):
        return text_of(field["description"])
    return "".join(f"such as `{json.dumps(each)}`" for each in field.get("examples", [])[:1])


def study_page() -> str:
    """Every table and key of a study file."""
    schema = StudyFile.model_json_schema()
    about = "Each table and each key, what it takes, and its default. [Study files](../study-file.md) explains them."
    lines = ["# Study file, key by key", "", about, ""]
    for name, table_schema in schema["properties"].items():
        if name == "schema":
            lines += ["## schema", "", f"{text_of(table_schema['description'])}; before the first table.", ""]
            continue
        lines += [f"## [{name}]", ""]
        lines += keys(schema, table_schema, f"[{name}]")
    return "\n".join(lines) + "\n"


def keys(schema: dict[str, Any], place: dict[str, Any], title: str) -> list[str]:
    """What a table is for, its keys, and then the tables within it."""
    lines: list[str] = []
    for name in dict.fromkeys(re.findall(r"#/\$defs/(\w+)", str(place))):
        model = schema["$defs"][name]
        about = text_of(model.get("description")).removeprefix(f"{title}: ").removeprefix(f"[{title}]: ")
        lines += [about[0].upper() + about[1:], ""]
        needed = model.get("required", [])
        rows = [(f"`{key}`", "needed" if key in needed else default_of(value), text_of(value.get("description")))
                for key, value in model.get("properties", {}).items()]  # fmt: skip
        lines += table(("key", "default", "what it takes"), rows)
        for key, value in model.get("properties", {}).items():
            if "#/$defs/" in str(value):
                lines += [f"### {key}, in {title}", "", *keys(schema, value, f"{key} in {title}")]
        if "#/$defs/" in str(model.get("additionalProperties", "")):
            lines += [f"### Each entry of {title}", "", *keys(schema, model["additionalProperties"], title)]
    return lines


def default_of(value: dict[str, Any]) -> str:
    """The default of a key, as a study file would spell it, or in words where it depends on the file."""
    if "$comment" in value:
        return str(value["$comment"]).removeprefix("default ")
    default = value.get("default")
    return "" if default is None or default in ([], {}) or isinstance(default, dict) else f"`{json.dumps(default)}`"


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table, or nothing without rows."""
    if not rows:
        return []
    lines = [heads, tuple("---" for _ in heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def project_page(name: str) -> str:
    """A page of the repository's root, with its links as they are from the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"\]\((?=(?:CHANGELOG|CONTRIBUTING|SECURITY|CODE_OF_CONDUCT)\.md)", "](../reference/", text)
    text = re.sub(r"\]\(docs/", "](../", text)
    return re.sub(r"\]\((?!https?:|#|\.\./)", f"]({HOME}/blob/main/", text)


def text_of(text: str | None) -> str:
    """A text on one line."""
    return re.sub(r"\s+", " ", inspect.cleandoc(text or "")).strip() or "(no description)"


def first(text: str | None) -> str:
    """The first paragraph of a text."""
    return text_of((text or "").split("\n\n")[0])


def _get_sg_image_scraper() -> Any:
    """What sphinx-gallery calls to find pictures."""
    return scrape_figures


def scrape_figures(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block of a tutorial has named `figure` and that pyplot does not know."""
    figure = block_vars["example_globals"].pop("figure", None)
    if not isinstance(figure, Figure) or getattr(figure, "number", None) is not None:
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=110)
    shown: str = figure_rst([path], gallery_conf["src_dir"])
    return shown
