"""Attempts from tags."""

from datetime import UTC, datetime

import pytest

from semif.attempts import latest_walk, read_attempt

MADE_AT = datetime(2026, 11, 30, 11, 59, 58, tzinfo=UTC)
TAGS = {
    "semif:endpoint": "e",
    "semif:pool": "ml.b.large ml.c.large",
    "semif:next": "ml.d.large",
    "semif:position": "2/3",
    "semif:request-id": "r1",
    "semif:started-at": "2026-11-30T12:00:00Z",
}


def test_running_attempt() -> None:
    attempt = read_attempt("e-0a1b2c3d4e-1", TAGS, "e", made_at=MADE_AT)
    assert attempt is not None
    assert (attempt.types, attempt.outcome, attempt.seconds) == (("ml.b.large", "ml.c.large"), "", None)
    assert attempt.ended_at is None
    assert (attempt.position, attempt.rounds, attempt.next_types) == (2, 3, ("ml.d.large",))
    assert attempt.walk == "e-0a1b2c3d4e r1"


def test_an_attempt_at_a_part_of_a_round_is_of_the_same_walk() -> None:
    skipped = {
        "semif:skipped": "ml.x.large: quota is 0 / ml.y.large: not offered",
        "semif:skipped-2": "ml.z.large: quota is 0",
        "semif:last-resort": "true",
    }
    attempt = read_attempt("e-0a1b2c3d4e-1-a0b1c2", TAGS | skipped, "e", made_at=MADE_AT)
    assert attempt is not None
    assert attempt.walk == "e-0a1b2c3d4e r1"
    assert attempt.last_resort
    assert attempt.skipped == (
        "ml.x.large: quota is 0",
        "ml.y.large: not offered",
        "ml.z.large: quota is 0",
    )


@pytest.mark.parametrize(
    ("outcome", "dropped", "following"),
    [
        ("capacity", "", (3, ("ml.d.large",))),
        ("quota", "ml.b.large", (2, ("ml.c.large",))),
        ("quota", "", (3, ("ml.d.large",))),
    ],
)
def test_what_follows(outcome: str, dropped: str, following: object) -> None:
    tags = TAGS | {"semif:outcome": outcome, "semif:dropped": dropped}
    attempt = read_attempt("e-0a1b2c3d4e-1", tags, "e", made_at=MADE_AT)
    assert attempt is not None
    assert attempt.following == following


def test_ended_attempt() -> None:
    ended = {
        "semif:ended-at": "2026-11-30T12:09:12Z",
        "semif:outcome": "capacity",
        "semif:reason": "none left",
    }
    attempt = read_attempt("e-0a1b2c3d4e-1", TAGS | ended, "e", made_at=MADE_AT)
    assert attempt is not None
    assert (attempt.outcome, attempt.reason, attempt.seconds) == ("capacity", "none left", 552)
    assert attempt.ended_at == datetime(2026, 11, 30, 12, 9, 12, tzinfo=UTC)


def test_attempt_that_was_never_accepted_counts_from_its_configuration() -> None:
    tags = {k: v for k, v in TAGS.items() if k != "semif:started-at"}
    refused = tags | {"semif:ended-at": "2026-11-30T11:59:57Z", "semif:outcome": "quota"}
    attempt = read_attempt("e-0a1b2c3d4e-1", refused, "e", made_at=MADE_AT)
    assert attempt is not None
    assert attempt.started_at == MADE_AT
    assert attempt.seconds == 0


@pytest.mark.parametrize(
    "change",
    [
        {"semif:endpoint": "other"},
        {"semif:position": ""},
        {"semif:position": "4/3"},
        {"semif:position": "0/3"},
        {"semif:position": "x/3"},
        {"semif:pool": ""},
    ],
)
def test_foreign_or_broken_tags_are_no_attempt(change: dict[str, str]) -> None:
    assert read_attempt("e-0a1b2c3d4e-1", TAGS | change, "e", made_at=MADE_AT) is None


def test_latest_walk_leaves_out_the_walk_before() -> None:
    before = TAGS | {"semif:request-id": "r0", "semif:started-at": "2026-11-30T10:00:00Z"}
    first = TAGS | {
        "semif:position": "1/3",
        "semif:pool": "ml.a.large",
        "semif:started-at": "2026-11-30T11:59:59Z",
    }
    rest = TAGS | {"semif:pool": "ml.c.large", "semif:started-at": "2026-11-30T12:00:00Z"}
    configurations = (
        ("e-0a1b2c3d4e-1-ffffff", rest),
        ("e-0a1b2c3d4e-1", TAGS),
        ("e-ffffffffff-1", before),
        ("e-0a1b2c3d4e-0", first),
    )
    read = [read_attempt(name, tags, "e", made_at=MADE_AT) for name, tags in configurations]
    attempts = [attempt for attempt in read if attempt is not None]
    assert [a.instance_type for a in latest_walk(attempts)] == [
        "ml.a.large",
        "ml.b.large, ml.c.large",
        "ml.c.large",
    ]
    assert latest_walk(attempts, since=datetime(2026, 11, 30, 13, tzinfo=UTC)) == []
    assert latest_walk([]) == []
