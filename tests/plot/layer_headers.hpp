#pragma once
#include <set>
#include <string>

namespace fit::test {

/// Headers of layers that measure nothing. The table of layers tests the layers.
inline const std::set<std::string> layer_headers = {"nn/layer/parameter.hpp",
                                                    "nn/layer/fields.hpp",
                                                    "nn/layers/activation.hpp",
                                                    "nn/attention/attention.hpp",
                                                    "nn/attention/attention_context.hpp",
                                                    "nn/models/bert.hpp",
                                                    "nn/layers/containers.hpp",
                                                    "nn/layers/convolution.hpp",
                                                    "nn/layers/dropout.hpp",
                                                    "nn/layers/feed_forward.hpp",
                                                    "nn/layers/linear.hpp",
                                                    "nn/layers/norm.hpp",
                                                    "nn/layers/position.hpp",
                                                    "nn/layers/recurrent.hpp",
                                                    "nn/attention/sequence_layer.hpp",
                                                    "nn/models/transformer.hpp"};

}  // namespace fit::test
