"""One local AWS for the end-to-end tests; every deployment on it is the real CDK CLI's."""

from collections.abc import Iterator

import pytest

from localaws.session import LocalAws
from tests.standins.fixtures import stand_in_images
from tools.local_environment import LocalEnvironment, Pool, ready_sources

__all__ = ["stand_in_images"]


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    with LocalAws() as running:
        yield running


@pytest.fixture(scope="module")
def environment(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> LocalEnvironment:
    """Environment `dev` on a model and an image that are there already; its artifacts are deployed."""
    environment = LocalEnvironment(aws, "dev", tmp_path_factory.mktemp("assemblies"), ready_sources(aws))
    pool = Pool(("ml.m5.2xlarge",))
    environment.bootstrap(pool)
    assert environment.deploy(pool, "artifacts").returncode == 0
    return environment


@pytest.fixture
def all_types_available(aws: LocalAws) -> Iterator[None]:
    """No faults before the test, and none after it."""
    aws.put_faults({})
    yield
    aws.put_faults({})
