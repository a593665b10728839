#pragma once
#include <string>

#include "fit/workbench.hpp"
#include "io/json.hpp"
#include "plot/head_roles.hpp"

namespace fit::plot {

constexpr const char* workbench_op = "plot::workbench";

// The heads of a run as an element of the page, which page/workbench/data.js reads. `bytes` is the size of all runs of
// the page, and grows. The errors are those of workbench().
std::string recorded_run(const AttentionRecording& recording, const std::string& name, const WorkbenchOptions& options,
                         std::size_t& bytes);

// The roles of a head as the page reads them: of each [value, weight, even], or null if it is not defined.
io::Json roles_json(const HeadRoles& roles);

}  // namespace fit::plot
