from hypothesis import given
from hypothesis import strategies as st

from semif_server.engine.plan import MIN_OWN_STATE_TOKENS, Chunk, plan_chunks

lengths = st.integers(0, 2000)
micro_batches = st.sampled_from([1, 7, 64, 512])


@given(head=st.integers(1, 2000), state=lengths, tail=st.integers(1, 2000), micro_batch=micro_batches)
def test_a_plan_covers_every_token_once_in_order(head: int, state: int, tail: int, micro_batch: int) -> None:
    plan = plan_chunks(head, state, tail, micro_batch)
    covered = [position for chunk in plan.chunks for position in range(chunk.start, chunk.stop)]
    assert covered == list(range(head + state + tail))
    assert all(0 < chunk.stop - chunk.start <= micro_batch for chunk in plan.chunks)


@given(head=st.integers(1, 2000), state=lengths, tail=st.integers(1, 2000), micro_batch=micro_batches)
def test_segments_are_cut_from_their_own_start(head: int, state: int, tail: int, micro_batch: int) -> None:
    plan = plan_chunks(head, state, tail, micro_batch)
    end = head + state + tail
    ends = {chunk.stop for chunk in plan.chunks}
    assert {plan.head_end, plan.prefix_end, end} <= ends
    bounds = (0, plan.head_end, plan.prefix_end, end)
    for chunk in plan.chunks:
        segment_start = max(bound for bound in bounds if bound <= chunk.start)
        assert (chunk.start - segment_start) % micro_batch == 0


@given(head=st.integers(1, 600), state=lengths, tail=st.integers(1, 600), micro_batch=micro_batches)
def test_what_is_cached_does_not_move_a_cut(head: int, state: int, tail: int, micro_batch: int) -> None:
    plan = plan_chunks(head, state, tail, micro_batch)
    end = head + state + tail
    for cached in (0, plan.head_end, plan.prefix_end):
        before, after = plan.chunks_between(0, cached), plan.chunks_between(cached, end)
        assert before + after == plan.chunks


@given(head=st.integers(1, 600), state=lengths, tails=st.tuples(st.integers(1, 600), st.integers(1, 600)))
def test_the_prefix_is_cut_the_same_for_every_question(head: int, state: int, tails: tuple[int, int]) -> None:
    one, other = (plan_chunks(head, state, tail, 512) for tail in tails)
    assert one.prefix_end == other.prefix_end
    assert one.chunks_between(0, one.prefix_end) == other.chunks_between(0, other.prefix_end)


def test_a_short_state_stays_with_its_question() -> None:
    assert plan_chunks(10, MIN_OWN_STATE_TOKENS - 1, 20, 512).chunks == (Chunk(0, 10), Chunk(10, 93))
    assert plan_chunks(10, MIN_OWN_STATE_TOKENS, 20, 512).chunks == (
        Chunk(0, 10),
        Chunk(10, 74),
        Chunk(74, 94),
    )
