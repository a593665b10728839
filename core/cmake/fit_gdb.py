# gdb shows tensors, shapes and layers: (gdb) source PREFIX/share/fit/fit_gdb.py
# It reads memory only, so it also works on core files.
import struct

import gdb
import gdb.printing

# In the order of fit::DType: the letter of struct, and the size.
TYPES = {"boolean": ("?", 1), "int8": ("b", 1), "int64": ("q", 8), "bfloat16": ("H", 2), "float32": ("f", 4),
         "float64": ("d", 8)}
SHOWN = 6  # elements


def shape_of(value):
    return "[" + ", ".join(str(int(value["sizes_"][i])) for i in range(int(value["rank_"]))) + "]"


def numbers_of(impl, dtype):
    letter, size = TYPES[dtype]
    count = min(int(impl["shape"]["numel_"]), SHOWN)
    start = int(impl["storage"]["data"]) + int(impl["offset"]) * size
    data = gdb.selected_inferior().read_memory(start, count * size).tobytes()
    if dtype == "bfloat16":  # the upper half of a float32
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
        letter = "f"
    values = struct.unpack("<%d%s" % (count, letter), data)
    text = ", ".join("%.6g" % v if isinstance(v, float) else str(v).lower() for v in values)
    return "{" + text + (", …}" if count < int(impl["shape"]["numel_"]) else "}")


class ShapePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return shape_of(self.value)


class TensorPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        impl = self.value["impl_"]
        if int(impl) == 0:
            return "undefined"
        impl = impl.dereference()
        dtype = str(impl["dtype"]).split("::")[-1]
        grad = ", requires grad" if int(impl["node"]) else ""
        return "%s %s%s %s" % (dtype, shape_of(impl["shape"]), grad, numbers_of(impl, dtype))


def printer():
    all = gdb.printing.RegexpCollectionPrettyPrinter("fit")
    all.add_printer("Shape", "^fit::Shape$", ShapePrinter)
    all.add_printer("Tensor", "^fit::(Tensor|Indexed|nn::Parameter|nn::Buffer)$", TensorPrinter)
    return all


gdb.printing.register_pretty_printer(gdb.current_objfile(), printer(), replace=True)
