#!/usr/bin/env bash
# hello.sh FIT_BUILD_TREE TORCH: what a small program costs with fit and with libtorch: the time to compile and link it
# (the least of three, taken in turns), its size, and that of the libraries that it loads, without those of C and C++.
# TORCH is libtorch's folder, or the folder torch that `pip install torch` leaves in site-packages.
set -euo pipefail
(($# == 2)) || { sed -n '2,/^[^#]/s/^# //p' "$0"; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(realpath "$1") torch=$(realpath "$2")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cd "$stage"

cat >fit.cpp <<'END'
#include <fit/fit.hpp>
#include <iostream>

int main() {
  fit::Tensor w = fit::randn({2, 3}).requires_grad_();
  fit::sum(fit::softmax(fit::matmul(w, w.transpose(0, 1)), -1)).backward();
  std::cout << w.grad() << "\n";
}
END
cat >libtorch.cpp <<'END'
#include <torch/torch.h>
#include <iostream>

int main() {
  torch::Tensor w = torch::randn({2, 3}).requires_grad_();
  torch::softmax(torch::matmul(w, w.transpose(0, 1)), -1).sum().backward();
  std::cout << w.grad() << "\n";
}
END

build_fit() {
  g++ -O2 -std=c++17 -I"$top/core/include" -I"$top/nn/include" -I"$top/nn/plot/include" fit.cpp -o fit \
    "$tree/libfit_plot.a" "$tree/libfit_hub.a" "$tree/libfit_nn.a" "$tree/libfit_core.a" \
    -lopenblas -lz -pthread -Wl,--gc-sections  # as pkg-config says
}
build_libtorch() {
  g++ -O2 -std=c++17 -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" libtorch.cpp -o libtorch \
    -L"$torch/lib" -Wl,-rpath,"$torch/lib" -Wl,--no-as-needed -ltorch -ltorch_cpu -lc10
}
TIMEFORMAT=%R
for _ in 1 2 3; do
  for one in fit libtorch; do { time build_$one >/dev/null; } 2>>"$one.times"; done
done
for one in fit libtorch; do
  "./$one" >/dev/null
  strip "$one"
  # shellcheck disable=SC2046
  libraries=$(ldd "$one" | awk '$2 == "=>" { print $3 }' |
    grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|libdl|librt|libpthread)\.so' | xargs -r realpath | sort -u)
  bytes=0
  for library in $libraries; do bytes=$((bytes + $(stat -c %s "$library"))); done
  printf '%-9s %s s to compile and link, %s kB, loads %s MB: %s\n' "$one" "$(sort -n "$one.times" | head -1)" \
    $((($(stat -c %s "$one") + 500) / 1000)) $(((bytes + 500000) / 1000000)) \
    "$(xargs -n1 basename <<<"$libraries" | paste -sd' ')"
done
