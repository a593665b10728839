#include "kernels/rows/recurrent.hpp"

#include "kernels/simd/for_each_vector.hpp"
#include "kernels/simd/math.hpp"

namespace fit::kernels {
namespace {

// Calls f(r, i, access) for the vectors of each row.
template <class T, class F>
void each_vector(std::int64_t rows, std::int64_t cols, const F& f) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_vector<Vec<T>>(cols, [&](std::int64_t i, auto access) { f(r, i, access); });
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
    const V i = gate(0), f = gate(1), g = gate(2), o = gate(3);
    const V c = math::sigmoid(f) * get(access, s.last_c, r, j) + math::sigmoid(i) * xsimd::tanh(g);
    put(access, c, s.c, r, j);
    put(access, V(math::sigmoid(o) * xsimd::tanh(c)), s.h, r, j);
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
    const math::Sigmoid<V> i(gate(0)), f(gate(1)), o(gate(3));
    const V g = gate(2), c = get(access, s.c, r, j), dh = gradient_of_h(s, access, r, j);
    const V dc = get(access, Rows<const T>{s.carry.at, s.carry.row}, r, j) + math::times_tanh_slope<V>(o.times(dh), c);
    put(access, f.times(dc), s.carry, r, j);
    put(access, i.times_slope(dc * xsimd::tanh(g)), s.dx, r, j, 0);
    put(access, f.times_slope(dc * get(access, s.last, r, j)), s.dx, r, j, 1);
    put(access, math::times_tanh_slope<V>(i.times(dc), g), s.dx, r, j, 2);
    put(access, o.times_slope(dh * xsimd::tanh(c)), s.dx, r, j, 3);
  });
}

template <class T>
void gru(const StepForward<T>& s) {
  using V = Vec<T>;
  each_vector<T>(s.rows, s.cols, [&](std::int64_t row, std::int64_t j, auto access) {
    const auto gate = [&](int k) { return get(access, s.of_x, row, j, k) + get(access, s.of_h, row, j, k); };
    const V r = gate(0), z = gate(1), part = get(access, s.of_h, row, j, 2);
    const V of_n = get(access, s.of_x, row, j, 2) + math::sigmoid(r) * part, n = xsimd::tanh(of_n);
    put(access, V(n + math::sigmoid(z) * (get(access, s.last_h, row, j) - n)), s.h, row, j);
    if (!s.kept.at) return;
    put(access, r, s.kept, row, j, 0);
    put(access, z, s.kept, row, j, 1);
    put(access, of_n, s.kept, row, j, 2);
    put(access, part, s.kept, row, j, 3);
  });
}

template <class T>
void gru_backward(const StepBackward<T>& s) {
  using V = Vec<T>;
  each_vector<T>(s.rows, s.cols, [&](std::int64_t row, std::int64_t j, auto access) {
    const auto gate = [&](int k) { return get(access, s.kept, row, j, k); };
    const math::Sigmoid<V> r(gate(0)), z(gate(1));
    const V n = gate(2), part = gate(3);
    const V dh = gradient_of_h(s, access, row, j) + get(access, Rows<const T>{s.carry.at, s.carry.row}, row, j);
    put(access, z.times(dh), s.carry, row, j);
    const V dn = math::times_tanh_slope<V>(dh * z.rest(), n), dr = r.times_slope(dn * part),
            dz = z.times_slope(dh * (get(access, s.last, row, j) - xsimd::tanh(n)));
    for (const Rows<T>& to : {s.dx, s.dh_gates}) {
      put(access, dr, to, row, j, 0);
      put(access, dz, to, row, j, 1);
    }
    put(access, dn, s.dx, row, j, 2);
    put(access, r.times(dn), s.dh_gates, row, j, 2);
  });
}

template <class T>
void rnn(const StepForward<T>& s) {
  each_vector<T>(s.rows, s.cols, [&](std::int64_t r, std::int64_t j, auto access) {
    const Vec<T> a = get(access, s.of_x, r, j) + get(access, s.of_h, r, j);
    put(access, Vec<T>(xsimd::tanh(a)), s.h, r, j);
    if (s.kept.at) put(access, a, s.kept, r, j);
  });
}

template <class T>
void rnn_backward(const StepBackward<T>& s) {
  each_vector<T>(s.rows, s.cols, [&](std::int64_t r, std::int64_t j, auto access) {
    const Vec<T> a = get(access, s.kept, r, j), dh = gradient_of_h(s, access, r, j);
    put(access, math::times_tanh_slope<Vec<T>>(dh, a), s.dx, r, j);
  });
}

}  // namespace

template <class IsaTag, class T>
const RecurrentKernels<T>& recurrent_table() {
  static constexpr RecurrentKernels<T> table{
      {{lstm<T>, lstm_backward<T>}, {gru<T>, gru_backward<T>}, {rnn<T>, rnn_backward<T>}}};
  return table;
}

template const RecurrentKernels<float>& recurrent_table<FIT_ISA, float>();
template const RecurrentKernels<double>& recurrent_table<FIT_ISA, double>();

}  // namespace fit::kernels
