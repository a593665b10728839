#pragma once

/// OPTIONS(optim::SGDOptions, o.lr = 0.1, o.momentum = 0.9): options of which some are set.
#define OPTIONS(Type, ...) \
  ([&] {                   \
    Type o;                \
    __VA_ARGS__;           \
    return o;              \
  }())
