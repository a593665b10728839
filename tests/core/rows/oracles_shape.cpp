#include "support/oracles/xtensor_oracle.hpp"

// Elements moved, joined, repeated and chosen.
namespace fit::test::oracles_shape {
namespace {

Array joined(const Arrays& parts, std::size_t axis) {
  Array all = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) all = Array(xt::concatenate(xt::xtuple(all, parts[i]), axis));
  return all;
}

// With axes of size 1 before its own, up to this rank.
Array of_rank(Array x, std::size_t rank) {
  while (x.dimension() < rank) x = Array(xt::expand_dims(Array(x), 0));
  return x;
}

std::vector<Oracle> moved() {
  return {
      {"reshape",
       [](const auto& in) {
         Array x = in[0];
         return x.reshape({-1, 2});
       }},
      {"flatten", [](const auto& in) { return xt::flatten(in[0]); }},
      {"squeeze", [](const auto& in) { return xt::squeeze(in[0], in[0].dimension() - 2); }},
      {"squeeze, all", [](const auto& in) { return xt::squeeze(in[0]); }},
      {"unsqueeze", [](const auto& in) { return xt::expand_dims(in[0], in[0].dimension()); }},
      {"transpose",
       [](const auto& in) {
         Sizes axes(in[0].dimension());
         for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
         std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
         return xt::transpose(in[0], axes);
       }},
      {"permute",
       [](const auto& in) {
         return xt::transpose(in[0], {2, 0, 1});
       }},
      {"permute, with the last axis kept",
       [](const auto& in) {
         return xt::transpose(in[0], {0, 2, 1, 3});
       }},
      {"broadcast_to",
       [](const auto& in) {
         return xt::broadcast(in[0], {2, 2, 3});
       }},
      {"flip", [](const auto& in) { return xt::flip(xt::flip(in[0], 0), in[0].dimension() - 1); }},
      Oracle("roll", [](const auto& in) { return in[0].dimension() == 0 ? in[0] : Array(xt::roll(in[0], -4, 0)); })
          .not_empty(),
      {"tril", [](const auto& in) { return each_matrix(in, [](const Arrays& m) { return xt::tril(m[0]); }); }},
      {"triu", [](const auto& in) { return each_matrix(in, [](const Arrays& m) { return xt::triu(m[0], -1); }); }},
      {"diagonal", [](const auto& in) { return xt::diagonal(in[0], 1, 0, 2); }},
      {"diagonal, below", [](const auto& in) { return xt::diagonal(in[0], -1); }},
      {"diag",
       [](const auto& in) {
         return in[0].dimension() == 1 ? Array(xt::diag(in[0], -1)) : Array(xt::diagonal(in[0], -1));
       }},
  };
}
const RegisterOracles moved_oracles(moved);

std::vector<Oracle> joins() {
  return {
      {"cat", [](const auto& in) { return joined(in, in[0].dimension() - 2); }},
      {"stack",
       [](Arrays in) {
         for (Array& x : in) x = Array(xt::expand_dims(x, 1));
         return joined(in, 1);
       }},
      Oracle("repeat",
             [](const auto& in) {
               return xt::tile(of_rank(in[0], 3), {2, 1, 3});
             })
          .not_empty(),
      Oracle("tile",
             [](const auto& in) {
               const Array x = of_rank(in[0], 1);
               Sizes counts(x.dimension(), 1);
               counts.back() = 2;
               return Array(xt::tile(x, counts));
             })
          .not_empty(),
      {"repeat_interleave", [](const auto& in) { return xt::repeat(in[0], 2, 1); }},
      {"repeat_interleave, counts",
       [](const auto& in) {
         return xt::repeat(in[0], std::vector<std::size_t>{2, 0, 1}, 1);
       }},
      {"pad, reflected",
       [](const auto& in) {
         return xt::pad(in[0], {{1, 0}, {2, 1}}, xt::pad_mode::reflect);
       }},
      {"meshgrid",
       [](const auto& in) {
         if (in.size() == 2) {
           const auto [x, y] = xt::meshgrid(in[0], in[1]);
           return Arrays{x, y};
         }
         const auto [x, y, z] = xt::meshgrid(in[0], in[1], in[2]);
         return Arrays{x, y, z};
       }},
      {"unbind",
       [](const auto& in) {
         Arrays all;
         for (std::size_t i = 0; i < in[0].shape()[1]; ++i) all.push_back(xt::view(in[0], xt::all(), i));
         return all;
       }},
  };
}
const RegisterOracles join_oracles(joins);

std::vector<Oracle> chosen() {
  return {
      {"index",
       [](const auto& in) { return xt::view(in[0], 1, xt::range(xt::placeholders::_, xt::placeholders::_, -2)); }},
      {"slice", [](const auto& in) { return xt::view(in[0], xt::all(), xt::range(-3, 100, 2)); }},
      {"index_select", [](const auto& in) { return xt::view(in[0], xt::all(), xt::keep(2, 0, -1, 2)); }},
      {"embedding",
       [](const auto& in) {
         Array rows = xt::view(in[0], xt::keep(2, 0, 2, 1, 1, 0));
         return rows.reshape({std::size_t{2}, std::size_t{3}, in[0].shape()[1]});
       }},
      {"take, by ids",
       [](const auto& in) {
         Array rows = xt::view(in[0], xt::keep(1, -1, 0, 1));
         Sizes shape{2, 2};
         shape.insert(shape.end(), in[0].shape().begin() + 1, in[0].shape().end());
         return rows.reshape(shape);
       }},
      {"masked_select",
       [](const auto& in) {
         const xt::xarray<bool> mask{{true, false, true}, {false, false, true}};
         return Array(xt::filter(in[0], xt::xarray<bool>(xt::broadcast(mask, in[0].shape()))));
       }},
  };
}
const RegisterOracles chosen_oracles(chosen);

}  // namespace
}  // namespace fit::test::oracles_shape
