"""Every flag of `specdec compare` changes something that can be seen, or is refused."""

import dataclasses
import importlib
import json

import numpy as np
import pytest
from analysis import small

from specdec.analysis import running, ties
from specdec.cli import main, registry

FAST = ("--max-new-tokens", "12", "--no-split")


def command(capsys, *flags: str, load=small.load) -> tuple[int, str, str]:
    code = main(["compare", "small", *flags], load=load)
    output = capsys.readouterr()
    return code, output.out, output.err


def rows(capsys, tmp_path, *flags: str, **options) -> list[dict]:
    file = tmp_path / "out.json"
    code, _, err = command(capsys, *flags, "--json", str(file), **options)
    assert code == 0, err
    return json.loads(file.read_text())["rows"]


@pytest.fixture
def bench(tmp_path):
    entries = [("writing", 81), ("writing", 83), ("math", 111), ("math", 113)]
    file = tmp_path / "bench.jsonl"
    lines = [
        {"question_id": number, "category": name, "turns": [f"{small.PROMPT} {number}"]} for name, number in entries
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    return str(file)


def test_table_and_json(capsys, tmp_path, bench):
    file = tmp_path / "out.json"
    flags = ("--prompts", bench, "--strategies", "plain,prompt_lookup,prompt_lookup_chain", "--budget", "4,8")
    code, out, err = command(capsys, *flags, *FAST, "--json", str(file))
    assert code == 0, err
    value = json.loads(file.read_text())
    kinds = [("plain", 1), *((name, budget) for name in ("prompt_lookup", "prompt_lookup_chain") for budget in (4, 8))]
    assert [(row["strategy"], row["budget"]) for row in value["rows"] if row["category"] == "all"] == kinds
    assert {row["category"] for row in value["rows"]} == {"all", "writing", "math"}
    assert all(row["identical"] == row["prompts"] for row in value["rows"])
    assert value["model"] == "small" and value["settings"]["max_new_tokens"] == 12
    assert "prompt_lookup_chain" in out and "identical" in out and "writing" not in out


def test_plain_is_always_there(capsys, tmp_path):
    found = rows(capsys, tmp_path, "-m", small.PROMPT, "--strategies", "prompt_lookup", *FAST)
    assert [(row["strategy"], row["budget"]) for row in found] == [("plain", 1), ("prompt_lookup", 8)]


def test_by_category_prints_more_rows(capsys, bench):
    flags = ("--prompts", bench, "--strategies", "plain", *FAST)
    assert "writing" not in command(capsys, *flags)[1]
    assert "writing" in command(capsys, *flags, "--by-category")[1]
    _, _, err = command(capsys, "-m", small.PROMPT, "--strategies", "plain", *FAST, "--by-category")
    assert "--by-category has no effect" in err


def test_limit_is_even_over_categories(capsys, tmp_path, bench):
    found = rows(capsys, tmp_path, "--prompts", bench, "--strategies", "plain", *FAST, "--limit", "2")
    assert {row["category"]: row["prompts"] for row in found} == {"all": 2, "writing": 1, "math": 1}


def test_several_messages_and_the_shipped_set(capsys, tmp_path):
    found = rows(capsys, tmp_path, "-m", "one", "-m", "two", "--strategies", "plain", *FAST)
    assert found[0]["prompts"] == 2
    found = rows(capsys, tmp_path, "--shipped", "--limit", "3", "--strategies", "plain", *FAST)
    assert [row["category"] for row in found] == ["all", "writing", "coding", "math"]


def test_split_is_measured_unless_switched_off(capsys, tmp_path):
    flags = ("-m", small.PROMPT, "--strategies", "plain", "--max-new-tokens", "8")
    assert rows(capsys, tmp_path, *flags)[0]["round_split_ms"]["verify"] > 0
    assert rows(capsys, tmp_path, *flags, "--no-split")[0]["round_split_ms"] is None


def test_sampling_settings_are_recorded(capsys, tmp_path):
    file = tmp_path / "out.json"
    hot = ("--temperature", "0.8", "--top-k", "30", "--top-p", "0.9", "--min-p", "0.01", "--seed", "5")
    flags = ("-m", small.PROMPT, "--strategies", "prompt_lookup", *FAST, "--capacity", "512", "--json", str(file))
    assert command(capsys, *flags, *hot)[0] == 0
    value = json.loads(file.read_text())
    expected = {"temperature": 0.8, "top_k": 30, "top_p": 0.9, "min_p": 0.01, "seed": 5, "capacity": 512}
    assert value["settings"].items() >= expected.items()
    assert value["rows"][1]["identical"] == 1
    own = ("--temperature", "0.8", "--verifier", "target_only")
    code, out, _ = command(capsys, *flags, *own)
    assert code == 0 and "WRONG" not in out


def test_raw_and_dtype(capsys, tmp_path):
    folder = small.write(tmp_path / "model")
    file = tmp_path / "out.json"
    flags = ("--strategies", "plain", *FAST, "--json", str(file), "--dtype", "bfloat16")
    assert main(["compare", str(folder), "-m", small.PROMPT, *flags, "--raw"]) == 0
    capsys.readouterr()
    assert json.loads(file.read_text())["environment"]["dtype"] == "bfloat16"


def test_draft_model_rows(capsys, tmp_path):
    flags = ("-m", small.PROMPT, "--strategies", "draft_model,draft_model_tree", "--budget", "4", *FAST)
    found = rows(capsys, tmp_path, *flags, "--draft-model", "other")
    assert [row["strategy"] for row in found] == ["plain", "draft_model", "draft_model_tree"]
    assert found[0]["extra_memory_bytes"] == 0 < found[1]["extra_memory_bytes"]


def test_a_drafter_that_no_strategy_uses_is_said_loudly_and_not_loaded(capsys):
    loaded = []

    def load(name, **options):
        loaded.append(name)
        return small.load(name, **options)

    flags = ("-m", small.PROMPT, "--strategies", "plain,prompt_lookup", "--draft-model", "other", *FAST)
    code, _, err = command(capsys, *flags, load=load)
    assert code == 0 and loaded == ["small"]
    assert "attention" in err and "DRAFTER NOT USED" in " ".join(err.split())


def test_a_strategy_that_never_drafts_is_said_loudly(capsys):
    code, out, _ = command(
        capsys, "-m", "x", "--raw", "--strategies", "prompt_lookup", "--max-new-tokens", "2", "--no-split"
    )
    assert code == 0
    assert "NO SPECULATION" in out


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--strategies", "plain", "--budget", "8"), "uses --budget"),
        (("--strategies", "magic"), "not known"),
        (("--strategies", "draft_model"), "needs --draft-model"),
        (("--strategies", "plain", "--json", "missing/folder/out.json"), "cannot be written"),
        (("--strategies", "plain", "--max-new-tokens", "0"), "max_new_tokens"),
        (("--strategies", "plain", "--capacity", "4"), "prompt 1"),
        (("--strategies", "prompt_lookup", "--verifier", "coupled"), "cannot verify greedy"),
    ],
)
def test_refused_before_any_compute(capsys, monkeypatch, flags, why):
    monkeypatch.setattr(running, "run_once", None)
    code, out, err = command(capsys, "-m", small.PROMPT, *flags)
    assert (code, out) == (2, "")
    assert why in err and len(err.strip().splitlines()) == 1


def test_malformed_prompt_line_is_named(capsys, bench):
    with open(bench, "a") as file:
        file.write("\n{broken")
    code, _, err = command(capsys, "--prompts", bench, "--strategies", "plain")
    assert code == 2 and "line 5" in err


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("-m", "x", "--prompts", "y"),
        ("-m", "x", "--limit", "0"),
        ("-m", "x", "--budget", "4,x"),
        ("-m", "x", "--strategies", ","),
    ],
    ids=" ".join,
)
def test_malformed_flags_exit_with_2(capsys, flags):
    with pytest.raises(SystemExit) as caught:
        main(["compare", "small", "--strategies", "plain", *flags], load=small.load)
    assert caught.value.code == 2


def falsify(monkeypatch, change) -> None:
    """Lets `change(result)` have its way with every result that is not plain decoding's."""
    module = importlib.import_module("specdec.analysis.compare")  # the package has a function of that name
    honest = module.run_once

    def run_once(engine, *arguments):
        result = honest(engine, *arguments)
        return result if engine.strategy.name == "plain" else change(result)

    monkeypatch.setattr(module, "run_once", run_once)


def test_wrong_output_exits_with_1_and_says_so(capsys, tmp_path, monkeypatch):
    falsify(monkeypatch, lambda result: dataclasses.replace(result, ids=(*result.ids[:5], 3, *result.ids[6:])))
    file = tmp_path / "out.json"
    flags = ("-m", small.PROMPT, "--strategies", "prompt_lookup", *FAST, "--json", str(file))
    code, out, _ = command(capsys, *flags)
    assert code == 1
    assert "WRONG OUTPUT" in out and "NOT A TIE" in out
    (difference,) = json.loads(file.read_text())["rows"][1]["first_differences"]
    assert difference.keys() == {"prompt", "position", "gap", "tie"}
    assert (difference["prompt"], difference["position"], difference["tie"]) == (1, 5, False)
    assert difference["gap"] > 1e-3


def test_a_tie_is_counted_printed_and_no_fault(capsys, monkeypatch):
    falsify(monkeypatch, lambda result: dataclasses.replace(result, ids=(*result.ids[:5], 3, *result.ids[6:])))
    scores = iter(([0.0, 1.0, 1.0 - 1e-6], [0.0, 1.0, 1.0 + 1e-6]))
    monkeypatch.setattr(ties, "_chain_scores", lambda *arguments: np.asarray(next(scores), np.float64))
    code, out, _ = command(capsys, "-m", small.PROMPT, "--strategies", "prompt_lookup", *FAST)
    assert code == 0
    assert "a tie" in out and "0/1" in out and "WRONG" not in out


def test_names_of_the_registry_are_those_of_the_strategies():
    """A table's row can be typed back into the command."""
    given = registry.Given(budget=4, draft=small.model(1))
    assert {registry.make(entry, given).name for entry in registry.ENTRIES} == set(registry.STRATEGIES)
