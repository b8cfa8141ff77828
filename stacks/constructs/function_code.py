"""What is in a function's zip: one package of lambda/, and descriptions of services that its SDK may lack."""

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LAMBDA_SOURCES: Final = Path(__file__).parent.parent.parent / "lambda"
SERVICE_MODELS: Final = "service_models"
"""Folder in the zip with the descriptions, which the SDK prefers where AWS_DATA_PATH names it."""
_FILE: Final = "service-2.json.gz"


@contextmanager
def function_code(package: str, service_models: Sequence[str]) -> Iterator[Path]:
    """A folder with the package's sources alone, so that the zip's hash is theirs; gone afterwards.

    `service_models` are services, such as sagemaker, whose newest description goes with them: the SDK of
    Lambda's runtime may be older than what the function calls. The files are those of the pinned botocore,
    which older ones read: with it boto3 1.35, the runtime's first, sends instance pools.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(
            LAMBDA_SOURCES / package,
            root / package,
            ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
        )
        for service in service_models:
            source = _description(service)
            target = root / SERVICE_MODELS / service / source.parent.name
            target.mkdir(parents=True)
            shutil.copyfile(source, target / _FILE)
        yield root


def _description(service: str) -> Path:
    """The newest version's file in the installed botocore, which is not imported for it."""
    spec = importlib.util.find_spec("botocore")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("botocore, parts of which go into a function, is not installed: make setup")
    data = Path(next(iter(spec.submodule_search_locations))) / "data" / service
    return max(data.glob(f"*/{_FILE}"))
