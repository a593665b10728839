// A planted error for include_order.sh: a layer that knows a picture.
#include "plot/figures/drawing.hpp"
