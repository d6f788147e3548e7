"""Profiles: each file loads, says only what differs, and mistakes are named."""

import tomllib
from importlib import resources

import msgspec
import pytest

from gateway.upstream.profiles import Detect, Profile, load_profile, profile_names

FOLDER = resources.files("gateway.upstream").joinpath("profiles")
LOCAL = ("vllm", "sglang", "llamacpp", "ollama", "lmstudio", "ds4", "transformers", "mlx")


def test_the_profiles_that_ship():
    assert set(profile_names()) == {
        *LOCAL,
        *("openai", "deepseek", "kimi", "mistral", "groq", "openrouter", "default"),
    }


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_loads_under_its_own_name(name):
    assert load_profile(name).name == name


@pytest.mark.parametrize("name", [name for name in profile_names() if name != "default"])
def test_a_profile_has_a_sign_to_know_it_by_that_no_other_has(name):
    own = load_profile(name).detect
    signs = {*own.server, *own.owned_by, *own.hosts}
    assert signs
    assert all(sign == sign.lower() for sign in signs)
    for other in profile_names():
        if other != name:
            detect = load_profile(other).detect
            assert not signs & {*detect.server, *detect.owned_by, *detect.hosts}


@pytest.mark.parametrize("name", profile_names())
def test_each_line_of_a_profile_has_a_source_or_lists_names(name):
    text = FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert set(tomllib.loads(text)) <= set(Profile.__struct_fields__)


def test_default_says_nothing_but_the_defaults():
    assert load_profile("default") == Profile()


def test_every_field_is_described():
    for struct in (Profile, Detect):
        source = resources.files("gateway.upstream").joinpath("profiles.py").read_text("utf-8")
        body = source.partition(f"class {struct.__name__}(")[2]
        for field in struct.__struct_fields__:
            after = body.partition(f"    {field}: ")[2].splitlines()
            assert after[1].strip().startswith('"""'), field


def test_overrides_are_laid_over_the_profile():
    profile = load_profile("vllm", {"max_tools": 40, "fields": ["temperature"]})
    assert (profile.max_tools, profile.fields) == (40, ("temperature",))
    assert profile.reasoning_out == "reasoning"
    assert load_profile("vllm").max_tools == 0


def test_a_profile_cannot_be_changed():
    with pytest.raises(AttributeError):
        load_profile("vllm").name = "x"  # type: ignore[misc]  # that is what is tested


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("lamacpp", None, "Unknown profile 'lamacpp'. Did you mean 'llamacpp'?"),
        ("qqqqqqqq", None, "Unknown profile 'qqqqqqqq'. Known: deepseek, default,"),
        ("vllm", {"tool_choices": "auto"}, "Unknown key 'tool_choices' in profile 'vllm'. Did"),
        ("vllm", {"detect": {"port": [1]}}, "table 'detect'. Did you mean 'ports'?"),
        ("vllm", {"tool_choice": "never"}, "Profile 'vllm': Invalid enum value 'never'"),
        ("vllm", {"max_tools": -1}, "Profile 'vllm': Expected `int` >= 0"),
        ("vllm", {"detect": 3}, "Profile 'vllm': Expected `object`"),
        ("vllm", {"name_max_length": 5}, "Profile 'vllm': Expected `int` >= 24"),
    ],
)
def test_a_mistake_is_named(name, overrides, words):
    with pytest.raises(ValueError) as raised:
        load_profile(name, overrides)
    assert words in str(raised.value)
    assert not isinstance(raised.value, msgspec.ValidationError)


def test_overrides_of_signs():
    assert load_profile("vllm", {"detect": {"ports": [9000]}}).detect.ports == (9000,)


def test_q51_kimi_and_groq_names_begin_with_a_letter():
    assert load_profile("kimi").name_first_letter
    assert load_profile("groq").name_first_letter
    assert not load_profile("vllm").name_first_letter
    assert all(load_profile(name).name_max_length == 64 for name in profile_names())


def test_q63_servers_with_one_slot_get_one_request_at_a_time():
    assert load_profile("ds4").concurrency == 1
    assert load_profile("mlx").concurrency == 1
    assert load_profile("vllm").concurrency == 0


def test_patterns_are_honoured_by_vllm_only_with_strict():
    assert (load_profile("vllm").pattern, load_profile("vllm").pattern_strict) == (True, True)
    llamacpp = load_profile("llamacpp")
    assert (llamacpp.pattern, llamacpp.pattern_strict) == (True, False)
    assert not load_profile("ollama").pattern
