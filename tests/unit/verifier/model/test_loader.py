"""Loading: what is refused, what is read from the files, what is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dspark.verifier.config import VerifierConfig
from dspark.verifier.interfaces import LoadedModel, ModelRefused
from dspark.verifier.model import kernels, loader
from dspark.verifier.model.probe_rows import plain_rows, probe_batch
from dspark.verifier.model.self_test import RowInvarianceTest
from dspark.verifier.native.compiler import NativeUnavailable
from harness.tiny_models import save_tiny_model, tiny_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model("llama", tmp_path_factory.mktemp("llama"))


def load(directory: Path, **settings: Any) -> LoadedModel:
    settings = {"kv_tokens": 512, "max_step_rows": 4} | settings
    config = VerifierConfig(model=str(directory), **settings)
    return loader.load_model(config, lambda line: None)


def refusal(directory: Path, **settings: Any) -> str:
    with pytest.raises(ModelRefused) as refused:
        load(directory, **settings)
    return str(refused.value)


def test_what_is_reported(directory: Path) -> None:
    model = load(directory)
    assert model.kernel_class.startswith("native-avx")
    assert model.kernel_class.endswith("-fp32w-fp32a-kv-float32")
    assert (model.exactness, model.dtype, model.device) == ("strict", "fp32", "cpu")
    assert [cost.rows for cost in model.verify_costs] == [1, 2, 4]
    costs = [cost.milliseconds for cost in model.verify_costs]
    assert costs == sorted(costs) and costs[0] > 0
    assert model.runner.eos_token_ids == frozenset({1})
    assert model.runner.max_model_len == 512
    assert load(directory).model_digest == model.model_digest
    assert load(directory, weight_dtype="bf16").model_digest != model.model_digest


def test_eos_ids_come_from_the_generation_config(tmp_path: Path) -> None:
    save_tiny_model("qwen2", tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [5, 6]}))
    assert load(tmp_path).runner.eos_token_ids == frozenset({5, 6})
    path.unlink()
    assert load(tmp_path).runner.eos_token_ids == frozenset({1})


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"attention": "flash_attn"}, "needs a CUDA device"),
        ({"kernels": "torch", "attention": "native"}, "needs the native kernels"),
    ],
)
def test_settings_that_do_not_work(directory: Path, settings: dict[str, str], problem: str) -> None:
    assert problem in refusal(directory, **settings)


def test_a_length_that_the_model_has_no_positions_for(directory: Path) -> None:
    problem = refusal(directory, kv_tokens=1024, max_model_len=513)
    assert "--max-model-len 513" in problem
    assert "512" in problem
    assert load(directory, max_model_len=512).runner.max_model_len == 512


def test_a_directory_without_weights(tmp_path: Path) -> None:
    assert "holds no .safetensors file" in refusal(tmp_path)


def test_a_name_that_is_nothing() -> None:
    assert "no directory or .gguf file" in refusal(Path("a/b/c"))


def test_damaged_weights(tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path)
    (weights,) = tmp_path.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:1000])
    assert refusal(tmp_path)


def test_a_damaged_config(tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert refusal(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
            "dynamic",
        ),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
    ],
)
def test_models_whose_rows_are_not_their_own(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    save_tiny_model("llama", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert problem in refusal(tmp_path)


def test_an_architecture_without_the_attention_interface(tmp_path: Path) -> None:
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(vocab_size=20, hidden_size=16, n_layer=1, n_head=2)
    BloomForCausalLM(config).save_pretrained(tmp_path)
    assert "BloomForCausalLM" in refusal(tmp_path)


def torch_kernels() -> str:
    capability: str = torch.backends.cpu.get_cpu_capability()  # type: ignore[no-untyped-call]
    return f"{torch.__version__}-{capability.replace(' ', '_')}"


def test_without_the_kernels_torch_runs_the_model(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unavailable(num_threads: int) -> None:
        raise NativeUnavailable("no C++ compiler was found")

    monkeypatch.setattr(kernels, "Team", unavailable)
    model = load(directory)
    assert model.kernel_class == f"torch-cpu-fp32-{torch_kernels()}-kv-float32"
    assert "no C++ compiler was found" in caplog.text
    assert "no C++ compiler was found" in refusal(directory, kernels="native")


def test_bfloat16_is_computed_in_float32_where_it_is_slow(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_cpu_flags", set)
    model = load(directory, kernels="torch", weight_dtype="bf16")
    assert model.kernel_class == f"torch-cpu-fp32-{torch_kernels()}-kv-bfloat16"


def test_processors_for_which_torch_has_other_kernels_are_another_class(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = load(directory, kernels="torch").kernel_class
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "OTHER")
    assert load(directory, kernels="torch").kernel_class != here


def test_strict_is_not_claimed_when_the_self_test_fails(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RowInvarianceTest, "failures", lambda self: ["tree rows"])
    for path in ("native", "torch"):
        assert load(directory, kernels=path).exactness == "fast"
    assert "tree rows" in caplog.text


def test_fast_is_kept_when_asked_for(directory: Path) -> None:
    assert load(directory, exactness="fast").exactness == "fast"


def test_a_gguf_file_gives_the_logits_of_its_weights(tmp_path: Path, directory: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf")
    from_gguf, plain = load(path, weight_dtype="fp32"), load(directory)
    batch = probe_batch(plain_rows([3, 1, 4, 1, 5], range(5)), range(5), block_size=16)
    expected = np.array(plain.runner.forward(batch))
    np.testing.assert_allclose(from_gguf.runner.forward(batch), expected, rtol=1e-4, atol=1e-4)
    assert load(path).dtype == "bf16"


def write_gguf(path: Path) -> Path:
    """The tiny Llama as a float32 GGUF file, with the permuted heads of that format."""
    import gguf

    model = tiny_model("llama")
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_eos_token_id(1)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        values = tensor.numpy()
        if name.endswith("q_proj.weight"):
            values = interleave_heads(values, config.num_attention_heads)
        elif name.endswith("k_proj.weight"):
            values = interleave_heads(values, config.num_key_value_heads)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleave_heads(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """Rotary pairs side by side, as GGUF files of Llama keep them."""
    halves = weight.reshape(num_heads, 2, -1, weight.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))
