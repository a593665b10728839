// A planted error for include_order.sh: a kernel that knows an operation.
#include "ops/elementwise/arithmetic.hpp"
