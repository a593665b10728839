#include "fit/comparison_page.hpp"

#include <cmath>
#include <map>

#include "plot/figures/text.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

using json = io::Json;
constexpr const char* comparison_page_op = "plot::comparison_page";

// name -> [[step, value], …], without what is not finite.
std::map<std::string, json> series_of(const ComparedRun& run) {
  std::map<std::string, json> series;
  for (const TrainingRow& row : run.rows) {
    const auto step = row.find("step");
    if (step == row.end()) check::fail(comparison_page_op, "a row of '", run.name, "' has no step");
    for (const auto& [name, value] : row)
      if (name != "step" && std::isfinite(value)) series[name].push_back({step->second, value});
  }
  return series;
}

}  // namespace

std::string comparison_page(const ComparedRun& a, const ComparedRun& b, const std::string& title) {
  json data{{"names", {printable(a.name), printable(b.name)}}, {"charts", json::array()}};
  std::map<std::string, json> first = series_of(a), second = series_of(b);
  for (const auto& [name, points] : first)
    if (second.count(name)) data["charts"].push_back({{"name", printable(name)}, {"runs", {points, second[name]}}});
  const bool heads = !a.heads.records().empty() && !b.heads.records().empty();
  if (data["charts"].empty() && !heads)
    check::fail(comparison_page_op, "'", a.name, "' and '", b.name,
                "' have no number in common, and not both have heads");

  std::string views;
  for (const ComparedRun* const run : {&a, &b})
    if (heads)
      views +=
          "<div class=\"run\"><h2>" + escape_xml(run->name) + "</h2>\n" + page::heads_view(run->heads) + "</div>\n";
  const std::string escaped = escape_xml(title);
  return page::filled(page::comparison_html,
                      {{"{{head}}", page::head(escaped, std::string(page::heads_css) + page::comparison_css)},
                       {"{{heading}}", escaped},
                       {"{{heads}}", views},
                       {"{{data}}", page::script_json(data)},
                       {"{{script}}", page::heads_script() + page::comparison_js}});
}

void write_comparison_page(const std::string& path, const ComparedRun& a, const ComparedRun& b,
                           const std::string& title) {
  write_text("plot::write_comparison_page", path, comparison_page(a, b, title));
}

}  // namespace fit::plot
