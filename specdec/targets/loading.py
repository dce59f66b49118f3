"""From named tensors to `TargetParams`: shapes checked, inputs shared by several projections fused.

The embedding and the head follow the configuration. Tied: the embedding is the head; a head in the file is
not used, and a warning says so if it differs. Untied: the file must have one.
Leaves out: reading files (`specdec.checkpoints`) and choosing devices or a sharding.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from specdec.errors import CheckpointError
from specdec.targets.config import TargetConfig
from specdec.targets.params import LayerParams, TargetParams

if TYPE_CHECKING:
    from specdec.checkpoints.source import TensorSource

_HEAD = "lm_head.weight"
# Old checkpoints store rotary frequencies, which follow from the configuration.
_DERIVED = ".rotary_emb.inv_freq"


def load_params(config: TargetConfig, source: TensorSource, dtype: DTypeLike) -> TargetParams:
    """Read all weights of a target, one layer at a time.

    Args:
      config: sizes and switches that the tensors must fit.
      source: the weights.
      dtype: floating point type of every array of the result.

    Returns:
      The parameters on JAX's default device.

    Raises:
      CheckpointError: a tensor is missing, has another shape than the configuration asks for, or does not fit
        into `dtype`; file and tensor are named.
    """
    reader = _Reader(config, source, jnp.dtype(dtype))
    embed = reader.one("model.embed_tokens.weight", config.vocab_size, config.hidden_size)
    head = None
    if not config.tied:
        head = reader.one(_HEAD, config.vocab_size, config.hidden_size)
    elif _HEAD in source.names():
        reader.compare_head()
    layers = tuple(_layer(config, reader, index) for index in range(config.num_layers))
    norm = reader.one("model.norm.weight", config.hidden_size)
    reader.report_unused()
    return TargetParams(embed=embed, layers=layers, norm=norm, head=head)


def _layer(config: TargetConfig, reader: _Reader, index: int) -> LayerParams:
    name = f"model.layers.{index}."
    width, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    qkv = {f"{name}self_attn.{letter}_proj": rows for letter, rows in zip("qkv", (queries, keys, keys), strict=True)}
    gate_up = {f"{name}mlp.gate_proj": inner, f"{name}mlp.up_proj": inner}
    out, down = f"{name}self_attn.o_proj", f"{name}mlp.down_proj"
    return LayerParams(
        attn_norm=reader.one(f"{name}input_layernorm.weight", width),
        qkv=reader.fused(qkv, ".weight", width),
        qkv_bias=reader.fused(qkv, ".bias") if config.qkv_bias else None,
        q_norm=reader.one(f"{name}self_attn.q_norm.weight", config.head_dim) if config.qk_norm else None,
        k_norm=reader.one(f"{name}self_attn.k_norm.weight", config.head_dim) if config.qk_norm else None,
        out=reader.one(f"{out}.weight", width, queries),
        out_bias=reader.one(f"{out}.bias", width) if config.out_bias else None,
        mlp_norm=reader.one(f"{name}post_attention_layernorm.weight", width),
        gate_up=reader.fused(gate_up, ".weight", width),
        gate_up_bias=reader.fused(gate_up, ".bias") if config.mlp_bias else None,
        down=reader.one(f"{down}.weight", width, inner),
        down_bias=reader.one(f"{down}.bias", width) if config.mlp_bias else None,
    )


class _Reader:
    """Reads checked tensors and remembers which ones were used."""

    def __init__(self, config: TargetConfig, source: TensorSource, dtype: np.dtype):
        self._config, self._source, self._dtype = config, source, dtype
        self._names = source.names()
        self._used: set[str] = set()

    def one(self, name: str, *shape: int) -> jax.Array:
        # A copy: the values may be a view of a mapped file, which a JAX array must not keep alive.
        self._check(name, shape)
        return jnp.array(self._read(name))

    def fused(self, parts: dict[str, int], suffix: str, *rest: int) -> jax.Array:
        for part, rows in parts.items():
            self._check(part + suffix, (rows, *rest))
        values = np.empty((sum(parts.values()), *rest), self._dtype)
        row = 0
        for part, rows in parts.items():
            values[row : row + rows] = self._read(part + suffix)
            row += rows
        return jnp.asarray(values)

    def compare_head(self) -> None:
        self._used.add(_HEAD)
        embed = self._source.read("model.embed_tokens.weight")
        if not np.array_equal(self._source.read(_HEAD), embed):
            warnings.warn(
                f"{self._source.origin(_HEAD)} differs from the embedding although the configuration ties "
                "them; the embedding is used as the head. Set tie_word_embeddings to false to use it.",
                stacklevel=3,
            )

    def report_unused(self) -> None:
        unused = sorted(name for name in self._names - self._used if not name.endswith(_DERIVED))
        if unused:
            more = f" and {len(unused) - 8} more" if len(unused) > 8 else ""
            warnings.warn(
                f"{len(unused)} tensors of this checkpoint are not used by a {self._config.family.value} "
                f"target: {', '.join(unused[:8])}{more}. The first is {self._source.origin(unused[0])}.",
                stacklevel=3,
            )

    def _check(self, name: str, shape: tuple[int, ...]) -> None:
        if name not in self._names:
            raise CheckpointError(
                f"{self._source.origin(name)} is missing, expected shape {shape}.{self._advice(name)}"
            )
        found = self._source.shape(name)
        if found != shape:
            raise CheckpointError(
                f"{self._source.origin(name)} has shape {found}, the configuration asks for {shape}. "
                "Weights and configuration do not belong together."
            )
        self._used.add(name)

    def _read(self, name: str) -> np.ndarray:
        values = self._source.read(name)
        with np.errstate(over="ignore"):
            cast = values.astype(self._dtype, copy=False)
        if self._dtype == np.float16 and values.dtype != np.float16 and np.isinf(cast).any():
            raise CheckpointError(
                f"{self._source.origin(name)} has values beyond the range of float16. Load in bfloat16 or float32."
            )
        return cast

    def _advice(self, name: str) -> str:
        if name == _HEAD:
            return (
                " The configuration does not tie the head to the embedding; set tie_word_embeddings to "
                "true if this model ties them, or get the complete checkpoint."
            )
        close = sorted(other for other in self._names if other.endswith(name.removeprefix("model.")))
        return f" There is {close[0]!r} instead." if close else " The checkpoint is incomplete or of another family."
