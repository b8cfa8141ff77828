from pathlib import Path

import pytest
from pydantic import ValidationError

from semif_server.errors import SettingsError
from semif_server.machine import usable_cores
from semif_server.settings import Settings, load_settings


def test_defaults() -> None:
    settings = load_settings()
    assert settings.model_dump() == {
        "model_dir": Path("/opt/ml/model"),
        "gguf_path": None,
        "host": "127.0.0.1",
        "port": 8080,
        "threads": usable_cores(),
        "n_gpu_layers": 0,
        "batching": "exact",
        "cache_bytes": None,
        "sequences": None,
        "max_tokens": 4096,
        "max_request_tokens": 8192,
        "max_shared_decisions": 64,
        "max_body_bytes": 262_144,
        "max_queue_tokens": 1_048_576,
        "deadline_s": 55.0,
        "verify": "sizes",
        "emf": False,
    }


def test_every_variable_reaches_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "SEMIF_MODEL_DIR": "/m",
        "SEMIF_GGUF_PATH": "/m/x.gguf",
        "SEMIF_HOST": "0.0.0.0",  # noqa: S104 — read, not bound
        "SEMIF_PORT": "9090",
        "SEMIF_THREADS": "3",
        "SEMIF_N_GPU_LAYERS": "-1",
        "SEMIF_BATCHING": "exact",
        "SEMIF_CACHE_BYTES": "1000000000",
        "SEMIF_SEQUENCES": "7",
        "SEMIF_MAX_TOKENS": "1024",
        "SEMIF_MAX_REQUEST_TOKENS": "2048",
        "SEMIF_MAX_SHARED_DECISIONS": "5",
        "SEMIF_MAX_BODY_BYTES": "4096",
        "SEMIF_MAX_QUEUE_TOKENS": "4000",
        "SEMIF_DEADLINE_S": "0.5",
        "SEMIF_VERIFY": "full",
        "SEMIF_EMF": "1",
    }
    assert set(given) == set(Settings.names())
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    read = load_settings().model_dump()
    assert read.pop("emf") is True
    assert {f"SEMIF_{name.upper()}": str(value) for name, value in read.items()} | {"SEMIF_EMF": "1"} == given


@pytest.mark.parametrize(
    ("layers", "given", "batching"),
    [
        ("0", None, "exact"),
        ("1", None, "throughput"),
        ("-1", None, "throughput"),
        ("-1", "exact", "exact"),
        ("0", "throughput", "throughput"),
    ],
)
def test_requests_share_decodes_where_layers_are_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, layers: str, given: str | None, batching: str
) -> None:
    monkeypatch.setenv("SEMIF_N_GPU_LAYERS", layers)
    if given:
        monkeypatch.setenv("SEMIF_BATCHING", given)
    assert load_settings().batching == batching


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        load_settings().port = 1


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("SEMIF_PORT", "http", "a whole number from 1 to 65,535"),
        ("SEMIF_PORT", "0", "a whole number from 1 to 65,535"),
        ("SEMIF_PORT", "65536", "a whole number from 1 to 65,535"),
        ("SEMIF_THREADS", "0", "a whole number from 1 to 512"),
        ("SEMIF_THREADS", "2.5", "a whole number from 1 to 512"),
        ("SEMIF_N_GPU_LAYERS", "-2", "0 for none, -1 for all"),
        ("SEMIF_MAX_TOKENS", "63", "a whole number from 64 to"),
        ("SEMIF_MAX_REQUEST_TOKENS", "-1", "a whole number from 64 to"),
        ("SEMIF_MAX_SHARED_DECISIONS", "0", "a whole number from 1 to"),
        ("SEMIF_MAX_BODY_BYTES", "1kB", "a whole number from 1,024 to"),
        ("SEMIF_MAX_QUEUE_TOKENS", "63", "a whole number from 64 to"),
        ("SEMIF_BATCHING", "fast", "exact or throughput"),
        ("SEMIF_CACHE_BYTES", "4GB", "a whole number of bytes from 1 to"),
        ("SEMIF_CACHE_BYTES", "0", "a whole number of bytes from 1 to"),
        ("SEMIF_SEQUENCES", "1", "a whole number from 2 to 256"),
        ("SEMIF_SEQUENCES", "257", "a whole number from 2 to 256"),
        ("SEMIF_DEADLINE_S", "0", "a number of seconds over 0, at most 3,600"),
        ("SEMIF_DEADLINE_S", "3601", "a number of seconds over 0, at most 3,600"),
        ("SEMIF_DEADLINE_S", "nan", "a number of seconds over 0, at most 3,600"),
        ("SEMIF_VERIFY", "none", "sizes or full"),
        ("SEMIF_EMF", "true", "0 or 1"),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    message = str(caught.value)
    assert message.startswith(f"{name}={value!r}: must be ")
    assert allowed in message
    assert "\n" not in message


def test_a_long_value_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMIF_PORT", "9" * 1000)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_value_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SEMIF_GGUF_PATH", value)
    with pytest.raises(SettingsError, match="SEMIF_GGUF_PATH is set but empty"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("SEMIF_MAX_TOKEN", "SEMIF_MAX_TOKENS"),
        ("SEMIF_GPU_LAYERS", "SEMIF_N_GPU_LAYERS"),
        ("SEMIF_THREAD", "SEMIF_THREADS"),
        ("semif_port", "SEMIF_PORT"),
    ],
)
def test_an_unknown_name_is_refused_with_the_closest_known_one(
    monkeypatch: pytest.MonkeyPatch, name: str, closest: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value) == f"{name} is not a setting of this server. Did you mean {closest}?"


def test_a_request_must_have_room_for_one_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMIF_MAX_TOKENS", "9000")
    with pytest.raises(SettingsError, match=r"SEMIF_MAX_REQUEST_TOKENS=8192: .*SEMIF_MAX_TOKENS=9000"):
        load_settings()


def test_the_queue_must_have_room_for_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMIF_MAX_QUEUE_TOKENS", "8000")
    with pytest.raises(SettingsError, match=r"SEMIF_MAX_QUEUE_TOKENS=8000: .*SEMIF_MAX_REQUEST_TOKENS=8192"):
        load_settings()
