#pragma once
#include "fit/optim/adam.hpp"
#include "fit/optim/more/adadelta.hpp"
#include "fit/optim/more/adafactor.hpp"
#include "fit/optim/more/adagrad.hpp"
#include "fit/optim/more/adamax.hpp"
#include "fit/optim/more/lamb.hpp"
#include "fit/optim/more/lion.hpp"
#include "fit/optim/more/nadam.hpp"
#include "fit/optim/more/radam.hpp"
#include "fit/optim/more/rmsprop.hpp"
#include "fit/optim/muon.hpp"
#include "fit/optim/sgd.hpp"

/// The list of all optimisers, made once: ELEMENTWISE(NAME) for those whose formula is compiled as a kernel,
/// TENSORS(NAME) for those whose formula consists of operations. LBFGS (fit/optim/more/lbfgs.hpp) is apart, as it calls
/// a closure.
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
