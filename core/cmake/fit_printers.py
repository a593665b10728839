# Debuggers show tensors, parameters, shapes and layers as values. Each program that is linked with fit contains this
# file, so gdb loads it by itself. lldb: command script import PREFIX/share/fit/fit_printers.py
# The printers read memory only, so they also work on core files. docs/debugging.md says how to use them.
import struct

try:
    import gdb
    import gdb.printing
except ImportError:  # lldb
    gdb = None

# In the order of fit::DType: the name, the letter of struct, and the size.
TYPES = [("boolean", "?", 1), ("int8", "b", 1), ("int64", "q", 8), ("bfloat16", "H", 2), ("float32", "f", 4),
         ("float64", "d", 8)]
SHOWN = 6  # elements
SHAPE = "^fit::Shape$"
TENSOR = "^fit::(Tensor|Indexed|nn::Parameter|nn::Buffer)$"


def shape_text(sizes):
    return "[" + ", ".join(str(n) for n in sizes) + "]"


def tensor_text(dtype, sizes, numel, start, node, read):
    """The type, shape and first elements. read(address, bytes) reads memory; start is the first element's address."""
    name, letter, size = TYPES[dtype]
    count = min(numel, SHOWN)
    data = read(start, count * size) if count else b""
    if name == "bfloat16":  # the upper half of a float32
        data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
        letter = "f"
    values = struct.unpack("<%d%s" % (count, letter), data)
    text = ", ".join("%.6g" % v if isinstance(v, float) else str(v).lower() for v in values)
    grad = ", requires grad" if node else ""
    return "%s %s%s {%s%s}" % (name, shape_text(sizes), grad, text, ", …" if count < numel else "")


# ---- gdb


class GdbShape:
    def __init__(self, value):
        self.value = value

    def sizes(self):
        return [int(self.value["sizes_"][i]) for i in range(int(self.value["rank_"]))]

    def to_string(self):
        return shape_text(self.sizes())


class GdbTensor:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        if int(self.value["impl_"]) == 0:
            return "undefined"
        t = self.value["impl_"].dereference()
        dtype = int(t["dtype"])
        start = int(t["storage"]["data"])
        read = lambda address, size: gdb.selected_inferior().read_memory(address, size).tobytes()
        return tensor_text(dtype, GdbShape(t["shape"]).sizes(), int(t["shape"]["numel_"]), start, int(t["node"]), read)


def is_layer(type):
    """Whether fit::nn::Layer is a base of the type."""
    if type.name == "fit::nn::Layer":
        return True
    return type.code == gdb.TYPE_CODE_STRUCT and any(f.is_base_class and is_layer(f.type.strip_typedefs())
                                                    for f in type.fields())


def class_at(address):
    """The class of the object at this address, by its table of virtual functions; None if there is no such table."""
    try:
        table = gdb.Value(address).cast(gdb.lookup_type("unsigned long").pointer()).dereference()
        name = gdb.execute("info symbol %d" % int(table), to_string=True)
    except gdb.error:
        return None
    return name[len("vtable for "):].split(" + ")[0] if name.startswith("vtable for ") else None


class GdbLayer:
    """The class and the members. The class alone if the debug information does not describe the members: the docs say
    which flag of the compiler helps."""

    def __init__(self, value):
        self.value = value
        self.name = class_at(int(value.address)) if value.address is not None else None
        try:
            if self.name and self.name != value.type.strip_typedefs().name:
                self.value = value.cast(gdb.lookup_type(self.name))
        except gdb.error:
            pass

    def to_string(self):
        return (self.name or str(self.value.type)).split("::")[-1]

    def children(self):
        return self.members(self.value)

    def members(self, value):
        for field in value.type.strip_typedefs().fields():
            if field.is_base_class:
                if field.type.name not in ("fit::nn::Layer", "fit::nn::UnaryLayer"):
                    yield from self.members(value[field])
            elif hasattr(field, "bitpos") and not field.artificial:
                yield field.name, value[field]


class GdbLayers(gdb.printing.PrettyPrinter if gdb else object):
    def __call__(self, value):
        type = value.type.strip_typedefs()
        if type.code != gdb.TYPE_CODE_STRUCT or not type.name:
            return None
        if is_layer(type):
            return GdbLayer(value)
        # A class of which only the name is known.
        if not type.fields() and type.name.startswith("fit::nn::") and value.address is not None:
            return GdbLayer(value) if class_at(int(value.address)) else None
        return None


def gdb_printers():
    all = gdb.printing.RegexpCollectionPrettyPrinter("fit")
    all.add_printer("Shape", SHAPE, GdbShape)
    all.add_printer("Tensor", TENSOR, GdbTensor)
    return all


if gdb:
    for printers in (GdbLayers("fit layers"), gdb_printers()):
        gdb.printing.register_pretty_printer(gdb.current_objfile(), printers, replace=True)


# ---- lldb


def lldb_sizes(shape):
    sizes = shape.GetChildMemberWithName("sizes_")
    rank = shape.GetChildMemberWithName("rank_").GetValueAsUnsigned()
    return [sizes.GetChildAtIndex(i).GetValueAsSigned() for i in range(rank)]


def lldb_shape(value, _):
    return shape_text(lldb_sizes(value.GetNonSyntheticValue()))


def lldb_tensor(value, _):
    import lldb

    pointer = value.GetNonSyntheticValue().GetChildMemberWithName("impl_")
    if pointer.GetValueAsUnsigned() == 0:
        return "undefined"
    t = pointer.Dereference()
    number = lambda of, *names: number(of.GetChildMemberWithName(names[0]), *names[1:]) if names else of.GetValueAsUnsigned()
    dtype = number(t, "dtype")
    start = number(t.GetChildMemberWithName("storage").Dereference(), "data")
    read = lambda address, size: value.GetProcess().ReadMemory(address, size, lldb.SBError())
    shape = t.GetChildMemberWithName("shape")
    return tensor_text(dtype, lldb_sizes(shape), number(shape, "numel_"), start, number(t, "node"), read)


def __lldb_init_module(debugger, _):
    for types, function in ((SHAPE, lldb_shape), (TENSOR, lldb_tensor)):
        debugger.HandleCommand('type summary add -x "%s" -F %s.%s' % (types, __name__, function.__name__))
