"""transformers: GPT-2 learns two sentences by heart and goes on with them; BERT and Llama give gradients."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

torch.manual_seed(0)
x = torch.randint(1, 50, (2, 16))
config = GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(40):
    loss = model(x, labels=x).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
written = model.generate(x[:, :6], max_new_tokens=10, do_sample=False, pad_token_id=0)
right = (written == x).float().mean().item()
print(f"GPT-2: loss {loss.item():.3f}, {right:.0%} of the letters right")
assert right > 0.8

sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
for net, labels in (
    (BertForSequenceClassification(BertConfig(**sizes)), torch.tensor([0, 1])),
    (LlamaForCausalLM(LlamaConfig(**sizes)), x),
):
    net(x, labels=labels).loss.backward()
    assert sum(p.grad.abs().sum() > 0 for p in net.parameters() if p.grad is not None) > 5
