"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib

import pytest
from package_layout import modules


@pytest.mark.parametrize("name", [name for name, path in modules().items() if ">>> " in path.read_text()])
def test_docstring_examples(name: str):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert tried
    assert not failed, "see the captured output"
