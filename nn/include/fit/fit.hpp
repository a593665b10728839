#pragma once

/// All of fit but <fit/xtensor.hpp>. It is light: no header of xtensor or OpenBLAS comes with it.
#include "fit/attention.hpp"
#include "fit/error.hpp"
#include "fit/gradcheck.hpp"
#include "fit/graph.hpp"
#include "fit/memory.hpp"
#include "fit/nn/layer.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "fit/random.hpp"
#include "fit/shape.hpp"
#include "fit/tensor.hpp"
