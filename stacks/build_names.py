"""Names of what builds, as literals: nothing of the builds' stack is exported, so it may always change."""

from stacks.dlc import Flavour

PROVENANCE_PREFIX = "provenance/"
"""SBOM and provenance; not below models/, where SageMaker would hand them to the server."""


def archive_project(environment_name: str) -> str:
    """Project that makes model archives."""
    return f"semif-{environment_name}-archive"


def image_project(environment_name: str, flavour: Flavour) -> str:
    """Project that makes images of one flavour."""
    return f"semif-{environment_name}-image-{flavour}"


def projects(environment_name: str) -> tuple[str, ...]:
    """Every project that an environment has, or may have had under other settings."""
    return (
        archive_project(environment_name),
        image_project(environment_name, "cpu"),
        image_project(environment_name, "cuda"),
    )


def log_group_name(environment_name: str) -> str:
    """Log group of all builds of an environment."""
    return f"/semif/{environment_name}/builds"
