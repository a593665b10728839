#include "kernels/recurrent.hpp"

#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/math.hpp"

namespace fit::kernels {
namespace {

// Calls f(r, i, access) for the vectors of each row.
template <class T, class F>
void each_vector(std::int64_t rows, std::int64_t cols, const F& f) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vector<Vec<T>>(cols, [&](std::int64_t i, auto access, int) { f(r, i, access); });
}

template <class T, class Access>
Vec<T> get(const Access& access, const Rows<const T>& m, std::int64_t r, std::int64_t i, int gate = 0) {
  return access.template load<Vec<T>>(m.at + r * m.row + gate * m.gate + i, T(0));
}
template <class T, class Access>
void put(const Access& access, const Vec<T>& v, const Rows<T>& m, std::int64_t r, std::int64_t i, int gate = 0) {
  access.store(v, m.at + r * m.row + gate * m.gate + i);
}

template <class T>
void lstm(const StepForward<T>& s) {
  using V = Vec<T>;
  each_vector<T>(s.rows, s.cols, [&](std::int64_t r, std::int64_t j, auto access) {
    const auto gate = [&](int k) { return get(access, s.of_x, r, j, k) + get(access, s.of_h, r, j, k); };
    const V i = math::sigmoid(gate(0)), f = math::sigmoid(gate(1)), g = xsimd::tanh(gate(2)),
            o = math::sigmoid(gate(3));
    const V c = f * get(access, s.last_c, r, j) + i * g;
    put(access, c, s.c, r, j);
    put(access, V(o * xsimd::tanh(c)), s.h, r, j);
    if (!s.kept.at) return;
    put(access, i, s.kept, r, j, 0);
    put(access, f, s.kept, r, j, 1);
    put(access, g, s.kept, r, j, 2);
    put(access, o, s.kept, r, j, 3);
  });
}

// The gradient of h after the step.
template <class T, class Access>
Vec<T> gradient_of_h(const StepBackward<T>& s, const Access& access, std::int64_t r, std::int64_t j) {
  Vec<T> dh(T(0));
  if (s.dh.at) dh = get(access, s.dh, r, j);
  return s.of_gates.at ? dh + get(access, s.of_gates, r, j) : dh;
}

template <class T>
void lstm_backward(const StepBackward<T>& s) {
  using V = Vec<T>;
  each_vector<T>(s.rows, s.cols, [&](std::int64_t r, std::int64_t j, auto access) {
    const auto gate = [&](int k) { return get(access, s.kept, r, j, k); };
    const V one(T(1)), i = gate(0), f = gate(1), g = gate(2), o = gate(3), t = xsimd::tanh(get(access, s.c, r, j));
    const V dh = gradient_of_h(s, access, r, j);
    const V dc = get(access, Rows<const T>{s.carry.at, s.carry.row}, r, j) + dh * o * (one - t * t);
    put(access, V(dc * f), s.carry, r, j);
    put(access, V(dc * g * (i * (one - i))), s.dx, r, j, 0);
    put(access, V(dc * get(access, s.last, r, j) * (f * (one - f))), s.dx, r, j, 1);
    put(access, V(dc * i * (one - g * g)), s.dx, r, j, 2);
    put(access, V(dh * t * (o * (one - o))), s.dx, r, j, 3);
  });
}

template <class T>
void gru(const StepForward<T>& s) {
  using V = Vec<T>;
  each_vector<T>(s.rows, s.cols, [&](std::int64_t row, std::int64_t j, auto access) {
    const auto gate = [&](int k) { return get(access, s.of_x, row, j, k) + get(access, s.of_h, row, j, k); };
    const V r = math::sigmoid(gate(0)), z = math::sigmoid(gate(1)), part = get(access, s.of_h, row, j, 2);
    const V n = xsimd::tanh(get(access, s.of_x, row, j, 2) + r * part);
    put(access, V(n + z * (get(access, s.last_h, row, j) - n)), s.h, row, j);
    if (!s.kept.at) return;
    put(access, r, s.kept, row, j, 0);
    put(access, z, s.kept, row, j, 1);
    put(access, n, s.kept, row, j, 2);
    put(access, part, s.kept, row, j, 3);
  });
}

template <class T>
void gru_backward(const StepBackward<T>& s) {
  using V = Vec<T>;
  each_vector<T>(s.rows, s.cols, [&](std::int64_t row, std::int64_t j, auto access) {
    const auto gate = [&](int k) { return get(access, s.kept, row, j, k); };
    const V one(T(1)), r = gate(0), z = gate(1), n = gate(2), part = gate(3);
    const V dh = gradient_of_h(s, access, row, j) + get(access, Rows<const T>{s.carry.at, s.carry.row}, row, j);
    put(access, V(dh * z), s.carry, row, j);
    const V dn = dh * (one - z) * (one - n * n), dr = dn * part * (r * (one - r)),
            dz = dh * (get(access, s.last, row, j) - n) * (z * (one - z));
    for (const Rows<T>& to : {s.dx, s.dh_gates}) {
      put(access, dr, to, row, j, 0);
      put(access, dz, to, row, j, 1);
    }
    put(access, dn, s.dx, row, j, 2);
    put(access, V(dn * r), s.dh_gates, row, j, 2);
  });
}

}  // namespace

template <class IsaTag, class T>
const RecurrentKernels<T>& recurrent_table() {
  static constexpr RecurrentKernels<T> table{lstm<T>, lstm_backward<T>, gru<T>, gru_backward<T>};
  return table;
}

template const RecurrentKernels<float>& recurrent_table<FIT_ISA, float>();
template const RecurrentKernels<double>& recurrent_table<FIT_ISA, double>();

}  // namespace fit::kernels
