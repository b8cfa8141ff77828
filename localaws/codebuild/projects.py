"""Projects: what CodeBuild keeps of them, and which settings this local one has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from localaws.codebuild.messages import invalid
from localaws.protocol import Scope

Settings = Mapping[str, Any]

_KEPT = frozenset(
    ("name", "description", "source", "sourceVersion", "artifacts", "cache", "environment", "serviceRole")
) | {"timeoutInMinutes", "queuedTimeoutInMinutes", "encryptionKey", "tags", "logsConfig"}
_SOURCE = frozenset(("type", "location", "buildspec", "insecureSsl", "gitCloneDepth", "reportBuildStatus"))
_ENVIRONMENT = frozenset(
    ("type", "image", "computeType", "environmentVariables", "privilegedMode", "imagePullCredentialsType")
)
_LOGS = frozenset(("cloudWatchLogs", "s3Logs"))
_ARTIFACTS = frozenset(
    ("type", "location", "path", "namespaceType", "name", "packaging", "overrideArtifactName")
) | {"encryptionDisabled"}
_SOURCE_TYPES = ("NO_SOURCE", "S3")
_ARTIFACT_TYPES = ("NO_ARTIFACTS", "S3")
_CONTAINERS = ("LINUX_CONTAINER", "ARM_CONTAINER", "LINUX_GPU_CONTAINER")


@dataclass
class Project:
    """One project; `settings` has the keys of CreateProject."""

    scope: Scope
    settings: dict[str, Any]
    created: dt.datetime
    modified: dt.datetime
    builds: int = 0
    #: Ids of its builds, the oldest first.
    build_ids: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return its name."""
        name: str = self.settings["name"]
        return name

    @property
    def arn(self) -> str:
        """Return its ARN."""
        return project_arn(self.scope, self.name)

    def view(self) -> dict[str, Any]:
        """Return the project as in BatchGetProjects."""
        return {
            **self.settings,
            "arn": self.arn,
            "created": self.created,
            "lastModified": self.modified,
            "secondarySources": [],
            "secondaryArtifacts": [],
            "secondarySourceVersions": [],
            "projectVisibility": "PRIVATE",
            "badge": {"badgeEnabled": False},
        }


def project_arn(scope: Scope, name: str) -> str:
    """Return the ARN of a project, whether it exists or not."""
    return f"arn:aws:codebuild:{scope.region}:{scope.account}:project/{name}"


def created_settings(scope: Scope, params: Settings) -> dict[str, Any]:
    """Return the settings of a new project, with CodeBuild's defaults."""
    defaults = {
        "description": "",
        "timeoutInMinutes": 60,
        "queuedTimeoutInMinutes": 480,
        "encryptionKey": f"arn:aws:kms:{scope.region}:{scope.account}:alias/aws/s3",
        "cache": {"type": "NO_CACHE"},
        "tags": [],
    }
    return checked({**defaults, **_without_empty(params)})


def updated_settings(old: Settings, params: Settings) -> dict[str, Any]:
    """Return the settings after UpdateProject: what it does not name stays as it is."""
    return checked({**old, **_without_empty(params)})


def checked(settings: Settings) -> dict[str, Any]:
    """Return settings that are whole; what this local CodeBuild cannot do is an InvalidInputException."""
    _only(settings, _KEPT, "a project")
    missing = [name for name in ("source", "artifacts", "environment", "serviceRole") if name not in settings]
    if missing:
        raise invalid(f"Project {missing[0]} is required")
    source = check_source(settings["source"])
    artifacts = check_artifacts(settings["name"], settings["artifacts"])
    environment = check_environment(settings["environment"])
    logs = check_logs(settings.get("logsConfig", {}))
    check_cache(settings["cache"])
    return {
        **settings,
        "source": source,
        "artifacts": artifacts,
        "environment": environment,
        "logsConfig": logs,
    }


def check_source(source: Settings) -> dict[str, Any]:
    """Return a source; only S3 and inline buildspecs are run here."""
    _only(source, _SOURCE, "source")
    kind = source["type"]
    if kind not in _SOURCE_TYPES:
        raise invalid(f"The local AWS supports source types {' and '.join(_SOURCE_TYPES)}, not {kind}")
    if kind == "S3" and "/" not in source.get("location", ""):
        raise invalid("Invalid project source: location must be a valid S3 source: BUCKET/KEY")
    if kind == "NO_SOURCE" and not source.get("buildspec"):
        raise invalid("Invalid project source: buildspec must be provided for source type NO_SOURCE")
    return {"insecureSsl": False, "gitCloneDepth": 0, **source}


def check_artifacts(project: str, artifacts: Settings) -> dict[str, Any]:
    """Return artifacts with defaults."""
    _only(artifacts, _ARTIFACTS, "artifacts")
    kind = artifacts["type"]
    if kind not in _ARTIFACT_TYPES:
        raise invalid(f"The local AWS supports artifact types {' and '.join(_ARTIFACT_TYPES)}, not {kind}")
    if kind == "NO_ARTIFACTS":
        return {"type": kind}
    if not artifacts.get("location"):
        raise invalid("Invalid artifacts: artifact location must be specified")
    return {"name": project, "packaging": "NONE", "namespaceType": "NONE", **artifacts}


def check_environment(environment: Settings) -> dict[str, Any]:
    """Return an environment; a build is a process here, and its image only a name."""
    _only(environment, _ENVIRONMENT, "environment")
    if environment["type"] not in _CONTAINERS:
        raise invalid(
            f"The local AWS supports environment types {', '.join(_CONTAINERS)}, not {environment['type']}"
        )
    variables = [check_variable(item) for item in environment.get("environmentVariables", ())]
    defaults = {"privilegedMode": False, "imagePullCredentialsType": "CODEBUILD"}
    return {**defaults, **environment, "environmentVariables": variables}


def check_variable(variable: Settings) -> dict[str, str]:
    """Return an environment variable with its type; names of CodeBuild's own are refused."""
    name: str = variable["name"]
    if name.startswith("CODEBUILD_"):
        raise invalid(f"Environment variable {name} is not allowed: CODEBUILD_ is reserved for internal use")
    return {"type": "PLAINTEXT", **variable}


def check_logs(logs: Settings) -> dict[str, Any]:
    """Return where logs go; S3 logs are not kept here."""
    _only(logs, _LOGS, "logsConfig")
    if logs.get("s3Logs", {}).get("status", "DISABLED") != "DISABLED":
        raise invalid("The local AWS does not support logsConfig.s3Logs")
    return {
        "cloudWatchLogs": {"status": "ENABLED", **logs.get("cloudWatchLogs", {})},
        "s3Logs": {"status": "DISABLED", "encryptionDisabled": False},
    }


def check_cache(cache: Settings) -> dict[str, Any]:
    """Return a cache; there is none here."""
    if cache["type"] != "NO_CACHE":
        raise invalid(f"The local AWS supports cache type NO_CACHE, not {cache['type']}")
    return {"type": "NO_CACHE"}


def _only(settings: Settings, allowed: Set[str], where: str) -> None:
    """Refuse a setting that would have no effect; one that is off is no setting."""
    for name in sorted(set(settings) - allowed):
        if settings[name]:
            raise invalid(f"The local AWS does not support {name} of {where}")


def _without_empty(params: Settings) -> dict[str, Any]:
    return {key: value for key, value in params.items() if value is not None}
