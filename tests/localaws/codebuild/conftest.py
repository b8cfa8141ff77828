"""Builds in the local AWS of the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localaws.session import LocalAws
from tests.localaws.codebuild.builds import Builds


@pytest.fixture
def builds(aws: LocalAws) -> Iterator[Builds]:
    yield Builds(aws)
    aws.put_faults({})
    aws.put_builds()
