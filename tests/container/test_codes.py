"""Which codes stand for options, on made-up tokenizers: the rules, free of any model."""

from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semif_server.codes import MAX_OPTIONS, CodeBook, TokensBehind, find_codes
from semif_server.errors import ModelError

SLOTS = tuple("ABCDEFGHIJKLMNOP")
PAIRS = [first + second for first in ascii_uppercase for second in ascii_uppercase]
some_pairs = st.sets(st.sampled_from(PAIRS))


def tokenizer(
    merged: frozenset[str] | set[str], *, lacks: str = "", blank_joins: bool = True
) -> TokensBehind:
    """A token per letter, per merged pair of letters and, if blank_joins, per blank with what follows it."""

    def tokens_behind(text: str) -> tuple[int, ...] | None:
        if any(letter in lacks for letter in text):
            return None
        if text in merged:
            return (1000 + PAIRS.index(text),)
        first, blank, second = text.partition(" ")
        if blank_joins and blank:
            return (*map(ord, first), *(500 + ord(letter) for letter in second))
        return tuple(map(ord, text))

    return tokens_behind


def texts(book: CodeBook, n_options: int) -> list[str]:
    return [code.text for code in book.codes_for(n_options)]


def check(book: CodeBook, tokens_behind: TokensBehind, n_options: int) -> None:
    """Distinct codes of one length, each what the tokenizer makes of its text."""
    codes = book.codes_for(n_options)
    assert (
        len(codes) == n_options == len({code.text for code in codes}) == len({code.tokens for code in codes})
    )
    assert [code.tokens for code in codes] == [tokens_behind(code.text) for code in codes]
    assert {len(code.tokens) for code in codes} == ({1} if n_options <= book.options_in_one_step else {2})


@given(merged=some_pairs, n_options=st.integers(2, MAX_OPTIONS))
@pytest.mark.parametrize("vocabulary_codes", [True, False])
def test_any_vocabulary_has_codes_for_255_options(
    vocabulary_codes: bool, merged: set[str], n_options: int
) -> None:
    tokens_behind = tokenizer(merged)
    book = find_codes(tokens_behind, SLOTS, vocabulary_codes=vocabulary_codes)
    assert book.max_options == MAX_OPTIONS
    assert book.options_in_one_step == (min(255, 26 + len(merged)) if vocabulary_codes else 16)
    check(book, tokens_behind, n_options)


@given(merged=some_pairs)
def test_the_profiles_slots_come_first(merged: set[str]) -> None:
    for vocabulary_codes in (True, False):
        book = find_codes(tokenizer(merged), SLOTS, vocabulary_codes=vocabulary_codes)
        for n_options in (2, 16):
            assert texts(book, n_options) == list(SLOTS[:n_options])


def test_single_tokens_are_letters_and_then_the_pairs_that_are_one_token() -> None:
    book = find_codes(tokenizer({"ZA", "AB", "XY"}), SLOTS, vocabulary_codes=True)
    assert texts(book, 17) == list(ascii_uppercase[:17])
    assert texts(book, 29) == [*ascii_uppercase, "AB", "XY", "ZA"]


def test_codes_of_two_tokens_leave_out_what_is_one() -> None:
    book = find_codes(tokenizer({"AB", "BA"}), SLOTS, vocabulary_codes=True)
    assert texts(book, 29)[:3] == ["AA", "AC", "AD"]
    assert texts(book, 29)[24:28] == ["AZ", "BB", "BC", "BD"]


def test_a_profile_that_keeps_to_its_slots_uses_no_others() -> None:
    book = find_codes(tokenizer(set()), SLOTS, vocabulary_codes=False)
    assert texts(book, 17)[:2] == ["AA", "AB"]
    assert set("".join(texts(book, 255))) == set(SLOTS)


def test_where_merges_leave_too_few_pairs_the_letters_stand_apart() -> None:
    book = find_codes(tokenizer({"AA"} | {f"{a}B" for a in SLOTS}), SLOTS, vocabulary_codes=False)
    assert texts(book, 17)[:3] == ["A A", "A B", "A C"]
    # one merge less than that would be too many for 256 pairs
    assert texts(find_codes(tokenizer({"AA"}), SLOTS, vocabulary_codes=False), 17)[0] == "AB"


def test_the_joiner_that_gives_more_codes_is_taken() -> None:
    only_two = {pair for pair in PAIRS if pair not in {"AB", "BA"}}
    book = find_codes(tokenizer(only_two, blank_joins=False), SLOTS, vocabulary_codes=False)
    assert book.max_options == 16
    assert [code.text for code in book.pairs] == ["AB", "BA"]


def test_few_slots_give_as_many_options_as_they_have_pairs() -> None:
    book = find_codes(tokenizer(set()), ("X", "Y"), vocabulary_codes=False)
    assert (book.options_in_one_step, book.max_options) == (2, 4)
    assert texts(book, 4) == ["XX", "XY", "YX", "YY"]
    with pytest.raises(ValueError, match="5 options; there are codes for 4"):
        book.codes_for(5)


def test_pairs_that_read_alike_are_one_code() -> None:
    def tokens_behind(text: str) -> tuple[int, ...] | None:
        """One token for one or two letters, two for more; none for blanks."""
        if " " in text:
            return None
        return (len(text),) if len(text) <= 2 else (2, len(text))

    book = find_codes(tokens_behind, ("A", "AA"), vocabulary_codes=False)
    assert [code.text for code in book.pairs] == ["AAA", "AAAA"]


def test_letters_that_the_vocabulary_lacks_are_passed_over() -> None:
    book = find_codes(tokenizer(set(), lacks="Q"), SLOTS, vocabulary_codes=True)
    assert book.options_in_one_step == 25
    assert texts(book, 25)[15:17] == ["P", "R"]
    with pytest.raises(ModelError, match=r"slot 'C' is not one token"):
        find_codes(tokenizer(set(), lacks="C"), SLOTS, vocabulary_codes=True)


def test_a_profile_with_more_slots_than_options_gives_255() -> None:
    many = tuple(f"{number:03}" for number in range(255))
    book = find_codes(lambda text: (int(text),), many, vocabulary_codes=False)
    assert (book.options_in_one_step, book.max_options, len(book.codes_for(255))) == (255, 255, 255)
    with pytest.raises(ValueError, match="256 options"):
        book.codes_for(256)
