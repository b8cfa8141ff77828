import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semif_server.contract.strict_json import MAX_DEPTH, parse_json
from semif_server.errors import BodyError, Code

NAMES = frozenset({"decision", "state", "question"})

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(value=values, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_json_is_read_as_json_reads_it(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    parsed = parse_json(text.encode(), NAMES)
    assert json.dumps(parsed) == json.dumps(value)


@given(body=st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_body_error(body: bytes) -> None:
    with contextlib.suppress(BodyError):
        parse_json(body, NAMES)


def refusal(body: str | bytes) -> BodyError:
    with pytest.raises(BodyError) as caught:
        parse_json(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body, NAMES)
    return caught.value


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"", Code.EMPTY_BODY, None),
        (b" \r\n\t", Code.EMPTY_BODY, None),
        (b"nonsense", Code.INVALID_JSON, None),
        (b"{} {}", Code.INVALID_JSON, None),
        (b"\xef\xbb\xbf{}", Code.INVALID_JSON, None),
        (b"{'a': 1}", Code.INVALID_JSON, None),
        (b'{"a": "\n"}', Code.INVALID_JSON, None),
        (b'{"a": 01}', Code.INVALID_JSON, None),
        (b'"\xff"', Code.INVALID_UTF8, None),
        ('"\ud800"', Code.INVALID_UTF8, None),
        (rb'{"decision": {"state": "\ud800"}}', Code.LONE_SURROGATE, "decision.state"),
        (rb'{"decision": {"state": {"\udfff": 1}}}', Code.LONE_SURROGATE, "decision.state"),
        (rb'{"decision": {"question": "\udc00\ud800"}}', Code.LONE_SURROGATE, "decision.question"),
        (rb'{"\ud800": 1}', Code.LONE_SURROGATE, None),
        (b'{"decision": {"state": NaN}}', Code.NON_FINITE_NUMBER, "decision.state"),
        (b'{"decision": {"state": [1, {"x": -Infinity}]}}', Code.NON_FINITE_NUMBER, "decision.state"),
        (b'{"decision": {"state": 1e999}}', Code.NON_FINITE_NUMBER, "decision.state"),
        (b"[Infinity]", Code.NON_FINITE_NUMBER, "0"),
        (b'{"decision": [{}, {"state": NaN}]}', Code.NON_FINITE_NUMBER, "decision.1.state"),
        (b'{"other": {"state": NaN}}', Code.NON_FINITE_NUMBER, None),
        (b'{"decision": {"state": {"question": {"state": NaN}}}}', Code.NON_FINITE_NUMBER, "decision.state"),
        (b'{"decision": 1, "decision": 2}', Code.DUPLICATE_KEY, None),
        (b'{"decision": {"state": [{"a": 1, "a": 1}]}}', Code.DUPLICATE_KEY, "decision.state"),
        (b'{"decision": {"a": 1, "\\u0061": 1}}', Code.DUPLICATE_KEY, "decision"),
        (b'{"decision": {"state": ' + b"9" * 4301 + b"}}", Code.NUMBER_TOO_LONG, "decision.state"),
        (b'{"decision": {"state": -' + b"9" * 5000 + b"}}", Code.NUMBER_TOO_LONG, "decision.state"),
        (b"[" * 129 + b"]" * 129, Code.JSON_TOO_DEEP, None),
        (b'{"a":' * 129 + b"1" + b"}" * 129, Code.JSON_TOO_DEEP, None),
    ],
)
def test_what_is_refused(body: str | bytes, code: Code, field: str | None) -> None:
    error = refusal(body)
    assert (error.code, error.status, error.field) == (code, 400, field)


def test_what_is_just_allowed() -> None:
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, NAMES)
    assert parse_json(b"9" * 4300, NAMES) == int("9" * 4300)
    assert parse_json(rb'"\ud83d\ude42 \u0000"', NAMES) == "🙂 \x00"
    assert parse_json(b'"' + b"[" * 1000 + b'"', NAMES) == "[" * 1000
    assert parse_json(rb'["\"[[[", ' + b"[]," * 500 + b"1]", NAMES)


@pytest.mark.parametrize("levels", [10_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":', '["]", '])
def test_very_deep_nesting_is_refused_at_once(levels: int, opening: str) -> None:
    started_s = time.perf_counter()
    assert refusal(opening * levels).code is Code.JSON_TOO_DEEP
    assert time.perf_counter() - started_s < 2


def test_the_place_of_a_syntax_error_is_named_without_its_text() -> None:
    error = refusal('{"decision":\n  {"state": SECRET}}')
    assert "line 2, column 13" in error.message
    assert "SECRET" not in error.message
