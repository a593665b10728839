#!/usr/bin/env bash
# include_order.sh DIR: in the tree DIR, each folder of core/ and nn/ includes only itself and what stands before it in
# this list. One file includes xtensor's headers, one of the tests more of them, and
# one Catch2's: they lie elsewhere in newer versions.
set -euo pipefail
order=(base threads kernels/simd matmul kernels attention/visibility attention/kernel linear_attention/kernel  # core/
  tensor graph ops attention/score attention linear_attention backward io
  common dist layers loss distributions models lens weights optim data plot metrics training all)  # nn/
declare -A rank folder=()  # the folder that a public header belongs to
belongs() { for header in "${@:2}"; do folder[$header]=$1; done; }
belongs base detail/atomic detail/function detail/owned detail/scoped detail/symbol_op error version bfloat16 shape memory option detail/option
belongs matmul blas
belongs threads batch_invariant parallel detail/thread_state
belongs tensor index tensor state_dict lookup detail/tensor_impl
belongs graph graph autocast hooks named_values observer
belongs ops ops recurrent int8 random xtensor
belongs attention/score score
belongs attention attention
belongs linear_attention linear_attention
belongs backward gradcheck functional activation_checkpoint
belongs io npy npz safetensors
belongs common interrupt
belongs dist dist mpi
belongs layers nn/{activation,attention,attention_context,attention_recorder,containers,convolution,dropout,feed_forward,fields,fine_tune} \
  nn/{forward_hooks,init,kv_cache,layer,linear,norm,parameter,parametrize,per_sample_grad,position,quantize} \
  nn/{recurrent,sequence_layer,single_head} \
  anomaly attention_recording diagnose summary
belongs loss nn/loss
belongs distributions distributions
belongs models nn/{bert,generate,gpt,transformer}
belongs lens nn/lens
belongs weights nn/weights
belongs optim optim schedule step_in_backward optim/{adam,all,formula,muon,optimizer,sgd} \
  optim/more/{adadelta,adafactor,adagrad,adamax,lamb,lbfgs,lion,nadam,radam,rmsprop}
belongs data data readers text tokenizers transforms
belongs plot plot attention_page explain comparison_page graph_to_dot lesson model_page training_page
belongs metrics metrics
belongs training data_parallel checkpoint trainer
belongs all fit
for i in "${!order[@]}"; do rank[${order[i]}]=$i; done

# folder_of PATH: the entry of the list that a file below core/ or nn/, or a public header, belongs to
folder_of() {
  local header=${1#*fit/} path=${1%/*}
  case $1 in
    *fit/*) echo "${folder[${header%.hpp}]:-unknown}" ;;
    *) if [ -n "${rank[$path]:-}" ]; then echo "$path"; else echo "${1%%/*}"; fi ;;
  esac
}

cd "$1"
wrong=0 seen=0
while IFS=: read -r file include; do
  from=$(folder_of "${file#*/}") to=$(folder_of "$(sed -E 's/.*"(.*)".*/\1/' <<<"$include")")
  seen=$((seen + 1))
  if [ -z "${rank[$from]:-}" ] || [ -z "${rank[$to]:-}" ] || ((rank[$to] > rank[$from])); then
    echo "$file ($from) includes $include ($to)"
    wrong=1
  fi
done < <(grep -rHoE '^#include "[^"]+"' --include='*.hpp' --include='*.cpp' core $(ls -d nn 2>/dev/null))
((seen > 0)) || { echo "no includes were found"; exit 1; }

for one in "xtensor=core/include/fit/xtensor.hpp|tests/support/xtensor_oracle.hpp" catch2=tests/support/catch.hpp; do
  others=$(grep -rlE "#include <${one%%=*}/" --include='*.hpp' --include='*.cpp' core nn examples tests 2>/dev/null |
    grep -vxE "${one#*=}" || true)
  [ -z "$others" ] || { echo "only ${one#*=} may include <${one%%=*}/...>: $others"; wrong=1; }
done
exit $wrong
