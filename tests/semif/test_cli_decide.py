"""`semif decide` from the command line to the server and back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner, Result

from semif.cli import app
from tests.semif.contract_server import ContractServer, error_body

FLAGS = [
    *("--state", "I forgot my password", "--question", "Who?"),
    *("--option", "access=login", "--option", "bill=money due."),
]


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["decide", *arguments], input=stdin, env={"COLUMNS": "60"})


def test_flags_to_table(server: ContractServer) -> None:
    result = run(*FLAGS, "--id", "route", "--url", server.url)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "route: bill",
        "access  0.333333  █████████████",
        "bill    0.666667  ███████████████████████████",
    ]
    assert json.loads(server.bodies[0])["decision"]["id"] == "route"


def test_json_prints_what_the_server_sent(server: ContractServer) -> None:
    answer = b'{"result":  {"option_ids": ["a"], "probabilities": [1.0]}}'
    server.answer = (200, answer)
    result = run(*FLAGS, "--url", server.url, "--json")
    assert result.stdout_bytes == answer + b"\n"


def test_state_from_file_and_standard_input(server: ContractServer, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence.txt"
    evidence.write_text("Grüße ✓\n", encoding="utf-8")
    rest = [*FLAGS[2:], "--url", server.url]
    run("--state", f"@{evidence}", *rest)
    run("--state", "@-", *rest, stdin="Grüße ✓\n".encode())
    run("--state-json", "@-", *rest, stdin=b'{"n": 1}')
    states = [json.loads(body)["decision"]["state"] for body in server.bodies]
    assert states == ["Grüße ✓\n", "Grüße ✓\n", {"n": 1}]


def test_decisions_from_a_file(server: ContractServer, tmp_path: Path) -> None:
    options = [{"id": "yes", "description": "abc"}, {"id": "no", "description": "d"}]
    request = tmp_path / "request.json"
    request.write_text(
        json.dumps(
            {"decisions": [{"id": i, "state": "s", "question": "q", "options": options} for i in "ab"]}
        )
    )
    result = run(str(request), "--url", server.url)
    assert [line for line in result.stdout.splitlines() if ":" in line] == ["a: yes", "b: yes"]
    assert server.bodies == [request.read_bytes()]


def test_bare_decision_on_standard_input(server: ContractServer) -> None:
    bare = (
        b'{"id": "d", "state": "\xe2\x9c\x93", "question": "q", "options": [{"id": "a", "description": "x"}]}'
    )
    result = run("-", "--url", server.url, stdin=bare)
    assert result.exit_code == 0, result.output
    assert json.loads(server.bodies[0]) == {"decision": json.loads(bare)}


@pytest.mark.parametrize(
    ("status", "retryable", "exit_code"), [(400, False, 3), (422, False, 3), (503, True, 4), (500, False, 5)]
)
def test_refusals(server: ContractServer, status: int, retryable: bool, exit_code: int) -> None:
    server.answer = (status, error_body("the_code", "what is wrong", "decision.state", retryable=retryable))
    result = run(*FLAGS, "--url", server.url)
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert result.stderr.startswith("error: the_code (decision.state): what is wrong\nnext: ")


def test_answer_of_another_service(server: ContractServer) -> None:
    server.answer = (200, b"<html>hello</html>")
    result = run(*FLAGS, "--url", server.url)
    assert result.exit_code == 5
    assert "not_semif" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "a decision needs --state, --question, --option"),
        (["--state", "s", "--question", "q", "--option", "x"], "has no ="),
        (["-", "--question", "q"], "flags and a file"),
        (["-", "--id", "x"], "flags and a file"),
        (["no-such-folder/request.json"], "No such file"),
        (["--state", "@no-such-folder/state.txt"], "No such file"),
        ([*FLAGS, "--state-json", "{}"], "--state and --state-json"),
        ([*FLAGS, "--url", "http://x", "--endpoint", "e"], "--url and --endpoint"),
        ([*FLAGS, "--region", "eu-west-1"], "need an endpoint"),
        ([*FLAGS, "--url", "localhost"], "--url"),
        ([*FLAGS, "--env", "dev", "--profile", "nobody"], "nobody"),
        ([*FLAGS, "--colour"], "No such option"),
        ([*FLAGS, "--timeout", "0"], "timeout"),
    ],
)
def test_usage(arguments: list[str], words: str) -> None:
    result = run(*arguments, stdin=b"{}")
    assert result.exit_code == 2
    assert words in result.stderr


def test_broken_json_on_standard_input() -> None:
    result = run("-", stdin=b"{")
    assert result.exit_code == 2
    assert "standard input is not JSON" in result.stderr


def test_environment_without_a_deployment() -> None:
    with mock_aws():
        boto3.client("ssm", region_name="eu-central-1")
        result = run(*FLAGS, "--env", "dev")
    assert result.exit_code == 5
    assert "environment dev has no decision endpoint in eu-central-1" in result.stderr


def test_as_a_program_in_any_locale(server: ContractServer) -> None:
    """The real interpreter in an ASCII locale, with text beyond ASCII both ways; and its exit code."""
    program = [
        sys.executable,
        "-m",
        "semif",
        "decide",
        *FLAGS[2:],
        "--option",
        "größe=ß",
        "--url",
        server.url,
    ]
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "COLUMNS": "60",
    }
    done = subprocess.run(
        [*program, "--state", "@-"],
        input="Größe ✓".encode(),
        capture_output=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "größe" in done.stdout.decode("utf-8")
    assert json.loads(server.bodies[0])["decision"]["state"] == "Größe ✓"
    server.answer = (503, error_body("busy", "full", retryable=True))
    refused = subprocess.run([*program, "--state", "s"], capture_output=True, env=environment, check=False)
    assert refused.returncode == 4
    assert b"\x1b" not in refused.stderr
