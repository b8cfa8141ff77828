"""The order of creation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localaws.cloudformation.graph import creation_order, dependencies
from localaws.cloudformation.template import TemplateError


def test_dependencies_are_references_and_depends_on() -> None:
    definition = {
        "Properties": {
            "A": {"Ref": "R"},
            "B": [{"Fn::GetAtt": ["G", "Arn"]}, {"Fn::Sub": "${S}-${AWS::Region}"}],
        },
        "DependsOn": ["D", "Elsewhere"],
    }
    assert dependencies(definition, {"R", "G", "S", "D", "Other"}) == {"R", "G", "S", "D"}
    assert dependencies({"DependsOn": "D"}, {"D"}) == {"D"}


def test_order_of_the_template_stays_among_equals() -> None:
    assert creation_order({"c": set(), "a": set(), "b": {"a"}}) == ["c", "a", "b"]


def test_a_cycle_names_its_members_only() -> None:
    needs = {"free": set(), "a": {"b"}, "b": {"c", "free"}, "c": {"a"}, "user": {"a"}}
    with pytest.raises(TemplateError, match=r"Circular dependency between resources: \[a, b, c\]"):
        creation_order(needs)


@st.composite
def acyclic(draw: st.DrawFn) -> dict[str, set[str]]:
    names = [f"n{index}" for index in range(draw(st.integers(1, 12)))]
    edges = {
        name: draw(st.sets(st.sampled_from(names[:index]))) if index else set()
        for index, name in enumerate(names)
    }
    return {name: edges[name] for name in draw(st.permutations(names))}


@given(acyclic())
def test_everything_follows_what_it_needs(needs: dict[str, set[str]]) -> None:
    order = creation_order(needs)
    assert sorted(order) == sorted(needs)
    place = {name: index for index, name in enumerate(order)}
    assert all(place[needed] < place[name] for name in needs for needed in needs[name])


@given(acyclic(), st.data())
def test_a_back_edge_is_always_found(needs: dict[str, set[str]], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(needs)))
    reached, waiting = {name}, [name]
    while waiting:
        waiting += (new := needs[waiting.pop()] - reached)
        reached |= new
    closed = {**needs, data.draw(st.sampled_from(sorted(reached))): needs[name] | {name}}
    with pytest.raises(TemplateError, match="Circular dependency"):
        creation_order(closed)
