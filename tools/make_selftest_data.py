"""Write what the image's self-test compares with: the tiny hybrid model, and what this llama.cpp makes of it.

    python -m tools.make_selftest_data

The model is random and small, so a release of llama.cpp changes its logits by rounding alone. Write the data
again only if the model or the self-test's questions change, and look at the difference.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tools.make_tiny_hybrid import write_tiny_hybrid
from tools.setup import ROOT

FOLDER: Final = ROOT / "container" / "image" / "selftest"
_DECIDE: Final = "import json, selftest; print(json.dumps(selftest.decide_once()))"


def _run(*command: str) -> Any:
    path = f"{FOLDER}:{ROOT / 'container'}"
    done = subprocess.run(
        [sys.executable, *command], env={"PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def main() -> None:
    """Command line."""
    write_tiny_hybrid(FOLDER / "tiny-hybrid.gguf")
    scores = _run(str(FOLDER / "probes.py"), "scores")
    result = _run("-c", _DECIDE)
    expected = {**scores, "option_logits": [round(value, 5) for value in result["option_logits"]]}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in expected.items())
    Path(FOLDER / "expected.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
