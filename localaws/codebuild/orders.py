"""StartBuild: a project's settings under the request's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localaws.codebuild import projects
from localaws.codebuild.build import Order
from localaws.codebuild.messages import invalid
from localaws.codebuild.projects import Project

Params = Mapping[str, Any]

_SOURCE = {
    "sourceTypeOverride": "type",
    "sourceLocationOverride": "location",
    "buildspecOverride": "buildspec",
    "insecureSslOverride": "insecureSsl",
    "gitCloneDepthOverride": "gitCloneDepth",
    "reportBuildStatusOverride": "reportBuildStatus",
}
_ENVIRONMENT = {
    "environmentTypeOverride": "type",
    "imageOverride": "image",
    "computeTypeOverride": "computeType",
    "privilegedModeOverride": "privilegedMode",
    "imagePullCredentialsTypeOverride": "imagePullCredentialsType",
}
_OTHERS = frozenset(
    ("projectName", "sourceVersion", "artifactsOverride", "environmentVariablesOverride", "idempotencyToken")
) | {
    "cacheOverride",
    "encryptionKeyOverride",
    "logsConfigOverride",
    "queuedTimeoutInMinutesOverride",
    "serviceRoleOverride",
    "timeoutInMinutesOverride",
}


def order_of(project: Project, params: Params, initiator: str) -> Order:
    """Return what a build of `project` is to do; an override without effect here is refused by its name."""
    for name in sorted(set(params) - set(_SOURCE) - set(_ENVIRONMENT) - _OTHERS):
        if params[name]:
            raise invalid(f"The local AWS does not support {name} of StartBuild")
    settings = project.settings
    source = {**settings["source"], **_renamed(params, _SOURCE)}
    if source["type"] == "NO_SOURCE":
        source.pop("location", None)
    environment = {**settings["environment"], **_renamed(params, _ENVIRONMENT)}
    variables = {item["name"]: item for item in environment["environmentVariables"]}
    variables |= {item["name"]: item for item in params.get("environmentVariablesOverride", ())}
    environment["environmentVariables"] = list(variables.values())
    artifacts = params.get("artifactsOverride", settings["artifacts"])
    return Order(
        project=project.name,
        source=projects.check_source(source),
        artifacts=projects.check_artifacts(project.name, artifacts),
        environment=projects.check_environment(environment),
        service_role=params.get("serviceRoleOverride", settings["serviceRole"]),
        timeout_minutes=params.get("timeoutInMinutesOverride", settings["timeoutInMinutes"]),
        queued_timeout_minutes=params.get(
            "queuedTimeoutInMinutesOverride", settings["queuedTimeoutInMinutes"]
        ),
        logs=projects.check_logs(params.get("logsConfigOverride", settings["logsConfig"])),
        cache=projects.check_cache(params.get("cacheOverride", settings["cache"])),
        encryption_key=params.get("encryptionKeyOverride", settings["encryptionKey"]),
        initiator=initiator,
        source_version=params.get("sourceVersion", settings.get("sourceVersion")) or None,
    )


def _renamed(params: Params, names: Mapping[str, str]) -> dict[str, Any]:
    return {ours: params[theirs] for theirs, ours in names.items() if theirs in params}
