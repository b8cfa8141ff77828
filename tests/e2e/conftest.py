"""One local AWS for the end-to-end tests; every deployment on it is the real CDK CLI's."""

from collections.abc import Iterator

import pytest

from localaws.session import LocalAws
from tools.local_environment import LocalEnvironment, Pool


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    with LocalAws() as running:
        yield running


@pytest.fixture(scope="module")
def environment(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> LocalEnvironment:
    """Environment `dev` with its artifacts deployed: bucket, repository, model and image."""
    environment = LocalEnvironment(aws, "dev", tmp_path_factory.mktemp("assemblies"))
    environment.deploy_artifacts(Pool(("ml.m5.2xlarge",)))
    return environment


@pytest.fixture
def all_types_available(aws: LocalAws) -> Iterator[None]:
    """No faults before the test, and none after it."""
    aws.put_faults({})
    yield
    aws.put_faults({})
