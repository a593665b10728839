#include "fit/workbench.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plot/figures/text.hpp"
#include "plot/live_run.hpp"
#include "plot/page/assets.hpp"
#include "plot/recorded_run.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

using json = io::Json;

// name -> [[step, value], …], without what is not finite.
std::map<std::string, json> series_of(const WorkbenchRun& run) {
  std::map<std::string, json> series;
  for (const TrainingRow& row : run.rows) {
    const auto step = row.find("step");
    if (step == row.end()) check::fail(workbench_op, "a row of '", run.name, "' has no step");
    for (const auto& [name, value] : row)
      if (name != "step" && std::isfinite(value)) series[name].push_back({step->second, value});
  }
  return series;
}

// A chart for each name that two runs have, or that the only one has.
json charts_of(const std::vector<WorkbenchRun>& runs) {
  std::vector<std::map<std::string, json>> series;
  std::map<std::string, std::size_t> count;
  for (const WorkbenchRun& run : runs) {
    series.push_back(series_of(run));
    for (const auto& [name, points] : series.back()) ++count[name];
  }
  json charts = json::array();
  for (const auto& [name, times] : count) {
    if (times < std::min<std::size_t>(2, runs.size())) continue;
    json points = json::array();
    for (const auto& run : series) points.push_back(run.count(name) ? run.at(name) : json(nullptr));
    charts.push_back({{"name", printable(name)}, {"runs", points}});
  }
  return charts;
}

std::string named(const WorkbenchOptions& options, const std::string& otherwise) {
  return options.title().empty() ? otherwise : options.title();
}

// The page of a workbench with this data and these blocks.
std::string page_of(const std::string& title, const std::string& view, const json& data, const std::string& blocks,
                    const char* badge, const char* sources) {
  const std::string escaped = escape_xml(title);
  return page::filled(
      page::workbench_page_html,
      {{"{{head}}",
        page::head(escaped, std::string(page::workbench_css) + page::live_css + page::workbench_page_css, sources)},
       {"{{heading}}", escaped},
       {"{{badge}}", badge},
       {"{{bench}}", view},
       {"{{data}}", page::script_json(data)},
       {"{{blocks}}", blocks},
       {"{{script}}", page::workbench_script() + page::live_js + page::workbench_live_js + page::workbench_page_js}});
}

}  // namespace

std::string page::workbench_view(const AttentionRecording& recording, const WorkbenchOptions& options) {
  std::size_t bytes = 0;
  return page::filled(page::workbench_html,
                      {{"{{reader}}", ""}, {"{{data}}", recorded_run(recording, "", options, bytes)}});
}

std::string workbench(const AttentionRecording& recording, const WorkbenchOptions& options) {
  return page_of(named(options, recording.title), page::workbench_view(recording, options), json::object(), "", "", "");
}

std::string workbench(const std::vector<WorkbenchRun>& runs, const WorkbenchOptions& options) {
  json data{{"names", json::array()}, {"charts", charts_of(runs)}};
  std::set<std::string> names;
  std::string heads;
  std::size_t bytes = 0;
  for (const WorkbenchRun& run : runs) {
    if (!names.insert(run.name).second) check::fail(workbench_op, "two runs are named '", run.name, "'");
    data["names"].push_back(printable(run.name));
    if (!run.heads.records().empty()) heads += recorded_run(run.heads, printable(run.name), options, bytes);
  }
  if (data["charts"].empty() && heads.empty())
    check::fail(workbench_op, "there is nothing to show: no two of the ", runs.size(),
                " runs have a number in common, and none has heads");
  const std::string view =
      heads.empty() ? "" : page::filled(page::workbench_html, {{"{{reader}}", ""}, {"{{data}}", heads}});
  return page_of(named(options, "Runs"), view, data, "", "", "");
}

std::string workbench(const nn::GPT& model, const text::Vocabulary& vocabulary, const std::vector<std::string>& samples,
                      const WorkbenchOptions& options) {
  json data;
  const std::string blocks = live_run(model, vocabulary, samples, options, data);
  const std::string worker = "<script type=\"text/plain\" id=\"worker\">\n" + std::string(page::packed_js) +
                             page::engine_js + page::workbench_worker_js + "</script>\n";
  const std::string view =
      page::filled(page::workbench_html, {{"{{reader}}", page::workbench_live_html}, {"{{data}}", ""}});
  return page_of(named(options, "A model"), view, data, blocks + worker,
                 "<p id=\"badge\" role=\"status\">checking …</p>", " blob:; worker-src blob:");
}

void write_workbench(const std::string& path, const AttentionRecording& recording, const WorkbenchOptions& options) {
  write_text("plot::write_workbench", path, workbench(recording, options));
}

void write_workbench(const std::string& path, const std::vector<WorkbenchRun>& runs, const WorkbenchOptions& options) {
  write_text("plot::write_workbench", path, workbench(runs, options));
}

void write_workbench(const std::string& path, const nn::GPT& model, const text::Vocabulary& vocabulary,
                     const std::vector<std::string>& samples, const WorkbenchOptions& options) {
  write_text("plot::write_workbench", path, workbench(model, vocabulary, samples, options));
}

}  // namespace fit::plot
