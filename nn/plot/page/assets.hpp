#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/workbench.hpp"
#include "io/json.hpp"

// Styles and scripts of the pages. The build embeds the files of this folder (core/cmake/embed.cmake).
namespace fit::plot::page {

// The joined files of a folder. shared holds the colours, the theme and the controls of all pages,
// live the parts of pages in which a model runs, and engine its forward pass.
extern const char* const engine_js;
extern const char* const five_minutes_html;
extern const char* const five_minutes_css;
extern const char* const five_minutes_js;
extern const char* const lesson_html;
extern const char* const lesson_css;
extern const char* const lesson_js;
extern const char* const live_html;
extern const char* const live_css;
extern const char* const live_js;
extern const char* const packed_js;
extern const char* const shared_css;
extern const char* const shared_html;
extern const char* const shared_js;
extern const char* const training_html;
extern const char* const training_css;
extern const char* const training_js;
extern const char* const workbench_html;
extern const char* const workbench_css;
extern const char* const workbench_js;
extern const char* const workbench_live_html;
extern const char* const workbench_live_js;
extern const char* const workbench_page_html;
extern const char* const workbench_page_css;
extern const char* const workbench_page_js;
extern const char* const workbench_worker_js;

// The script of all pages: the theme, and the colours of C++'s figures (shared/colors.js).
std::string shared_script();

// The script of pages with a workbench: that of all pages, the bench, and what it unpacks blocks with.
std::string workbench_script();

// The workbench of a recording as a part of a page. The page's script makes it work by `new Workbench(element)`
// (page/workbench/bench.js); it needs workbench_script() and the style workbench_css. The errors are those of
// workbench().
std::string workbench_view(const AttentionRecording& recording, const WorkbenchOptions& options = {});

// JSON for a script element: without '<' it can neither close nor open one. What is not UTF-8 is replaced.
std::string script_json(const io::Json& json);

// Replaces each "{{name}}" of a template. The values are in the template's order, and are not searched themselves.
using Parts = std::vector<std::pair<std::string, std::string>>;
std::string filled(const std::string& page, const Parts& parts);

// The start of a page, before its body. The title is HTML. The style is that of all pages, then `css`. `sources` goes
// on with the list of scripts that the browser allows: "'unsafe-inline'".
std::string head(const std::string& title, const std::string& css, const std::string& sources = "");

}  // namespace fit::plot::page
