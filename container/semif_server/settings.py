"""Environment → frozen settings. The only reader of SEMIF_* variables."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from semif_server.errors import SettingsError
from semif_server.machine import usable_cores

PREFIX: Final = "SEMIF_"
_MAX_SHOWN_CHARS: Final = 80
_SWITCH: Final[Mapping[object, bool]] = {"0": False, "1": True}

Batching = Literal["exact", "throughput"]


def _whole(lowest: int, highest: int, unit: str = "") -> Any:
    return Field(ge=lowest, le=highest, description=f"a whole number{unit} from {lowest:,} to {highest:,}")


def _read_switch(value: object) -> object:
    if isinstance(value, str) and value not in _SWITCH:
        raise ValueError("neither 0 nor 1")
    return _SWITCH.get(value, value)


def _batching_for(given: Mapping[str, Any]) -> Batching:
    """A GPU is fast only when it is kept full; on a CPU sharing a decode gains little and costs exactness."""
    return "throughput" if given.get("n_gpu_layers") else "exact"


class Settings(BaseSettings):
    """What an operator can set. Each description says what is allowed and is shown when a value is not."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    model_dir: Annotated[Path, Field(description="a directory")] = Path("/opt/ml/model")
    gguf_path: Annotated[Path | None, Field(description="the path of a *.gguf file")] = None
    host: Annotated[str, Field(description="an address to listen on, such as 127.0.0.1 or 0.0.0.0")] = (
        "127.0.0.1"
    )
    port: Annotated[int, _whole(1, 65_535)] = 8080
    threads: Annotated[int, _whole(1, 512)] = Field(default_factory=usable_cores)
    n_gpu_layers: Annotated[
        int, Field(ge=-1, le=10_000, description="a whole number of layers, 0 for none, -1 for all")
    ] = 0
    batching: Annotated[Batching, Field(description="exact or throughput")] = Field(
        default_factory=_batching_for
    )
    cache_bytes: Annotated[int | None, _whole(1, 2**50, " of bytes")] = None
    sequences: Annotated[int | None, _whole(2, 256)] = None
    max_tokens: Annotated[int, _whole(64, 1_048_576)] = 4096
    max_request_tokens: Annotated[int, _whole(64, 16_777_216)] = 8192
    max_shared_decisions: Annotated[int, _whole(1, 4096)] = 64
    max_body_bytes: Annotated[int, _whole(1024, 26_214_400)] = 262_144
    max_queue_tokens: Annotated[int, _whole(64, 2**40)] = 1_048_576
    deadline_s: Annotated[
        float,
        Field(gt=0, le=3600, allow_inf_nan=False, description="a number of seconds over 0, at most 3,600"),
    ] = 55.0
    verify: Annotated[Literal["sizes", "full"], Field(description="sizes or full")] = "sizes"
    emf: Annotated[bool, BeforeValidator(_read_switch), Field(description="0 or 1")] = False

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The environment variables that exist."""
        return tuple(PREFIX + name.upper() for name in cls.model_fields)


def load_settings() -> Settings:
    """Read and check the process's environment.

    Raises SettingsError with the variable's name, its value and what is allowed.
    """
    given = {name: value for name, value in os.environ.items() if name.upper().startswith(PREFIX)}
    _refuse_unknown(given)
    for name, value in given.items():
        if not value.strip():
            raise SettingsError(f"{name} is set but empty: give it a value or unset it.")
    try:
        settings = Settings()
    except ValidationError as error:
        raise _settings_error(error, given) from None
    _refuse_less(settings, "max_request_tokens", "max_tokens", "no request could use its whole prompt")
    _refuse_less(settings, "max_queue_tokens", "max_request_tokens", "the longest request could never wait")
    return settings


def _refuse_less(settings: Settings, larger: str, smaller: str, otherwise: str) -> None:
    high, low = getattr(settings, larger), getattr(settings, smaller)
    if high < low:
        raise SettingsError(
            f"{PREFIX}{larger.upper()}={high}: must be at least {PREFIX}{smaller.upper()}={low},"
            f" or {otherwise}."
        )


def _refuse_unknown(names: Iterable[str]) -> None:
    known = Settings.names()
    for name in sorted(names):
        if name not in known:
            closest = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.0)[0]
            raise SettingsError(f"{name} is not a setting of this server. Did you mean {closest}?")


def _settings_error(error: ValidationError, given: Mapping[str, str]) -> SettingsError:
    field = str(error.errors(include_url=False, include_input=False)[0]["loc"][0])
    name = PREFIX + field.upper()
    value = given[name]
    shown = value if len(value) <= _MAX_SHOWN_CHARS else value[:_MAX_SHOWN_CHARS] + "…"
    return SettingsError(f"{name}={shown!r}: must be {Settings.model_fields[field].description}.")
