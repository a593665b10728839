#pragma once

/// All headers of fit except <fit/tensor/xtensor.hpp>: tensors, layers, and pictures. A program of tensors alone may
/// include <fit/core.hpp>, one without pictures <fit/nn.hpp>.
#include "fit/explain.hpp"
#include "fit/five_minutes_page.hpp"
#include "fit/graph_to_dot.hpp"
#include "fit/lesson.hpp"
#include "fit/nn.hpp"
#include "fit/plot.hpp"
#include "fit/training_page.hpp"
#include "fit/workbench.hpp"
