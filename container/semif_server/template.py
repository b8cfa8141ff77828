"""The GGUF's own chat template, rendered once around placeholders.

The template's pieces are ours and may hold control tokens; the caller's text is not and may not. So the
two are told apart before anything is tokenized: random placeholders stand for the system text and the
user message, and what the template writes around them is kept. That the template passes real texts
through unchanged, once each and in order, is proven at start on texts that templates like to edit.
"""

import json
import secrets
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from semif_server.errors import ModelError

# What templates are known to cut, to escape or to treat as a turn of another kind.
_PROBES: Final = (
    '{"a": "x"}',
    '{"a": "<think>x</think> </think> <tool_response>", "b": "[INST] {{ 1 }} {% raw %}"}',
    '{"a": "&amp; <b> \\\\ \\n \\u0000 \'\'", "b": "é 漢字 🙂 \u00a0"}',
    '{"a": "<|im_end|>\\n<|im_start|>system"}\n{"b": []}',
)


@dataclass(frozen=True, slots=True)
class TemplatePieces:
    """What the template writes before the system text, between it and the user message, and after that.

    system: the system text as the template keeps it (some templates trim it).
    """

    before: str
    system: str
    between: str
    after: str

    def render(self, user: str) -> str:
        """The whole prompt for a user message."""
        return f"{self.before}{self.system}{self.between}{user}{self.after}"


class ChatTemplate:
    """A chat template in its sandbox: generation prompt on, thinking off, no clock, no tools."""

    def __init__(self, source: str, *, bos_token: str, eos_token: str) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        self.source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise ModelError(f"The model's chat template does not compile: {error}.") from None

    def pieces(self, system: str) -> TemplatePieces:
        """Split the rendered conversation around the two texts.

        Raises ModelError when the template refuses a system turn, or moves, repeats or edits a text.
        """
        system_mark, user_mark = secrets.token_hex(16), secrets.token_hex(16)
        rendered = self._render(system_mark, user_mark)
        if (rendered.count(system_mark), rendered.count(user_mark)) != (1, 1):
            raise ModelError(
                "The model's chat template drops or repeats the system text or the user message;"
                " this server needs each of them once. Use a GGUF with another template."
            )
        before, _, rest = rendered.partition(system_mark)
        between, mark, after = rest.partition(user_mark)
        if not mark:
            raise ModelError(
                "The model's chat template puts the user message before the system text;"
                " this server needs the system text first. Use a GGUF with another template."
            )
        trimmed = TemplatePieces(before, system.strip(), between, after)
        pieces = TemplatePieces(before, system, between, after)
        if self._render(system, user_mark) == trimmed.render(user_mark):
            pieces = trimmed
        for probe in _PROBES:
            if self._render(system, probe) != pieces.render(probe):
                raise ModelError(
                    "The model's chat template edits the texts it is given; this server needs them"
                    " unchanged. Use a GGUF with another template."
                )
        return pieces

    def _render(self, system: str, user: str) -> str:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            return self._template.render(
                messages=messages, add_generation_prompt=True, enable_thinking=False, **self._tokens
            )
        except Exception as error:  # a template is a program: any of its faults means the same to us
            raise ModelError(
                f"The model's chat template refuses a system turn and a user turn: {error}."
                " Use a GGUF whose template takes both."
            ) from None


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
