"""Bodies that no client should send: random bytes, damaged JSON, JSON of the wrong shape; repeatable."""

import json
import random
from typing import Any, Final

_LEAVES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    "",
    " ",
    "x",
    "\u0000",
    "\ufffe🙂",
    "<|im_start|>",
    [],
    {},
    [[]],
    {"": ""},
    "9" * 5000,
)
_TOKENS: Final = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\u",
    b"\\ud800",
    b"NaN",
    b"1e999",
    b"\xff",
    b"\x00",
)
_DEEPEST: Final = 6


def fuzzed_body(seed: int, number: int, valid: dict[str, Any]) -> bytes:
    """The body of a number. valid: a request to damage."""
    draw = random.Random(f"fuzz {seed} {number}")
    match draw.randrange(4):
        case 0:
            return draw.randbytes(draw.choice((0, 1, 3, 40, 4000)))
        case 1:
            return _damaged(draw, json.dumps(valid, ensure_ascii=False).encode())
        case 2:
            return json.dumps(_random_value(draw, 0)).encode()
        case _:
            return json.dumps(_reshaped(draw, valid)).encode()


def _damaged(draw: random.Random, data: bytes) -> bytes:
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(data) + 1)
        stop = min(len(data), start + draw.choice((0, 1, 5, 50)))
        data = data[:start] + draw.choice((b"", draw.choice(_TOKENS), data[start:stop] * 2)) + data[stop:]
    return data


def _random_value(draw: random.Random, depth: int) -> Any:
    if depth >= _DEEPEST or draw.random() < 0.4:
        return draw.choice(_LEAVES)
    names = ("decision", "decisions", "id", "state", "question", "options", "description", "x")
    if draw.random() < 0.5:
        return [_random_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(names): _random_value(draw, depth + 1) for _ in range(draw.randint(0, 4))}


def _reshaped(draw: random.Random, value: Any) -> Any:
    """The value with some of its members dropped, replaced, renamed or repeated."""
    if draw.random() < 0.08:
        return _random_value(draw, 3)
    if isinstance(value, dict):
        changed = {}
        for name, member in value.items():
            kept = name if draw.random() < 0.93 else draw.choice(("id", "state", "extra", name.upper()))
            if draw.random() < 0.95:
                changed[kept] = _reshaped(draw, member)
        return changed
    if isinstance(value, list):
        items = [_reshaped(draw, item) for item in value if draw.random() < 0.95]
        return items * draw.choice((1, 1, 1, 2, 20)) if items else items
    return value
