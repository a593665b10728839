#pragma once
#include "fit/nn/optim/adam.hpp"
#include "fit/nn/optim/more/adadelta.hpp"
#include "fit/nn/optim/more/adafactor.hpp"
#include "fit/nn/optim/more/adagrad.hpp"
#include "fit/nn/optim/more/adamax.hpp"
#include "fit/nn/optim/more/lamb.hpp"
#include "fit/nn/optim/more/lion.hpp"
#include "fit/nn/optim/more/nadam.hpp"
#include "fit/nn/optim/more/radam.hpp"
#include "fit/nn/optim/more/rmsprop.hpp"
#include "fit/nn/optim/muon.hpp"
#include "fit/nn/optim/sgd.hpp"

/// The list of all optimisers, made once: ELEMENTWISE(NAME) for those whose formula is compiled as a kernel,
/// TENSORS(NAME) for those whose formula consists of operations. LBFGS (fit/nn/optim/more/lbfgs.hpp) is apart, as it
/// calls a closure.
#define FIT_OPTIMIZERS(ELEMENTWISE, TENSORS) \
  ELEMENTWISE(SGD)                           \
  ELEMENTWISE(Adam)                          \
  ELEMENTWISE(AdamW)                         \
  ELEMENTWISE(NAdam)                         \
  ELEMENTWISE(RAdam)                         \
  ELEMENTWISE(Adamax)                        \
  ELEMENTWISE(RMSprop)                       \
  ELEMENTWISE(Adagrad)                       \
  ELEMENTWISE(Lion)                          \
  ELEMENTWISE(Adadelta)                      \
  TENSORS(Adafactor)                         \
  TENSORS(Muon)                              \
  TENSORS(LAMB)
