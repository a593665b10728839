#pragma once

// The parts of pages, embedded from the files of this folder when fit is built (core/cmake/embed.cmake).
namespace fit::plot::page {

extern const char* const attention_html;
extern const char* const attention_css;
extern const char* const attention_js;

}  // namespace fit::plot::page
