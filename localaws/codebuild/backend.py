"""The entrance to CodeBuild: a method for each operation, the injected faults and the queue's settings."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localaws.clients import Clients
from localaws.codebuild import messages, projects
from localaws.codebuild.build import Build, Order, now
from localaws.codebuild.faults import Fault, FaultTableError, parse_faults, render_faults
from localaws.codebuild.machine import DockerFolder
from localaws.codebuild.orders import order_of
from localaws.codebuild.projects import Project, project_arn
from localaws.codebuild.queue import BuildQueue, parse_settings
from localaws.protocol import Scope

Params = Mapping[str, Any]
Answer = dict[str, Any]

_PAGE = 100
_TOKEN_LIFE = dt.timedelta(minutes=5)


@dataclass
class _Region:
    projects: dict[str, Project] = field(default_factory=dict)
    builds: dict[str, Build] = field(default_factory=dict)
    #: Idempotency tokens with the request they came with and the build they started.
    tokens: dict[str, tuple[Params, Build]] = field(default_factory=dict)


class CodeBuildBackend:
    """CodeBuild of all accounts and regions; parameters are taken to satisfy the service model."""

    #: How CodeBuild calls a request that breaks its service model.
    invalid_request_code = "InvalidInputException"

    def __init__(self, clients: Clients, docker_folder: DockerFolder | None = None) -> None:
        self._queue = BuildQueue(clients, docker_folder)
        self._lock = threading.RLock()
        self._regions: dict[Scope, _Region] = {}

    # -- administration --------------------------------------------------------------------------------------

    def read_faults(self, mapping: Mapping[str, Any]) -> Mapping[str, Fault]:
        """Read the faults whose keys begin with `codebuild:`; a wrong one is a ServiceError."""
        try:
            return parse_faults(mapping)
        except FaultTableError as error:
            raise messages.invalid(str(error)) from error

    def put_faults(self, faults: Mapping[str, Fault]) -> None:
        """Replace the faults."""
        self._queue.put_faults(faults)

    def faults(self) -> dict[str, dict[str, Any]]:
        """Return the faults as they were put."""
        return render_faults(self._queue.faults)

    def put_settings(self, document: Mapping[str, Any]) -> None:
        """Change `concurrent_builds` and `minute_s`; a wrong one is a ServiceError."""
        self._queue.configure(parse_settings(document))

    def settings(self) -> dict[str, Any]:
        """Return the queue's settings."""
        return self._queue.settings.view()

    def close(self) -> None:
        """Stop every build; returns when their processes are gone."""
        self._queue.close()

    # -- projects --------------------------------------------------------------------------------------------

    def create_project(self, scope: Scope, params: Params) -> Answer:
        """CreateProject."""
        with self._lock:
            found = self._region(scope).projects
            name = params["name"]
            if name in found:
                raise messages.project_exists(project_arn(scope, name))
            made = now()
            found[name] = Project(scope, projects.created_settings(scope, params), made, made)
            return {"project": found[name].view()}

    def update_project(self, scope: Scope, params: Params) -> Answer:
        """UpdateProject."""
        with self._lock:
            project = self._project(scope, params["name"])
            project.settings = projects.updated_settings(project.settings, params)
            project.modified = now()
            return {"project": project.view()}

    def delete_project(self, scope: Scope, params: Params) -> Answer:
        """DeleteProject: its builds are gone too, but those that run go on. No error if it is not there."""
        with self._lock:
            region = self._region(scope)
            project = region.projects.pop(params["name"].rsplit("/", 1)[-1], None)
            for build_id in project.build_ids if project else ():
                if region.builds[build_id].complete:
                    del region.builds[build_id]
        return {}

    def batch_get_projects(self, scope: Scope, params: Params) -> Answer:
        """BatchGetProjects: by name or ARN."""
        found = self._region(scope).projects
        named = {name: found.get(name.rsplit("/", 1)[-1]) for name in params["names"]}
        return {
            "projects": [project.view() for project in named.values() if project is not None],
            "projectsNotFound": [name for name, project in named.items() if project is None],
        }

    def list_projects(self, scope: Scope, params: Params) -> Answer:
        """ListProjects: by name or by time, ascending unless told otherwise."""
        found = list(self._region(scope).projects.values())
        match params.get("sortBy", "NAME"):
            case "CREATED_TIME":
                found.sort(key=lambda project: project.created)
            case "LAST_MODIFIED_TIME":
                found.sort(key=lambda project: project.modified)
            case _:
                found.sort(key=lambda project: project.name)
        if params.get("sortOrder") == "DESCENDING":
            found.reverse()
        return _page("projects", [project.name for project in found], params)

    # -- builds ----------------------------------------------------------------------------------------------

    def start_build(self, scope: Scope, params: Params) -> Answer:
        """StartBuild; a token that was used in the last five minutes gives the build that it started."""
        with self._lock:
            region = self._region(scope)
            project = self._project(scope, params["projectName"])
            token = params.get("idempotencyToken")
            if token and token in region.tokens:
                asked, build = region.tokens[token]
                if build.started > now() - _TOKEN_LIFE:
                    if asked != dict(params):
                        raise messages.invalid(
                            f"Parameter mismatch: idempotency token {token} was used with other parameters"
                        )
                    return {"build": build.view()}
            build, answer = self._begin(project, order_of(project, params, initiator="local-aws"))
            if token:
                region.tokens[token] = dict(params), build
        return {"build": answer}

    def retry_build(self, scope: Scope, params: Params) -> Answer:
        """RetryBuild: another build with the same order."""
        if params.get("idempotencyToken"):
            raise messages.invalid("The local AWS does not support idempotencyToken of RetryBuild")
        with self._lock:
            order = self._build(scope, params["id"]).order
            return {"build": self._begin(self._project(scope, order.project), order)[1]}

    def stop_build(self, scope: Scope, params: Params) -> Answer:
        """StopBuild: the build ends soon after the answer; one that has ended stays as it is."""
        build = self._build(scope, params["id"])
        self._queue.stop(build)
        return {"build": build.view()}

    def batch_get_builds(self, scope: Scope, params: Params) -> Answer:
        """BatchGetBuilds: by id or ARN."""
        found = self._region(scope).builds
        named = {name: found.get(_build_id(name)) for name in params["ids"]}
        return {
            "builds": [build.view() for build in named.values() if build is not None],
            "buildsNotFound": [name for name, build in named.items() if build is None],
        }

    def batch_delete_builds(self, scope: Scope, params: Params) -> Answer:
        """BatchDeleteBuilds: those that run are not deleted."""
        deleted, kept = [], []
        with self._lock:
            region = self._region(scope)
            for name in params["ids"]:
                build = region.builds.get(_build_id(name))
                if build is None or not build.complete:
                    kept.append({"id": name, "statusCode": "BUILD_IN_PROGRESS" if build else "NOT_FOUND"})
                    continue
                del region.builds[build.id]
                if build.order.project in region.projects:
                    region.projects[build.order.project].build_ids.remove(build.id)
                deleted.append(build.arn)
        return {"buildsDeleted": deleted, "buildsNotDeleted": kept}

    def list_builds(self, scope: Scope, params: Params) -> Answer:
        """ListBuilds: the newest first unless told otherwise."""
        return _builds(list(self._region(scope).builds), params)

    def list_builds_for_project(self, scope: Scope, params: Params) -> Answer:
        """ListBuildsForProject: the newest first unless told otherwise."""
        return _builds(list(self._project(scope, params["projectName"]).build_ids), params)

    # -- machinery -------------------------------------------------------------------------------------------

    def _begin(self, project: Project, order: Order) -> tuple[Build, Answer]:
        """Queue a build; return it with its view from before it could begin."""
        self._queue.check_room(project.scope)
        project.builds += 1
        build = Build(project.scope, project.builds, order)
        self._region(project.scope).builds[build.id] = build
        project.build_ids.append(build.id)
        answer = build.view()
        self._queue.add(build)
        return build, answer

    def _region(self, scope: Scope) -> _Region:
        with self._lock:
            return self._regions.setdefault(scope, _Region())

    def _project(self, scope: Scope, name: str) -> Project:
        name = name.rsplit("/", 1)[-1]
        project = self._region(scope).projects.get(name)
        if project is None:
            raise messages.no_project(project_arn(scope, name))
        return project

    def _build(self, scope: Scope, name: str) -> Build:
        build = self._region(scope).builds.get(_build_id(name))
        if build is None:
            raise messages.no_build(name)
        return build


def _build_id(name: str) -> str:
    """Return PROJECT:UUID of a build's id or ARN."""
    return name.rsplit(":build/", 1)[-1]


def _builds(ids: list[str], params: Params) -> Answer:
    if params.get("sortOrder", "DESCENDING") == "DESCENDING":
        ids.reverse()
    return _page("ids", ids, params)


def _page(key: str, items: Sequence[str], params: Params) -> Answer:
    """Return a page of 100; the token names the last item, so that new ones do not shift the pages."""
    start = 0
    token = params.get("nextToken")
    if token:
        try:
            start = items.index(base64.b64decode(token, validate=True).decode()) + 1
        except (ValueError, binascii.Error) as error:
            raise messages.invalid("Invalid next token") from error
    page = items[start : start + _PAGE]
    more = start + _PAGE < len(items)
    return {key: list(page)} | ({"nextToken": base64.b64encode(page[-1].encode()).decode()} if more else {})
