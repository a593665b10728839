// What is in the file, and what is refused. How the page works is tested in a browser: tests/checks/browser.
#include "fit/comparison_page.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fit/base/error.hpp"
#include "fit/ops/ops.hpp"
#include "plot/page_data.hpp"
#include "support/catch.hpp"

namespace fit::test::comparison_page_test {
using Catch::Matchers::Contains;
using nlohmann::json;
using plot::ComparedRun;

TEST_CASE("a comparison has the finite numbers that both runs have") {
  const ComparedRun a{"a", {{{"step", 1}, {"loss", 2}}, {{"step", 2}, {"loss", NAN}, {"lr", 1}}}, {}};
  const ComparedRun b{"<b>", {{{"step", 1}, {"loss", 3}}, {{"step", 4}, {"loss", 1.5}, {"norm", 1}}}, {}};
  const std::string html = plot::comparison_page(a, b, "<i>");
  const json data = data_of(html);
  CHECK(data["names"] == json({"a", "<b>"}));
  CHECK(data["charts"] == json::parse(R"([{"name": "loss", "runs": [[[1, 2]], [[1, 3], [4, 1.5]]]}])"));
  CHECK_THAT(html, Contains("<h1>&lt;i&gt;</h1>") && !Contains("class=\"run\""));
}

TEST_CASE("a comparison needs something that both runs have") {
  const ComparedRun loss{"a", {{{"step", 1}, {"loss", 2}}}, {}}, rate{"b", {{{"step", 1}, {"lr", 2}}}, {}};
  CHECK_THROWS_WITH(plot::comparison_page(loss, rate), Contains("'a' and 'b' have no number in common"));
  const ComparedRun without_step{"c", {{{"loss", 2}}}, {}};
  CHECK_THROWS_WITH(plot::comparison_page(loss, without_step), Contains("a row of 'c' has no step"));
  ComparedRun heads{"d", {}, {}};
  heads.heads.add("attention", softmax(ones({2, 3, 3}), -1));
  CHECK_THROWS_AS(plot::comparison_page(heads, loss), Error);
  CHECK_THAT(plot::comparison_page(heads, heads), Contains("class=\"run\""));
  CHECK_THROWS_AS(plot::write_comparison_page("/dev/null/page.html", loss, loss), FileError);
}

}  // namespace fit::test::comparison_page_test
