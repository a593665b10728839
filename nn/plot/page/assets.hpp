#pragma once
#include <string>
#include <utility>
#include <vector>

// Styles and scripts of the pages. The build embeds the files of this folder (core/cmake/embed.cmake).
namespace fit::plot::page {

extern const char* const attention_html;
extern const char* const attention_css;
extern const char* const attention_js;
extern const char* const lesson_html;
extern const char* const lesson_css;
extern const char* const lesson_js;
extern const char* const theme_css;
extern const char* const theme_js;
extern const char* const training_html;
extern const char* const training_css;
extern const char* const training_js;

// Replaces each "{{name}}" of a template. The values are in the template's order, and are not searched themselves.
using Parts = std::vector<std::pair<std::string, std::string>>;
std::string filled(const std::string& page, const Parts& parts);

}  // namespace fit::plot::page
