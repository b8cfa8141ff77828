"""What a synth says about an endpoint without refusing it."""

from dataclasses import dataclass
from typing import Literal

import aws_cdk as cdk
from constructs import Construct


@dataclass(frozen=True)
class Note:
    """`id` is stable, so that a warning can be acknowledged; `text` names the setting's path."""

    id: str
    level: Literal["info", "warning"]
    text: str


def annotate(scope: Construct, notes: tuple[Note, ...]) -> None:
    """Show the notes in the synth's output, at `scope`."""
    annotations = cdk.Annotations.of(scope)
    for note in notes:
        if note.level == "warning":
            annotations.add_warning_v2(f"semif:{note.id}", note.text)
        else:
            annotations.add_info_v2(f"semif:{note.id}", note.text)
