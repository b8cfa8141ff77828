"""The prompt profile: the words around a decision, as a data file with a version name.

A model that was tuned for another wording is served by putting its `profile.json` into the model
archive; the code knows no wording.
"""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from semif_server.errors import ProfileError

DEFAULT_PROFILE_PATH: Final = Path(__file__).parent / "profiles" / "default.json"

_Text = Annotated[str, Field(min_length=1)]


class PayloadKeys(BaseModel):
    """The JSON keys of the user message. Order: state, question, options; in an option: slot, description."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    state: _Text
    question: _Text
    options: _Text
    slot: _Text
    description: _Text

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({self.state, self.question, self.options}) < 3:
            raise ValueError("state, question and options must be three different keys")
        if self.slot == self.description:
            raise ValueError("slot and description must be two different keys")
        return self


class Profile(BaseModel):
    """`profile.json`, version 1. `name` is the prompt_version of responses.

    vocabulary_codes: a decision with more options than slots may use all single-token codes of the model's
    vocabulary. Without it, codes are made of the slots alone, two at a time.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    system: _Text
    payload: PayloadKeys
    slots: Annotated[tuple[_Text, ...], Field(min_length=2, max_length=255, strict=False)]
    vocabulary_codes: bool = False

    @model_validator(mode="after")
    def _unique_slots(self) -> Self:
        if len(set(self.slots)) < len(self.slots):
            raise ValueError("each slot may occur once only")
        return self


def load_profile(path: Path | None) -> Profile:
    """Read a profile; without a path the default one. Raises ProfileError naming the file and the key."""
    source = path or DEFAULT_PROFILE_PATH
    try:
        return Profile.model_validate_json(source.read_bytes())
    except OSError as error:
        raise ProfileError(f"{source}: can't be read: {error.strerror}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise ProfileError(f"{source}: {where}: {first['msg']}.") from None
