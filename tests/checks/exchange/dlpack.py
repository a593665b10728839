"""dlpack.py LIBRARY: NumPy and PyTorch read fit's memory, and fit theirs (LIBRARY is dlpack_module.cpp). Exit code 77:
neither package is there."""

import ctypes
import sys

lib, python = ctypes.CDLL(sys.argv[1]), ctypes.pythonapi
for name in ("lend", "lend_unversioned", "edit", "address"):
    getattr(lib, name).restype = ctypes.c_void_p
lib.total.restype = ctypes.c_double
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NEW, OLD = b"dltensor_versioned", b"dltensor"
USED = {NEW: b"used_dltensor_versioned", OLD: b"used_dltensor"}


class Ours:
    """fit's memory under Python's protocol."""

    def __init__(self, pointer, name):
        self.capsule = python.PyCapsule_New(pointer, name, None)

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


def give(array, name=NEW):
    """Gives an array to fit, which keeps it."""
    capsule = array.__dlpack__(max_version=(1, 0)) if name == NEW else array.__dlpack__()
    pointer = python.PyCapsule_GetPointer(capsule, name)
    (lib.keep if name == NEW else lib.keep_unversioned)(ctypes.c_void_p(pointer))
    python.PyCapsule_SetName(capsule, USED[name])


tried = []
try:
    import numpy as np

    x = np.from_dlpack(Ours(lib.lend(), NEW))
    assert x.shape == (3, 4) and x.dtype == np.float32 and x.tolist()[2] == [8, 9, 10, 11], x
    assert not x.flags.writeable
    y = np.from_dlpack(Ours(lib.lend_unversioned(), OLD))
    assert y.tolist() == [[1, -2], [3, 4]], y
    z = np.from_dlpack(Ours(lib.edit(), NEW))
    z[1] = 5
    assert lib.total() == 5
    del x, y, z
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    held = sys.getrefcount(array)
    for given, name in ((array, NEW), (array, OLD), (array.T, NEW), (array[:, ::2], NEW)):
        give(given, name)
        assert lib.total() == given.sum(), given
        assert (lib.address() == given.ctypes.data) == given.flags.c_contiguous
    lib.forget()
    assert sys.getrefcount(array) == held, "fit still holds the array"
    tried.append("NumPy")
except ImportError as missing:
    print(missing)
try:
    import torch

    x = torch.from_dlpack(Ours(lib.lend_unversioned(), OLD))
    assert x.dtype == torch.float64 and x.tolist() == [[1, -2], [3, 4]], x
    z = torch.from_dlpack(Ours(lib.edit(), NEW))
    z[2] = 7
    assert lib.total() == 7
    for tensor in (torch.arange(6), torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(4, 2).t()):
        give(tensor, OLD)
        assert lib.total() == tensor.sum().item()
        assert (lib.address() == tensor.data_ptr()) == tensor.is_contiguous()
    lib.forget()
    tried.append("PyTorch")
except ImportError as missing:
    print(missing)
if not tried:
    print("pip install numpy, or torch")
    sys.exit(77)
print(" and ".join(tried), "have read fit's memory, and fit theirs")
