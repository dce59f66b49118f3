"""A two-layer model with random weights, made in memory: what the examples run on when nothing may be downloaded.

Its text means nothing, but everything else (tokenizer, chat, caches, trees, counters) works as with a real model,
and its greedy output soon repeats itself, which is what prompt lookup drafts well.
Leaves out: anything learned.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import specdec
from specdec import Model
from specdec.checkpoints import Tokenizer
from specdec.targets import Decoder, LayerParams, TargetConfig, TargetParams
from specdec.targets.config import Family

CIRCLE = 8  # ids per repeating stretch of text
END = "<|end|>"
TEMPLATE = "{% for turn in messages %}{{ turn['content'] }}\n{% endfor %}"


def load(name: str) -> Model:
    """The toy for the name "toy", otherwise what `specdec.load` makes of the name."""
    return toy_model() if name == "toy" else specdec.load(name)


def toy_model(seed: int = 2, *, layers: int = 2, width: int = 32) -> Model:
    """A random Llama over bytes.

    Args:
      seed: of the weights.
      layers: decoder layers.
      width: of the residual stream; a multiple of 8.

    Returns:
      A model for `generate`, `stream` and `Engine`, whose ids are the 256 bytes and one end-of-turn id.
    """
    tokenizer = byte_tokenizer()
    config = TargetConfig(
        family=Family.LLAMA,
        vocab_size=tokenizer.size,
        hidden_size=width,
        num_layers=layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=width // 4,
        intermediate_size=2 * width,
    )
    return Model("toy", Decoder(config), random_params(config, seed), tokenizer, tokenizer.eos_ids)


def random_params(config: TargetConfig, seed: int) -> TargetParams:
    """Gaussian weights, and a head that leans towards the next id in a circle of `CIRCLE`."""
    keys = iter(jax.random.split(jax.random.key(seed), 1 + 4 * config.num_layers))

    def matrix(rows: int, columns: int) -> jax.Array:
        return jax.random.normal(next(keys), (rows, columns), jnp.float32) * 1.0 * columns**-0.5

    width, inner = config.hidden_size, config.intermediate_size
    queries = config.num_heads * config.head_dim
    fused = queries + 2 * config.num_kv_heads * config.head_dim
    ones = jnp.ones((width,), jnp.float32)
    embed = jax.random.normal(next(keys), (config.vocab_size, width), jnp.float32)
    layers = tuple(
        LayerParams(
            attn_norm=ones,
            qkv=matrix(fused, width),
            out=matrix(width, queries),
            mlp_norm=ones,
            gate_up=matrix(2 * inner, width),
            down=matrix(width, inner),
        )
        for _ in range(config.num_layers)
    )
    ids = jnp.arange(config.vocab_size)
    before = ids // CIRCLE * CIRCLE + (ids - 1) % CIRCLE
    return TargetParams(embed=embed, layers=layers, norm=ones, head=embed[before])


def byte_tokenizer() -> Tokenizer:
    """One id per byte and one that ends a turn, with a chat template."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model = tokenizers.models.BPE({letter: index for index, letter in enumerate(letters)}, [])
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    inner = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, chat_template=TEMPLATE)
    return Tokenizer(inner, template_source="toy")
