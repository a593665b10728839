"""For generators that call functions of transformers."""

import torch


class InFloat64:
    """The module torch, in which float32 means float64, for a function that converts to float32."""

    def __getattr__(self, name):
        return torch.float64 if name == "float32" else getattr(torch, name)


def leaf(values):
    """Numbers that float32 represents exactly, in float64."""
    return values.float().double().requires_grad_()
