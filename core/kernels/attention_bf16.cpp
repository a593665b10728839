#include "fit/parallel.hpp"
#include "kernels/attention.hpp"
#include "kernels/product_bf16.hpp"
#include "kernels/scratch.hpp"

// Attention with operands of BFloat16: they are widened, and the results rounded. What is added up, and in what order,
// is that of floats.
namespace fit::kernels {
namespace {

// Matrices [B, H, S, D] of floats beside those of BFloat16.
class Wide {
 public:
  Wide(std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D)
      : B_(B), H_(H), S_(S), D_(D), room_(B * H * S * D) {}

  HeadView<float> view() const { return {room_.get(), H_ * S_ * D_, S_ * D_, D_}; }
  HeadView<const float> read() const { return {room_.get(), H_ * S_ * D_, S_ * D_, D_}; }

  const Wide& take(const HeadView<const BFloat16>& x) const {
    each_head([&](std::int64_t b, std::int64_t h) {
      bf16_kernels().from_bf16.widen(S_, D_, x.at(b, h, 0), x.row, view().at(b, h, 0), D_);
    });
    return *this;
  }
  void give(const HeadView<BFloat16>& to) const {
    each_head([&](std::int64_t b, std::int64_t h) {
      bf16_kernels().to_bf16.finish(S_, D_, 1, view().at(b, h, 0), D_, 0, nullptr, to.at(b, h, 0), to.row);
    });
  }

 private:
  template <class F>
  void each_head(const F& f) const {
    parallel_for(B_ * H_, (1 << 15) / (S_ * D_) + 1, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) f(i / H_, i % H_);
    });
  }
  std::int64_t B_, H_, S_, D_;
  Scratch<float> room_;
};

// The operands of a call in floats.
class WideOperands {
 public:
  explicit WideOperands(const Attention<BFloat16>& a)
      : q_(a.B, a.H, a.Sq, a.D), k_(a.B, a.kv_heads, a.Sk, a.D), v_(a.B, a.kv_heads, a.Sk, a.Dv) {
    static_cast<AttentionParams&>(call) = a;
    call.q = q_.take(a.q).read();
    call.k = k_.take(a.k).read();
    call.v = v_.take(a.v).read();
    call.mask = a.mask;
    call.bias = a.bias;
    call.alibi = a.alibi;
  }
  Attention<float> call;

 private:
  Wide q_, k_, v_;
};

}  // namespace

template <>
bool attention_forward<BFloat16>(const Attention<BFloat16>& a, const HeadView<BFloat16>& out,
                                 const SoftmaxStats<float>& stats) {
  const WideOperands wide(a);
  const Wide y(a.B, a.H, a.Sq, a.Dv);
  const bool finite = attention_forward<float>(wide.call, y.view(), stats);
  y.give(out);
  return finite;
}

template <>
void attention_weights<BFloat16>(const Attention<BFloat16>& a, const SoftmaxStats<const float>& stats, float* w) {
  attention_weights<float>(WideOperands(a).call, stats, w);
}

template <>
void attention_backward<BFloat16>(const Attention<BFloat16>& a, const HeadView<const BFloat16>& out,
                                  const SoftmaxStats<const float>& stats, const HeadView<const BFloat16>& dout,
                                  const AttentionGradients<BFloat16>& d, bool check) {
  const WideOperands wide(a);
  const Wide y(a.B, a.H, a.Sq, a.Dv), dy(a.B, a.H, a.Sq, a.Dv);
  const Wide dq(a.B, a.H, a.Sq, a.D), dk(a.B, a.kv_heads, a.Sk, a.D), dv(a.B, a.kv_heads, a.Sk, a.Dv);
  attention_backward<float>(wide.call, y.take(out).read(), stats, dy.take(dout).read(),
                            {dq.view(), dk.view(), dv.view(), d.dbias}, check);
  dq.give(d.dq);
  dk.give(d.dk);
  dv.give(d.dv);
}

}  // namespace fit::kernels
