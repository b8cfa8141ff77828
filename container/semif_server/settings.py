"""Environment → frozen settings. The only reader of SEMIF_* variables."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from semif_server.errors import SettingsError

PREFIX: Final = "SEMIF_"
_MAX_SHOWN_CHARS: Final = 80
_CGROUP_CPU_MAX: Final = Path("/sys/fs/cgroup/cpu.max")


def usable_cores() -> int:
    """CPU cores this process may use: its affinity, capped by the quota of its cgroup."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CGROUP_CPU_MAX.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def _whole(lowest: int, highest: int) -> Any:
    return Field(ge=lowest, le=highest, description=f"a whole number from {lowest:,} to {highest:,}")


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
    max_tokens: Annotated[int, _whole(64, 1_048_576)] = 4096
    max_request_tokens: Annotated[int, _whole(64, 16_777_216)] = 8192
    max_shared_decisions: Annotated[int, _whole(1, 4096)] = 64
    max_body_bytes: Annotated[int, _whole(1024, 26_214_400)] = 262_144

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
    if settings.max_request_tokens < settings.max_tokens:
        raise SettingsError(
            f"SEMIF_MAX_REQUEST_TOKENS={settings.max_request_tokens}: must be at least"
            f" SEMIF_MAX_TOKENS={settings.max_tokens}, or no request could use its whole prompt."
        )
    return settings


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
