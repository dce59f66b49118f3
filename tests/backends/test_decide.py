"""The decision about Apple GPUs, from injected evidence."""

import pytest

from specdec.backends import Outcome, Primitive, ProbeReport, Workaround, decide_metal, is_metal
from specdec.backends.decide import ESSENTIAL, REMEDIES
from specdec.errors import ConfigError, SettingsError

HALVES = (Primitive.BFLOAT16_MATMUL, Primitive.FLOAT16_MATMUL)
BAD = (Outcome.WRONG, Outcome.UNSUPPORTED)


def decide(report, platform="mps", **kwargs):
    return decide_metal(platform, report, **{"jax_version": "0.10.2", **kwargs})


def test_every_primitive_has_a_consequence():
    assert {*ESSENTIAL, *REMEDIES, *HALVES} == set(Primitive)
    assert set(REMEDIES.values()) == set(Workaround)


@pytest.mark.parametrize("name", ["METAL", "Metal", "metal", "MPS", "mps", "mtl", "MTL"])
def test_names(name, make_report):
    assert is_metal(name)
    assert decide(make_report(platform=name), name, plugin="metaljax").use


@pytest.mark.parametrize("name", ["cpu", "gpu", "cuda", "tpu", "", "metall"])
def test_other_names_are_refused(name, make_report):
    assert not is_metal(name)
    with pytest.raises(ConfigError, match="expected an Apple GPU"):
        decide(make_report(), name)


def test_all_ok(make_report):
    decision = decide(make_report())
    assert (decision.use, decision.dtype, decision.workarounds) == (True, "bfloat16", ())
    assert decision.fallback_reason is None and decision.dtype_reason is None


@pytest.mark.parametrize("outcome", BAD)
@pytest.mark.parametrize("primitive", ESSENTIAL)
def test_essential_failures_fall_back(make_report, primitive, outcome):
    decision = decide(make_report([primitive], outcome))
    assert not decision.use
    assert (decision.dtype, decision.workarounds) == ("float32", ())
    assert f"{primitive.value}: {outcome.value} (off by one)" in decision.fallback_reason


@pytest.mark.parametrize("outcome", BAD)
@pytest.mark.parametrize("primitive", REMEDIES)
def test_remediable_failures_are_worked_around(make_report, primitive, outcome):
    decision = decide(make_report([primitive], outcome))
    assert decision.use and decision.dtype == "bfloat16"
    assert decision.workarounds == (REMEDIES[primitive],)


@pytest.mark.parametrize("missing", [*ESSENTIAL, *REMEDIES])
def test_what_was_not_probed_is_not_trusted(make_report, missing):
    decision = decide(make_report(names=[p for p in Primitive if p is not missing]))
    assert decision.use == (missing in REMEDIES)
    assert decision.use or "not probed" in decision.fallback_reason


def test_several_remedies_at_once(make_report):
    failing = [Primitive.ARGMAX, Primitive.TOP_K, Primitive.CUMSUM, Primitive.SCATTER, *HALVES]
    decision = decide(make_report(failing))
    assert decision.use and decision.dtype == "float32"
    assert set(decision.workarounds) == {REMEDIES[p] for p in failing if p in REMEDIES}


def test_several_essentials_give_one_reason(make_report):
    decision = decide(make_report([Primitive.WHILE_LOOP, Primitive.GATHER, Primitive.ARGMAX]))
    assert not decision.use
    assert "while_loop" in decision.fallback_reason and "gather" in decision.fallback_reason
    assert "argmax" not in decision.fallback_reason


def test_top_k_and_sort_cannot_stand_in_for_each_other_when_both_fail(make_report):
    decision = decide(make_report([Primitive.TOP_K, Primitive.SORT]))
    assert not decision.use
    assert "top_k" in decision.fallback_reason and "sort" in decision.fallback_reason


@pytest.mark.parametrize(
    ("asked", "failing", "chosen", "told"),
    [
        (None, [], "bfloat16", False),
        (None, [Primitive.BFLOAT16_MATMUL], "float32", False),
        ("bfloat16", [Primitive.BFLOAT16_MATMUL], "float32", True),
        ("float16", [Primitive.BFLOAT16_MATMUL], "float16", False),
        ("float16", [Primitive.FLOAT16_MATMUL], "float32", True),
        ("float32", HALVES, "float32", False),
    ],
)
def test_formats(make_report, asked, failing, chosen, told):
    decision = decide(make_report(failing, Outcome.UNSUPPORTED), dtype=asked)
    assert decision.use and decision.dtype == chosen
    assert (decision.dtype_reason is not None) == told
    assert not told or asked in decision.dtype_reason


def test_unknown_format(make_report):
    with pytest.raises(SettingsError, match="float8"):
        decide(make_report(), dtype="float8")


@pytest.mark.parametrize("version", ["0.5.1", "0.5.3", "0.10.2", "0.11.0.dev20260101", "1.0"])
@pytest.mark.parametrize("plugin", ["jax-metal", None])
def test_legacy_plugin_on_new_jax_is_refused_with_advice(make_report, version, plugin):
    for report in (None, make_report(platform="METAL")):
        decision = decide(report, "METAL", jax_version=version, plugin=plugin)
        assert not decision.use
        for word in ("jax-metal ", version, "jax-mps", "jax-metallib", "0.5.1"):
            assert word in decision.fallback_reason


@pytest.mark.parametrize("version", ["0.4.34", "0.5.0"])
def test_legacy_plugin_on_old_jax_is_judged_by_its_probes(make_report, version):
    assert decide(make_report(), "METAL", jax_version=version).use
    assert not decide(make_report([Primitive.WHILE_LOOP]), "METAL", jax_version=version).use


def test_plugin_that_did_not_start(make_report):
    decision = decide(None)
    assert not decision.use and "did not start" in decision.fallback_reason


def test_nothing_compiles(make_report):
    decision = decide(make_report(list(Primitive), Outcome.UNSUPPORTED))
    assert not decision.use and "another jaxlib" in decision.fallback_reason


def test_empty_report_falls_back():
    assert not decide(ProbeReport("mps")).use
