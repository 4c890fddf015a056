"""Reading the JSON of a cache, which may come from a stranger: types and bounds first, in one line."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, FailFast, Field, ValidationError

MAX_BYTES = 2**62
MAX_WIDTH = 2**17
"""The widest activations a cache holds: a number from a file must not ask for all memory."""
MAX_CELLS = 2**20
"""The most (site, layer, position) a cache holds."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Ids = Annotated[tuple[str, ...], FailFast()]


class Document(BaseModel):
    """A JSON object of which every field has exactly the type that it is declared with."""

    model_config = ConfigDict(strict=True, frozen=True)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read an object; ValueError naming the first field that is wrong, in one line."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            # Keys of a file's own making may hold anything; names of ours are identifiers.
            place = [
                str(key) for key in first["loc"] if str(key).isidentifier() or str(key).isdigit()
            ]
            what = " ".join(first["msg"].split())[:200]
            raise ValueError(f"field {'.'.join(place)}: {what}" if place else what) from None
