"""Prices, the limit that a user sets on them, and what a synth says about costs."""

import json
from pathlib import Path
from typing import Any

import pytest

from stacks.costs import Candidate, cost_note
from stacks.mapping_reader import MappingReader, SettingsError
from stacks.prices import PRICES_FILE, Prices, load_prices, read_max_hourly_usd, within_limit

SOURCE = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonSageMaker/current/eu-central-1/index.json"
)
GROUP: dict[str, Any] = {
    "source": SOURCE,
    "date": "2026-11-01",
    "hourly_usd": {"ml.c6i.2xlarge": 0.5, "ml.g5.2xlarge": 1.9, "ml.p5.48xlarge": 80},
}
POOL = ("ml.p5.48xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge", "ml.c6i.2xlarge")


def written(folder: Path, value: object) -> Path:
    file = folder / "prices.json"
    file.write_text(json.dumps(value))
    return file


@pytest.fixture
def prices(tmp_path: Path) -> Prices:
    return load_prices(written(tmp_path, {"regions": {"eu-central-1": [GROUP]}}))


def test_each_price_of_the_project_has_a_source_and_a_day() -> None:
    prices = load_prices(PRICES_FILE)
    assert prices.hourly_usd("us-east-1", "ml.g6e.2xlarge") == 2.8026
    for region, listed in prices.by_region.items():
        for name, price in listed.items():
            assert price.source.endswith(f"/{region}/index.json"), name
            assert "2026-01-01" <= price.date.isoformat() < "2027-01-01", name


def test_what_is_not_in_the_file_is_unknown(prices: Prices) -> None:
    assert prices.hourly_usd("eu-central-1", "ml.g6.2xlarge") is None
    assert prices.hourly_usd("mars-north-1", "ml.c6i.2xlarge") is None


def test_the_latest_of_two_prices_counts(tmp_path: Path) -> None:
    older = {"source": SOURCE, "date": "2026-10-31", "hourly_usd": {"ml.c6i.2xlarge": 9}}
    for groups in ([GROUP, older], [older, GROUP]):
        prices = load_prices(written(tmp_path, {"regions": {"eu-central-1": groups}}))
        load_prices.cache_clear()
        assert prices.hourly_usd("eu-central-1", "ml.c6i.2xlarge") == 0.5


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"source": "a colleague"}, "source"),
        ({"date": "November"}, "date"),
        ({"date": "2026-02-30"}, "date"),
        ({"hourly_usd": {"ml.c6i.2xlarge": 0}}, "hourly_usd.ml.c6i.2xlarge"),
        ({"hourly_usd": {"ml.c6i.2xlarge": True}}, "hourly_usd.ml.c6i.2xlarge"),
        ({"hourly_usd": {"c6i.2xlarge": 1}}, "hourly_usd.c6i.2xlarge"),
        ({"currency": "CNY"}, "currency"),
    ],
)
def test_a_price_without_source_day_or_dollars_is_refused(
    tmp_path: Path, change: dict[str, Any], path: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_prices(written(tmp_path, {"regions": {"eu-central-1": [GROUP | change]}}))
    assert refused.value.path == f"prices.json.regions.eu-central-1[0].{path}"


def test_a_limit_drops_dearer_and_unknown_types_and_says_why(prices: Prices) -> None:
    affordable = within_limit(POOL, 2.5, region="eu-central-1", prices=prices, path="pool")
    assert affordable.kept == ("ml.g5.2xlarge", "ml.c6i.2xlarge")
    assert affordable.left_out == {
        "ml.p5.48xlarge": "its price of 80 USD an hour is over max_hourly_usd, 2.5",
        "ml.g6.2xlarge": "its price in eu-central-1 is unknown, and max_hourly_usd is 2.5;"
        " semif prices eu-central-1 looks it up",
    }


def test_a_price_at_the_limit_is_within_it(prices: Prices) -> None:
    assert within_limit(POOL, 1.9, region="eu-central-1", prices=prices, path="pool").kept == POOL[2:]


def test_without_a_limit_all_types_are_kept(prices: Prices) -> None:
    affordable = within_limit(POOL, None, region="eu-central-1", prices=prices, path="pool")
    assert (affordable.kept, dict(affordable.left_out)) == (POOL, {})


def test_a_pool_without_a_type_under_the_limit_is_refused(prices: Prices) -> None:
    with pytest.raises(SettingsError, match=r"^e\.pool: has no type left .*ml\.p5.*over.*ml\.g6.*unknown"):
        within_limit(POOL[:2], 2.5, region="eu-central-1", prices=prices, path="e.pool")


@pytest.mark.parametrize(("value", "usd"), [(2, 2.0), (2.5, 2.5), (None, None)])
def test_the_limit_is_a_number_of_dollars(value: object, usd: float | None) -> None:
    assert read_max_hourly_usd(MappingReader({"max_hourly_usd": value}, "e")) == usd


@pytest.mark.parametrize("value", [0, -1, True, "2", [2]])
def test_any_other_limit_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^e\.max_hourly_usd: must be a number"):
        read_max_hourly_usd(MappingReader({"max_hourly_usd": value}, "e"))


def note(prices: Prices, *candidates: Candidate, left_out: dict[str, str] | None = None) -> str:
    return cost_note(
        "semif-dev-decisions",
        environment_name="dev",
        region="eu-central-1",
        candidates=candidates,
        left_out=left_out or {},
        prices=prices,
    )


def test_the_note_on_one_type(prices: Prices) -> None:
    assert note(prices, Candidate("ml.c6i.2xlarge", 1)) == (
        "semif-dev-decisions runs on ml.c6i.2xlarge. Estimate: ml.c6i.2xlarge, about 365 USD a month"
        " (1 x 0.5 USD x 730 h; price of 2026-11-01). Billed from the first instance until destroyed:"
        " make destroy ENV=dev."
    )


def test_the_note_on_a_pool_names_the_dearest_by_all_its_instances(prices: Prices) -> None:
    text = note(
        prices,
        Candidate("ml.g5.2xlarge", 2),
        Candidate("ml.g6.2xlarge", 2),
        Candidate("ml.c6i.2xlarge", 8),
        left_out={"ml.p5.48xlarge": "it is too dear"},
    )
    assert text == (
        "semif-dev-decisions runs on the first to be had of 2 x ml.g5.2xlarge, 2 x ml.g6.2xlarge,"
        " 8 x ml.c6i.2xlarge."
        " Estimate: ml.g5.2xlarge, about 2,774 USD a month (2 x 1.9 USD x 730 h; price of 2026-11-01);"
        " the dearest known is ml.c6i.2xlarge, about 2,920 USD a month"
        " (8 x 0.5 USD x 730 h; price of 2026-11-01)."
        " Price unknown in eu-central-1: ml.g6.2xlarge (semif prices eu-central-1 looks it up)."
        " ml.p5.48xlarge is never tried: it is too dear."
        " Billed from the first instance until destroyed: make destroy ENV=dev."
    )


def test_the_note_where_no_price_is_known_estimates_nothing(prices: Prices) -> None:
    text = note(prices, Candidate("ml.g6.2xlarge", 1))
    assert "month" not in text
    assert "Price unknown in eu-central-1: ml.g6.2xlarge" in text
    assert "until destroyed" in text
