"""Combinations that cannot work are refused before anything is traced, with one that does.

Leaves out: features out of range (`test_contract_04_nodes.py`), vocabularies (`test_contract_08_vocabulary.py`).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import toys

import specdec
from specdec import strategies
from specdec.builders import BestFirst, Chain, RootOnly
from specdec.decoding import Policy, Strategy
from specdec.drafters import NoDrafter, Stateless
from specdec.errors import CompatibilityError, SpecdecError
from specdec.sampling import sample_with
from specdec.selectors import Independent
from specdec.values import Candidates
from specdec.verifiers import Coupled, Greedy, TargetOnly

GREEDY, WARM = sample_with(), sample_with(0.7)


@dataclasses.dataclass(frozen=True)
class Marginal(Stateless):
    """A drafter without a selector: four candidates for each of three depths."""

    vocab: int = toys.VOCAB

    selector = None

    def propose(self, params: Any, state: Any, context: Any, readout: Any, noise: Any):
        batch = context.root.shape[0]
        ids = (context.root[:, None, None] + jnp.arange(12, dtype=jnp.int32).reshape(1, 3, 4)) % self.vocab
        logits = jnp.broadcast_to(-jnp.arange(4, dtype=jnp.float32), (batch, 3, 4))
        log_z = jnp.full((batch, 3), 1.0, jnp.float32)
        return Candidates(ids, logits, log_z, jnp.zeros((batch, 3, 1))), state


@dataclasses.dataclass(frozen=True)
class NeedsQ(TargetOnly):
    needs_q = True


@dataclasses.dataclass(frozen=True)
class Noisy(BestFirst):
    uses_target_noise = True


@dataclasses.dataclass(frozen=True)
class ChainsOnly(toys.Table):
    supports_trees = False


def policy(drafter=None, builder=None, **parts) -> Strategy:
    return Strategy("policy", Policy(drafter or NoDrafter(), builder or Chain(4), **parts))


def chains_only():
    model = toys.random_table()
    return dataclasses.replace(model, target=ChainsOnly(model.target.config))


REFUSED = {
    "greedy verifier at a temperature": (
        policy(verifier=Greedy()),
        WARM,
        r"Greedy.*sampling.*Coupled\(\) or TargetOnly",
    ),
    "coupled verifier at temperature 0": (policy(verifier=Coupled()), GREEDY, r"Coupled.*greedy.*use Greedy\(\)"),
    "target-only verifier at temperature 0": (policy(verifier=TargetOnly()), GREEDY, r"TargetOnly.*use Greedy\(\)"),
    "no room for the root": (policy(builder=Chain(0)), GREEDY, r"Chain.*budget of 0.*use >= 1"),
    "a negative budget": (policy(builder=BestFirst(-3)), GREEDY, r"BestFirst.*budget of -3.*use >= 1"),
    "no selector": (policy(Marginal()), GREEDY, r"Marginal.*selector=Independent\(\)"),
    "marginals from a drafter that has none": (
        policy(selector=Independent()),
        GREEDY,
        r"Independent.*NoDrafter returns none.*selector=None",
    ),
    "target noise with an uncoupled verifier": (
        policy(builder=Noisy(4), verifier=TargetOnly()),
        WARM,
        r"Noisy.*TargetOnly.*use Coupled\(\)",
    ),
    "a verifier without q": (policy(verifier=NeedsQ()), WARM, r"NeedsQ.*use TargetOnly\(\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_tracing_with_an_alternative(case, monkeypatch):
    def no_tracing(*args, **kwargs):
        raise AssertionError("traced")

    monkeypatch.setattr(jax, "jit", no_tracing)
    strategy, settings, message = REFUSED[case]
    with pytest.raises(CompatibilityError, match=message) as caught:
        toys.engine(toys.random_table(), strategy, settings)
    assert isinstance(caught.value, SpecdecError) and isinstance(caught.value, ValueError)


def test_refused_by_every_entrance_before_any_compute():
    strategy, _, message = REFUSED["no selector"]
    for call in (specdec.generate, specdec.stream):
        with toys.count_compilations() as counter, pytest.raises(CompatibilityError, match=message):
            call(toys.random_table(), [1, 2], strategy=strategy)
        assert counter.count == 0


def test_trees_on_a_target_for_chains_are_refused():
    with pytest.raises(CompatibilityError, match=r"ChainsOnly.*builder=Chain\(num_nodes=5\)"):
        toys.engine(chains_only(), strategies.prompt_lookup(5))
    # The advice works, and so does a tree of one node.
    toys.engine(chains_only(), strategies.prompt_lookup(5, tree=False))
    toys.engine(chains_only(), strategies.plain())
    toys.engine(chains_only(), policy(builder=BestFirst(1)))


def test_what_is_advised_is_accepted():
    for strategy, settings in (
        (policy(verifier=Coupled()), WARM),
        (policy(verifier=TargetOnly()), WARM),
        (policy(verifier=Greedy()), GREEDY),
        (policy(builder=Noisy(4)), WARM),
        (policy(builder=Noisy(4)), GREEDY),
        (policy(builder=RootOnly()), GREEDY),
        (policy(Marginal(), selector=Independent(4)), WARM),
    ):
        toys.engine(toys.random_table(), strategy, settings)


def test_a_drafter_of_marginals_runs_with_the_independent_selector():
    """Contract 1 for a policy put together by hand; the drafter knows nothing, so little is accepted."""
    model, prompts = toys.random_table(), [toys.PROMPTS[1], toys.PROMPTS[2]]
    strategy = policy(Marginal(), BestFirst(6), selector=Independent(4))
    results = toys.decode(model, prompts, strategy)
    assert toys.ids(results) == toys.ids(toys.decode(model, prompts))
    assert results[0].drafted > 0
    np.testing.assert_array_equal([record.drafted <= 5 for record in results[0].rounds], True)
