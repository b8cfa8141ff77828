"""The pytest fixture of tests that build images: import it in a conftest.py."""

import os

import pytest

from tests.standins.images import StandIns, stand_ins
from tests.standins.storage import NOT_PROVEN, has_buildah


@pytest.fixture(scope="session")
def stand_in_images() -> StandIns:
    """The stand-in base images. Without buildah the test is skipped, and fails where CI=true."""
    if not has_buildah():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(NOT_PROVEN)
        pytest.skip(NOT_PROVEN)
    return stand_ins()
