"""Models for the server's tests; each is loaded once per session."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

# Before llama_cpp is imported: idle OpenMP threads must not spin where other processes want the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import HealthCheck, settings

from tests.container.process import ServerProcess
from tests.container.serving import Serving
from tools.make_tiny_hybrid import write_tiny_hybrid

SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Other processes may hold the cores: how long an example takes says nothing.
settings.register_profile(
    "container", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("container")
_ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("SEMIF_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    path = _ROOT / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.is_file(), f"{path} is missing: run make setup"
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SMOLLM2_SHA256, "run make setup again"
    return path


@pytest.fixture(scope="session")
def tiny_hybrid_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_hybrid(tmp_path_factory.mktemp("hybrid") / "tiny-hybrid.gguf")


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf: Path) -> Iterator[Serving]:
    serving = Serving(smollm2_gguf, max_tokens=2048)
    yield serving
    serving.close()


@pytest.fixture(scope="session")
def hybrid(tiny_hybrid_gguf: Path) -> Iterator[Serving]:
    serving = Serving(tiny_hybrid_gguf, max_request_tokens=32_768)
    yield serving
    serving.close()


@pytest.fixture(scope="session")
def hybrid_process(
    tiny_hybrid_gguf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server process for tests that leave it running."""
    output = tmp_path_factory.mktemp("process") / "server.log"
    server = ServerProcess(output, SEMIF_GGUF_PATH=str(tiny_hybrid_gguf))
    yield server
    server.stop()
