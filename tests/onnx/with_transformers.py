"""transformers and timm: models of their own through adjoint's exporter and onnxruntime, with dynamic sizes."""

import sys

import numpy as np
import onnxruntime
import torch

torch.distributed.is_available = lambda: False  # or transformers sets up tensor parallelism as it is imported


def check(name, model, inputs, axes, other):
    model.eval()
    names = [f"x{i}" for i in range(len(inputs))]
    program = torch.onnx.export(model, inputs, input_names=names, dynamic_axes=dict(zip(names, axes)))
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for given in (inputs, other):
        with torch.no_grad():
            expected = model(*given).numpy()
        found = session.run(None, {n: v.numpy() for n, v in zip(names, given)})[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    print(name, "equal")


class First(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, mask=None):
        return self.model(x)[0] if mask is None else self.model(x, attention_mask=mask)[0]


def words(*shape):
    return torch.randint(0, 50, shape)


torch.manual_seed(0)
if "transformers" in sys.argv:
    from transformers import (
        BertConfig,
        BertModel,
        GPT2Config,
        GPT2LMHeadModel,
        T5Config,
        T5EncoderModel,
        ViTConfig,
        ViTModel,
    )  # fmt: skip

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    both = {0: "batch", 1: "time"}
    gpt = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=50, n_positions=64, use_cache=False))
    check("GPT-2", First(gpt), (words(2, 7),), [both], (words(3, 11),))
    mask, longer = torch.ones(2, 7, dtype=torch.int64), torch.ones(3, 9, dtype=torch.int64)
    mask[1, 5:] = longer[2, 4:] = 0
    bert = BertModel(BertConfig(vocab_size=50, **small))
    check("BERT", First(bert), (words(2, 7), mask), [both, both], (words(3, 9), longer))
    t5 = T5EncoderModel(T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=50))
    check("T5's encoder", First(t5), (words(2, 7),), [both], (words(3, 12),))
    vit = ViTModel(ViTConfig(image_size=32, patch_size=8, **small))
    check("ViT", First(vit), (torch.randn(2, 3, 32, 32),), [{0: "batch"}], (torch.randn(5, 3, 32, 32),))
if "timm" in sys.argv:
    import timm

    swin = {"img_size": 56, "window_size": 7, "depths": (1, 1, 1, 1), "embed_dim": 24, "num_heads": (1, 2, 4, 8)}
    for name, options in {"resnet10t": {}, "convnext_atto": {}, "swin_tiny_patch4_window7_224": swin}.items():
        model = timm.create_model(name, pretrained=False, num_classes=10, **options)
        side = 56 if options else 64
        check(name, model, (torch.randn(2, 3, side, side),), [{0: "batch"}], (torch.randn(3, 3, side, side),))
