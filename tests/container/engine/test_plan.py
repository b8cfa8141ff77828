from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from semif_server.engine.plan import MIN_OWN_STATE_TOKENS, Chunk, Row, prompt_row

lengths = st.integers(0, 2000)
micro_batches = st.sampled_from([1, 7, 64, 512])


def row_of(head: int, state: int, tail: int, micro_batch: int = 512) -> Row:
    return prompt_row([1] * head, [2] * state, [3] * tail, micro_batch)


@given(head=st.integers(1, 2000), state=lengths, tail=st.integers(1, 2000), micro_batch=micro_batches)
def test_a_row_covers_every_token_once_in_order(head: int, state: int, tail: int, micro_batch: int) -> None:
    row = row_of(head, state, tail, micro_batch)
    assert (row.chunks[0].start, row.chunks[-1].stop) == (0, head + state + tail)
    assert all(one.stop == other.start for one, other in pairwise(row.chunks))
    assert all(0 < chunk.stop - chunk.start <= micro_batch for chunk in row.chunks)
    assert row.tokens == (*[1] * head, *[2] * state, *[3] * tail)
    assert len(set(row.keys)) == len(row.chunks)


@given(head=st.integers(1, 2000), state=lengths, tail=st.integers(1, 2000), micro_batch=micro_batches)
def test_segments_are_cut_from_their_own_start(head: int, state: int, tail: int, micro_batch: int) -> None:
    row = row_of(head, state, tail, micro_batch)
    bounds = (0, head, row.own_start, head + state + tail)
    assert set(bounds[1:]) <= {chunk.stop for chunk in row.chunks}
    for chunk in row.chunks:
        segment_start = max(bound for bound in bounds if bound <= chunk.start)
        assert (chunk.start - segment_start) % micro_batch == 0


@given(head=st.integers(1, 600), state=lengths, tails=st.tuples(st.integers(1, 600), st.integers(1, 600)))
def test_the_prefix_has_the_same_keys_for_every_question(
    head: int, state: int, tails: tuple[int, int]
) -> None:
    one, other = (row_of(head, state, tail) for tail in tails)
    shared = sum(chunk.stop <= one.own_start for chunk in one.chunks)
    assert one.own_start == other.own_start
    assert one.keys[:shared] == other.keys[:shared]
    assert (one.keys[-1] == other.keys[-1]) == (tails[0] == tails[1])


def test_a_short_state_stays_with_its_question() -> None:
    short, long = (row_of(10, MIN_OWN_STATE_TOKENS + more, 20) for more in (-1, 0))
    assert short.chunks == (Chunk(0, 10), Chunk(10, 93))
    assert (short.durable_end, short.own_start) == (0, 10)
    assert long.chunks == (Chunk(0, 10), Chunk(10, 74), Chunk(74, 94))
    assert (long.durable_end, long.own_start) == (74, 74)


def test_a_key_names_the_tokens_and_their_cuts() -> None:
    base = prompt_row([1, 2], [], [3, 4], 512)
    assert prompt_row([1, 2, 3], [], [4], 512).keys[-1] != base.keys[-1]
    assert prompt_row([1, 2], [], [4, 3], 512).keys[-1] != base.keys[-1]
    assert prompt_row([1, 2], [], [3, 4], 512).keys == base.keys


def test_a_second_step_is_one_token_behind_the_prompt() -> None:
    row = row_of(10, 100, 20)
    second = row.with_token(7)
    assert second.tokens == (*row.tokens, 7)
    assert second.chunks == (*row.chunks, Chunk(130, 131))
    assert second.keys[:-1] == row.keys
    assert (second.durable_end, second.own_start) == (row.durable_end, 130)
    assert row.with_token(8).keys[-1] != second.keys[-1]
