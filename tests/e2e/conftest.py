"""One local AWS for the end-to-end tests of a worker; every deployment on it is the real CDK CLI's."""

from collections.abc import Iterator

import pytest

from localaws.session import LocalAws
from tests.standins.fixtures import stand_in_images
from tools.local_environment import Sources, bootstrap, ready_sources

__all__ = ["stand_in_images"]


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    """A local AWS that is bootstrapped for the CDK CLI."""
    with LocalAws(ready_s=0.5, poll_s=0.5) as running:
        bootstrap(running)
        yield running


@pytest.fixture(scope="session")
def ready(aws: LocalAws) -> Sources:
    """A model and an image that are there already."""
    return ready_sources(aws)


@pytest.fixture
def all_types_available(aws: LocalAws) -> Iterator[None]:
    """No faults before the test, and none after it."""
    aws.put_faults({})
    yield
    aws.put_faults({})
