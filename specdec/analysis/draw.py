"""Draft trees as text and as HTML, with the accepted path.

Leaves out: colours on a terminal and pictures of many rounds.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator

import numpy as np

from specdec.checkpoints import Tokenizer
from specdec.tree import Tree
from specdec.values import Acceptance


@dataclasses.dataclass(frozen=True)
class _Node:
    label: str
    logp: float
    accepted: bool
    children: list[_Node]


def tree_text(tree: Tree, tokenizer: Tokenizer | None = None, accepted: Acceptance | None = None, row: int = 0) -> str:
    """A tree in ASCII, one node a line; `*` marks the root and what was accepted below it.

    Args:
      tree: with concrete values.
      tokenizer: None prints ids.
      accepted: a verifier's verdict; None marks nothing.
      row: of the batch.

    Returns:
      Lines such as "|-- ' fox' -0.51 *": a node's token and the log-probability of its whole path.
    """
    root = _nodes(tree, tokenizer, accepted, row)
    return "\n".join([_line(root), *_branches(root, "")])


def tree_html(tree: Tree, tokenizer: Tokenizer | None = None, accepted: Acceptance | None = None, row: int = 0) -> str:
    """The same as nested lists, the accepted path in bold. Arguments as in `tree_text`."""
    root = _nodes(tree, tokenizer, accepted, row)
    style = "font-family:monospace;line-height:1.4"
    return f'<div style="{style}"><ul style="list-style:none;padding-left:0">{_item(root)}</ul></div>'


def _nodes(tree: Tree, tokenizer: Tokenizer | None, accepted: Acceptance | None, row: int) -> _Node:
    token, parent, logp, valid = (np.asarray(leaf)[row] for leaf in (tree.token, tree.parent, tree.logp, tree.valid))
    path: set[int] = set()
    if accepted is not None:
        path = set(np.asarray(accepted.path)[row, : int(np.asarray(accepted.accepted)[row]) + 1].tolist())
    nodes = [
        _Node(_label(int(one), tokenizer), float(score), slot in path, [])
        for slot, (one, score) in enumerate(zip(token, logp, strict=True))
    ]
    # The root of a row that has finished is not valid; it is drawn all the same.
    for slot in range(1, len(nodes)):
        if valid[slot]:
            nodes[parent[slot]].children.append(nodes[slot])
    return nodes[0]


def _label(token: int, tokenizer: Tokenizer | None) -> str:
    return str(token) if tokenizer is None else _quoted(tokenizer.decode([token]))


def _quoted(text: str) -> str:
    r"""Text in quotes on one line: line breaks and the like escaped, letters of all scripts kept.

    Example:
      >>> print(_quoted("né\n"))
      'né\n'
    """
    return repr(text)


def _line(node: _Node) -> str:
    return f"{node.label} {node.logp:.2f}{' *' if node.accepted else ''}"


def _branches(node: _Node, indent: str) -> Iterator[str]:
    for index, child in enumerate(node.children):
        last = index == len(node.children) - 1
        yield f"{indent}{'`-- ' if last else '|-- '}{_line(child)}"
        yield from _branches(child, indent + ("    " if last else "|   "))


def _item(node: _Node) -> str:
    label = html.escape(node.label)
    if node.accepted:
        label = f'<b style="color:#1a7f37">{label}</b>'
    inner = "".join(_item(child) for child in node.children)
    nested = f'<ul style="list-style:none;padding-left:1.5em">{inner}</ul>' if inner else ""
    return f'<li>{label} <span style="color:#888">{node.logp:.2f}</span>{nested}</li>'
