#pragma once
#include <string>
#include <utility>
#include <vector>

// The parts of pages, embedded from the files of this folder when fit is built (core/cmake/embed.cmake).
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

// A page with "{{names}}" replaced, given in the order in which they stand in it. What is put in is not searched.
using Parts = std::vector<std::pair<std::string, std::string>>;
std::string filled(const std::string& page, const Parts& parts);

}  // namespace fit::plot::page
