import json
from pathlib import Path
from typing import Any

import pytest

from semif_server.errors import ProfileError
from semif_server.profile import DEFAULT_PROFILE_PATH, load_profile


def default_with(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DEFAULT_PROFILE_PATH.read_text(encoding="utf-8"))
    return document | changes


def test_the_default_profile() -> None:
    profile = load_profile(None)
    assert profile.name == "semif-default-v1"
    assert "".join(profile.slots) == "ABCDEFGHIJKLMNOP"
    assert profile.vocabulary_codes is True
    assert profile.payload.model_dump() == {
        "state": "evidence",
        "question": "criterion",
        "options": "options",
        "slot": "letter",
        "description": "description",
    }


def test_another_wording_is_data(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    payload = {"state": "s", "question": "q", "options": "o", "slot": "k", "description": "d"}
    path.write_text(json.dumps(default_with(name="other-v2", payload=payload, slots=["1", "2"])))
    profile = load_profile(path)
    assert (profile.name, profile.slots, profile.payload.state) == ("other-v2", ("1", "2"), "s")


def test_a_profile_that_does_not_say_otherwise_keeps_to_its_slots(tmp_path: Path) -> None:
    document = default_with()
    del document["vocabulary_codes"]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document))
    assert load_profile(path).vocabulary_codes is False


PAYLOAD = default_with()["payload"]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"version": 2}, "version"),
        ({"name": "with blank"}, "name"),
        ({"system": ""}, "system"),
        ({"slots": ["A"]}, "slots"),
        ({"slots": ["A", "A"]}, "each slot may occur once"),
        ({"slots": ["A", ""]}, "slots.1"),
        ({"slots": "AB"}, "slots"),
        ({"vocabulary_codes": "yes"}, "vocabulary_codes"),
        ({"temperature": 1.0}, "temperature"),
        ({"payload": {**PAYLOAD, "state": "criterion"}}, "three different keys"),
        ({"payload": {**PAYLOAD, "slot": "description"}}, "two different keys"),
        ({"payload": {"state": "x"}}, "payload.question"),
    ],
)
def test_a_wrong_profile_is_refused_with_the_key(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(default_with(**changes)))
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)
    assert where in str(caught.value)


def test_a_profile_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text("{")
    with pytest.raises(ProfileError, match=r"profile\.json"):
        load_profile(path)
