"""`semif prices` against a server that gives price lists in AWS's form."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from semif.cli import app
from stacks.prices import PRICES_FILE, load_prices

PUBLISHED = "2026-11-20T02:56:06Z"


def product(sku: str, usage: str, component: str, region: str = "eu-central-1") -> dict[str, Any]:
    name = usage.partition(":")[2]
    return {
        "sku": sku,
        "productFamily": "ML Instance",
        "attributes": {
            "servicecode": "AmazonSageMaker",
            "location": "EU (Frankfurt)",
            "locationType": "AWS Region",
            "instanceType": f"{name}-{component}",
            "usagetype": usage,
            "operation": "RunInstance",
            "component": component,
            "instanceName": name,
            "regionCode": region,
            "servicename": "Amazon SageMaker",
        },
    }


def term(sku: str, usd: str, effective: str = "2026-11-01T00:00:00Z", **change: Any) -> dict[str, Any]:
    dimension = {
        "rateCode": f"{sku}.JRTCKXETXF.6YS6EN2CT7",
        "description": f"${usd} per Hosting hour in EU (Frankfurt)",
        "beginRange": "0",
        "endRange": "Inf",
        "unit": "Hrs",
        "appliesTo": [],
        "pricePerUnit": {"USD": usd},
    } | change
    return {
        f"{sku}.{effective}": {
            "offerTermCode": "JRTCKXETXF",
            "sku": sku,
            "effectiveDate": effective,
            "priceDimensions": {dimension["rateCode"]: dimension},
            "termAttributes": {},
        }
    }


def offer() -> dict[str, Any]:
    """What AWS's list of a region holds, cut down to one of each kind."""
    products = [
        product("HOST1", "EUC1-Host:ml.c6i.2xlarge", "Hosting"),
        product("HOST2", "EUC1-Host:ml.g6e.xlarge", "Hosting"),
        product("HOST3", "EUC1-Host:ml.free.xlarge", "Hosting"),
        product("OTHER", "USE1-Host:ml.g5.xlarge", "Hosting", region="us-east-1"),
        product("TRAIN", "EUC1-Train:ml.c6i.2xlarge", "Training"),
        product("ASYNC", "EUC1-AsyncInf:ml.g6e.xlarge", "AsyncInf"),
        {
            "sku": "VOLUME",
            "productFamily": "ML Storage",
            "attributes": {"usagetype": "EUC1-Host:VolumeUsage.gp2", "regionCode": "eu-central-1"},
        },
        {"sku": "DATA", "productFamily": "ML Serverless", "attributes": {"servicecode": "AmazonSageMaker"}},
    ]
    terms = {
        "HOST1": term("HOST1", "0.4656000000")
        | term("HOST1", "0.9000000000", effective="2026-01-01T00:00:00Z"),
        "HOST2": term("HOST2", "3.2600000000"),
        "HOST3": term("HOST3", "0.0000000000"),
        "OTHER": term("OTHER", "1.4080000000"),
        "TRAIN": term("TRAIN", "7.0000000000"),
        "ASYNC": term("ASYNC", "8.0000000000"),
        "VOLUME": term("VOLUME", "0.1680000000", unit="GB-Mo"),
    }
    return {
        "formatVersion": "v1.0",
        "disclaimer": "This pricing list is for informational purposes only.",
        "offerCode": "AmazonSageMaker",
        "version": "20261120025606",
        "publicationDate": PUBLISHED,
        "products": {item["sku"]: item for item in products},
        "terms": {"OnDemand": terms},
    }


@dataclass
class PriceList:
    """`answers` by path: a status and a body."""

    url: str = ""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def put(self, region: str, body: object, status: int = 200) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers[f"/offers/v1.0/aws/AmazonSageMaker/current/{region}/index.json"] = (status, content)


@pytest.fixture
def price_list() -> Iterator[PriceList]:
    listed = PriceList()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = listed.answers.get(self.path, (403, b"<Error><Code>AccessDenied</Code></Error>"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        listed.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield listed
        http.shutdown()
        thread.join()


def run(price_list: PriceList, file: Path, *regions: str) -> Result:
    return CliRunner().invoke(app, ["prices", *regions, "--file", str(file), "--base-url", price_list.url])


def test_prices_of_real_time_endpoints_are_written_with_source_and_day(
    price_list: PriceList, tmp_path: Path
) -> None:
    file = tmp_path / "prices.json"
    file.write_text(PRICES_FILE.read_text())
    price_list.put("eu-central-1", offer())

    result = run(price_list, file, "eu-central-1")

    assert result.exit_code == 0, result.output
    assert "eu-central-1: 2 prices, published 2026-11-20T02:56:06+00:00" in result.stdout
    # The app takes sources on https only, as AWS's are.
    file.write_text(file.read_text().replace("http://", "https://"))
    before, after = load_prices(PRICES_FILE).by_region, load_prices(file).by_region
    assert {name: price.usd for name, price in after["eu-central-1"].items()} == {
        "ml.c6i.2xlarge": 0.4656,
        "ml.g6e.xlarge": 3.26,
    }
    price = after["eu-central-1"]["ml.c6i.2xlarge"]
    assert price.date.isoformat() == "2026-11-20"
    assert price.source.endswith("/offers/v1.0/aws/AmazonSageMaker/current/eu-central-1/index.json")
    assert {region: after[region] for region in before} == before


def test_a_second_look_says_what_changed(price_list: PriceList, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    price_list.put("eu-central-1", offer())
    assert run(price_list, file, "eu-central-1").exit_code == 0
    dearer = offer()
    dearer["terms"]["OnDemand"]["HOST1"] = term("HOST1", "0.5000000000")
    del dearer["products"]["HOST2"]
    price_list.put("eu-central-1", dearer)

    result = run(price_list, file, "eu-central-1")

    assert result.stdout.splitlines()[1:] == [
        "  ml.c6i.2xlarge  0.4656 -> 0.5 USD an hour",
        "  ml.g6e.xlarge  no longer listed",
    ]


@pytest.mark.parametrize(
    ("body", "status", "outcome"),
    [
        (b"{}", 403, (5, "no_price_list")),
        (b"", 404, (5, "no_price_list")),
        (b"", 429, (4, "price_list_busy")),
        (b"", 503, (4, "price_list_busy")),
        (b"", 418, (5, "price_list_refused")),
        (b"<html>", 200, (5, "price_list_differs")),
        ({"offerCode": "AmazonEC2"}, 200, (5, "price_list_differs")),
        ([], 200, (5, "price_list_differs")),
        (offer() | {"products": {}}, 200, (5, "price_list_differs")),
        (offer() | {"terms": {}}, 200, (5, "price_list_differs")),
    ],
)
def test_a_list_that_is_not_to_be_had_changes_nothing(
    price_list: PriceList, tmp_path: Path, body: object, status: int, outcome: tuple[int, str]
) -> None:
    file = tmp_path / "prices.json"
    file.write_text(PRICES_FILE.read_text())
    price_list.put("eu-central-1", offer())
    price_list.put("eu-west-1", body, status)

    result = run(price_list, file, "eu-central-1", "eu-west-1")

    assert (result.exit_code, result.stderr.split(":")[1].strip()) == outcome
    assert "next: " in result.stderr
    assert file.read_text() == PRICES_FILE.read_text()


@pytest.mark.parametrize(
    ("region", "content", "code"),
    [
        ("Frankfurt", None, "bad_region"),
        ("cn-north-1", None, "no_usd_prices"),
        ("eu-central-1", "[]", "bad_prices_file"),
        ("eu-central-1", "{", "bad_prices_file"),
    ],
)
def test_usage(price_list: PriceList, tmp_path: Path, region: str, content: str | None, code: str) -> None:
    file = tmp_path / "prices.json"
    if content is not None:
        file.write_text(content)
    price_list.put("eu-central-1", offer())
    result = run(price_list, file, region)
    assert (result.exit_code, result.stderr.split(":")[1].strip()) == (2, code)


def test_a_file_in_a_folder_that_is_not_there(price_list: PriceList, tmp_path: Path) -> None:
    result = run(price_list, tmp_path / "nowhere" / "prices.json", "eu-central-1")
    assert (result.exit_code, result.stderr.split(":")[1].strip()) == (2, "no_prices_file")
