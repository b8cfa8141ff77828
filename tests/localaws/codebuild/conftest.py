"""Builds in the local AWS of the session."""

from __future__ import annotations

import pytest

from localaws.session import LocalAws
from tests.localaws.codebuild.builds import Builds


@pytest.fixture
def builds(aws: LocalAws) -> Builds:
    return Builds(aws)
