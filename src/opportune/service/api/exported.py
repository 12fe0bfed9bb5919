"""The addresses of exports."""

from typing import Any

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath
from litestar.response import Stream

from opportune.service.accounts.keys import ADMIN, ANALYST
from opportune.service.api.requests import READING, as_json, roles, service_of
from opportune.service.export import exports
from opportune.service.problems import Refused

Asked = Request[Any, Any, State]


@get(
    "/exports/{name:str}", opt=roles(ANALYST, ADMIN), sync_to_thread=True, tags=["exports"], operation_id="export",
    responses={
        **READING,
        200: ResponseSpec(bytes, description="The file.", generate_examples=False, media_type="text/csv"),
    },
    summary="decisions.csv, participants.csv, nudges.csv, rewards.csv, events.csv or dictionary.json",
)  # fmt: skip
def export(request: Asked, name: FromPath[str]) -> Response[Any]:
    """A table of the study, with pseudonyms only; `dictionary.json` explains every column."""
    database = service_of(request).database
    if name == "dictionary.json":
        return as_json(exports.dictionary(database))
    stem, dot, ending = name.rpartition(".")
    if stem not in exports.NAMES or (dot, ending) != (".", "csv"):
        raise Refused("not_found", f"no export has this name; expected one of {', '.join(exports.NAMES)}, as .csv")

    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Stream(exports.whole_file(database, stem), media_type="text/csv", headers=headers)


EXPORTS = [export]
