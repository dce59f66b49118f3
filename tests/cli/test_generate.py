"""Every flag of `specdec generate` changes something that can be seen, or is refused."""

import dataclasses
import json
import os

import pytest
from analysis import small

from specdec import backends
from specdec.cli import main, options

BASE = ("generate", "small", "-m", small.PROMPT)


def command(capsys, *flags: str, load=small.load, tokens: int = 16) -> tuple[int, str, str]:
    code = main([*BASE, "--max-new-tokens", str(tokens), *flags], load=load)
    output = capsys.readouterr()
    return code, output.out, output.err


def result(capsys, *flags: str, **options) -> dict:
    code, out, err = command(capsys, "--json", *flags, **options)
    assert code == 0, err
    return json.loads(out)


def refused(capsys, *flags: str, **options) -> str:
    code, out, err = command(capsys, *flags, **options)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err
    return err


LOOKUP = ("--strategy", "prompt_lookup", "--budget", "4")


def test_text_then_one_line_on_speculation(capsys):
    code, out, err = command(capsys, tokens=24)
    assert code == 0 and err == ""
    assert "speculation off (plain)" in out.splitlines()[-1]
    _, speculative, _ = command(capsys, *LOOKUP, tokens=24)
    assert "speculation on (prompt_lookup, budget 4)" in speculative.splitlines()[-1]
    assert speculative.splitlines()[:-1] == out.splitlines()[:-1]


def test_json_holds_the_counters_and_the_line_goes_to_stderr(capsys):
    code, out, err = command(capsys, "--json", *LOOKUP, tokens=24)
    value = json.loads(out)
    assert code == 0 and err.startswith("speculation on")
    assert value["tokens"] == len(value["ids"]) == 24
    assert value["tokens"] == 1 + value["target_passes"] + value["accepted"]
    assert value["drafted"] == sum(record["drafted"] for record in value["rounds"]) > 0
    assert (value["strategy"], value["budget"]) == ("prompt_lookup", 4)


def test_stream_prints_the_same_text(capsys):
    _, whole, _ = command(capsys, *LOOKUP)
    _, streamed, _ = command(capsys, *LOOKUP, "--stream")
    assert streamed.splitlines()[:-1] == whole.splitlines()[:-1]


def test_stream_as_json_lines(capsys):
    code, out, _ = command(capsys, *LOOKUP, "--stream", "--json", tokens=24)
    *pieces, last = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(pieces) == last["target_passes"] + 1
    assert [one for piece in pieces for one in piece["ids"]] == last["ids"]
    assert "".join(piece["text"] for piece in pieces) == last["text"]


def test_budget_widens_the_tree(capsys):
    few, many = (result(capsys, "--strategy", "prompt_lookup", "--budget", n, tokens=24) for n in ("2", "8"))
    assert (few["budget"], many["budget"]) == (2, 8)
    assert few["drafted"] < many["drafted"]
    assert few["ids"] == many["ids"]


@pytest.mark.parametrize("name", ["prompt_lookup", "prompt_lookup_chain"])
def test_strategy_without_budget_takes_its_own(capsys, name):
    assert result(capsys, "--strategy", name)["budget"] == 8


def test_max_new_tokens(capsys):
    assert [result(capsys, tokens=n)["tokens"] for n in (0, 1, 5)] == [0, 1, 5]


def test_temperature_and_seed(capsys):
    hot = ("--temperature", "1.0", "--seed")
    first, again, other = (result(capsys, *hot, seed)["ids"] for seed in ("1", "1", "2"))
    assert first == again
    assert len({tuple(first), tuple(other), tuple(result(capsys)["ids"])}) == 3


@pytest.mark.parametrize("flags", [("--top-k", "1"), ("--top-p", "0.0001"), ("--min-p", "1")], ids=" ".join)
def test_filters_that_leave_one_id_are_greedy(capsys, flags):
    assert result(capsys, "--temperature", "1.5", "--seed", "1", *flags)["ids"] == result(capsys)["ids"]


@pytest.mark.parametrize(
    "flags", [("--top-k", "5"), ("--top-p", "0.5"), ("--min-p", "0.1"), ("--seed", "4")], ids=" ".join
)
def test_sampling_flags_at_temperature_0_are_a_warning(capsys, flags):
    code, _, err = command(capsys, *flags)
    assert code == 0
    assert f"warning: {flags[0]} has no effect at temperature 0" in err


def test_verifier(capsys):
    hot = (*LOOKUP, "--temperature", "1.0", "--seed", "1", "--verifier")
    assert result(capsys, *hot, "coupled")["ids"] != result(capsys, *hot, "target_only")["ids"]
    assert "cannot verify sampling" in refused(capsys, *hot, "greedy")
    assert "cannot verify greedy" in refused(capsys, "--verifier", "coupled")


def test_draft_model(capsys):
    plain = result(capsys)
    for name in ("draft_model", "draft_model_tree"):
        flags = ("--strategy", name, "--draft-model", "other", "--budget", "4")
        value = result(capsys, *flags)
        assert value["ids"] == plain["ids"]
        assert (value["strategy"], value["drafted"] > 0) == (name, True)


def test_draft_model_of_the_targets_own_name_is_loaded_once(capsys):
    loaded = []

    def load(name, **options):
        loaded.append(name)
        return small.load(name, **options)

    value = result(capsys, "--strategy", "draft_model", "--draft-model", "small", load=load)
    assert value["acceptance_rate"] == 1.0
    assert loaded == ["small"]


def test_draft_model_of_another_vocabulary_is_refused(capsys):
    vocabulary = {"a": 0, "b": 1}

    class Backend:
        def get_vocab(self):
            return vocabulary

    class Tokenizer:
        backend = Backend()
        size = 2

    def load(name, **options):
        model = small.load("small", **options)
        if name == "strange":
            return dataclasses.replace(model, name=name, tokenizer=Tokenizer())
        return model

    flags = ("--strategy", "draft_model", "--draft-model", "strange")
    assert "another vocabulary" in refused(capsys, *flags, load=load)


def test_a_drafter_or_budget_that_is_not_used_is_refused(capsys):
    assert "plain does not use --draft-model" in refused(capsys, "--draft-model", "other")
    message = refused(capsys, "--strategy", "prompt_lookup", "--draft-model", "other")
    assert "prompt_lookup does not use --draft-model" in message and "draft_model_tree" in message
    assert "plain does not use --budget" in refused(capsys, "--budget", "8")
    assert "draft_model needs --draft-model" in refused(capsys, "--strategy", "draft_model")


def test_stop_texts(capsys):
    text = result(capsys, tokens=24)["text"]
    stops = text[6:8], text[10:12]
    value = result(capsys, "--stop", *stops, tokens=24)
    assert value["text"] == text[: min(text.find(stop) for stop in stops)]
    assert (value["finish_reason"], value["detail"] in stops) == ("stop", True)


def test_capacity(capsys):
    assert result(capsys, "--capacity", "40", tokens=60)["detail"] == "capacity"
    assert "capacity" in refused(capsys, "--capacity", "4")


def test_raw_leaves_the_template_out(capsys):
    assert result(capsys, "--raw")["prompt_tokens"] < result(capsys)["prompt_tokens"]


def test_dtype_and_platform_reach_the_loader(capsys):
    seen = []

    def load(name, *, dtype, platform):
        seen.append((name, dtype, platform))
        return small.load(name, dtype=None, platform=None)

    command(capsys, "--dtype", "bfloat16", "--platform", "cpu", load=load)
    assert seen == [("small", "bfloat16", "cpu")]


def test_a_real_folder_is_loaded_by_default(capsys, tmp_path):
    folder = small.write(tmp_path / "model")
    assert main(["generate", str(folder), "-m", small.PROMPT, "--max-new-tokens", "16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == result(capsys)["ids"]
    assert main(["generate", str(folder), "-m", "x", "--platform", "cuda"]) == 2
    assert "platform" in capsys.readouterr().err


def test_formats_are_those_of_the_backends():
    """Written twice so that `specdec --help` need not import JAX."""
    assert options.DTYPES == backends.DTYPES


def test_unknown_names_are_refused(capsys):
    assert "choose from plain, prompt_lookup" in refused(capsys, "--strategy", "magic")
    code = main(["generate", "no-such-model", "-m", "x"])
    assert code == 2 and "no-such-model" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [("--budget", "0"), ("--dtype", "int8"), ("--verifier", "magic"), ("--capacity", "x"), ("--strat", "plain")],
    ids=" ".join,
)
def test_malformed_flags_exit_with_2(capsys, flags):
    with pytest.raises(SystemExit) as caught:
        main([*BASE, *flags], load=small.load)
    assert caught.value.code == 2
    assert flags[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--temperature", "-1"), "temperature"),
        (("--temperature", "1", "--top-p", "2"), "top_p"),
        (("--temperature", "1", "--seed", "-3"), "seed"),
        (("--stop", ""), "stop_strings"),
    ],
)
def test_values_out_of_range_are_refused(capsys, flags, why):
    assert why in refused(capsys, *flags)


def test_an_empty_prompt_is_refused(capsys):
    assert main(["generate", "small", "-m", "", "--raw"], load=small.load) == 2
    assert "empty" in capsys.readouterr().err


def test_xla_flags_come_too_late_once_jax_runs(capsys):
    small.model()
    before = os.environ.get("XLA_FLAGS")
    assert "JAX has started" in refused(capsys, "--xla-flags", "default")
    assert "start with --" in refused(capsys, "--xla-flags", "fast please")
    assert os.environ.get("XLA_FLAGS") == before
