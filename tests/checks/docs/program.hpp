#pragma once

// The programs of the documents, in one executable.
namespace docs {

/// A program of a page; each makes itself known.
struct Program {
  Program(const char* name, int (*run)());
  const char* name;
  int (*run)();
  const Program* next;
};

}  // namespace docs
