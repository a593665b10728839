// What weak_symbols.sh must find: functions of the standard library, compiled for a wide instruction set.
#include <vector>

template class std::vector<int>;
