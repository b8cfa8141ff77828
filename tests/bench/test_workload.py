from itertools import pairwise

from bench.workload import (
    SHARED_QUESTIONS,
    later_decision,
    one_decision,
    shared_decisions,
    state_text,
    words_for,
)


def test_states_have_their_length_and_begin_differently() -> None:
    states = [state_text(seed, 200) for seed in range(50)]

    assert {len(state.split()) for state in states} == {200}
    assert len({tuple(state.split()[:2]) for state in states}) == 50
    assert state_text(7, 200) == states[7]


def test_the_questions_are_21_different_ones_over_one_state() -> None:
    decisions = [*shared_decisions("a state"), later_decision("a state")]

    assert len(decisions) == SHARED_QUESTIONS + 1 == 22
    assert len({decision.question for decision in decisions}) == 22
    assert len({decision.id for decision in decisions}) == 22
    assert {decision.state for decision in decisions} == {"a state"}


def test_every_side_is_given_the_same_question_and_options() -> None:
    decision = one_decision(1, 10)

    own, theirs = decision.as_semif(), decision.as_systemone()

    assert theirs["instructions"] == own["question"]
    assert theirs["criteria"] == {option["id"]: option["description"] for option in own["options"]}


def test_the_fewest_words_that_give_enough_tokens_are_found() -> None:
    counts = [0, *(words + words // 7 for words in range(1, 5000))]
    assert all(low <= high for low, high in pairwise(counts))

    found = [words_for(tokens, counts.__getitem__) for tokens in (2, 100, 1500)]

    assert [
        counts[words] >= tokens > counts[words - 1]
        for words, tokens in zip(found, (2, 100, 1500), strict=True)
    ] == [True] * 3
