#pragma once
#include <string>
#include <vector>

#include "fit/workbench.hpp"
#include "io/json.hpp"

namespace fit::plot {

// A model that runs in the page: puts its options, vocabulary, samples and C++'s numbers into `data`, and returns the
// blocks of its weights. The errors are those of workbench().
std::string live_run(const nn::GPT& model, const text::Vocabulary& vocabulary, const std::vector<std::string>& samples,
                     const WorkbenchOptions& options, io::Json& data);

}  // namespace fit::plot
