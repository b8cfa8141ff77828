import pytest

from semif_server.errors import ModelError
from semif_server.template import ChatTemplate

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def test_pieces_around_the_texts() -> None:
    pieces = template(CHATML).pieces("Be brief.")
    assert pieces.before == "<|im_start|>system\n"
    assert pieces.between == "<|im_end|>\n<|im_start|>user\n"
    # trim_blocks takes the line break behind a block, as chat templates expect it
    assert pieces.after == "<|im_end|>\n<|im_start|>assistant\n"
    assert pieces.render('{"a": 1}') == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        '<|im_start|>user\n{"a": 1}<|im_end|>\n<|im_start|>assistant\n'
    )


def test_a_template_that_trims_gets_a_trimmed_system_text() -> None:
    trimming = CHATML.replace("m.content", "m.content | trim")
    assert template(trimming).pieces("  Be brief.\n").system == "Be brief."
    assert template(CHATML).pieces("  Be brief.\n").system == "  Be brief.\n"


def test_thinking_is_off_exactly() -> None:
    source = (
        CHATML
        + "{% if enable_thinking is false %}OFF{% endif %}{% if enable_thinking is true %}ON{% endif %}"
    )
    assert template(source).pieces("x").after.endswith("OFF")


def test_the_begin_token_is_the_vocabularys() -> None:
    assert template("{{ bos_token }}" + CHATML).pieces("x").before.startswith("<s><|im_start|>")


def test_a_template_may_put_the_system_text_into_the_user_turn() -> None:
    source = "<user>\n{{ messages[0].content }}\n\n{{ messages[1].content }}<end>\n<model>\n"
    pieces = template(source).pieces("Be brief.")
    assert (pieces.before, pieces.between) == ("<user>\n", "\n\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for m in messages %}", "does not compile"),
        (
            "{{ raise_exception('System role not supported') }}",
            "refuses a system turn.*System role not supported",
        ),
        ("{{ strftime_now('%Y') }}" + CHATML, "refuses a system turn"),
        ("{{ messages.append(1) }}", "refuses a system turn"),
        ("{{ ''.__class__.__mro__ }}", "refuses a system turn"),
        ("{{ messages[1].content }}", "drops or repeats"),
        (CHATML + "{{ messages[1].content }}", "drops or repeats"),
        ("{{ messages[1].content }} {{ messages[0].content }}", "before the system text"),
        (CHATML.replace("m.content", "m.content | e"), "edits the texts"),
        (CHATML.replace("m.content", "m.content.split('</think>')[-1]"), "edits the texts"),
        (CHATML.replace("m.content", "m.content | replace('\\n', ' ')"), "edits the texts"),
    ],
)
def test_a_template_that_does_not_keep_the_texts_is_refused(source: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        template(source).pieces("Be brief.")
