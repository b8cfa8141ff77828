"""A failure in at most 1,000 characters: the build, its phase, CodeBuild's and the log's words, the link."""

from collections.abc import Sequence
from typing import Final

from build_run.failures import BuildRunError, shortened
from build_run.observation import BuildStatus
from build_run.steps import Fail

REASON_LIMIT: Final = 1000
_LINE_LIMIT: Final = 300
_REASON_SHARE: Final = 300
_CONTEXT_SHARE: Final = 180
_LINK_LIMIT: Final = 400
_LEAST_LOG: Final = 40
_ERROR: Final = "error: "
_AFTER_ERROR: Final = 2  # the error's own line, and the next step that may follow it
_AGENT: Final = "[Container]"
"""What CodeBuild's own lines begin with: they repeat the phase and say nothing of the cause."""


def failure_of(fail: Fail, log_lines: Sequence[str]) -> BuildRunError:
    """The exception that ends the operation; of the log, the newest lines that fit."""
    head = f"{fail.code}: {shortened(_one_line(fail.reason), _REASON_SHARE)}"
    tail = f" Next: {fail.advice}"
    build = fail.build
    if build is not None and build.link:
        # A cut link leads nowhere, so one that is too long gives way to its log's name.
        link = build.link if len(build.link) <= _LINK_LIMIT else f"{build.log_group} {build.log_stream}"
        tail = f"{tail} Log: {shortened(link, _LINK_LIMIT)}"
    if build is not None and build.context and build.status is not BuildStatus.IN_PROGRESS:
        head = f"{head} {shortened(_one_line(build.context), _CONTEXT_SHARE)}"
    room = REASON_LIMIT - len(head) - len(tail)
    return BuildRunError(shortened(f"{head}{_log_text(log_lines, room)}{tail}", REASON_LIMIT))


def telling_lines(lines: Sequence[str]) -> list[str]:
    """The lines that the build's own programs wrote, to the last error that they name."""
    plain = [_one_line(line) for line in lines]
    own = [line for line in plain if line and not line.startswith(_AGENT)]
    errors = [index for index, line in enumerate(own) if line.startswith(_ERROR)]
    return own[: errors[-1] + _AFTER_ERROR] if errors else own


def _log_text(lines: Sequence[str], room: int) -> str:
    """The newest lines that fit, oldest first, beginning with ` Last lines: `; "" if none does."""
    opening, kept = " Last lines: ", ""
    for line in reversed(telling_lines(lines)):
        text = shortened(line, min(_LINE_LIMIT, max(1, room - len(opening))))
        joined = f"{text} | {kept}" if kept else text
        if len(opening) + len(joined) > room:
            break
        kept = joined
    return f"{opening}{kept}" if kept and room >= _LEAST_LOG else ""


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
