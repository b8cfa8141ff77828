"""The run of one build, phase by phase, as CodeBuild goes from one to the next.

INSTALL and PRE_BUILD must succeed for BUILD to begin; POST_BUILD runs after a BUILD that failed, and
UPLOAD_ARTIFACTS after either. A phase's `on-failure` changes that: ABORT ends the build there, CONTINUE goes
on to the next phase. A build with a failed phase has failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from localaws.clients import Clients
from localaws.codebuild import artifacts, source, variables
from localaws.codebuild.build import Build, Context
from localaws.codebuild.build_log import BuildLog
from localaws.codebuild.buildspec import PHASES, Buildspec, BuildspecError, Phase, parse
from localaws.codebuild.faults import Fault, FaultMode
from localaws.codebuild.interruption import InterruptedBuildError, Interruption
from localaws.codebuild.machine import Machine, Machines
from localaws.codebuild.messages import TIMED_OUT, command_failed
from localaws.codebuild.shell import Shell

log = logging.getLogger("localaws.codebuild")

_GRACE_S = 2.0
_REQUIRED = frozenset(("install", "pre_build"))


class PhaseError(Exception):
    """A phase that failed: its context, and FAILED or FAULT."""

    def __init__(self, context: Context, *, status: str = "FAILED") -> None:
        super().__init__(": ".join(context))
        self.context, self.status = context, status


class Execution:
    """Runs one build that has left the queue."""

    def __init__(
        self,
        build: Build,
        clients: Clients,
        machines: Machines,
        interruption: Interruption,
        fault_in: Callable[[str], Fault | None],
    ) -> None:
        self._build, self._clients, self._machines = build, clients, machines
        self._interruption, self._fault_in = interruption, fault_in
        self._log = BuildLog(self._logs_client, build.log_group, build.log_stream or build.uuid)
        self._succeeding = True
        self._shell: Shell | None = None

    def run(self) -> str:
        """Run all phases; return the build's final status when nothing of it is left."""
        machine: Machine | None = None
        try:
            self._enter("PROVISIONING")
            self._log.say("Running on CodeBuild of the local AWS")
            machine = self._machines.make(self._build.uuid)
            self._log.say(f"Phase is {self._enter('DOWNLOAD_SOURCE')}")
            buildspec = self._prepare(machine)
            self._complete(())
            self._run_phases(buildspec, machine)
            self._enter("FINALIZING")
        except PhaseError as error:
            self._complete((error.context,), error.status)
            if error.status != "FAULT":
                self._build.begin("FINALIZING")
            return error.status
        except InterruptedBuildError as error:
            contexts = (TIMED_OUT,) if error.status == "TIMED_OUT" else ()
            self._complete(contexts, error.status)
            return error.status
        finally:
            if self._shell is not None:
                self._shell.close()
            if machine is not None:
                self._machines.remove(machine, self._build.id)
            self._log.close()
        return "SUCCEEDED" if self._succeeding else "FAILED"

    def _prepare(self, machine: Machine) -> Buildspec:
        """Fetch the source, read the buildspec, look up the variables and make the shell's environment."""
        build, order = self._build, self._build.order
        self._log.say(f"CODEBUILD_SRC_DIR={machine.source}")
        try:
            if order.source["type"] == "S3":
                s3 = self._clients.get("s3", build.scope)
                source.fetch(
                    s3,
                    order.source["location"],
                    version=order.source_version,
                    target=machine.source,
                    archive=machine.work / "source.zip",
                )
            buildspec = parse(self._buildspec_text(machine))
            self._log.say("Processing environment variables")
            declared = variables.declared(buildspec, order.variables)
            values, secret = variables.resolved(
                declared, lambda service: self._clients.get(service, build.scope)
            )
        except source.SourceError as error:
            raise PhaseError(("CLIENT_ERROR", str(error))) from error
        except BuildspecError as error:
            raise PhaseError(("YAML_FILE_ERROR", str(error))) from error
        except variables.UnresolvedVariableError as error:
            raise PhaseError(error.context) from error
        self._log.mask(secret)
        environment = self._environment(machine, values)
        for name, version in (buildspec.phases.get("install") or Phase()).runtimes.items():
            self._log.say(
                f"Selecting '{name}' runtime version '{version}': the local AWS has this Python only"
            )
        self._shell = Shell(
            "/bin/bash" if buildspec.shell == "bash" else "/bin/sh",
            environment,
            folder=machine.source,
            work=machine.work,
            interruption=self._interruption,
            write=self._log.write,
            grace_s=_GRACE_S,
        )
        self._log.say(f"Moving to directory {machine.source}")
        self._log.say(f"Phases found in YAML: {len(buildspec.phases)}")
        for name, phase in buildspec.phases.items():
            self._log.say(f" {name.upper()}: {len(phase.commands)} commands")
        return buildspec

    def _buildspec_text(self, machine: Machine) -> str:
        """Return the buildspec: inline (it has several lines or is JSON), or a file of the source."""
        given: str = self._build.order.source.get("buildspec") or "buildspec.yml"
        if "\n" in given or given.lstrip().startswith("{"):
            return given
        path = machine.source / given
        self._log.say(f"YAML location is {path}")
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = "no such file or directory" if isinstance(error, FileNotFoundError) else str(error)
            raise BuildspecError(f"stat {path}: {reason}") from error

    def _environment(self, machine: Machine, values: Mapping[str, str]) -> dict[str, str]:
        build, order, url = self._build, self._build.order, self._clients.url
        region = build.scope.region
        credentials = self._clients.credentials(order.service_role, f"AWSCodeBuild-{build.uuid}", region)
        environment = {
            **self._machines.environment(machine),
            "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
            "AWS_SESSION_TOKEN": credentials["SessionToken"],
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ENDPOINT_URL": url,
            "AWS_ENDPOINT_URL_S3": url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CI": "true",
            "CODEBUILD_BUILD_ARN": build.arn,
            "CODEBUILD_BUILD_ID": build.id,
            "CODEBUILD_BUILD_IMAGE": str(order.environment["image"]),
            "CODEBUILD_BUILD_NUMBER": str(build.number),
            "CODEBUILD_BUILD_SUCCEEDING": "1",
            "CODEBUILD_CI": "true",
            "CODEBUILD_INITIATOR": order.initiator,
            "CODEBUILD_KMS_KEY_ID": order.encryption_key,
            "CODEBUILD_LOG_PATH": build.log_stream or build.uuid,
            "CODEBUILD_PROJECT_ARN": (
                f"arn:aws:codebuild:{region}:{build.scope.account}:project/{order.project}"
            ),
            "CODEBUILD_SRC_DIR": str(machine.source),
            "CODEBUILD_START_TIME": str(int(build.started.timestamp() * 1000)),
        }
        if order.source.get("location"):
            environment["CODEBUILD_SOURCE_REPO_URL"] = order.source["location"]
        if order.source_version is not None:
            environment["CODEBUILD_SOURCE_VERSION"] = order.source_version
        environment |= values
        docker = self._machines.docker(
            environment, privileged=bool(order.environment.get("privilegedMode", False))
        )
        environment["PATH"] = f"{docker}:{environment['PATH']}"
        return environment

    def _run_phases(self, buildspec: Buildspec, machine: Machine) -> None:
        for name in PHASES:
            phase = buildspec.phases.get(name, Phase())
            try:
                self._run_phase(name.upper(), phase)
            except PhaseError as error:
                if error.status == "FAULT" or (name in _REQUIRED and phase.on_failure != "CONTINUE"):
                    raise
                if phase.on_failure == "ABORT":
                    raise
                self._complete((error.context,))
                self._succeeding = False
            self._note_exported(buildspec)
        self._upload(buildspec, machine)

    def _run_phase(self, name: str, phase: Phase) -> None:
        self._log.say(f"Entering phase {self._enter(name)}")
        failure: PhaseError | None = None
        for command in phase.commands:
            failure = self._run_command(command)
            if failure is not None:
                break
        for command in phase.last:
            failure = self._run_command(command) or failure
        if failure is not None:
            raise failure
        self._complete(())

    def _run_command(self, command: str) -> PhaseError | None:
        assert self._shell is not None  # noqa: S101 - made in DOWNLOAD_SOURCE
        self._log.say(f"Running command {command}")
        status = self._shell.run(command)
        if status == 0:
            return None
        self._log.say(f"Command did not exit successfully {command} exit status {status}")
        self._shell.export("CODEBUILD_BUILD_SUCCEEDING", "0")
        code, message = command_failed(self._log.masked(command), status)
        return PhaseError((code, message))

    def _upload(self, buildspec: Buildspec, machine: Machine) -> None:
        self._enter("UPLOAD_ARTIFACTS")
        build = self._build
        try:
            s3 = self._clients.get("s3", build.scope)
            settings = build.order.artifacts
            build.artifact = artifacts.upload(
                s3,
                settings,
                buildspec.artifacts,
                source=machine.source,
                work=machine.work,
                build_uuid=build.uuid,
            )
        except artifacts.ArtifactError as error:
            raise PhaseError(("CLIENT_ERROR", str(error))) from error
        self._complete(())

    def _note_exported(self, buildspec: Buildspec) -> None:
        assert self._shell is not None  # noqa: S101 - made in DOWNLOAD_SOURCE
        found = self._shell.environment
        self._build.exported = {
            name: self._log.masked(found[name]) for name in buildspec.exported if name in found
        }

    def _enter(self, phase: str) -> str:
        """Begin a phase and let its fault happen."""
        self._interruption.check()
        fault = self._fault_in(phase)
        self._build.begin(phase)
        if fault is None:
            return phase
        if fault.mode is FaultMode.TIMEOUT:
            self._interruption.limit(fault.seconds)
            self._interruption.check()
            return phase
        self._interruption.wait(fault.seconds)
        if fault.mode is not FaultMode.DELAY:
            raise PhaseError(fault.context, status="FAULT" if fault.mode is FaultMode.FAULT else "FAILED")
        return phase

    def _complete(self, contexts: tuple[Context, ...], status: str | None = None) -> None:
        """End the phase that runs, and say so in the log."""
        ended = status or ("FAILED" if contexts else "SUCCEEDED")
        code, message = contexts[0] if contexts else ("", "")
        self._log.say(f"Phase complete: {self._build.phase} State: {ended}")
        self._log.say(f"Phase context status code: {code} Message: {message}")
        self._build.end(ended, *contexts)

    def _logs_client(self) -> Any:
        return self._clients.get("logs", self._build.scope)
