"""The AWS in memory and the resources that meet it.

`lambda` is a keyword, so no import statement can name these modules.
"""

import importlib
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def fake_aws() -> ModuleType:
    """The module of the AWS in memory."""
    return importlib.import_module("tests.lambda.build_run.fake_aws")


@pytest.fixture(scope="session")
def events() -> ModuleType:
    """The module of what CloudFormation sends."""
    return importlib.import_module("tests.lambda.build_run.events")


@pytest.fixture
def aws(fake_aws: ModuleType) -> Any:
    return fake_aws.FakeAws()


@pytest.fixture
def resource(aws: Any, events: ModuleType) -> Any:
    return events.Resource(aws)


@pytest.fixture
def neighbour(aws: Any, events: ModuleType) -> Any:
    """The same resource in another stack."""
    return events.Resource(aws, events.STACK_ID.replace("0a1b", "2c3d"))
