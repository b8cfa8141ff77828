"""What the tests of the Lambda functions share."""

import importlib
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """The module of the in-memory SageMaker; `lambda` is a keyword, so no import statement can name it."""
    return importlib.import_module("tests.lambda.instance_pool.fake_sagemaker")
