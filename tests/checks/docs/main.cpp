// docs_programs NAME: runs a program of the documents, `tour_3` for the third of docs/tour.md
#include <cstring>
#include <iostream>

#include "program.hpp"

namespace {
const docs::Program* first = nullptr;
}

docs::Program::Program(const char* name, int (*run)()) : name(name), run(run), next(first) { first = this; }

int main(int argc, char** argv) {
  for (const docs::Program* p = first; p; p = p->next)
    if (argc == 2 && std::strcmp(p->name, argv[1]) == 0) return p->run();
  std::cerr << "docs_programs: there is no program '" << (argc == 2 ? argv[1] : "") << "'\n";
  return 2;
}
