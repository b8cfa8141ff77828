"""How AWS's entry point reads its variables, and how llama-server reads its flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from localaws.llama_cpp_container.entry_point import flags, plan
from localaws.llama_cpp_container.flags import FlagError, parse


def test_an_explicit_model_needs_no_folder() -> None:
    planned = plan(
        {"SM_LLAMA_CPP_MODEL": "/opt/ml/model/m.gguf", "SM_LLAMA_CPP_PORT": "9000", "PATH": "/bin"}
    )
    assert planned.flags == ("--model", "/opt/ml/model/m.gguf")
    assert (planned.port, planned.upstream_port, planned.lines) == (9000, 0, ())


def test_discovery_takes_the_first_in_glob_order_even_a_projector(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/aaa.gguf", "qwen.gguf", "mmproj-qwen.gguf", ".hidden.gguf", "notes.txt"):
        (tmp_path / name).touch()
    planned = plan({"SM_LLAMA_CPP_MODEL_DIR": str(tmp_path)})
    assert planned.flags == ("--model", str(tmp_path / "mmproj-qwen.gguf"))
    (tmp_path / "mmproj-qwen.gguf").unlink()
    (tmp_path / "qwen.gguf").unlink()
    assert plan({"SM_LLAMA_CPP_MODEL_DIR": str(tmp_path)}).flags[1] == str(tmp_path / "a/aaa.gguf")


def test_without_a_model_it_only_warns(tmp_path: Path) -> None:
    planned = plan({"SM_LLAMA_CPP_MODEL_DIR": str(tmp_path), "SM_LLAMA_CPP_HF_REPO": "org/model"})
    assert planned.flags == ("--hf-repo", "org/model")
    assert "no *.gguf found" in planned.lines[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("4096", ["--ctx-size", "4096"]),
        ("true", ["--ctx-size"]),
        ("TRUE", ["--ctx-size"]),
        ("", ["--ctx-size"]),
        ("False", []),
        ("a b", ["--ctx-size", "a b"]),
        ("a=b", ["--ctx-size", "a=b"]),
        ("1\nSM_LLAMA_CPP_API_KEY=k", ["--ctx-size", "1", "--api-key", "k"]),
        ("1\nlost", ["--ctx-size", "1"]),
    ],
)
def test_every_other_variable_is_a_flag(value: str, expected: list[str]) -> None:
    assert flags([("SM_LLAMA_CPP_CTX_SIZE", value), ("SM_LLAMA_CPP_MODEL", "m"), ("HOME", "/")]) == expected


def test_flags_become_typed_fields_and_the_last_wins() -> None:
    options = parse(
        ["--port", "1", "--ctx-size", "512", "--ctx-size", "1024", "--jinja", "--no-webui", "--temp", "0.5"]
    )
    assert options.port == 1
    assert options.fields == {
        "n_ctx": 1024,
        "use_jinja": True,
        "ui": False,
        "sampling.temp": 0.5,
        "n_parallel": 4,
        "kv_unified": True,
    }
    assert "kv_unified" not in parse(["--parallel", "2"]).fields
    assert parse(["--n-gpu-layers", "-1"]).fields["n_gpu_layers"] == -1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--no-such", "1"], "invalid argument: --no-such"),
        (["--ctx-size", "many"], "'--ctx-size': 'many'"),
        (["--ctx-size"], "expected value"),
        (["--ctx-size", "--jinja"], "expected value"),
        (["--jinja", "yes"], "invalid argument: yes"),
        (["--flash-attn", "maybe"], "none of on, off, auto"),
        (["--host", "0.0.0.0"], "127.0.0.1 alone"),  # noqa: S104
        (["--chat-template-kwargs", "[1]"], "not a JSON object"),
    ],
)
def test_a_wrong_flag_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(FlagError, match=said):
        parse(arguments)
