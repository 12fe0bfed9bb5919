"""Bodies as they are written: the framework would take "1" for true and "0.7" for a number."""

import re
from typing import Any

import msgspec
from litestar import Request
from litestar.exceptions import ValidationException

_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`$", re.DOTALL)


class StrictRequest(Request[Any, Any, Any]):
    """A request whose body must have the types of its schema."""

    async def json(self) -> Any:
        """The body, refused where a value would have to be converted."""
        found = await super().json()
        field = self.route_handler.parsed_data_field
        if field is not None:
            try:
                msgspec.convert(found, field.annotation, strict=True)
            except msgspec.ValidationError as error:
                raise ValidationException(_plainly(str(error))) from None
        return found


def _plainly(message: str) -> str:
    """What is wrong with which field, shortened."""
    found = _PLACE.fullmatch(message)
    reason, place = (found[1], found[2] or "body") if found else (message, "body")
    return f"{place}: {reason}"[:300]
