#pragma once
#include <random>
#include <string>
#include <vector>

#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// Kernels that compute element by element, each against its reference on numbers that count their rounding.
namespace fit::test {

template <class T>
struct Row {
  std::string name;
  std::vector<Draw> arrays;  // where the elements of each array come from
  Callable<void(T* const* a, std::int64_t n)> kernel;
  Callable<void(Rounded<T>* a)> plain;  // on one element of each array, in place
};

// Every size from several places in memory: what the reference changes, and that all else is left alone.
template <class T>
void check_row(const Row<T>& row) {
  std::mt19937_64 random(7);
  for (const std::int64_t n : odd_sizes)
    for (const std::int64_t offset : {0, 1, 5}) {
      INFO(row.name << ", " << sizeof(T) << " bytes, n = " << n << ", offset " << offset);
      std::vector<GuardedBuffer<T>> rooms;
      std::vector<std::vector<T>> before;
      std::vector<T*> at;
      for (const Draw& draw : row.arrays) {
        const auto step = static_cast<std::int64_t>(rooms.size());
        rooms.push_back(drawn<T>(n, offset == 0 ? 0 : offset + step, draw, random));
        before.push_back(rooms.back().values());
      }
      for (GuardedBuffer<T>& room : rooms) at.push_back(room.data());
      row.kernel(at.data(), n);
      Worst worst;
      for (std::int64_t i = 0; i < n; ++i) {
        std::vector<Rounded<T>> plain;
        for (const auto& values : before) plain.emplace_back(values[static_cast<std::size_t>(i)]);
        row.plain(plain.data());
        for (std::size_t k = 0; k < rooms.size(); ++k) worst.add(i, rooms[k][i], plain[k]);
      }
      INFO(worst);
      CHECK(worst.within_bounds());
      for (const GuardedBuffer<T>& room : rooms) CHECK(room.guards_intact());
    }
}

template <class T>
void check_rows(const std::vector<Row<T>>& rows) {
  for (const Row<T>& row : rows) check_row(row);
}

}  // namespace fit::test
