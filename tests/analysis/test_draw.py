import jax.numpy as jnp
from analysis import small

from specdec.analysis import tree_html, tree_text
from specdec.tree import Tree
from specdec.values import Acceptance


def tree() -> Tree:
    return Tree(
        token=jnp.asarray([[5, 6, 7, 8, 0]], jnp.int32),
        parent=jnp.asarray([[-1, 0, 0, 1, 0]], jnp.int32),
        depth=jnp.asarray([[0, 1, 1, 2, 0]], jnp.int32),
        logp=jnp.asarray([[0.0, -0.5, -1.25, -2.0, 0.0]], jnp.float32),
        valid=jnp.asarray([[True, True, True, True, False]]),
    )


def accepted() -> Acceptance:
    return Acceptance(
        path=jnp.asarray([[0, 1, 3, 0, 0]], jnp.int32),
        accepted=jnp.asarray([1], jnp.int32),
        bonus=jnp.asarray([9], jnp.int32),
        committed=jnp.asarray([2], jnp.int32),
        nan=jnp.asarray([False]),
    )


def test_text():
    assert tree_text(tree(), accepted=accepted()).splitlines() == [
        "5 0.00 *",
        "|-- 6 -0.50 *",
        "|   `-- 8 -2.00",
        "`-- 7 -1.25",
    ]


def test_nothing_is_marked_without_a_verdict_and_padding_is_left_out():
    text = tree_text(tree())
    assert "*" not in text
    assert len(text.splitlines()) == 4


def test_tokens_are_quoted_and_escaped():
    tokenizer = small.model().tokenizer
    ids = tokenizer.encode("<b>\n")[:4]
    values = tree().replace(token=jnp.asarray([[*ids, *[0] * (5 - len(ids))]], jnp.int32))
    assert tree_text(values, tokenizer).startswith("'<'")
    page = tree_html(values, tokenizer, accepted())
    assert "&lt;" in page and "<b>'" not in page
    assert page.count("<li>") == 4


def test_a_tree_draws_itself():
    assert tree()._repr_html_() == tree_html(tree())
