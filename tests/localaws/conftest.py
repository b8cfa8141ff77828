"""One local AWS for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localaws.session import LocalAws
from tests.localaws.stacks import Stacks


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    log = tmp_path_factory.mktemp("localaws") / "log"
    with LocalAws(ready_s=0.2, poll_s=0.2, log=log) as session:
        yield session
    assert "Traceback" not in log.read_text()


@pytest.fixture
def stacks(aws: LocalAws) -> Iterator[Stacks]:
    made = Stacks(aws)
    yield made
    made.clean_up()
