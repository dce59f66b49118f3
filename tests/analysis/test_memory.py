import sys

import jax
import numpy as np
import pytest
from analysis import small

from specdec import strategies
from specdec.analysis import PeakMemory
from specdec.analysis import memory as module
from specdec.analysis.memory import PeakSource, extra_bytes
from specdec.decoding.engine import Engine
from specdec.sampling import sample_with

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_peak_rises_with_what_is_held():
    with PeakMemory() as before:
        pass
    with PeakMemory() as peak:
        np.ones(64 << 20, np.uint8)
    assert peak.bytes >= before.bytes
    if peak.source is PeakSource.RESIDENT:
        assert peak.bytes - before.bytes > 32 << 20


@linux
def test_where_the_peak_cannot_be_reset_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_CLEAR", tmp_path / "missing" / "clear_refs")
    with PeakMemory() as peak:
        pass
    assert peak.source is PeakSource.RESIDENT_EVER
    assert peak.bytes > 2**20


def test_extra_bytes_count_foreign_weights_once():
    model, draft = small.model(), small.model(1)
    engine = Engine(model, strategies.draft_model(draft, 4), sample_with())
    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(draft.params))
    assert extra_bytes(engine, ()) == weights
    assert extra_bytes(Engine(model, strategies.draft_model(model, 4), sample_with()), ()) == 0
