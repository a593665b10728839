#pragma once
#include <string>
#include <typeinfo>

namespace fit {

// The name of a class without its namespaces, for messages.
std::string class_name(const std::type_info& type);

}  // namespace fit
