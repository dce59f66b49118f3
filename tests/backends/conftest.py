"""A clean slate of notices for every test of this folder, and injected probe reports."""

import jax
import pytest

from specdec.backends import Outcome, Primitive, ProbeReport, ProbeResult, notices


@pytest.fixture
def cpu_only():
    """Skip what speaks of the CPU by name when the suite runs on another device."""
    if jax.default_backend() != "cpu":
        pytest.skip("this suite runs on another device than the CPU")


@pytest.fixture(autouse=True)
def fresh_notices(monkeypatch):
    monkeypatch.setattr(notices, "_given", set())


@pytest.fixture
def make_report():
    """Build a report in which everything is OK except what is named."""

    def make(failing=(), outcome=Outcome.WRONG, platform="mps", names=tuple(Primitive), **facts):
        results = (
            ProbeResult(p, outcome, 1.0, "off by one") if p in failing else ProbeResult(p, Outcome.OK) for p in names
        )
        return ProbeReport(platform, tuple(results), **facts)

    return make
