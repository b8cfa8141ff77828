"""Recipes: what is refused, and the name of what comes out, which the CDK app computes too."""

import hashlib
import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semif.errors import UsageError
from semif.package_model.command import recipe_from_flags
from semif.package_model.recipe import DEFAULT, HubSource, Recipe, UriSource, checked, parse_recipe
from stacks import model_settings

COMMIT = "4168f45a16a1290d65a4ec0fa312ae917a4c15d6"
SHA = "13c16f426047e2de38cd075bdade4a7bcbc8c774384876f677740cda65f8a983"

HUB = st.builds(HubSource, st.just("acme/model-GGUF"), st.text("0123456789abcdef", min_size=40, max_size=40))
URI = st.builds(UriSource, st.sampled_from(["https://mirror.example/é/m.gguf", "s3://bucket/m.gguf"]))
RECIPES = st.builds(
    Recipe,
    HUB | URI,
    st.sampled_from(["m.gguf", "Qwen_Qwen3.5-4B-Q4_K_M.gguf"]),
    st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
    st.sampled_from([None, "Q4_K_M", "Q8_0"]),
    st.none() | st.integers(1 << 16, 1 << 40),
    st.sampled_from([None, "apache-2.0"]),
)


@given(RECIPES)
def test_a_recipe_survives_its_json(recipe: Recipe) -> None:
    assert parse_recipe(json.dumps(recipe.to_json())) == recipe
    assert parse_recipe(recipe.canonical()).id == recipe.id


@given(RECIPES)
def test_the_cdk_app_writes_the_same_recipe_and_the_same_name(recipe: Recipe) -> None:
    source: model_settings.HubSource | model_settings.UriSource
    if isinstance(recipe.source, HubSource):
        source = model_settings.HubSource(recipe.source.repository, recipe.source.revision)
    else:
        source = model_settings.UriSource(recipe.source.uri)
    quantize = cast("model_settings.Quantization | None", recipe.quantize)
    theirs = model_settings.BuiltModel(
        source, recipe.file, recipe.sha256, quantize, recipe.shard_bytes, recipe.license, None, None
    )
    assert theirs.recipe == recipe.canonical()
    if recipe.id is not None:
        assert theirs.prefix == f"models/{recipe.id}/"


@given(RECIPES, RECIPES)
def test_different_recipes_of_changed_models_have_different_names(one: Recipe, other: Recipe) -> None:
    if not one.keeps_gguf and not other.keeps_gguf:
        assert (one.id == other.id) == (one == other)


def test_the_default_is_the_pinned_model() -> None:
    assert recipe_from_flags(
        None, revision=None, file=None, sha256=None, quantize=None, convert=False, shard_bytes=None,
        license_name=None,
    ) == DEFAULT  # fmt: skip
    assert (DEFAULT.source, DEFAULT.id) == (HubSource("bartowski/Qwen_Qwen3.5-4B-GGUF", COMMIT), SHA)


def test_an_unchanged_gguf_is_named_by_its_checksum_and_a_sharded_one_by_its_recipe() -> None:
    sharded = parse_recipe(json.dumps(DEFAULT.to_json() | {"shard_bytes": 1 << 30}))
    text = (
        f'{{"file":"{DEFAULT.file}","license":null,"quantize":null,"sha256":"{SHA}","shard_bytes":1073741824,'
        f'"source":{{"repository":"bartowski/Qwen_Qwen3.5-4B-GGUF","revision":"{COMMIT}"}}}}'
    )
    assert sharded.id == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("changes", "member"),
    [
        ({"source": None}, "source"),
        ({"source": {"repository": "acme/m"}}, "source"),
        ({"source": {"uri": "x", "revision": "y"}}, "source"),
        ({"source": {"uri": "ftp://x/m.gguf"}}, "source.uri"),
        ({"source": {"uri": 1}}, "source.uri"),
        ({"source": {"repository": "../m", "revision": "main"}}, "source.repository"),
        ({"source": {"repository": "acme/m", "revision": "a/../b"}}, "source.revision"),
        ({"file": "../m.gguf"}, "file"),
        ({"file": "m.bin"}, "file"),
        ({"sha256": SHA.upper()}, "sha256"),
        ({"sha256": 5}, "sha256"),
        ({"quantize": "Q3"}, "quantize"),
        ({"shard_bytes": 10}, "shard_bytes"),
        ({"shard_bytes": True}, "shard_bytes"),
        ({"license": ""}, "license"),
        ({"licence": "mit"}, "licence"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(changes: dict[str, object], member: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_recipe(json.dumps(DEFAULT.to_json() | changes))
    assert (raised.value.code, raised.value.field) == ("bad_recipe", member)
    assert raised.value.next_step


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_recipe_is_a_json_object(text: str) -> None:
    with pytest.raises(UsageError, match="the recipe"):
        parse_recipe(text)


def test_checked_returns_what_it_was_given() -> None:
    assert checked(DEFAULT) is DEFAULT
